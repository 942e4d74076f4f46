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

from medfaith import build
from medfaith.evaluate_metrics.localization.input_view import UPSAMPLINGS
from medfaith.evaluate_metrics.localization.ranking import TIES
from medfaith.loaders import sources
from medfaith.loaders.atomic import is_partial
from medfaith.loaders.errors import MedfaithError
from medfaith.tasks import ABOUT
from medfaith.tasks.controls import read_control
from medfaith.tasks.shards import read_shard

_SECRET = re.compile(r"(?i)(\w*(?:token|key|secret|password))=[^,\s'\"]+")  # in --model_args
# Options that the tasks take as they are.
_METADATA = (
    *("data", "model_name", "control", "wording", "heatmaps", "patients", "upsampling", "precision_ties"),
    *("send_images_to", "i_have_permission"),
)


def add_jobs(jobs: Any) -> None:
    """Adds `eval` to the command's jobs."""
    job = jobs.add_parser(
        "eval",
        allow_abbrev=False,  # lm_eval's own --model begins like our --model_name
        help="score a model with lm_eval run and medfaith's tasks and models",
        description="Runs lm_eval with medfaith's tasks and models. Every option that is not listed here goes to\n"
        "lm_eval run; lm_eval run --help lists those. Exit status 3: a server left more than 1% of the\n"
        "rows unanswered.",
        epilog=_models(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    task_options(job)
    job.add_argument(
        "--control",
        type=read_control,
        metavar="CONTROL",
        help="change what the model sees, to find out what it owes to the image; medfaith tasks --controls describes "
        "each control (default: the images as they are)",
    )
    job.add_argument(
        "--wording",
        type=int,
        metavar="K",
        help="ask paraphrase K of each question, with the options of a choice in another order; medfaith tasks "
        "--wordings prints the paraphrases (default: the questions as they are)",
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
        help="ask only every Nth patient of each task, as machine I of N; medfaith merge puts the shards together "
        "(default: ask all patients)",
    )
    dry_run_option(job)
    job.set_defaults(job=_eval, passes_on=True)


def _models() -> str:
    width = max(map(len, ABOUT))
    return "\n".join(
        [
            "models that medfaith adds to those of lm_eval (--model NAME):",
            *(f"  {name:{width}}  {about}" for name, about in ABOUT.items()),
            "lm_eval has hf-multimodal and others: lm_eval run --help. medfaith tasks --list shows the tasks.",
            "",
            "Example: medfaith eval --data medfaith-data --root chexpert=PATH --model hf-multimodal \\",
            "    --model_args pretrained=MODEL --apply_chat_template --tasks medfaith_contrabench",
        ]
    )


def dry_run_option(job: argparse.ArgumentParser) -> None:
    """Adds --dry-run."""
    job.add_argument(
        "--dry-run",
        action="store_true",
        help="only say how many requests, images and tokens medfaith-server would send, and at what price where "
        "--model_args has prompt_price and answer_price of a million tokens (default: ask the model)",
    )


def task_options(job: argparse.ArgumentParser) -> None:
    """Adds the options that say which rows the tasks ask, and how they score."""
    job.add_argument(
        "--data",
        metavar="DIR|ORG",
        help="folder that medfaith build wrote, or an organisation on the Hub that published the rows (every task of "
        "medfaith needs it)",
    )
    build.root_argument(job)
    job.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="ask only the rows that this csv names in its column id, as blind_clean.csv of medfaith audit does "
        "(default: ask all rows)",
    )
    job.add_argument(
        "--skip-missing-images",
        action="store_true",
        help="leave out and count rows whose images are missing (default: a missing image stops the run)",
    )
    job.add_argument(
        "--images",
        choices=("all", "first"),
        default="all",
        help="which images of a study the model sees; first is for models that take one image, as in the paper of "
        "CXR-ContraBench (default: %(default)s)",
    )
    job.add_argument(
        "--model_name",
        metavar="NAME",
        help="name of the model in tables and figures (default: its name on the Hub, or the last part of its path)",
    )
    job.add_argument(
        "--send-images-to",
        metavar="HOST",
        help="let the images and words of the rows go to this host, which is not yours, such as api.openai.com; the "
        "terms of most sources forbid it (default: they go to no host outside of a private network)",
    )
    job.add_argument(
        "--i-have-permission",
        action="append",
        metavar="SOURCE",
        help="say that whoever owns this source has let you send its images to that host, although its terms do not; "
        "the results record it (repeatable; default: the terms hold)",
    )
    job.add_argument(
        "--patients",
        metavar="FILE.ckpt.json",
        help="ask That's the Wrong Lung! only about patients that a trained model has not seen; this is the record "
        "that medfaith train wrote beside the model (default: ask about all patients)",
    )
    job.add_argument(
        "--upsampling",
        choices=UPSAMPLINGS,
        help="how That's the Wrong Lung! spreads attention over pixels: bilinear, as its paper says, or nearest, as "
        f"its code does (default: {UPSAMPLINGS[0]})",
    )
    job.add_argument(
        "--precision-ties",
        choices=TIES,
        help="whether the precision of That's the Wrong Lung! counts pixels that are tied with its threshold; the code "
        f"of the paper includes them (default: {TIES[0]})",
    )


def metadata(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the tasks take, from the options of `task_options`; and what their results are to say of the run.

    That is the `command`, and of each repository in a folder --data a hash of its build.json, which names all rows, and
    the versions of its sources.

    Raises InputError for --data that is not there, and for --rows that names rows which a folder --data does not have.
    """
    from medfaith.tasks import preflight

    preflight.check_data(arguments.data)  # here, because what follows imports for seconds
    roots = sources.parse_root_arguments(arguments.root)
    if arguments.rows is not None:
        from medfaith.tasks.rows import check_row_ids

        check_row_ids(arguments.rows, arguments.data)
    return {
        **({"roots": roots} if roots else {}),
        **({"row_ids": str(arguments.rows)} if arguments.rows is not None else {}),
        **({"skip_missing_images": True} if arguments.skip_missing_images else {}),
        **({"images": arguments.images} if arguments.images != "all" else {}),
        **{name: value for name in _METADATA if (value := getattr(arguments, name, None))},
        "builds": builds_in(arguments.data),
        "command": _SECRET.sub(r"\1=...", shlex.join(["medfaith", *arguments.words])),
    }


def builds_in(data: str | None) -> dict[str, str]:
    """Repository -> the first 16 digits of the SHA-256 of its build.json, and the versions of its sources."""
    files = sorted(Path(data).expanduser().glob("*/build.json")) if data else ()
    return {path.parent.name: _build(path.read_bytes()) for path in files if not is_partial(Path(path.parent.name))}


def _build(content: bytes) -> str:
    try:
        used = json.loads(content)["sources"]
        versions = [f"{name} {of['version']}" for name, of in sorted(used.items()) if of["version"]]
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # medfaith verify says what is wrong with it
        versions = []
    told = f" ({', '.join(versions)})" if versions else ""
    return hashlib.sha256(content).hexdigest()[:16] + told


def with_store(rest: Sequence[str], heatmaps: str | None, answers: Path | None) -> list[str]:
    """lm_eval's arguments with the places for what a model keeps among its own: heatmaps and answers.

    answers: the folder for the latter, where the arguments name no file for them.
    """
    from medfaith.tasks import EXPLAINED, KEEPING

    model, places = model_named(rest), dict[str, str]()
    if heatmaps and model in EXPLAINED:
        places["store"] = heatmaps
    if answers and model in KEEPING and not any("answers=" in word for word in rest):
        places["answers"] = str(answers / "answers.sqlite")
    # As JSON: lm-eval would cut a place with a comma in two.
    return [*rest, *(["--model_args", json.dumps(places)] if places else [])]


def with_host(rest: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """lm_eval's arguments with what the tasks' metadata say of a host that may get images, for medfaith-server.

    lm_eval's own clients have no such arguments; the preflight holds them to the same.
    """
    from medfaith.tasks import SERVER

    permitted = "+".join(given.get("i_have_permission", []))
    told = {"send_images_to": given.get("send_images_to"), "i_have_permission": permitted}
    words = [f"{name}={value}" for name, value in told.items() if value]
    return [*rest, *(["--model_args", ",".join(words)] if words and model_named(rest) == SERVER else [])]


def in_dry_run(rest: Sequence[str]) -> list[str]:
    """lm_eval's arguments for a run of which medfaith-server says what it would take. Raises for another model."""
    from medfaith.tasks import SERVER

    if (model := model_named(rest)) != SERVER:
        action = f"leave it out, or name the endpoint with --model {SERVER}"
        raise MedfaithError(f"--dry-run: the model type {model} sends nothing to a server\n  what to do: {action}")
    return [*rest, "--model_args", "dry_run=True"]


def model_named(rest: Sequence[str]) -> str | None:
    """The --model of lm_eval's arguments."""
    return _given(rest).model


def _given(rest: Sequence[str]) -> argparse.Namespace:
    named = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    named.add_argument("--model", "-M")
    named.add_argument("--output_path", "-o")
    return named.parse_known_args(list(rest))[0]


def _output(rest: Sequence[str]) -> Path | None:
    """The folder of lm_eval's --output_path, which may name a file in it."""
    from medfaith.tasks.result_saving import output_folder

    return output_folder(_given(rest).output_path)


def _eval(arguments: argparse.Namespace, rest: Sequence[str]) -> int:
    from medfaith.tasks.models.answer_counts import tally, too_many_unanswered
    from medfaith.tasks.run import run_lm_eval, what_it_takes

    given = metadata(arguments)
    output = _output(rest)
    rest = with_host(with_store(rest, arguments.heatmaps, output), given)
    if arguments.dry_run:
        print(what_it_takes(in_dry_run(rest), given, arguments.shard))
        return 0
    with tally() as outcomes:
        logs = run_lm_eval(rest, given, _scores, arguments.shard)
    if logs:
        print_summary(logs, output)
    return 3 if too_many_unanswered(outcomes) else 0


def print_summary(logs: Sequence[Path], output: Path | None) -> None:
    """Prints what sample logs below `output` say; why there is no summary goes to stderr, as the results are saved."""
    try:
        print(_summary(logs, output), end="")
    except MedfaithError as error:
        print(f"medfaith: there is no summary: {error}", file=sys.stderr)


def _summary(logs: Sequence[Path], output: Path | None) -> str:
    """Of the sample logs that a run wrote below `output`."""
    from medfaith.report.results import read_results
    from medfaith.report.summary import Tail, summary
    from medfaith.report.unread import collect_run_notes

    found = read_results(logs)
    notes = [*collect_run_notes([*found.runs, *found.heal, *found.surgx]), *found.notes]
    folder = shlex.quote(str(output))
    following = [f"medfaith report {folder} --html report.html  # tables, plots and every answer on one page"]
    return summary(found, notes, Tail([f"{output}: results and sample logs"], following))


def _scores(results: Mapping[str, Any]) -> str:
    """Of lm-eval's results those figures that have an interval, a line each."""
    from medfaith.printing import table
    from medfaith.report.tables import count, fraction_interval

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
