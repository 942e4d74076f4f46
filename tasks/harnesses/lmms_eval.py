"""Our lm-eval tasks for lmms-eval: each task as YAML of lmms-eval, and its rows without pixels.

    python -m medfaith.tasks.harnesses.lmms_eval --task medfaith_heal_vindr_vpt --data medfaith-data \
        --root vindr_cxr=/data/vindr-cxr --out lmms-tasks
    python -m lmms_eval --include_path lmms-tasks --tasks medfaith_heal_vindr_vpt --model MODEL --log_samples

The first command writes the folder that the second one reads.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import datasets
from PIL import Image

from ...loaders.atomic import atomic_folder
from ...loaders.errors import InputError
from ..contrabench import adapter
from ..heal.rows import TRANSPLANT
from ..lazy_images import LazyImages
from ..outcomes import END, OUTCOME
from ..scoring import SENT, VIEWS
from . import questions, writing

MODULE = "medfaith.tasks.harnesses.lmms_eval"
TEXT, FILTER = "lmms_eval_text", "lmms_eval_filter"  # additional columns


def doc_to_visual(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> list[Image.Image]:
    """Open a row's images below the roots that the YAML names, and edit the image of a row of VPT.

    Args:
        doc: The row.
        lmms_eval_specific_kwargs: Settings of the YAML.

    Returns:
        The images in mode RGB, in the order of the placeholders.
    """
    roots = questions.resolve_roots(lmms_eval_specific_kwargs["roots"])
    edit = partial(TRANSPLANT.apply, doc["edit"]) if doc.get("edit") else None
    return LazyImages(doc["id"], doc["images"], roots, edit)[:]


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Score an answer of CXR-ContraBench with the filter that its row names: lmms-eval passes no row to a filter.

    Args:
        doc: The row.
        results: The answer.

    Returns:
        Metric -> value of the row.
    """
    return adapter.process_results(doc, getattr(adapter, doc[FILTER])([results], [doc]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments; by default the process's.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {MODULE}", description="Write tasks of medfaith as YAML files and rows for lmms-eval."
    )
    parser.add_argument(
        "--task",
        action="append",
        required=True,
        metavar="TASK",
        help="task or group of medfaith tasks --list, or GROUP::TASK (repeatable)",
    )
    parser.add_argument(
        "--filter",
        metavar="NAME",
        help="filter that reads answers of CXR-ContraBench: b0, m1, ... (default: the task's first)",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="new folder, for lmms-eval's --include_path"
    )
    return writing.run_command(_write, parser, argv)


def _write(arguments: argparse.Namespace) -> None:
    writing.refuse_output(out := arguments.out, new=True)
    groups = (questions.load(name, *arguments.where).items() for name in arguments.task)
    tasks = {name.replace("::", "_"): task for group in groups for name, task in group}
    roots = {source: str(path) for source, path in questions.resolve_roots(arguments.root).items()}
    with atomic_folder(out) as partial:
        for name, task in tasks.items():
            rows, reading = Path("rows", name), questions.choose_filter(task.config, arguments.filter)
            datasets.DatasetDict({"test": _build_rows(task, reading)}).save_to_disk(partial / rows)
            config = {"task": name, "dataset_path": str(out.resolve() / rows), **_build_config(task, reading, roots)}
            text = json.dumps(config, indent=2, default=_format_tag, ensure_ascii=False)
            (partial / f"{name}.yaml").write_text(text.replace('"!function ', '!function "'), encoding="utf-8")
    print(f"python -m lmms_eval --include_path {out} --tasks {','.join(tasks)} --model MODEL")


def _build_rows(task: Any, reading: str) -> datasets.Dataset:
    docs, rows = task.test_docs(), task.test_docs().with_format(None)
    texts, function = [questions.split_prompt(task, doc) for doc in docs], questions.get_filters(task.config)[reading]
    lost_columns = ", ".join(sorted(set(docs[0]) - {*rows.column_names, SENT, OUTCOME, END, VIEWS}))
    if lost_columns or any(any(prefix) for *prefix, _ in texts):
        problem = (
            f"scores what no file of rows holds: {lost_columns}"
            if lost_columns
            else "has text before an image, unlike lmms-eval"
        )
        raise InputError(f"task {task.config.task!r}", problem, action="evaluate it with lm-eval or Inspect")
    rows = rows.add_column(FILTER, [getattr(function, "__name__", "")] * len(rows))
    return rows.add_column(TEXT, [text for *_, text in texts])


def _build_config(task: Any, reading: str, roots: Mapping[str, str]) -> dict[str, Any]:
    task_config, limits = task.config, {"max_new_tokens": task.config.generation_kwargs["max_gen_toks"]}
    settings = limits | {name: value for name, value in task_config.generation_kwargs.items() if name != "max_gen_toks"}
    return {
        "dataset_kwargs": {"load_from_disk": True}, "test_split": "test", "output_type": "generate_until",
        "doc_to_visual": doc_to_visual, "doc_to_text": TEXT, "doc_to_target": task_config.doc_to_target,
        "process_results": process_results if task_config.filter_list else task_config.process_results,
        "filter_list": [{"name": reading, "filter": [{"function": "take_first"}]}],
        "metric_list": _format_tag(task_config.metric_list, task_config.process_results.__module__),
        "generation_kwargs": settings, "metadata": {"version": task.VERSION},
        "lmms_eval_specific_kwargs": {"default": {"roots": dict(roots)}},
    }  # fmt: skip


def _format_tag(value: Any, module: str | None = None) -> str:
    """Format the YAML tag of a function or another value of a module."""
    module = module or str(value.__module__)
    name = next(name for name, member in vars(sys.modules[module]).items() if member is value)
    return f"!function {MODULE if module == __name__ else module}.{name}"  # __module__ is __main__ in a command


if __name__ == "__main__":
    raise SystemExit(main())
