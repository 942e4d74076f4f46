"""Information that a recipe leaks to somebody without the label files: only the number of rows."""

from __future__ import annotations

import csv
import gzip
import hashlib
import hmac
import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.cxr_contrabench import chexpert as chexpert_rows
from medfaith.builders.row_digest import iterate_row_json
from medfaith.cards import publication, row_keys, small_counts
from medfaith.loaders import chexpert
from tests.support.tiers import choose_size

CHEXPERT = "cxr-contrabench-chexpert"
RECIPES = (CHEXPERT, "cxr-contrabench-rexvqa", "heal-medvqa-vindr_cxr", "wrong-lung-chest_imagenome")


class Recipe(NamedTuple):
    """The published folder and its build."""

    folder: Path
    built: publication.Publication

    @property
    def manifests(self) -> dict[str, list[dict[str, str]]]:
        return {path.name.split("-0")[0]: pq.read_table(path).to_pylist() for path in self._parts}

    @property
    def _parts(self) -> list[Path]:
        return sorted((self.folder / "manifest").glob("*.parquet"))

    @property
    def public(self) -> list[bytes]:
        """Candidate keys of an attacker: every published hash and name, as text and as bytes."""
        text = (self.folder / "build.json").read_text(encoding="utf-8")
        names = {b"", *(name.encode() for name in re.findall(r'"([^"]+)"', text))}
        return [*names, *(bytes.fromhex(digits) for digits in re.findall(r"\b[0-9a-f]{64}\b", text))]


@pytest.fixture(scope="module", params=RECIPES)
def recipe(request: pytest.FixtureRequest, builds: dict[str, Path], staged: dict[str, Path]) -> Recipe:
    return Recipe(staged[request.param], publication.read(builds[request.param]))


def iterate_rows(recipe: Recipe) -> Iterator[tuple[str, str, str, bytes]]:
    """Iterate over config, split, id and JSON of each row, in build order."""
    for config, split, rows in recipe.built.tables():
        yield from zip(
            itertools.repeat(config), itertools.repeat(split), rows["id"].to_pylist(), iterate_row_json(rows)
        )


def test_the_order_is_that_of_the_keyed_hashes(recipe: Recipe):
    """The order of a source or of an unkeyed hash would reveal which rows were selected."""
    for config, rows in recipe.manifests.items():
        rows_by_split = [[*group] for _, group in itertools.groupby(rows, key=lambda row: row["split"])]
        assert len(rows_by_split) == len({row["split"] for row in rows}), config
        for split_rows in rows_by_split:
            hashes = [row["sha256"] for row in split_rows]
            assert hashes == sorted(hashes), config


def test_no_hash_stands_in_two_configs(recipe: Recipe):
    configs_by_hash: dict[str, str] = {}
    for config, rows in recipe.manifests.items():
        for row in rows:
            for name in ("id", "sha256") if recipe.built.withholds_ids else ("sha256",):
                assert configs_by_hash.setdefault(row[name], config) == config


def test_no_id_and_no_row_can_be_tried_without_the_labels(recipe: Recipe):
    """Try all ids and rows, more than any attacker has, with every public string as a key."""
    published = {row[name] for rows in recipe.manifests.values() for row in rows for name in ("id", "sha256")}
    tried = [text for _, _, row_id, row in iterate_rows(recipe) for text in (row_id.encode(), row)]
    for text in tried[:: choose_size(41, 7)]:
        assert text.decode() not in published or not recipe.built.withholds_ids
        assert hashlib.sha256(text).hexdigest() not in published
        assert not published & {hmac.new(key, text, hashlib.sha256).hexdigest() for key in recipe.public}


def test_with_the_labels_every_hash_can_be_computed(recipe: Recipe):
    expected = {
        (
            config,
            split,
            hmac.new(recipe.built.split_keys[config, split].secret, row, hashlib.sha256).hexdigest(),
        )
        for config, split, _, row in iterate_rows(recipe)
    }
    published = {(row["config"], row["split"], row["sha256"]) for rows in recipe.manifests.values() for row in rows}
    assert published == expected


