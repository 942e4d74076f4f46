"""Compare a build with the published one: `medfaith verify DIR --against ORG/NAME`."""

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

from ...builders.write import RECORD
from ...loaders.errors import InputError
from .. import policy, row_keys
from ..publication import MANIFEST, MANIFEST_FEATURES, WITHOUT_MASKS, Publication
from . import manifest
from .hub_client import reachable
from .hub_content import read_published_record
from .manifest import Difference

SETTINGS = ("seed", "arguments", "medfaith")
MASKS = "_anatomy"  # suffix of the names of mask sources
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
    """A comparison with a published build.

    Attributes:
        revision: The published commit.
        differences: The differences of each split. Ids are the build's; if a licence withholds ids, the missing ones
            are hashes.
        notes: Differences in the inputs of the two builds.
    """

    revision: str
    differences: Sequence[Difference]
    notes: Sequence[str]


def against(publication: Publication, repo_id: str) -> Comparison:
    """Compare a build with the published rows, row by row.

    Args:
        publication: The build.
        repo_id: `<org>/<name>` on the Hub.

    Returns:
        The comparison.

    Raises:
        InputError: The repository does not hold this benchmark and source.
        MedfaithError: The Hub cannot be asked.
    """
    api = HfApi()
    revision = _get_revision(api, repo_id)
    record = read_published_record(api, repo_id, revision)
    name = f"{record['benchmark']}-{record['source']}"
    if name != publication.name:
        raise InputError(repo_id, f"is {name}", expected=publication.name, action="name the repository of this build")
    if publication.policy == policy.RECIPE and record["splits"].keys() != record.get(row_keys.LOCKS, {}).keys():
        problem = f"its {RECORD} has no locked keys of its hashes: an earlier release of medfaith published it"
        raise InputError(repo_id, problem, action="ask its owner to publish it again")
    published, published_without_masks, repeated = _load_published(repo_id, revision, record)
    keys, locked = _unlock_keys(publication, record)
    built = manifest.hash_build(publication, keys)
    differences = [
        _count_repeats(difference, repeated.get((difference.config, difference.split), ()), built)
        for difference in manifest.compare(built, published)
    ]
    if published_without_masks:
        built_without_masks = manifest.hash_without_masks(publication, keys)
        differences = [
            manifest.separate_other_masks(difference, built_without_masks, published_without_masks)
            for difference in differences
        ]
    alike = _find_same_order(publication, keys, record) if keys else _find_equal_order(built, published)
    differences = [
        replace(difference, other_order=difference.is_equal and (difference.config, difference.split) not in alike)
        for difference in differences
    ]
    ours = publication.described_record
    notes = _collect_notes(ours, record)
    if published_without_masks and not all(difference.is_equal for difference in differences):
        notes += _explain_masks(ours, record, differences)
    if locked:
        notes.append(
            f"{', '.join(locked)}: no block of studies has the same rows here and there, so the hashes of single rows "
            "cannot be compared. The labels, the seed or the options are others"
        )
    if publication.withholds_ids:
        differences = list(_replace_hashes(differences, publication, keys))
        if any(difference.missing for difference in differences):
            notes.append("a missing row is named by the hash of its id, which its licence withholds")
    return Comparison(revision, differences, notes)


def _get_revision(api: HfApi, repo_id: str) -> str:
    """Return the full hash of the newest commit. Raise InputError if there is no such data set."""
    try:
        with reachable(repo_id, RepositoryNotFoundError):
            return str(api.repo_info(repo_id, repo_type="dataset").sha)
    except RepositoryNotFoundError:
        action = "correct the name; a private repository needs HF_TOKEN"
        raise InputError(repo_id, "is no data set on the Hub", expected="ORG/NAME", action=action) from None


def _load_published(
    repo_id: str, revision: str, record: Mapping[str, Any]
) -> tuple[manifest.Splits, manifest.Splits, Mapping[Name, Sequence[str]]]:
    """Return the hashes of the published rows, those of the same rows without masks if known, and the repeated ids.

    Raise InputError if the repository has other splits than its build.json names.
    """
    hashes: manifest.Splits = {}
    without_masks: manifest.Splits = {}
    repeated: dict[Name, list[str]] = {}
    published_splits = _list_splits(repo_id, revision)
    built = [(config, split) for config, split in (key.split("/") for key in record["splits"])]
    is_recipe = any(config == MANIFEST for config, _ in published_splits)
    expected_splits = list(dict.fromkeys((MANIFEST, config) for config, _ in built)) if is_recipe else built
    if unexpected := sorted(published_splits.symmetric_difference(expected_splits)):
        listed = ", ".join(
            f"{'/'.join(name)} ({'not named' if name in published_splits else 'missing'})" for name in unexpected
        )
        problem = f"has other splits than its {RECORD} names: {listed}"
        raise InputError(repo_id, problem, action="publish it again with medfaith publish, or name another")
    for config, split in expected_splits:
        rows = _load_rows(repo_id, config, split, revision)
        if is_recipe:
            for row_config, row_split, row_id in _iterate_repeated(rows.select(["config", "split", "id"])):
                repeated.setdefault((row_config, row_split), []).append(row_id)
            hashes |= manifest.read_hashes(rows)
            if WITHOUT_MASKS in rows.column_names:
                without_masks |= manifest.read_hashes(rows, WITHOUT_MASKS)
            continue
        repeated[config, split] = [row_id for (row_id,) in _iterate_repeated(rows.select(["id"]))]
        with _loading(f"{repo_id}, {config}/{split}"):  # rows of any form may be invalid JSON
            hashes[config, split] = manifest.hash_rows(rows)
    return hashes, without_masks, repeated


