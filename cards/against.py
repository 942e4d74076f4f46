"""A build beside the published one: `medfaith verify DIR --against ORG/NAME`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import datasets
from huggingface_hub import HfApi
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError

from ..builders.rowset import row_sha256
from ..builders.write import MANIFEST as RECORD
from ..loaders.errors import InputError
from . import hub, manifest
from .manifest import Difference
from .publication import MANIFEST, Publication

SETTINGS = ("seed", "arguments", "medfaith")


def against(publication: Publication, repo_id: str) -> tuple[list[Difference], list[str]]:
    """Row by row, how a build differs from what is published, and what they were built with, where that differs.

    Raises InputError where nothing of the kind is published there.
    """
    record = _record(repo_id)
    name = f"{record['benchmark']}-{record['source']}"
    if name != publication.name:
        raise InputError(repo_id, f"is {name}", expected=publication.name, action="name the repository of this build")
    differences = manifest.compare(manifest.of_build(publication), _published(repo_id, record))
    return differences, _notes(publication.record, record)


def _record(repo_id: str) -> Mapping[str, Any]:
    try:
        with hub.reachable(repo_id, RepositoryNotFoundError, EntryNotFoundError):
            path = HfApi().hf_hub_download(repo_id, RECORD, repo_type="dataset")
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        if not all(key in record for key in ("benchmark", "source", "splits", "sources", *SETTINGS)):
            raise ValueError("a key is missing")
    except RepositoryNotFoundError:
        action = "correct the name; a private repository needs HF_TOKEN"
        raise InputError(repo_id, "is no data set on the Hub", expected="ORG/NAME", action=action) from None
    except (EntryNotFoundError, ValueError, TypeError):
        raise InputError(repo_id, f"has no {RECORD} that medfaith publish wrote", action="correct the name") from None
    return record


def _published(repo_id: str, record: Mapping[str, Any]) -> manifest.Splits:
    try:
        if MANIFEST in datasets.get_dataset_config_names(repo_id):
            return manifest.of_table(_rows(repo_id, MANIFEST, MANIFEST).with_format("arrow")[:])
        found: manifest.Splits = {}
        for key in record["splits"]:
            config, split = key.split("/")
            rows = _rows(repo_id, config, split)
            hashes = row_sha256(rows.with_format("arrow")[:])
            found[config, split] = dict(zip(rows["id"], hashes, strict=True))
        return found
    except (ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        cause = str(error.__cause__ or error).splitlines()[0]
        raise InputError(repo_id, f"cannot be loaded ({cause})", action="try again, or name another") from error


def _rows(repo_id: str, config: str, split: str) -> Any:
    return cast(Any, datasets.load_dataset(repo_id, config, split=split))


def _notes(built: Mapping[str, Any], published: Mapping[str, Any]) -> list[str]:
    notes = [f"{key}: {built[key]} here, {published[key]} there" for key in SETTINGS if built[key] != published[key]]
    for source, of_source in published["sources"].items():
        theirs, ours = of_source["files"], built["sources"].get(source, {}).get("files", {})
        others = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
        if others:
            notes.append(f"{source}: not the same files: {', '.join(others)}")
    return notes
