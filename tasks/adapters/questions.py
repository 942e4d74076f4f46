"""What the adapters share: an lm-eval task of ours, its scores of given answers, the guard, the command."""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from ...loaders import sources
from ...loaders.errors import InputError, MedfaithError
from .. import include_path

NOT_BY_ANSWERS = ("medfaith_wrong_lung", "medfaith_surgx_occlusion", "medfaith_contrabench_option_scores")


def load(name: str, data: str, roots: Any = None, skip_missing_images: bool = False) -> dict[str, Any]:
    """Name -> lm-eval task, with its rows: one, or those of a group. roots: as in `resolve_roots`."""
    from lm_eval.tasks import TaskManager

    known = {source: str(path) for source, path in resolve_roots(roots).items()}
    metadata = {"data": data, "roots": known, "skip_missing_images": skip_missing_images}
    manager = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=metadata)
    if name not in manager.all_tasks:
        raise InputError(f"task {name!r}", "no such task", action="choose one that medfaith tasks --list names")
    tasks: dict[str, Any] = dict(manager.load([name])["tasks"])
    for one, task in tasks.items():
        if one.startswith(NOT_BY_ANSWERS):
            raise InputError(f"task {one!r}", "its score needs more than answers", action="use medfaith eval")
        list(task.test_docs()[0]["images"])  # a source without a root stops here, and not once a question
    return tasks


def load_one(name: str, *where: Any) -> Any:
    """A task that stands alone, or GROUP::TASK; where: as in `load`."""
    tasks = load(name.split("::", maxsplit=1)[0], *where)
    if name not in tasks:
        raise InputError(f"task {name!r}", "is not one task", expected=f"one of {', '.join(tasks)}")
    return tasks[name]


def resolve_roots(given: Mapping[str, str] | Sequence[str] | str | None) -> dict[str, Path]:
    """Where the sources lie. given: a mapping, or one or several of `chexpert=PATH`; the standing places count too."""
    if not isinstance(given, Mapping):
        given = sources.parse_root_arguments([given] if isinstance(given, str) else [*(given or ())])
    return sources.resolve_roots(given, environ=os.environ, config=sources.user_config())


def filters(task: Any) -> dict[str, Callable[[list[list[str]], list[dict]], list[str]] | None]:
    """Name -> function: the readings of a task's answers. "none" takes the answer as it is."""
    given = task.config.filter_list or ()
    return {one["name"]: one["filter"][0]["filter_fn"] for one in given} or {"none": None}


def reading(task: Any, wanted: str | None) -> str:
    """The filter that is wanted, or else the task's first."""
    if wanted not in (None, *(known := [*filters(task)])):
        raise InputError(f"filter {wanted!r}", "the task has no such filter", expected=f"one of {', '.join(known)}")
    return wanted or known[0]


def read(task: Any, doc: Mapping[str, Any], text: str, reading: str) -> str:
    """An answer as a filter of the task hands it on."""
    function = filters(task)[reading]
    return function([[text]], [dict(doc)])[0] if function else text


def figures(task: Any, texts: Mapping[int, str], reading: str) -> dict[str, float]:
    """What lm-eval's aggregations make of the answers to some rows, by metric."""
    found: dict[str, list[Any]] = {}
    for row in sorted(texts):
        doc = task.test_docs()[row]
        for name, item in task.process_results(doc, [read(task, doc, texts[row], reading)]).items():
            found.setdefault(name, []).append(item)
    return {name: task.aggregation()[name](items) for name, items in found.items()}


def texts(task: Any, doc: Mapping[str, Any]) -> list[str]:
    """A prompt's text between its images: one more than the images are, empty where two stand together."""
    return [text.strip() for text in task.doc_to_text(doc).split("<image>")]


def base64_png(image: Image.Image) -> str:
    """An image's pixels, unchanged, as base64 text of a PNG file."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def refuse_builds(out: Path) -> None:
    """Raises InputError where `out` lies in a build, which may be published: it will hold pixels or your paths."""
    for folder in out.resolve().parents:
        for record in (folder / "build.json", *folder.glob("*/build.json")):
            if record.is_file() and '"medfaith"' in record.read_text(encoding="utf-8", errors="replace"):
                found = f"lies in the build {folder}, and would hold licensed pixels or your places"
                raise InputError(out, found, action="choose a folder outside of it")


def command(job: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser, argv: Sequence[str] | None):
    """Runs a job with an adapter's arguments, and `where` for `load`; returns the exit status."""
    parser.add_argument("--data", required=True, help="what medfaith build wrote, or a Hub organisation")
    parser.add_argument("--root", action="append", default=[], metavar="SOURCE=PATH", help="where a source lies")
    parser.add_argument("--skip-missing-images", action="store_true", help="leave out rows without their images")
    given = parser.parse_args(argv)
    given.where = (given.data, given.root, given.skip_missing_images)
    try:
        job(given)
    except (MedfaithError, OSError) as error:
        print(f"medfaith: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("medfaith: interrupted", file=sys.stderr)
        return 130
    return 0
