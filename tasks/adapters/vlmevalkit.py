"""CXR-ContraBench for VLMEvalKit: the TSV of a custom multiple-choice data set, for your own machine.

    python -m medfaith.tasks.adapters.vlmevalkit chexpert_presence --data medfaith-data --root chexpert=PATH \
        --out "$LMUData/contrabench_presence.tsv"

VLMEvalKit then knows it as `contrabench_presence`, and asks with its own prompt. It holds the paths of your licensed
images, or with --embed their pixels: never publish it. By the column `id`, answers can be scored with `polarity`.
"""

from __future__ import annotations

import argparse
import csv
import json
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tqdm import tqdm

from ...loaders import images
from ...loaders.errors import ImageError, InputError
from ..rows import LazyImages, read
from . import questions

# VLMEvalKit reads with pandas, which takes these texts for no text, and then leaves the option out.
EMPTY = {"", "na", "n/a", "nan", "none", "null"}
PICTURES = {".jpg", ".jpeg", ".png"}


def records(
    rows: Iterable[Mapping[str, Any]], roots: Mapping[str, Path], split: str, *, embed: bool = False
) -> Iterator[dict[str, str]]:
    """One record a row. Raises ImageError for an image that is absent, InputError for what the format cannot carry."""
    for index, row in enumerate(rows):
        options = dict(zip(string.ascii_uppercase, row["options"], strict=False))
        if lost := [text for text in options.values() if text.casefold() in EMPTY]:
            found = f"{lost[0]!r}, which VLMEvalKit reads as no option"
            raise InputError(split, found, row=row["id"], column="options", action="evaluate this config with lm-eval")
        if embed:
            pixels = [questions.base64_png(image) for image in LazyImages(row["id"], row["images"], roots)]
            names = [f"{index}_{number}.png" for number in range(len(pixels))]  # where VLMEvalKit unpacks them
            shown = {"image": _cell(pixels), "image_path": _cell(names)}
        else:
            shown = {"image_path": _cell([_path(row["id"], reference, roots) for reference in row["images"]])}
        answer, kinds = string.ascii_uppercase[row["answer"]], (row["finding"], row["polarity"])
        yield {
            "index": str(index), "id": row["id"], **shown, "question": row["question"], **options, "answer": answer,
            "category": kinds[0], "l2-category": kinds[1], "split": split,
        }  # fmt: skip


def _path(row_id: str, reference: Mapping[str, str], roots: Mapping[str, Path]) -> str:
    try:
        path = images.locate(reference, roots)
    except ImageError as error:
        raise ImageError(f"row {row_id}: {error}") from error
    if path.suffix.lower() not in PICTURES:
        raise ImageError(f"row {row_id}: {path} is no picture that VLMEvalKit opens\n  what to do: pass --embed")
    return str(path)


def _cell(values: list[str]) -> str:
    return values[0] if len(values) == 1 else json.dumps(values, ensure_ascii=False)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m medfaith.tasks.adapters.vlmevalkit", description="Writes a TSV.")
    parser.add_argument("config", metavar="CONFIG")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.tsv", help="written in one step")
    parser.add_argument("--embed", action="store_true", help="pixels (base64) in place of paths")
    return questions.command(_write, parser, argv)


def _write(arguments: argparse.Namespace) -> None:
    repository, split = questions.place(arguments.config)
    roots, out = questions.resolve_roots(arguments.root), arguments.out
    questions.refuse_builds(out)
    rows = read(repository, arguments.config, split, arguments.data)
    letters = string.ascii_uppercase[: max(map(len, rows["options"]))]
    shown = ["image", "image_path"] if arguments.embed else ["image_path"]
    columns = ["index", "id", *shown, "question", *letters, "answer", "category", "l2-category", "split"]
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="", delimiter="\t", lineterminator="\n")
            writer.writeheader()
            bar = cast(Iterable[dict[str, Any]], tqdm(rows, desc=out.name, disable=None))
            writer.writerows(records(bar, roots, split, embed=arguments.embed))
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    print(out)


if __name__ == "__main__":
    raise SystemExit(main())
