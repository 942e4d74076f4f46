"""A repository of the Hub as a folder: what is published of a build, checked by the guard before anything leaves."""

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
    """Writes everything that is published of a build to the empty folder `into`, and has the guard look at it.

    Args:
        repo_id: `<org>/<name>`, which the card names. texts: reports that nothing published may quote. register: with
            what the Hub registers published rows as a benchmark by.

    Raises:
        InputError: what the guard refuses (`guard.check`). MedfaithError: mlcroissant is not installed.
    """
    generate(publication, repo_id, register, into)
    croissant.validate((into / CROISSANT).read_text(encoding="utf-8"))
    guard.check(into, publication, texts, partial(generate, publication, repo_id, register))


def generate(publication: Publication, repo_id: str, register: bool, into: Path) -> None:
    """Makes all files of a repository, the same bytes from the same build."""
    lay_rows(publication, into)
    record = json.dumps(publication.published_record, indent=2, ensure_ascii=False)
    (into / RECORD).write_text(f"{record}\n", encoding="utf-8")
    (into / CARD).write_text(datasheet.build_readme(publication, into, repo_id), encoding="utf-8")
    (into / CROISSANT).write_text(croissant.document(publication, into, repo_id), encoding="utf-8")
    if register and publication.policy == policy.ROWS:
        (into / registration.FILE).write_text(registration.build_document(publication), encoding="utf-8")


def lay_rows(publication: Publication, into: Path) -> None:
    """Writes the rows of a build into a folder and copies its exports, or writes the hashes where it is a recipe."""
    if publication.policy == policy.ROWS:
        for config, split, rows in publication.tables():  # written anew: a file could hold more than its rows
            write_split(into, config, split, [rows.cast(publication.features[config].arrow_schema)])
        for name in publication.record.get("exports", {}):
            shutil.copyfile(publication.folder / name, into / name)
    else:
        for config, rows in manifest.tables(publication).items():
            write_split(into, MANIFEST, config, [rows])
