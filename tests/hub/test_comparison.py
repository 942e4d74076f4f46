"""`medfaith verify --against` with repositories that the tests write directly, so that they can have any content."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import close_session, constants
from huggingface_hub.errors import HTTPError

from medfaith.builders import cxr_contrabench, heal_medvqa
from medfaith.builders.row_digest import compute_rowset_sha256
from medfaith.builders.write import build_configs_header, front_matter
from medfaith.cards import publication
from medfaith.cards.publish import comparison, manifest
from medfaith.cards.publish.hub_client import reachable
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.phantom import chexpert as chexpert_phantom
from tests.hub.server import Account
from tests.support.publishing import CHEXPERT, OPENI, list_keys
from tests.support.tiers import keep_quick


@pytest.fixture
def built(phantom_build, chexpert):
    """Local builds by name."""
    return {OPENI: phantom_build / OPENI, CHEXPERT: chexpert}


@pytest.fixture
def verify(medfaith, built):
    """Run `medfaith verify --against` for a local build."""
    return lambda name, **more: medfaith("verify", built[name], "--against", f"clinic/{name}", **more)


def publish(hub, folder, edit=lambda tables: tables, record=lambda record: record):
    """Write a changed build to the Hub.

    Args:
        hub: The loopback Hub.
        folder: The local build.
        edit: Changes the tables by config and split.
        record: Changes the contents of build.json.
    """
    build = publication.read(folder)
    if build.policy == "rows":
        tables = {(config, split): rows for config, split, rows in build.tables()}
    else:
        tables_by_config = manifest.build_tables(build)
        tables = {("manifest", config): rows for config, rows in tables_by_config.items()}
    files = {}
    for (config, split), rows in edit(tables).items():
        file = io.BytesIO()
        pq.write_table(rows.replace_schema_metadata(None), file)
        files[f"{config}/{split}-00000-of-00001.parquet"] = file.getvalue()
    configs = build_configs_header(build.features, dict.fromkeys(build.splits, "x"))["configs"]
    files["README.md"] = front_matter({"configs": configs}).encode()
    files["build.json"] = json.dumps(record(dict(build.published_record))).encode()
    return hub.add("dataset", folder.name, files)


def apply_to_first_table(change):
    """Make an `edit` for `publish` that changes only the first table."""

    def edit(tables):
        first_key = next(iter(tables))
        return {**tables, first_key: change(tables[first_key])}

    return edit


def parse_counts(out: str) -> list[tuple[int, ...]]:
    """Parse the numbers of equal, missing, extra and different rows of each split from the command's output."""
    lines = [line.split() for line in out.splitlines()[2:]]
    return [tuple(map(int, line[2:])) for line in lines if len(line) == 6 and all(n.isdigit() for n in line[2:])]


@pytest.mark.full  # a process of its own; test_publish.py has one regularly
@pytest.mark.parametrize("name", [OPENI, CHEXPERT])
def test_an_equal_build_is_equal_at_a_revision_and_quiet_in_a_pipe(name, afresh, hub, built):
    head = publish(hub, built[name]).commits[-1].oid
    status, out, err = afresh("verify", built[name], "--against", f"clinic/{name}")
    assert (status, err) == (0, ""), out
    assert out.splitlines()[-1].endswith(f": equal to clinic/{name} at its commit {head[:7]}")
    paths = [request.path for method in ("GET", "HEAD") for request in hub.asked(method, "/resolve/")]
    assert {path.split("/resolve/")[1].split("/")[0] for path in paths} == {head}


@pytest.mark.parametrize("name", keep_quick([OPENI, CHEXPERT], lambda name: name == OPENI))
def test_rows_that_are_published_two_times_are_not_equal(name, verify, hub, built):
    publish(hub, built[name], apply_to_first_table(lambda rows: pa.concat_tables([rows, rows.slice(0, 2)])))
    status, out, _ = verify(name)
    n_rows = sum(split["rows"] for split in publication.read(built[name]).record["splits"].values())
    assert status == 5
    assert [sum(column) for column in zip(*parse_counts(out), strict=True)] == [n_rows - 2, 0, 0, 2]


