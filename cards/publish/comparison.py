"""A build beside the published one: `medfaith verify DIR --against ORG/NAME`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import datasets
import pyarrow as pa
import pyarrow.compute as pc
from datasets.exceptions import DatasetsError, SplitsVerificationError
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from ...builders.label_keys import FINGERPRINTS
from ...builders.write import RECORD
from ...loaders.errors import InputError
from ..publication import MANIFEST, MANIFEST_FEATURES, WITHOUT_MASKS, Publication
from . import hub, manifest
from .manifest import Difference

SETTINGS = ("seed", "arguments", "medfaith")
MASKS = "_anatomy"  # where the names of sources of masks end
OTHER_MASKS = (
    "rows with other masks are else the same: the masks were made by who published them, or by you. Other masks also "
    "relate other findings to an anatomy, which makes rows missing, extra or different"
)
MASKS_ALONE = (
    "release, seed, options and labels are the same here and there, and the masks are not: these come of the masks"
)
RULES_ALONE = "the masks are the same here and there: no row differs because of them"
BOTH = (
    "masks and {} are not the same here and there: which of them makes a row missing, extra or different is not known"
)
Name = tuple[str, str]  # config and split


@dataclass(frozen=True)
class Comparison:
    """revision: the published commit. differences: split by split; ids are those of the build, and where a licence
    withholds them the missing ones are hashes. notes: what the two were built with, where that differs.
    """

    revision: str
    differences: Sequence[Difference]
    notes: Sequence[str]


def against(publication: Publication, repo_id: str) -> Comparison:
    """Row by row, how a build differs from what is published.

    Raises InputError where nothing of the kind is published there, MedfaithError where the Hub cannot be asked.
    """
    api = HfApi()
    revision = _revision(api, repo_id)
    record = hub.published_record(api, repo_id, revision)
    name = f"{record['benchmark']}-{record['source']}"
    if name != publication.name:
        raise InputError(repo_id, f"is {name}", expected=publication.name, action="name the repository of this build")
    published, others, repeated = _published(repo_id, revision, record)
    built = manifest.of_build(publication)
    ours = publication.published_record
    alike = {name for name in built if _split_hash(ours, name) == _split_hash(record, name)}
    other_keys = ours.get(FINGERPRINTS) != record.get(FINGERPRINTS)
    differences = [
        _equal(found, built) if other_keys and (found.config, found.split) in alike
        else _counting_repeats(found, repeated.get((found.config, found.split), ()), built)
        for found in manifest.compare(built, published)
    ]  # fmt: skip
    if others:
        own = manifest.without_masks(publication)
        differences = [manifest.told_apart(found, own, others) for found in differences]
    notes = _notes(ours, record)
    if others and any(of.missing or of.extra or of.different or of.other_masks for of in differences):
        notes += _told_of_masks(ours, record, differences)
    if other_keys:
        notes.append(
            "row hashes made with keys of other labels differ even where the rows are equal: splits were compared as a "
            "whole first, by the hash of all their rows"
        )
    if publication.withholds_ids:
        differences = list(_with_ids(differences, publication))
        if any(found.missing for found in differences):
            notes.append("a missing row is named by the hash of its id, which its licence withholds")
    return Comparison(revision, differences, notes)


def _revision(api: HfApi, repo_id: str) -> str:
    """The full name of the newest commit."""
    try:
        with hub.reachable(repo_id, RepositoryNotFoundError):
            return str(api.repo_info(repo_id, repo_type="dataset").sha)
    except RepositoryNotFoundError:
        action = "correct the name; a private repository needs HF_TOKEN"
        raise InputError(repo_id, "is no data set on the Hub", expected="ORG/NAME", action=action) from None


def _published(
    repo_id: str, revision: str, record: Mapping[str, Any]
) -> tuple[manifest.Splits, manifest.Splits, Mapping[Name, Sequence[str]]]:
    """The published rows; these without their masks, where they have some; and the ids that stand there repeatedly."""
    found: manifest.Splits = {}
    without_masks: manifest.Splits = {}
    repeated: dict[Name, list[str]] = {}
    there = _splits(repo_id, revision)
    built = [(config, split) for config, split in (key.split("/") for key in record["splits"])]
    is_recipe = any(config == MANIFEST for config, _ in there)
    named = list(dict.fromkeys((MANIFEST, config) for config, _ in built)) if is_recipe else built
    if others := sorted(there.symmetric_difference(named)):
        listed = ", ".join(f"{'/'.join(other)} ({'not named' if other in there else 'missing'})" for other in others)
        what = f"has other splits than its {RECORD} names: {listed}"
        raise InputError(repo_id, what, action="publish it again with medfaith publish, or name another")
    for config, split in named:
        rows = _rows(repo_id, config, split, revision)
        if is_recipe:
            for of, name, row_id in _repeated(rows.select(["config", "split", "id"])):
                repeated.setdefault((of, name), []).append(row_id)
            found |= manifest.of_table(rows)
            if WITHOUT_MASKS in rows.column_names:
                without_masks |= manifest.of_table(rows, WITHOUT_MASKS)
            continue
        repeated[config, split] = [row_id for (row_id,) in _repeated(rows.select(["id"]))]
        with _loaded(f"{repo_id}, {config}/{split}"):  # rows of any form, some of which are no JSON
            found[config, split] = manifest.plain(rows)
    return found, without_masks, repeated


def _splits(repo_id: str, revision: str) -> set[Name]:
    """All that `datasets` finds there: what build.json does not name would go uncompared."""
    with _loaded(repo_id):
        return {
            (config, split)
            for config in datasets.get_dataset_config_names(repo_id, revision=revision)
            for split in datasets.get_dataset_split_names(repo_id, config, revision=revision)
        }


@contextmanager
def _loaded(where: str) -> Iterator[None]:
    """Turns what `datasets` raises into an error that names what it could not load."""
    with hub.reachable(where):
        try:
            yield
        except HfHubHTTPError:
            raise
        except (ValueError, TypeError, OSError, DatasetsError) as error:
            cause = (str(error.__cause__ or error) or type(error).__name__).splitlines()[0]
            if isinstance(error, SplitsVerificationError):
                cause = "its Parquet has not the rows that its card says"
            raise InputError(where, f"cannot be loaded ({cause})", action="try again, or name another") from error


def _rows(repo_id: str, config: str, split: str, revision: str) -> pa.Table:
    """One split of what is published. Raises InputError for a table without ids, or a manifest of another form."""
    with _loaded(f"{repo_id}, {config}/{split}"):
        rows = cast(Any, datasets.load_dataset(repo_id, config, split=split, revision=revision))
    needed = MANIFEST_FEATURES if config == MANIFEST else {"id": datasets.Value("string")}
    wrong = [name for name, kind in needed.items() if rows.features.get(name) != kind]
    table: pa.Table = rows.with_format("arrow")[:]
    if not wrong:
        wrong = [name for name in needed if table[name].null_count]
    if wrong:
        raise InputError(
            f"{repo_id}, {config}/{split}",
            "is missing, or not text in every row",
            column=", ".join(wrong),
            expected="what medfaith publish writes",
            action="name another data set",
        )
    return table


def _repeated(names: pa.Table) -> Iterator[tuple[str, ...]]:
    """The rows that occur more than once."""
    counted = names.group_by(names.column_names).aggregate([([], "count_all")])
    several = counted.filter(pc.greater(counted["count_all"], 1)).select(names.column_names)
    return (tuple(row.values()) for row in several.to_pylist())


def _split_hash(record: Mapping[str, Any], name: Name) -> str | None:
    """That of all rows of a split, which needs no key."""
    return record["splits"].get("/".join(name), {}).get("sha256")


def _equal(found: Difference, built: manifest.Splits) -> Difference:
    """Of a split whose rows are those that are published, though its row hashes were made with another key."""
    return Difference(found.config, found.split, len(built[found.config, found.split]), (), (), ())


def _counting_repeats(found: Difference, repeated: Sequence[str], built: manifest.Splits) -> Difference:
    """A build has each id once. A row whose id is published more than once does not count as equal."""
    rows = built.get((found.config, found.split), {})
    more = [row_id for row_id in repeated if row_id in rows and row_id not in found.different]
    return replace(found, n_equal=found.n_equal - len(more), different=(*found.different, *more))


def _with_ids(differences: Sequence[Difference], publication: Publication) -> Iterator[Difference]:
    """With the build's own ids in place of their hashes."""
    ids = manifest.ids(publication)
    for found in differences:
        known = ids.get((found.config, found.split), {})
        kinds = (found.extra, found.different, found.other_masks)
        extra, different, other_masks = (tuple(known[digest] for digest in of) for of in kinds)
        yield replace(found, extra=extra, different=different, other_masks=other_masks)


