"""A repository of the Hub as a folder: the published part of a build, checked by the guard before the upload."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from ...builders.write import RECORD, write_split
from .. import datasheet, policy, registration
from ..publication import MANIFEST, Publication
from . import croissant, guard, manifest

CARD, CROISSANT = "README.md", "croissant.json"


def stage(
    publication: Publication, into: Path, *, repo_id: str, texts: Iterable[guard.Text], register: bool = False
) -> None:
    """Write everything that is published of a build, and run the guard.

    Args:
        publication: The build.
        into: An empty folder.
        repo_id: `<org>/<name>`, which the card names.
        texts: Reports that no published file may quote.
        register: Add the file that registers published rows with the Hub.

    Raises:
        InputError: The guard refuses a file (`guard.check`).
        MedfaithError: mlcroissant is not installed.
    """
    generate(publication, repo_id, register, into)
    croissant.validate((into / CROISSANT).read_text(encoding="utf-8"))
    guard.check(into, publication, texts, partial(generate, publication, repo_id, register))


def generate(publication: Publication, repo_id: str, register: bool, into: Path) -> None:
    """Generate all files of a repository; the same build gives the same bytes.

    Args:
        publication: The build.
        repo_id: `<org>/<name>`, which the card names.
        register: Add the file that registers published rows with the Hub.
        into: An empty folder.
    """
    write_rows(publication, into)
    record = json.dumps(publication.published_record, indent=2, ensure_ascii=False)
    (into / RECORD).write_text(f"{record}\n", encoding="utf-8")
    (into / CARD).write_text(datasheet.build_readme(publication, into, repo_id), encoding="utf-8")
    (into / CROISSANT).write_text(croissant.build_document(publication, into, repo_id), encoding="utf-8")
    if register and publication.policy == policy.ROWS:
        (into / registration.FILE).write_text(registration.build_document(publication), encoding="utf-8")


def write_rows(publication: Publication, into: Path) -> None:
    """Write the rows of a build and copy its exports, or write the hashes of a recipe.

    Args:
        publication: The build.
        into: The folder.
    """
    if publication.policy == policy.ROWS:
        for (
            config,
            split,
            rows,
        ) in publication.tables():  # not copied, because a Parquet file can hold more than its rows
            write_split(into, config, split, [rows.cast(publication.features[config].arrow_schema)])
        for name in publication.record.get("exports", {}):
            shutil.copyfile(publication.folder / name, into / name)
    else:
        for config, rows in manifest.build_tables(publication).items():
            write_split(into, MANIFEST, config, [rows])