def test_rows_of_ours_are_named_by_their_own_ids_where_the_published_ones_are_hashes(verify, hub, built):
    def change(rows):
        hashes = pa.array(["0" * 64, *rows["sha256"].to_pylist()[1:]])
        return rows.set_column(3, "sha256", hashes).slice(0, len(rows) - 1)

    publish(hub, built[CHEXPERT], apply_to_first_table(change))
    build = publication.read(built[CHEXPERT])
    keys = list_keys(build)
    ids_by_hash, splits = manifest.map_hashes_to_ids(build, keys), manifest.hash_build(build, keys)
    (config, split), ids = next((key, [ids_by_hash[key][name] for name in hashes]) for key, hashes in splits.items())
    status, out, _ = verify(CHEXPERT)
    assert status == 5
    assert f"{config}/{split}: different: {ids[0]}\n" in out
    last = [key for key in splits if key[0] == config][-1]  # the last row of the first config's table
    assert f"{'/'.join(last)}: extra: {ids_by_hash[last][[*splits[last]][-1]]}\n" in out
    assert "a missing row is named by the hash" not in out


def test_missing_rows_are_hashes_and_said_to_be(verify, hub, built):
    def change(rows):
        config, split = rows["config"][0], rows["split"][0]
        return pa.concat_tables([rows, pa.table([[config], [split], ["f" * 64], ["0" * 64]], schema=rows.schema)])

    publish(hub, built[CHEXPERT], apply_to_first_table(change))
    status, out, _ = verify(CHEXPERT)
    assert status == 3
    assert f"missing: {'f' * 64}\n" in out
    assert "a missing row is named by the hash of its id, which its licence withholds" in out


@pytest.mark.parametrize("has_other_row", keep_quick([False, True], lambda has_other_row: not has_other_row))
def test_rows_with_other_masks_are_told_apart_from_other_rows(has_other_row, medfaith, hub, phantom_heal_build):
    name = "heal-medvqa-vindr_cxr"

    def change(column, row):
        def changed(rows):
            values = rows[column].to_pylist()
            return rows.set_column(
                rows.column_names.index(column), column, [[*values[:row], "0" * 64, *values[row + 1 :]]]
            )

        return changed

    mask, rule = change("sha256", 0), lambda rows: change("sha256", 1)(change("sha256_without_masks", 1)(rows))
    change_rows = (lambda rows: rule(mask(rows))) if has_other_row else mask
    publish(hub, phantom_heal_build / name, apply_to_first_table(change_rows))
    status, out, _ = medfaith("verify", phantom_heal_build / name, "--against", f"clinic/{name}")
    vindr_counts = next(line.split() for line in out.splitlines() if line.startswith("vindr  "))
    if has_other_row:
        assert (status, vindr_counts[3:]) == (5, ["0", "0", "1", "1"])
        return
    assert (status, vindr_counts[3:], "are else the same" in out) == (6, ["0", "0", "0", "1"], True), out
    assert re.search(r"^vindr/\w+: other masks: vindr/\w+/\w+/", out, re.MULTILINE), out


@pytest.mark.parametrize(
    ("other_masks", "options", "note"),
    keep_quick(
        [
            (False, heal_medvqa.Options(threshold=0.5), comparison.RULES_ALONE),
            (True, heal_medvqa.Options(threshold=0.5), comparison.BOTH.format("arguments")),
            (True, heal_medvqa.Options(segmenter="CXAS"), comparison.MASKS_ALONE),
        ],
        lambda case: case[2] == comparison.BOTH.format("arguments"),
    ),
    ids=["another rule", "both", "other masks of another segmenter"],
)
@pytest.mark.full  # two more builds
def test_it_is_said_whether_masks_or_rules_make_other_questions(
    other_masks, options, note, medfaith, hub, phantom_heal_build, phantom_heal_roots, tmp_path
):
    name, source = "heal-medvqa-vindr_cxr", "vindr_cxr_anatomy"
    roots = {key: path for key, path in phantom_heal_roots.items() if key.startswith("vindr_cxr")}
    if other_masks:  # without hearts there are no questions about hearts
        anatomy = json.loads((roots[source] / "anatomy.json").read_text())
        heart = next(category["id"] for category in anatomy["categories"] if category["name"] == "heart")
        anatomy["annotations"] = [
            annotation for annotation in anatomy["annotations"] if annotation["category_id"] != heart
        ]
        roots[source] = tmp_path / "masks"
        roots[source].mkdir()
        (roots[source] / "anatomy.json").write_text(json.dumps(anatomy))
    publish(hub, phantom_heal_build / name)
    [folder] = heal_medvqa.build(roots, tmp_path / "build", options=options)
    status, out, _ = medfaith("verify", folder, "--against", f"clinic/{name}")
    assert status in (3, 4, 5)
    assert [
        note
        for note in (comparison.MASKS_ALONE, comparison.RULES_ALONE, comparison.BOTH.format("arguments"))
        if note in out
    ] == [note]


