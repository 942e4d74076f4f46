"""A task of ours for VLMEvalKit: the TSV of a custom multiple-choice data set, for your own machine.

    python -m medfaith.tasks.harnesses.vlmevalkit medfaith_heal_vindr_vpt --data medfaith-data \
        --root vindr_cxr=/data/vindr-cxr --embed --out "$HOME/LMUData/heal_vpt.tsv"

VLMEvalKit then offers it as `heal_vpt`, with its own prompt; Yes and No are options A and B. The file holds the paths
of your licensed images, or with --embed their pixels: never publish it. Our metrics score the answers by `id`.
"""

from __future__ import annotations

import argparse
import csv
import json
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...loaders import images
from ...loaders.atomic import atomic_file
from ...loaders.errors import InputError
from ...loaders.progress import Progress
from . import questions, writing

PICTURES = {".jpg", ".jpeg", ".png"}
# VLMEvalKit reads with pandas, which treats these texts as missing, and then omits the option.
EMPTY = {"", "na", "n/a", "nan", "none", "null"}


def iterate_records(
    rows: Iterable[tuple], roots: Mapping[str, Path], split: str, *, embed: bool = False
) -> Iterator[dict]:
    """Yield the records of VLMEvalKit's TSV, one for each question.

    Args:
        rows: Pairs of a row with its images opened, and the same row as stored, with references to the images.
        roots: Folders of the sources.
        split: Name of the split.
        embed: Whether to write pixels instead of paths.

    Yields:
        Column -> cell: index, id, images, question, the options (A, B, ...), the letter of the answer, category (the
        finding or the anatomy), l2-category (the polarity or the kind of the question) and split.

    Raises:
        InputError: A TSV cannot hold a row.
    """
    for index, (doc, stored) in enumerate(rows):
        paths = [] if embed else [images.locate(reference, roots) for reference in stored["images"]]
        _check_row(doc, paths, split, edited=bool(stored.get("edit")) and not embed)
        pixels = [questions.encode_png(image) for image in doc["images"]] if embed else []
        names = [f"{index}_{number}.png" for number in range(len(pixels))]  # names of the files that VLMEvalKit unpacks
        image_columns = (
            {"image": _format_cell(pixels), "image_path": _format_cell(names)}
            if embed
            else {"image_path": _format_cell(paths)}
        )
        options, answer = dict(zip(string.ascii_uppercase, doc["options"], strict=False)), doc["answer"]
        yield {
            "index": str(index), "id": doc["id"], **image_columns, "question": doc["question"], **options,
            "answer": string.ascii_uppercase[answer], "category": doc.get("finding", doc.get("anatomy")),
            "l2-category": doc.get("polarity", doc.get("kind")), "split": split,
        }  # fmt: skip


def _check_row(doc: Mapping[str, Any], paths: Sequence[Path], split: str, *, edited: bool) -> None:
    problem, action = "", "evaluate this task with lm-eval or Inspect"
    if doc["prompt"] != "b0":
        problem = f"has the prompt {doc['prompt']!r}, and VLMEvalKit asks with its own"
    elif doc.get("reply_in_words") and doc["options"] != ["Yes", "No"]:
        problem = "is an open question, which has no options"
    elif lost_options := [text for text in doc["options"] if text.casefold() in EMPTY]:
        problem = f"has the option {lost_options[0]!r}, which VLMEvalKit reads as no option"
    elif edited:
        problem, action = "is about an edited image, which is in no file", "pass --embed"
    elif other_files := [path for path in paths if path.suffix.lower() not in PICTURES]:
        problem, action = f"{other_files[0]} is no picture that VLMEvalKit opens", "pass --embed"
    if problem:
        raise InputError(split, problem, row=doc["id"], action=action)


def _format_cell(values: Sequence[str | Path]) -> str:
    return str(values[0]) if len(values) == 1 else json.dumps([*map(str, values)], ensure_ascii=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments; by default the process's.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(
        prog="python -m medfaith.tasks.harnesses.vlmevalkit",
        description="Write a task of medfaith as a TSV file for VLMEvalKit.",
    )
    parser.add_argument("task", metavar="TASK", help="task of medfaith tasks --list, or GROUP::TASK")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write (.tsv)")
    parser.add_argument("--embed", action="store_true", help="write pixels (base64) instead of paths")
    return writing.run_command(_write, parser, argv)


def _write(arguments: argparse.Namespace) -> None:
    out, embed = arguments.out, arguments.embed
    writing.refuse_output(out)
    task = questions.load_one(arguments.task, *arguments.where)
    docs, stored = task.test_docs(), task.test_docs().with_format(None)
    letters = string.ascii_uppercase[: max(len(doc["options"]) for doc in docs)]
    image_columns = ["image", "image_path"] if embed else ["image_path"]
    columns = ["index", "id", *image_columns, "question", *letters, "answer", "category", "l2-category", "split"]
    with atomic_file(out) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", delimiter="\t", lineterminator="\n")
        writer.writeheader()
        rows, split = zip(docs, stored, strict=True), task.config.dataset_kwargs["split"]
        bar = Progress(rows, title=f"writing {out.name}", total=len(docs), unit="rows")
        writer.writerows(iterate_records(bar, questions.resolve_roots(arguments.root), split, embed=embed))
    print(out)


if __name__ == "__main__":
    raise SystemExit(main())