def test_nothing_published_has_a_key(recipe: Recipe):
    keys = [key.secret for key in recipe.built.split_keys.values()]
    assert keys
    for path in (path for path in recipe.folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        assert not any(key.hex().encode() in data or key in data for key in keys), path.name


def test_no_count_is_of_a_few_rows(recipe: Recipe):
    record = json.loads((recipe.folder / "build.json").read_text(encoding="utf-8"))
    for name, split in record["splits"].items():
        assert all(
            n >= 5 for column_counts in split["counts"].values() for n in column_counts.values() if isinstance(n, int)
        ), name
        assert all(value >= 5 for key, value in split.items() if isinstance(value, int) and key != "rows")
    assert all(value >= 5 for value in record.get("skipped", {}).values() if isinstance(value, int))
    card = (recipe.folder / "README.md").read_text(encoding="utf-8")
    counted = [line.split("|")[3] for line in card.splitlines() if re.match(r"\| `.+/.+` \| \w+ \| .+ \|$", line)]
    assert not [text for text in counted if re.search(r" [0-4](?=,|$)", text.strip())]


def list_solutions(published: dict[str, int | str], total: int) -> dict[str, set[int]]:
    """List the possible values of each hidden count, given the sum of all. It tries everything."""
    hidden = [name for name, value in published.items() if not isinstance(value, int)]
    rest = total - sum(value for value in published.values() if isinstance(value, int))
    ranges = {"<5": range(1, 5), "≥5": range(5, rest + 1), "≥1": range(1, rest + 1)}
    sums = [{0}]  # of the first counts
    for name in hidden:
        sums.append(
            {sum_ + value for sum_ in sums[-1] for value in ranges[str(published[name])] if sum_ + value <= rest}
        )
    possible: dict[str, set[int]] = {}
    wanted = {rest}
    for number in range(len(hidden) - 1, -1, -1):
        values = ranges[str(published[hidden[number]])]
        pairs = {(sum_, value) for sum_ in sums[number] for value in values if sum_ + value in wanted}
        possible[hidden[number]] = {value for _, value in pairs}
        wanted = {sum_ for sum_, _ in pairs}
    return possible


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 30), max_size=6))
def test_a_hidden_count_does_not_follow_from_the_others(counts: dict[str, int]):
    published = small_counts.hide_small_counts(counts)
    few = {name for name, n in counts.items() if n < 5}
    solutions = list_solutions(published, sum(counts.values()))
    assert few <= solutions.keys()
    assert all(counts[name] in values for name, values in solutions.items())
    if len(counts) > 1 and set(counts.values()) != {1}:  # one count is the sum; of as many rows as values, each has one
        assert all(len(values) > 1 for name, values in solutions.items() if name in few), (published, solutions)
    assert all(published[name] == counts[name] for name in counts.keys() - solutions.keys())


def test_no_published_table_has_a_count_that_can_be_solved(recipe: Recipe):
    published = json.loads((recipe.folder / "build.json").read_text(encoding="utf-8"))["splits"]
    tables = [
        (name, column, published[name]["counts"][column], counts)
        for name, split in recipe.built.record["splits"].items()
        for column, counts in split["counts"].items()
    ]
    for name, column, hidden, counts in tables:
        solutions = list_solutions(hidden, sum(counts.values()))
        assert len(counts) == 1 or all(len(values) > 1 for values in solutions.values()), (name, column, hidden)


def write_labels(path: Path, to: Path, form: str) -> Path:
    """Write the same labels in another form."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    if form == "prefix":
        rows = [[row[0].replace("CheXpert-v1.0-small/", "CheXpert-v1.0/"), *row[1:]] for row in rows]
    if form == "order":
        random.Random(0).shuffle(rows)
    if form == "columns":
        header, rows = header[::-1], [row[::-1] for row in rows]
    if form == "numbers":
        rows = [[cell.removesuffix(".0") if re.fullmatch(r"-?[01]\.0", cell) else cell for cell in row] for row in rows]
    opened = gzip.open if form == "packed" else open
    target = to / ("train.csv.gz" if form == "packed" else "labels of mine.csv" if form == "name" else "train.csv")
    with opened(target, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return target


@pytest.mark.parametrize("form", ["prefix", "order", "columns", "numbers", "packed", "name"])
def test_the_key_is_that_of_the_labels_however_they_are_written(form: str, phantom_roots: Any, tmp_path: Path):
    path = next(phantom_roots["chexpert"].rglob("train.csv"))
    written = write_labels(path, tmp_path, form)
    tables = [chexpert_rows.studies(chexpert.read_labels(file, "train"), file) for file in (path, written)]
    locks = [
        row_keys.make_key(row_keys.hash_split("chexpert_absence/train", questions(table))).lock for table in tables
    ]
    assert locks[0] == locks[1]


def questions(studies: pa.Table, seed: int = 0) -> pa.Table:
    return chexpert_rows.questions(studies, "chexpert_absence", "train", seed=seed)


def test_recipes_of_two_seeds_have_no_hash_in_common(phantom_roots: Any):
    """Equal hashes of ids would tell which rows both recipes have, seed after seed, until one is left."""
    path = next(phantom_roots["chexpert"].rglob("train.csv"))
    studies = chexpert_rows.studies(chexpert.read_labels(path, "train"), path)
    seen: set[str] = set()
    for seed in range(3):
        rows = questions(studies, seed)
        key = row_keys.make_key(row_keys.hash_split("chexpert_absence/train", rows)).secret
        hashes = {row_keys.compute_hash(row_id.encode(), key) for row_id in rows["id"].to_pylist()}
        assert not seen & hashes
        seen |= hashes


def test_the_hash_of_all_rows_cannot_be_tried_either(recipe: Recipe):
    """Without a key, it would say which of all possible small splits is the right one."""
    published = json.loads((recipe.folder / "build.json").read_text(encoding="utf-8"))
    for name, split in recipe.built.record["splits"].items():
        assert published["splits"][name]["sha256"] != split["sha256"]
