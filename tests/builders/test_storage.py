"""Lists in rows have variable length, for old readers; builds with fixed-length lists remain valid."""

from __future__ import annotations

import ast
import importlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.registry import BENCHMARKS
from medfaith.builders.row_digest import compute_rowset_sha256, convert_fixed_lists, iterate_row_json
from medfaith.builders.schemas.heal import QUESTION
from medfaith.builders.schemas.structs import BOX, LENGTHS, MASK
from medfaith.cards import publication
from medfaith.cards.publish import manifest
from medfaith.loaders.errors import InputError
from tests.support.builders.files import forge, problems
from tests.support.publishing import list_keys
from tests.support.tiers import keep_quick

ROOT = Path(__file__).parents[2]
ROOMS = ("builders", "cards", "evaluate_metrics", "loaders", "medfaith", "tasks")
SCHEMAS = sorted(path.stem for path in (ROOT / "builders" / "schemas").glob("*.py") if path.stem != "__init__")
BUILDS = ("phantom_build", "phantom_heal_build", "phantom_surgx_build", "phantom_wrong_lung_build")
# pyarrow below 26 cannot read a null list of fixed length from Parquet (apache/arrow#35692).
READS_NULL_LISTS = int(str(pa.__version__).split(".")[0]) >= 26


def iterate_fixed_lists(kind: pa.DataType, path: str) -> Iterator[str]:
    """Iterate over the paths of fixed-length lists in a type."""
    if pa.types.is_fixed_size_list(kind):
        yield path
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from iterate_fixed_lists(kind.value_type, path)
    if pa.types.is_struct(kind):
        for field in kind:
            yield from iterate_fixed_lists(field.type, f"{path}.{field.name}")


def list_fixed_lists(schema: pa.Schema) -> list[str]:
    return [path for field in schema for path in iterate_fixed_lists(field.type, field.name)]


def convert_type(kind: pa.DataType, name: str = "") -> pa.DataType:
    """Convert a type to the type in earlier builds, with boxes and mask sizes of fixed length."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(convert_type(field.type, field.name)) for field in kind])
    if pa.types.is_list(kind):
        inner = convert_type(kind.value_type)
        return pa.list_(inner, LENGTHS[name]) if name in LENGTHS else pa.list_(inner)
    return kind


def convert_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(convert_type(field.type)) for field in schema])


@pytest.mark.parametrize("name", SCHEMAS)
def test_no_schema_has_a_list_of_fixed_length(name):
    module = importlib.import_module(f"medfaith.builders.schemas.{name}")
    features = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, Mapping) and key.isupper() and value != LENGTHS
    }
    assert features
    assert [key for key, struct in features.items() if list_fixed_lists(datasets.Features(struct).arrow_schema)] == []


def test_no_code_makes_a_feature_of_fixed_length():
    """Find `List(feature, length)`, also in schemas built within functions."""
    positions = []
    for path in sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "List(" in source else ():
            called = getattr(node, "func", None)
            name = getattr(called, "attr", getattr(called, "id", None))
            if name == "List" and isinstance(node, ast.Call) and len(node.args) + len(node.keywords) > 1:
                positions.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert positions == []


def test_the_lengths_that_verify_checks_are_those_of_fields_of_boxes_and_masks():
    fields: dict[str, Any] = BOX | MASK
    assert {name for name, feature in fields.items() if isinstance(feature, datasets.List)} == set(LENGTHS)


@pytest.mark.parametrize("build", BUILDS)
def test_the_files_of_a_build_hold_plain_lists(build, request):
    files = sorted(request.getfixturevalue(build).rglob("*.parquet"))
    assert files
    assert {file: columns for file in files if (columns := list_fixed_lists(pq.read_schema(file)))} == {}


@pytest.mark.parametrize("build", keep_quick(BUILDS[1:], lambda build: "surgx" in build))
def test_verify_accepts_a_build_whose_lists_have_a_fixed_length(build, request, tmp_path):
    n_fixed = 0
    for repository in sorted(path.parent for path in request.getfixturevalue(build).glob("*/build.json")):
        folder = Path(shutil.copytree(repository, tmp_path / repository.name))
        for file in folder.rglob("*.parquet"):
            table = pq.read_table(file)
            if "motion" in table.column_names and table["motion"].null_count and not READS_NULL_LISTS:
                continue
            table = table.cast(convert_schema(table.schema))
            n_fixed += len(list_fixed_lists(table.schema))
            pq.write_table(table, file)
        assert set(problems(folder).values()) == {()}
        hashes = [
            manifest.hash_build(built, list_keys(built))
            for built in (publication.read(folder), publication.read(repository))
        ]
        assert hashes[0] == hashes[1]
    assert n_fixed


def test_a_build_with_a_box_of_3_numbers_is_not_published(phantom_heal_build, tmp_path):
    folder = Path(shutil.copytree(phantom_heal_build / "heal-medvqa-vindr_cxr", tmp_path / "heal-medvqa-vindr_cxr"))
    forge(folder, "vindr", lambda rows: next(row for row in rows if row["boxes"])["boxes"][0].update(xywh=[1, 2, 3]))
    with pytest.raises(InputError, match=r"boxes\.xywh \[1\.0, 2\.0, 3\.0\]: expected 4 numbers"):
        publication.read(folder)


NUMBERS = st.integers(-9, 9)
BOXES = st.fixed_dictionaries({"label": st.none() | st.text(max_size=2), "xywh": st.tuples(*[NUMBERS] * 4).map(list)})
MASKS = st.fixed_dictionaries({"size": st.tuples(NUMBERS, NUMBERS).map(list), "counts": st.text(max_size=3)})
ROWS = st.lists(
    st.fixed_dictionaries({"boxes": st.none() | st.lists(BOXES, max_size=3), "region": st.none() | MASKS}), max_size=6
)


@pytest.mark.full
@given(ROWS, st.integers(0, 6))
def test_hashes_of_rows_do_not_depend_on_how_lists_are_stored(rows, start):
    names = ("boxes", "region")
    schema = pa.schema([QUESTION.arrow_schema.field(name) for name in names])
    plain = pa.Table.from_pylist(rows, schema=schema)
    fixed = pa.Table.from_pylist(rows, schema=convert_schema(schema))
    assert list_fixed_lists(fixed.schema) == ["boxes.xywh", "region.size"]
    assert convert_fixed_lists(fixed).schema.equals(plain.schema, check_metadata=False)
    assert convert_fixed_lists(fixed).to_pylist() == rows
    for some in (fixed, fixed.slice(start), pa.concat_tables([fixed.slice(start), fixed.slice(0, start)])):
        assert compute_rowset_sha256(convert_fixed_lists(some)) == compute_rowset_sha256(some)
    assert compute_rowset_sha256(plain) == compute_rowset_sha256(fixed)
    assert list(iterate_row_json(plain)) == list(iterate_row_json(fixed))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_plain_lists(name):
    benchmark = BENCHMARKS[name]
    lists_by_config = {
        config: list_fixed_lists(benchmark.family(config).features.arrow_schema) for config in benchmark.needs
    }
    assert {config for config, lists in lists_by_config.items() if lists} == set()