def _notes(built: Mapping[str, Any], published: Mapping[str, Any]) -> list[str]:
    """Both as they are published."""
    notes = [
        f"{key}: {built[key]} here, {published.get(key)} there"
        for key in SETTINGS if built[key] != published.get(key)
    ]  # fmt: skip
    for source, theirs in published["sources"].items():
        ours = built["sources"].get(source, {})
        if others := _others(ours.get("files", {}), theirs["files"]):
            notes.append(f"{source}: made from other label files: {', '.join(others)}")
    return notes


def _told_of_masks(
    built: Mapping[str, Any], published: Mapping[str, Any], differences: Iterable[Difference]
) -> Iterator[str]:
    """What may be due to other masks. A build is made of its release, seed, options, labels and masks, and no more."""
    ours, theirs = ({**record, "arguments": _rules(record)} for record in (built, published))
    rules = [key for key in SETTINGS if ours[key] != theirs.get(key)]
    files = {
        source: _others(ours["sources"].get(source, {}).get("files", {}), of["files"])
        for source, of in theirs["sources"].items()
    }
    labels = [source for source, others in files.items() if others and not source.endswith(MASKS)]
    if any(found.other_masks for found in differences):
        yield OTHER_MASKS
    if not any(others for source, others in files.items() if source.endswith(MASKS)):
        yield RULES_ALONE
    else:
        yield BOTH.format(" and ".join([*rules, *labels])) if rules or labels else MASKS_ALONE


def _rules(record: Mapping[str, Any]) -> dict[str, Any]:
    """The options that rows depend on."""
    return {name: value for name, value in record.get("arguments", {}).items() if name != "segmenter"}


def _others(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