def _list_splits(repo_id: str, revision: str) -> set[Name]:
    """List all splits that `datasets` finds, because splits outside build.json would not be compared."""
    with _loading(repo_id):
        return {
            (config, split)
            for config in datasets.get_dataset_config_names(repo_id, revision=revision)
            for split in datasets.get_dataset_split_names(repo_id, config, revision=revision)
        }


@contextmanager
def _loading(where: str) -> Iterator[None]:
    """Convert errors of `datasets` to errors that name what could not be loaded."""
    with reachable(where):
        try:
            yield
        except HfHubHTTPError:
            raise
        except (ValueError, TypeError, OSError, DatasetsError) as error:
            cause = (str(error.__cause__ or error) or type(error).__name__).splitlines()[0]
            if isinstance(error, SplitsVerificationError):
                cause = "its Parquet has not the rows that its card says"
            raise InputError(where, f"cannot be loaded ({cause})", action="try again, or name another") from error


def _load_rows(repo_id: str, config: str, split: str, revision: str) -> pa.Table:
    """Load a published split; raise InputError for a table without ids, or a manifest of another form."""
    with _loading(f"{repo_id}, {config}/{split}"):
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


def _iterate_repeated(names: pa.Table) -> Iterator[tuple[str, ...]]:
    """Yield the rows that occur more than once."""
    counted = names.group_by(names.column_names).aggregate([([], "count_all")])
    several = counted.filter(pc.greater(counted["count_all"], 1)).select(names.column_names)
    return (tuple(row.values()) for row in several.to_pylist())


def _unlock_keys(publication: Publication, record: Mapping[str, Any]) -> tuple[dict[Name, bytes], list[str]]:
    """Unlock the key of each split of a recipe; return them with the splits that stay locked, which get the build's."""
    if publication.policy == policy.ROWS:
        return {}, []
    keys, locked = {}, []
    for name, hashed in publication.hash_splits().items():
        path = "/".join(name)
        lock = record[row_keys.LOCKS].get(path)
        secret = row_keys.unlock(lock, hashed) if lock else None
        if lock and secret is None:
            locked.append(path)
        keys[name] = secret or row_keys.make_key(hashed).secret
    return keys, locked


def _find_same_order(publication: Publication, keys: manifest.Keys, record: Mapping[str, Any]) -> set[Name]:
    """Find the splits whose rows have the same hash as those of a published recipe. It depends on their order."""
    ours, theirs = publication.record["splits"], record["splits"]
    return {
        name
        for name, key in keys.items()
        for path in ("/".join(name),)
        if path in theirs and row_keys.compute_hash(ours[path]["sha256"].encode(), key) == theirs[path].get("sha256")
    }


def _find_equal_order(built: manifest.Splits, published: manifest.Splits) -> set[Name]:
    """Find the splits whose ids have the same order as those of published rows."""
    return {name for name, rows in built.items() if list(rows) == list(published.get(name, {}))}


def _count_repeats(difference: Difference, repeated: Sequence[str], built: manifest.Splits) -> Difference:
    """Count rows with a repeated published id as different; a build has each id once."""
    rows = built.get((difference.config, difference.split), {})
    more = [row_id for row_id in repeated if row_id in rows and row_id not in difference.different]
    return replace(difference, n_equal=difference.n_equal - len(more), different=(*difference.different, *more))


def _replace_hashes(
    differences: Sequence[Difference], publication: Publication, keys: manifest.Keys
) -> Iterator[Difference]:
    """Replace hashes by the build's own ids."""
    ids = manifest.map_hashes_to_ids(publication, keys)
    for difference in differences:
        ids_by_hash = ids.get((difference.config, difference.split), {})
        kinds = (difference.extra, difference.different, difference.other_masks)
        extra, different, other_masks = (tuple(ids_by_hash[digest] for digest in digests) for digests in kinds)
        yield replace(difference, extra=extra, different=different, other_masks=other_masks)


def _collect_notes(built: Mapping[str, Any], published: Mapping[str, Any]) -> list[str]:
    """Collect differences between the published forms of the two records."""
    notes = [
        f"{key}: {built[key]} here, {published.get(key)} there"
        for key in SETTINGS if built[key] != published.get(key)
    ]  # fmt: skip
    for source, theirs in published["sources"].items():
        ours = built["sources"].get(source, {})
        if different_files := _list_different(ours.get("files", {}), theirs["files"]):
            notes.append(f"{source}: made from other label files: {', '.join(different_files)}")
    return notes


def _explain_masks(
    built: Mapping[str, Any], published: Mapping[str, Any], differences: Iterable[Difference]
) -> Iterator[str]:
    """Explain the effect of other masks; a build depends on its release, seed, options, labels and masks only."""
    ours, theirs = ({**record, "arguments": _select_rules(record)} for record in (built, published))
    rules = [key for key in SETTINGS if ours[key] != theirs.get(key)]
    files = {
        source: _list_different(ours["sources"].get(source, {}).get("files", {}), entry["files"])
        for source, entry in theirs["sources"].items()
    }
    labels = [source for source, different_files in files.items() if different_files and not source.endswith(MASKS)]
    if any(difference.other_masks for difference in differences):
        yield OTHER_MASKS
    if not any(different_files for source, different_files in files.items() if source.endswith(MASKS)):
        yield RULES_ALONE
    else:
        yield BOTH.format(" and ".join([*rules, *labels])) if rules or labels else MASKS_ALONE


def _select_rules(record: Mapping[str, Any]) -> dict[str, Any]:
    """Select the options that rows depend on."""
    return {name: value for name, value in record.get("arguments", {}).items() if name != "segmenter"}


def _list_different(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