def lock_all(record):
    """Change a record as if its keys were locked with other rows."""
    other = {"fingerprint": "ab" * 32, "blocks": ["cd" * 32]}
    return record | {"key_locks": dict.fromkeys(record["key_locks"], other)}


def test_keys_that_stay_locked_are_said_to_be(verify, hub, built):
    publish(hub, built[CHEXPERT], record=lock_all)
    status, out, _ = verify(CHEXPERT)
    assert (status, "no block of studies has the same rows" in out) == (0, True)


def test_what_the_two_were_built_with_is_said_where_it_differs(verify, hub, built):
    publish(hub, built[OPENI], record=lambda record: {k: v for k, v in record.items() if k != "medfaith"})
    status, out, _ = verify(OPENI)
    assert (status, "None there" in out) == (0, True)


def test_a_recipe_of_an_earlier_release_is_refused(verify, hub, built):
    publish(hub, built[CHEXPERT], record=lambda record: {k: v for k, v in record.items() if k != "key_locks"})
    status, _, err = verify(CHEXPERT)
    assert (status, "ask its owner to publish it again" in err) == (2, True)


@pytest.mark.parametrize("name", keep_quick([OPENI, CHEXPERT], lambda name: name == OPENI))
def test_equal_rows_in_another_order_are_said_to_be(name, verify, hub, built, tmp_path):
    """The rows here have another order; a recipe itself has none."""
    folder = tmp_path / name
    shutil.copytree(built[name], folder)
    build = publication.read(folder)
    (config, split, rows), *_ = build.tables()
    [path] = build.list_parquet_files(config, split)
    rows = rows.take(pa.array(range(len(rows))[::-1]))
    pq.write_table(rows, path)
    record = json.loads((folder / "build.json").read_text())
    record["splits"][f"{config}/{split}"]["sha256"] = compute_rowset_sha256(rows)
    (folder / "build.json").write_text(json.dumps(record))
    publish(hub, built[name])
    built[name] = folder
    status, out, _ = verify(name)
    assert status == 7
    assert f"{config}/{split}: all rows are equal, in another order" in out
    assert all(counts[1:] == (0, 0, 0) for counts in parse_counts(out))


def test_a_changed_label_leaves_the_rows_of_other_studies_comparable(medfaith, hub, tmp_path, monkeypatch):
    """Of 300 studies one has another label. Its rows alone are not equal."""
    monkeypatch.setattr(chexpert_phantom, "_write_images", lambda *study: None)  # the build reads the labels alone
    root = chexpert_phantom.write(tmp_path / "chexpert", seed=0, n_train=300, n_valid=60)
    build = partial(cxr_contrabench.build, {"chexpert": root}, configs=["chexpert_absence"])
    publish(hub, build(out=tmp_path / "theirs")[0])
    table = next(root.rglob("train.csv"))
    header, *lines = list(csv.reader(table.open(newline="")))
    column = header.index("Edema")
    study = next(line[0] for line in lines if line[column] == "0.0").rsplit("/", 1)[0]
    for line in lines:
        if line[0].startswith(f"{study}/"):
            line[column] = "1.0"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([header, *lines])
    [ours] = build(out=tmp_path / "ours")
    status, out, _ = medfaith("verify", ours, "--against", f"clinic/{CHEXPERT}")
    [train, validation] = parse_counts(out)
    assert status in (3, 4, 5)
    assert 1 <= sum(train[1:]) <= 6, out  # one for each finding
    assert sum(validation[1:]) == 0
    assert study.split("/")[2] in out, out


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"sources": {"openi": {}}}, "sources/openi"),
        ({"sources": []}, "sources"),
        ({"splits": {"one": {}}}, "splits/one"),
        ({"arguments": None}, "arguments"),
        (None, "benchmark"),
        ({"source": "chexpert"}, "sources/chexpert"),
        ({"key_locks": {"x": {"fingerprint": "no digits", "blocks": []}}}, "key_locks/x"),
        ({"key_locks": []}, "key_locks"),
        ({"source": "chexpert", "sources": {"chexpert": {"version": "1", "files": {}}}}, "is cxr-contrabench-chexpert"),
    ],
)
def test_a_record_of_another_form_is_refused(more, complaint, verify, hub, built):
    publish(hub, built[OPENI], record=lambda record: [record] if more is None else record | more)
    status, _, err = verify(OPENI)
    assert status == 2
    assert complaint in err
    assert "what to do: " in err


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        (OPENI, lambda rows: rows.drop_columns("id"), "column 'id'"),
        (OPENI, lambda rows: rows.set_column(0, "id", pa.array(range(len(rows)))), "column 'id'"),
        (OPENI, lambda rows: rows.set_column(0, "id", pa.nulls(len(rows), pa.string())), "column 'id'"),
        (OPENI, lambda rows: rows.append_column("x", pa.array([b"x"] * len(rows))), "cannot be loaded"),
        (CHEXPERT, lambda rows: rows.drop_columns("sha256"), "column 'sha256'"),
    ],
)
def test_rows_of_another_form_are_refused(name, change, complaint, verify, hub, built):
    publish(hub, built[name], lambda tables: {key: change(rows) for key, rows in tables.items()})
    status, _, err = verify(name)
    assert status == 2
    assert complaint in err


