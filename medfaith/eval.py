"""`medfaith eval`: lm-eval with medfaith's tasks and models; and what `medfaith audit` shares with it."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medfaith import batch, build_command
from medfaith.evaluate_metrics.localization.input_view import UPSAMPLINGS
from medfaith.evaluate_metrics.localization.ranking import TIES
from medfaith.evaluate_metrics.reading.stated_regions import KINDS
from medfaith.lm_eval_options import model_named, parse_known_options
from medfaith.loaders import sources
from medfaith.loaders.atomic import is_partial
from medfaith.loaders.errors import MedfaithError
from medfaith.loaders.secrets import mask_text
from medfaith.tasks import ABOUT
from medfaith.tasks.controls import read_control
from medfaith.tasks.shards import read_shard

# Options of some models and benchmarks; medfaith.evaluate and medfaith.audit take them by name.
FURTHER = ("patients", "upsampling", "precision_ties", "send_images_to", "i_have_permission")
# Options that go unchanged into the tasks' metadata.
_METADATA = ("data", "model_name", "control", "wording", "box_format", "heatmaps", *FURTHER)


def add_jobs(jobs: Any) -> None:
    """Add `eval` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    job = jobs.add_parser(
        "eval",
        allow_abbrev=False,  # lm_eval's own --model begins like our --model_name
        help="score a model with lm_eval run and medfaith's tasks and models",
        usage="medfaith eval --model TYPE --model_args NAME=VALUE,... --tasks TASK,... --data DIR|ORG [OPTION ...]",
        description="Run lm_eval with medfaith's tasks and models. Every option that is not listed here goes to\n"
        "lm_eval run; lm_eval run --help lists them. Most runs need these:\n\n"
        "  --model TYPE             type of model: one from the list at the end, or one of lm_eval\n"
        "  --model_args NAME=VALUE  model: pretrained=NAME_OR_FOLDER, base_url=URL,model=NAME, ...\n"
        "  --tasks TASK,...         tasks or groups of tasks: medfaith tasks --list\n"
        "  --output_path DIR        folder for the results and, with --log_samples, the answers\n\n"
        "Exit status 3: a server left more than 1% of the rows unanswered.",
        epilog=_describe_models(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    task_options(job)
    job.add_argument(
        "--control",
        type=read_control,
        metavar="CONTROL",
        help="change or remove the image, to measure how much the score depends on it; medfaith tasks --controls "
        "describes each control (default: the unchanged image)",
    )
    job.add_argument(
        "--wording",
        type=int,
        metavar="K",
        help="ask paraphrase K of each question, with the options of a choice in another order; medfaith tasks "
        "--wordings prints the paraphrases (default: the questions as they are)",
    )
    job.add_argument(
        "--box-format",
        choices=KINDS,
        help="form in which the model writes boxes or points, and is asked for them, in the tasks ..._stated_boxes "
        "(default: gemini, JSON with box_2d from 0 to 1000, which Gemma and MedGemma write, too)",
    )
    job.add_argument(
        "--heatmaps",
        metavar="DIR",
        help="folder for heatmaps of where the model looks; a repeated run computes only the missing ones (default: "
        "make no heatmaps; models that cannot make any ignore this option)",
    )
    job.add_argument(
        "--shard",
        type=read_shard,
        metavar="I/N",
        help="ask only every Nth patient of each task, as machine I of N, or write only these requests; medfaith merge "
        "puts answered shards together (default: ask all patients)",
    )
    dry_run_option(job)
    batch.add_options(job)
    job.set_defaults(job=_run_eval, passes_on=True)


def _describe_models() -> str:
    width = max(map(len, ABOUT))
    return "\n".join(
        [
            "models that medfaith adds to those of lm_eval (--model NAME):",
            *(f"  {name:{width}}  {description}" for name, description in ABOUT.items()),
            "lm_eval has hf-multimodal and others: lm_eval run --help. medfaith tasks --list shows the tasks.",
            "",
            "Example: medfaith eval --data medfaith-data --root chexpert=PATH --model hf-multimodal \\",
            "    --model_args pretrained=MODEL --apply_chat_template --tasks medfaith_contrabench",
        ]
    )


def dry_run_option(job: argparse.ArgumentParser) -> None:
    """Add --dry-run.

    Args:
        job: The parser of the job.
    """
    job.add_argument(
        "--dry-run",
        action="store_true",
        help="only print how many requests, images and tokens medfaith-server would send, and their price if "
        "--model_args has prompt_price and answer_price per million tokens (default: ask the model)",
    )


def task_options(job: argparse.ArgumentParser) -> None:
    """Add the options that say which rows the tasks ask, and how they score.

    Args:
        job: The parser of the job.
    """
    job.add_argument(
        "--data",
        metavar="DIR|ORG",
        help="folder that medfaith build wrote, or organisation on the Hub that published the rows (required for the "
        "tasks of medfaith)",
    )
    build_command.root_argument(job)
    job.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="ask only the rows whose ids are in the column id of this CSV file, such as blind_clean.csv of medfaith "
        "audit (default: ask all rows)",
    )
    job.add_argument(
        "--skip-missing-images",
        action="store_true",
        help="skip and count rows whose images are missing (default: a missing image stops the run)",
    )
    job.add_argument(
        "--model_name",
        metavar="NAME",
        help="name of the model in tables and figures (default: its name on the Hub, or the last part of its path)",
    )
    job.add_argument(
        "--send-images-to",
        metavar="HOST",
        help="permit sending the images and texts of the rows to this external host, such as api.openai.com; the terms "
        "of most sources forbid it (default: send them to no host outside of a private network)",
    )
    job.add_argument(
        "--i-have-permission",
        action="append",
        metavar="SOURCE",
        help="confirm that the owner of this source permits you to send its images to that host, although its terms do "
        "not; the results record this (repeatable; default: the terms apply)",
    )
    contrabench = job.add_argument_group("CXR-ContraBench")
    contrabench.add_argument(
        "--images",
        choices=("all", "first"),
        default="all",
        help="images of a study that the model sees; first is for models that take one image, as in the paper "
        "(default: %(default)s)",
    )
    wrong_lung = job.add_argument_group("That's the Wrong Lung!")
    wrong_lung.add_argument(
        "--patients",
        metavar="FILE",
        help="ask only about patients that a trained model has not seen; FILE is the record .ckpt.json that medfaith "
        "train wrote next to the checkpoint (default: ask about all patients)",
    )
    wrong_lung.add_argument(
        "--upsampling",
        choices=UPSAMPLINGS,
        help="interpolation of attention maps to pixels: bilinear, as in the paper, or nearest, as in the paper's code "
        f"(default: {UPSAMPLINGS[0]})",
    )
    wrong_lung.add_argument(
        "--precision-ties",
        choices=TIES,
        help="whether precision counts pixels whose attention equals the threshold; the paper's code includes them "
        f"(default: {TIES[0]})",
    )


def metadata(arguments: argparse.Namespace) -> dict[str, Any]:
    """Collect the metadata of the tasks from the options of `task_options`.

    Args:
        arguments: Parsed arguments.

    Returns:
        The metadata.

    Raises:
        MedfaithError: --root has another form; see also `collect_metadata`.
    """
    options = {name: value for name, value in vars(arguments).items() if name != "root"}
    roots = sources.parse_root_arguments(arguments.root)
    return collect_metadata(options, roots, shlex.join(["medfaith", *arguments.words]))


def collect_metadata(options: Mapping[str, Any], roots: Mapping[str, str], command: str) -> dict[str, Any]:
    """Collect the metadata of the tasks.

    They include the `command`, and for each repository in a folder `data` the versions of its sources and a hash of its
    build.json, which identifies all rows.

    Args:
        options: Values by the names of the options of `task_options`; further names are ignored.
        roots: Folder of each source, by source id.
        command: The command or the call that a user gave. Secrets in it are masked.

    Returns:
        The metadata.

    Raises:
        InputError: `data` is missing, or `rows` names rows that a folder `data` does not have.
    """
    from medfaith.tasks import preflight

    data, rows = options["data"], options.get("rows")
    preflight.check_data(data)  # here, because what follows imports for seconds
    if rows is not None:
        from medfaith.tasks.rows import check_row_ids

        check_row_ids(rows, data)
    images = options.get("images", "all")
    return {
        **({"roots": dict(roots)} if roots else {}),
        **({"row_ids": str(rows)} if rows is not None else {}),
        **({"skip_missing_images": True} if options.get("skip_missing_images") else {}),
        **({"images": images} if images != "all" else {}),
        **{name: value for name in _METADATA if (value := options.get(name))},
        "builds": builds_in(data),
        "command": mask_text(command),
    }


def builds_in(data: str | None) -> dict[str, str]:
    """Describe builds: the first 16 digits of the SHA-256 of build.json, and the versions of the sources.

    Args:
        data: The option --data: a folder, an organisation on the Hub, or None.

    Returns:
        Repository -> text. It is empty if `data` is no folder of builds.
    """
    files = sorted(Path(data).expanduser().glob("*/build.json")) if data else ()
    return {
        path.parent.name: _describe_build(path.read_bytes()) for path in files if not is_partial(Path(path.parent.name))
    }


def _describe_build(content: bytes) -> str:
    try:
        used = json.loads(content)["sources"]
        versions = [f"{name} {source['version']}" for name, source in sorted(used.items()) if source["version"]]
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # medfaith verify explains the fault
        versions = []
    note = f" ({', '.join(versions)})" if versions else ""
    return hashlib.sha256(content).hexdigest()[:16] + note


_NAMES_ANSWERS = re.compile(r"""(?:^|[=,{\s])"?answers"?\s*[=:]""")  # in NAME=VALUE,... or in JSON


def with_store(lm_eval_arguments: Sequence[str], heatmaps: str | None, answers: Path | None) -> list[str]:
    """Add the places of a model's heatmaps and kept answers to the arguments of lm_eval.

    Args:
        lm_eval_arguments: Arguments of lm_eval.
        heatmaps: Folder of the heatmaps, or None; only for models that make some.
        answers: Folder of the kept answers, or None; only for models that keep some. If the arguments have an argument
            `answers` of the model, it stays.

    Returns:
        The arguments; unchanged for a model that needs neither.
    """
    from medfaith.tasks import EXPLAINED, KEEPING

    model, places = model_named(lm_eval_arguments), dict[str, str]()
    if heatmaps and model in EXPLAINED:
        places["store"] = heatmaps
    if answers and model in KEEPING and not any(_NAMES_ANSWERS.search(word) for word in lm_eval_arguments):
        places["answers"] = str(answers / "answers.sqlite")
    # As JSON: lm-eval would cut a place with a comma in two.
    return [*lm_eval_arguments, *(["--model_args", json.dumps(places)] if places else [])]


def with_host(lm_eval_arguments: Sequence[str], task_metadata: Mapping[str, Any]) -> list[str]:
    """Add the host that may get images to the arguments of lm_eval, for medfaith-server and medfaith-batch.

    lm_eval's own clients have no such arguments; the preflight applies the same rule to them.

    Args:
        lm_eval_arguments: The arguments of `lm_eval run`.
        task_metadata: Metadata of the tasks.

    Returns:
        The arguments, unchanged for another model type.
    """
    from medfaith.tasks import BATCH, SERVER

    permitted = "+".join(task_metadata.get("i_have_permission", []))
    permissions = {"send_images_to": task_metadata.get("send_images_to"), "i_have_permission": permitted}
    assignments = [f"{name}={value}" for name, value in permissions.items() if value]
    return [
        *lm_eval_arguments,
        *(
            ["--model_args", ",".join(assignments)]
            if assignments and model_named(lm_eval_arguments) in (SERVER, BATCH)
            else []
        ),
    ]


def in_dry_run(lm_eval_arguments: Sequence[str]) -> list[str]:
    """Add a dry run to the arguments of lm_eval; only medfaith-server has one.

    Args:
        lm_eval_arguments: The arguments of `lm_eval run`.

    Returns:
        The arguments with the dry run.

    Raises:
        MedfaithError: Another model.
    """
    from medfaith.tasks import SERVER

    if (model := model_named(lm_eval_arguments)) != SERVER:
        action = f"leave it out, or name the endpoint with --model {SERVER}"
        raise MedfaithError(f"--dry-run: the model type {model} sends nothing to a server\n  what to do: {action}")
    return [*lm_eval_arguments, "--model_args", "dry_run=True"]


def _get_output_folder(lm_eval_arguments: Sequence[str]) -> Path | None:
    """Return the folder of lm_eval's --output_path, which may name a file in it."""
    from medfaith.tasks.result_saving import output_folder

    return output_folder(parse_known_options(lm_eval_arguments).output_path)


def _run_eval(arguments: argparse.Namespace, lm_eval_arguments: Sequence[str]) -> int:
    lm_eval_arguments = batch.add_model(lm_eval_arguments, arguments)
    _require_model_and_tasks(lm_eval_arguments)
    from medfaith.tasks.models.answer_counts import advise, tally, warn_unanswered
    from medfaith.tasks.run import describe_dry_run, run_lm_eval

    task_metadata = metadata(arguments)
    output = _get_output_folder(lm_eval_arguments)
    lm_eval_arguments = with_host(with_store(lm_eval_arguments, arguments.heatmaps, output), task_metadata)
    if arguments.dry_run:
        print(describe_dry_run(in_dry_run(lm_eval_arguments), task_metadata, arguments.shard))
        return 0
    if batch.writes_requests(arguments):
        print(describe_dry_run(lm_eval_arguments, task_metadata, arguments.shard))
        return 0
    with tally() as outcomes:
        logs = run_lm_eval(lm_eval_arguments, task_metadata, _format_scores, arguments.shard)
    if logs:
        print_summary(logs, output)
    return 3 if warn_unanswered(outcomes, advise(model_named(lm_eval_arguments) or "")) else 0


def _require_model_and_tasks(lm_eval_arguments: Sequence[str]) -> None:
    """Raise MedfaithError without --model or --tasks: lm-eval takes half a minute to say so. A file may name both."""
    if _has_option(lm_eval_arguments, "--config", "-C"):
        return
    needed = {"--model": "-M", "--tasks": "-t"}
    missing = [name for name, short in needed.items() if not _has_option(lm_eval_arguments, name, short)]
    if missing:
        example = "medfaith eval --model hf-multimodal --model_args pretrained=MODEL --tasks medfaith_contrabench"
        action = f"name a type of model and the tasks, as in {example}; medfaith eval --help lists both"
        raise MedfaithError(f"{' and '.join(missing)}: not given\n  what to do: {action}")


def _has_option(arguments: Sequence[str], name: str, short: str) -> bool:
    """Whether an option is given by its name, by an abbreviation of it, or by its letter."""
    long_options = [argument.split("=", 1)[0] for argument in arguments if argument.startswith("--")]
    letters = [argument for argument in arguments if not argument.startswith("--")]
    return any(name.startswith(option) for option in long_options if option != "--") or any(
        letter.startswith(short) for letter in letters
    )


def print_summary(logs: Sequence[Path], output: Path | None) -> None:
    """Print the summary of sample logs below `output`; stderr explains a missing summary, since results are saved.

    Args:
        logs: Sample logs.
        output: Their folder; None if nothing was saved.
    """
    try:
        print(_make_summary(logs, output), end="")
    except MedfaithError as error:
        print(f"medfaith: there is no summary: {error}", file=sys.stderr)


def _make_summary(logs: Sequence[Path], output: Path | None) -> str:
    """Make the summary of the sample logs that a run wrote below `output`."""
    from medfaith.reporting.results import read_results
    from medfaith.reporting.summary import Tail, summary
    from medfaith.reporting.unread import collect_run_notes

    results = read_results(logs)
    notes = [*collect_run_notes(results.in_words), *results.notes]
    folder = shlex.quote(str(output))
    following = [f"medfaith report {folder} --html report.html  # tables, plots and every answer on one page"]
    return summary(results, notes, Tail([f"{output}: results and sample logs"], following))


def _format_scores(results: Mapping[str, Any]) -> str:
    """Format the figures of lm-eval's results that have an interval, one in a line."""
    from medfaith.printing import table
    from medfaith.reporting.tables import count, fraction_interval

    rows = []
    for task, scores in results["results"].items():
        for key, value in scores.items():
            metric, _, reading = key.partition(",")
            ends = [scores.get(f"{metric}_ci_{end},{reading}") for end in ("low", "high")]
            if None not in ends:
                n = results["n-samples"][task]["effective"]
                rows.append([task, reading, metric, fraction_interval(value, *ends), count(n)])
    lines = table(["task", "filter", "metric", "value [95%]", "rows"], rows)
    return f"{lines}\n\nTo keep the answers, which medfaith report needs, add --output_path DIR --log_samples"
