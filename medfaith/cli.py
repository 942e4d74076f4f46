"""The `medfaith` command: arguments in, one call into a room, a table or a path out.

Exit status 0 when the job is done, 2 when the input or the environment has to be mended first; the message says how.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from medfaith.loaders import sources
from medfaith.loaders.errors import MedfaithError

DEFAULT_OUT = "medfaith-data"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one sub-command; returns the exit status."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if rest and arguments.job is not _eval:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return arguments.job(arguments, rest)
    except MedfaithError as error:
        print(f"medfaith: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("medfaith: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a folder that may not be read or written, a full disk
        place = f"{error.filename}: " if error.filename else ""
        action = "check that the folder exists, may be written and has space left"
        print(f"medfaith: {place}{error.strerror or error}\n  what to do: {action}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    import importlib.metadata

    parser = argparse.ArgumentParser(
        prog="medfaith",
        description="Audits whether medical vision-language models answer from the image.",
        epilog="Research only: no result of this software says anything about clinical use.",
    )
    parser.add_argument("--version", action="version", version=importlib.metadata.version("medfaith"))
    jobs = parser.add_subparsers(required=True, metavar="JOB")

    job = jobs.add_parser("sources", help="list the licensed sources: found or missing, licence, how to get access")
    _root_argument(job)
    job.set_defaults(job=_sources)

    job = jobs.add_parser("build", help="rebuild a benchmark's splits from licensed sources")
    benchmarks = job.add_subparsers(required=True, metavar="BENCHMARK")
    job = benchmarks.add_parser("cxr-contrabench", help="negated options (CheXpert, OpenI, CheXStruct, ReXVQA)")
    _build_arguments(job, "chooses among eligible distractors")
    _wording_arguments(job)
    job.set_defaults(job=_build_contrabench)
    job = benchmarks.add_parser("heal-medvqa", help="diseases at anatomies, perturbed (VinDr-CXR, MIMIC-CXR)")
    _build_arguments(job, "chooses questions, swaps and donors")
    _heal_arguments(job)
    job.set_defaults(job=_build_heal)

    job = jobs.add_parser("verify", help="recompute a build's counts and hashes and compare them with the references")
    job.add_argument("directory", type=Path, metavar="DIR")
    job.set_defaults(job=_verify)

    job = jobs.add_parser("tasks", help="print the include path for plain lm_eval --include_path")
    job.add_argument("--list", action="store_true", help="list the task names instead")
    job.set_defaults(job=_tasks)

    job = jobs.add_parser(
        "eval",
        help="lm_eval run with medfaith's models and tasks; every other argument goes to lm_eval run",
        epilog="Example: medfaith eval --data medfaith-data --root chexpert=PATH --model hf-multimodal "
        "--model_args pretrained=MODEL --apply_chat_template --tasks medfaith_contrabench",
    )
    job.add_argument("--data", help="what medfaith build wrote, or a Hub organisation")
    _root_argument(job)
    job.add_argument(
        "--skip-missing-images", action="store_true", help="leave out rows without their images, and count them"
    )
    job.set_defaults(job=_eval)

    job = jobs.add_parser(
        "report", help="the papers' tables from what lm_eval wrote with --output_path and --log_samples"
    )
    job.add_argument("results", type=Path, nargs="+", metavar="RESULTS", help="folders or files, of one or many models")
    job.add_argument("--out", type=Path, help="also save report.md and one CSV a table in this folder")
    job.add_argument(
        "--extractor-model",
        metavar="NAME",
        help="read HEAL-MedVQA's open-ended answers with this language model too; without a URL transformers loads it",
    )
    job.add_argument(
        "--extractor-url",
        metavar="URL",
        help="of an OpenAI-compatible endpoint (http://127.0.0.1:8000/v1), to which the answers are sent; the key is "
        "taken from MEDFAITH_EXTRACTOR_KEY or OPENAI_API_KEY",
    )
    job.add_argument(
        "--extractor-cache", type=Path, metavar="FILE", help="keep its replies here: an interrupted run then goes on"
    )
    job.set_defaults(job=_report)

    job = jobs.add_parser("quickstart", help="everything on synthetic data: build, verify, evaluate, table; offline")
    job.add_argument("--out", type=Path, default=Path("medfaith-quickstart"), help="(default: %(default)s)")
    _wording_arguments(job)
    job.set_defaults(job=_quickstart)
    return parser


def _root_argument(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="SOURCE=PATH",
        help="where a source lies (repeatable); chexpert=torchxrayvision reads the labels inside that package",
    )


def _build_arguments(job: argparse.ArgumentParser, seed: str) -> None:
    job.add_argument("--config", action="append", metavar="C", help="build this config only (repeatable)")
    _root_argument(job)
    job.add_argument("--out", type=Path, default=Path(DEFAULT_OUT), help="folder to write to (default: %(default)s)")
    job.add_argument("--seed", type=int, default=0, help=f"{seed} (default: %(default)s)")
    job.add_argument("--workers", type=_positive, default=1, help="the bytes written do not depend on it")


def _heal_arguments(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--measure", default="iou", help="of box and anatomy: iou (as published), or box: its share inside"
    )
    job.add_argument(
        "--threshold", type=float, default=0.05, help="lowest measure of a relation (default: %(default)s)"
    )
    job.add_argument(
        "--places", default="any", help="any (as published), or anatomical: relate a class only to where it can lie"
    )
    job.add_argument("--agreement", default="majority", help="of VinDr-CXR's three readers: majority, any or all")
    job.add_argument("--anatomy", action="append", metavar="A", help="ask about this anatomy only (repeatable)")
    job.add_argument(
        "--view", action="append", metavar="V", help="take this ViewPosition of MIMIC-CXR (default: AP, PA)"
    )
    job.add_argument("--labeler", default="chexpert", help="of MIMIC-CXR's reports: chexpert or negbio")
    job.add_argument("--detection-threshold", type=float, default=0.25, help="lowest score (default: %(default)s)")


def _wording_arguments(job: argparse.ArgumentParser) -> None:
    job.add_argument("--negation-form", default="canonical_no", help="wording of the negated option (Appendix I)")
    job.add_argument("--question-form", default="original", help="original, p1, p2 or p3")
    job.add_argument("--layout", default="original", help="original (target first, as published) or shuffled")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def _roots(arguments: argparse.Namespace) -> dict[str, Path]:
    given = sources.parse_root_arguments(arguments.root)
    return sources.resolve_roots(given, environ=os.environ, config=sources.user_config())


def _sources(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.printing import table

    states = [sources.status(source_id, roots) for roots in [_roots(arguments)] for source_id in sources.manifest()]
    print(
        table(
            ["source", "state", "licence", "published as", "where, or what is missing"],
            [
                [s.source.id, s.state, s.source.licence, s.source.publish,
                 " ".join(filter(None, [str(s.root or ""), f"lacks {', '.join(s.missing)}" if s.missing else ""]))]
                for s in states
            ],
        )
    )  # fmt: skip
    for s in states:
        if s.state == "missing":
            print(f"\n{s.source.title} ({s.source.id})\n{s.source.instructions()}")
    return 0


def _wording(arguments: argparse.Namespace):
    from medfaith.builders.cxr_contrabench.questions import Wording

    return Wording(arguments.negation_form, arguments.question_form, arguments.layout)


def _build_contrabench(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith import cards
    from medfaith.builders import cxr_contrabench

    folders = cxr_contrabench.build(
        _roots(arguments),
        arguments.out,
        configs=arguments.config,
        seed=arguments.seed,
        wording=_wording(arguments),
        workers=arguments.workers,
        card=cards.body,
    )
    return _print_build(folders, arguments.out)


def _build_heal(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith import cards
    from medfaith.builders import heal_medvqa

    lists = {"anatomies": arguments.anatomy, "views": arguments.view}
    options = heal_medvqa.Options(
        measure=arguments.measure,
        threshold=arguments.threshold,
        places=arguments.places,
        agreement=arguments.agreement,
        labeler=arguments.labeler,
        detection_threshold=arguments.detection_threshold,
        **{name: tuple(dict.fromkeys(values)) for name, values in lists.items() if values},
    )
    roots = _roots(arguments)
    folders = heal_medvqa.build(
        roots,
        arguments.out,
        configs=arguments.config,
        seed=arguments.seed,
        options=options,
        workers=arguments.workers,
        card=cards.body,
    )
    for config, lacking in () if arguments.config else heal_medvqa.incomplete(roots).items():
        print(f"{config} was not built: it needs {', '.join(lacking)}, too")
    return _print_build(folders, arguments.out)


def _print_build(folders: Sequence[Path], out: Path) -> int:
    from medfaith.builders.verify import skipped

    sound = _print_verdicts(folders)
    for folder in folders:
        for reason, count in skipped(folder).items():
            print(f"{folder.name}: left out, or counted: {count} {reason}")
    print(f"written to {out}")
    return 0 if sound else 2


def _verify(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.builders.verify import repositories

    return 0 if _print_verdicts(repositories(arguments.directory)) else 2


def _print_verdicts(folders: Sequence[Path], *, official: bool = True) -> bool:
    """Prints what verifying the repositories gave; False when any split is not what it should be.

    official: whether the paper's counts and the committed references are worth a comparison (not for synthetic data).
    """
    from medfaith import cards
    from medfaith.builders import cxr_contrabench, heal_medvqa
    from medfaith.builders.verify import benchmark_of
    from medfaith.printing import verdict_table

    benchmarks = {module.NAME: module for module in (cxr_contrabench, heal_medvqa)}
    references = cards.references() if official else []
    verdicts = []
    for name, of_benchmark in itertools.groupby(sorted(folders, key=benchmark_of), key=benchmark_of):
        found = [v for folder in of_benchmark for v in benchmarks[name].verify(folder, references)]
        print(verdict_table(found, cards.published(name) if official else None))
        verdicts += found
    return all(not v.problems and not (v.reference == "differs" and v.same_labels) for v in verdicts)


def _tasks(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.tasks import include_path

    if arguments.list:
        from medfaith.tasks.run import task_names

        print("\n".join(task_names()))
    else:
        print(include_path())
    return 0


def _eval(arguments: argparse.Namespace, rest: Sequence[str]) -> int:
    from medfaith.tasks.run import run_lm_eval

    roots = sources.parse_root_arguments(arguments.root)
    metadata: Mapping[str, object] = {
        **({"data": arguments.data} if arguments.data else {}),
        **({"roots": roots} if roots else {}),
        **({"skip_missing_images": True} if arguments.skip_missing_images else {}),
    }
    return run_lm_eval(rest, metadata)


def _report(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.tasks.report import write_report

    print(write_report(arguments.results, arguments.out, _extractor(arguments)), end="")
    return 0


def _extractor(arguments: argparse.Namespace):
    from medfaith.tasks.report.extractors import language_model

    name, url, cache = arguments.extractor_model, arguments.extractor_url, arguments.extractor_cache
    if name:
        key = os.environ.get("MEDFAITH_EXTRACTOR_KEY") or os.environ.get("OPENAI_API_KEY")
        return language_model(name, url=url, api_key=key, cache=cache)
    if url or cache:
        option = "--extractor-url" if url else "--extractor-cache"
        raise MedfaithError(f"{option} names no language model\n  what to do: give --extractor-model NAME, too")
    return None


def _quickstart(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    from medfaith.quickstart import quickstart

    print(quickstart(arguments.out, _wording(arguments), lambda folders: _print_verdicts(folders, official=False)))
    return 0