@pytest.mark.parametrize(
    ("path", "status", "complaint"),
    [
        ("/api/datasets/.*openi$", 501, "the Hub answers 501"),
        ("/build.json", 501, "the Hub answers 501"),
        ("/build.json", 403, "log in with a token"),
        ("parquet", 501, "what to do: try again"),
        ("/tree/", 501, "what to do: try again"),
    ],
)
def test_a_hub_that_fails_is_not_taken_for_a_wrong_name(path, status, complaint, verify, hub, built):
    publish(hub, built[OPENI])
    for method in ("GET", "HEAD", "POST"):
        hub.fail(method, path, times=99, status=status)
    status, _, err = verify(OPENI)
    assert (status, complaint in err, "correct the name" in err) == (2, True, False)


@pytest.mark.parametrize("error", [HTTPError("cut off"), ConnectionError("cut off"), ValueError("no Parquet")])
def test_what_the_clients_raise_when_they_give_up_is_explained(error):
    explained = r"x/y, a/b: .*(cut off|no Parquet).*\n  what to do: try again"
    with pytest.raises(MedfaithError, match=explained), comparison._loading("x/y, a/b"):
        raise error


def test_rows_that_the_record_does_not_name_are_not_passed_over(verify, hub, built):
    repository = publish(hub, built[OPENI])
    files = dict(repository.files)
    (parquet_path,) = (path for path in files if path.startswith("fewshot_absence/"))
    more = b"- config_name: more\n  data_files:\n  - split: train\n    path: more/*.parquet\n"
    files["README.md"] = files["README.md"].replace(b"configs:\n", b"configs:\n" + more)
    files["more/train-00000-of-00001.parquet"] = files[parquet_path]
    hub.add("dataset", OPENI, {path: content for path, content in files.items() if path != ".gitattributes"})
    status, _, err = verify(OPENI)
    assert status == 2
    assert "has other splits than its build.json names: more/train (not named)" in err


@pytest.mark.parametrize("name", ["", "clinic", "https://hub.example/clinic/x", "clinic/a/b"])
def test_what_is_no_name_of_a_data_set_is_refused(name, medfaith, hub, built):
    status, out, err = medfaith("verify", built[OPENI], "--against", name)
    assert (status, out) == (2, "")
    assert "expected: ORG/NAME" in err
    assert not hub.requests


@pytest.mark.parametrize("name", ["clinic/a..b", "clinic/-a", f"clinic/{'a' * 97}"])
def test_a_name_that_the_hub_forbids_is_refused(name, medfaith, hub, built):
    status, out, err = medfaith("verify", built[OPENI], "--against", name)
    assert (status, out) == (2, "")
    assert re.search(rf"(?s){name}: is no name of a repository \(.*what to do: correct it", err)
    assert not hub.requests


def test_offline_mode_is_named(verify, hub, built, monkeypatch):
    publish(hub, built[OPENI])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    close_session()  # the client reads the mode once
    status, out, err = verify(OPENI)
    assert (status, out) == (2, "")
    assert f"clinic/{OPENI}: offline mode is on\n  what to do: unset HF_HUB_OFFLINE\n" in err


def test_an_error_of_ours_that_the_client_wraps_is_raised_itself():
    with pytest.raises(InputError, match=r"^a\.parquet: has changed$"), reachable("x/y"):
        raise RuntimeError("Error while uploading 'a.parquet' to the Hub.") from InputError("a.parquet", "has changed")


def test_a_gated_data_set_says_where_to_ask(verify, hub, built):
    publish(hub, built[OPENI]).gated = "manual"
    hub.tokens["hf_other"] = Account("bob")
    for token in ("hf_other", ""):
        status, _, err = verify(OPENI, token=token)
        assert status == 2
        assert "is gated" in err
        assert f"{hub.url}/datasets/clinic/{OPENI}, and log in" in err


def test_nothing_of_that_name_is_a_wrong_name(verify, hub):
    assert "is no data set on the Hub" in verify(OPENI)[2]
