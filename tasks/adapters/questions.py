"""What the adapters share: which rows a config's name stands for, the prompt, the values of an answer, the guard."""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import yaml
from PIL import Image

from ...loaders import sources
from ...loaders.errors import InputError, MedfaithError
from .. import include_path
from ..contrabench import adapter, prompts

READINGS = ("b0", "m1", "m1_slot_agnostic", "m1_extended", "m2")
RATES = ("accuracy", "reversal_rate", "contradiction_rate", "parse_failure_rate")


class _Names(yaml.SafeLoader):
    """Takes `!function NAME` for the name."""

    yaml_constructors: ClassVar[dict] = {
        **yaml.SafeLoader.yaml_constructors,
        "!function": yaml.SafeLoader.construct_scalar,
    }


@cache
def _places() -> dict[str, dict[str, str]]:
    """Config -> {split: repository}, as the lm-eval tasks have them; first the split that is evaluated by default."""
    known: dict[str, dict[str, str]] = {}
    for path in sorted((include_path() / "contrabench").glob("*.yaml")):
        task = yaml.load(path.read_text(encoding="utf-8"), _Names)
        for child in task["task"] if isinstance(task["task"], list) else [task]:
            if isinstance(child, dict):
                rows = child["dataset_kwargs"]
                known.setdefault(rows["config"], {}).setdefault(rows["split"], rows["repository"])
    return known


def place(config: str, split: str | None = None) -> tuple[str, str]:
    """(repository, split) of a config; without a split the one that its lm-eval task evaluates."""
    known = _places()
    if config not in known:
        raise InputError(f"config {config!r}", "no such config", expected=f"one of {', '.join(sorted(known))}")
    split = split or next(iter(known[config]))
    if split not in known[config]:
        raise InputError(f"config {config!r}", f"no split {split!r}", expected=f"one of {', '.join(known[config])}")
    return known[config][split], split


def resolve_roots(given: Mapping[str, str] | Sequence[str] | str | None) -> dict[str, Path]:
    """Where the sources lie. given: a mapping, or one or several of `chexpert=PATH`; the standing places count too."""
    if isinstance(given, str):
        given = [given]
    named = given if isinstance(given, Mapping) else sources.parse_root_arguments(list(given or ()))
    return sources.resolve_roots(named, environ=os.environ, config=sources.user_config())


def prompt(row: Mapping[str, Any]) -> str:
    """B0 without its placeholders: these harnesses send the images beside the text."""
    return prompts.b0({**row, "images": []}).lstrip()


def values(row: Mapping[str, Any], text: str, reading: str = "b0") -> dict[str, float]:
    """Those of RATES that a row has, of the answer `text`, by a reading of the lm-eval tasks (`adapter`)."""
    doc = {"n_rows_skipped": 0, **row}
    found = adapter.process_results(doc, getattr(adapter, reading)([[text]], [doc]))
    return {name: float(found[name]) for name in RATES if name in found}


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
                found = (
                    f"lies in the build {folder}, and would hold pixels of licensed images or places on your machine"
                )
                raise InputError(out, found, action="choose a folder outside of it")


def command(job: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser, argv: Sequence[str] | None):
    """Runs a job with the arguments that every adapter's command has; returns the exit status."""
    parser.add_argument("--data", required=True, help="what medfaith build wrote, or a Hub organisation")
    parser.add_argument("--root", action="append", default=[], metavar="SOURCE=PATH", help="where a source lies")
    try:
        job(parser.parse_args(argv))
    except MedfaithError as error:
        print(f"medfaith: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"medfaith: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("medfaith: interrupted", file=sys.stderr)
        return 130
    return 0
