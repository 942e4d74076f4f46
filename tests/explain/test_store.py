"""The heatmap store returns written maps, drops half-written rows, and never mixes models."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from medfaith.loaders.errors import InputError
from medfaith.tasks.explain import store as stores
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.store import HeatmapStore, digest_of, key_of, open_store

GEOMETRY = Geometry((480, 854), (10.25, 0.0, 480.5, 480.0))
SHOWN, OTHER = "0123456789abcdef", "fedcba9876543210"
MODEL = {"name": "clip", "weights": "abc", "prompts": ["a grasper", "a hook"]}


@given(
    arrays(np.float32, (2, 3, 4), elements=st.floats(0, 1, width=32)),
    st.sampled_from([1e-20, 1e-3, 1.0, 7e4, 1e20]),  # float16 ends at 65,504
)
def test_maps_come_back_to_half_precision_whatever_their_scale(tmp_path_factory, grids, scale):
    store = HeatmapStore(tmp_path_factory.mktemp("store"), MODEL)
    grids = grids.astype(np.float64) * scale
    store.write("r", SHOWN, {"hook": grids[0], "grasper": grids[1]}, GEOMETRY)
    maps = store.read("r", SHOWN).maps
    assert list(maps) == ["hook", "grasper"]
    for grid, stored in zip(grids, maps.values(), strict=True):
        assert stored.dtype == np.float32
        # Maps are read as float32: smaller numbers than its smallest one become 0.
        lost = float(np.finfo(np.float32).smallest_subnormal)
        np.testing.assert_allclose(stored, grid, rtol=2**-11, atol=4e-8 * grid.max() + lost)


def test_a_row_comes_back_with_geometry_scores_and_extras(tmp_path):
    store = HeatmapStore(tmp_path / "new" / "folder", MODEL)
    scores = np.array([0.1, 1 / 3, -2e-9])
    store.write("42/7: ünïcode\n", SHOWN, {"hook": np.eye(3)}, GEOMETRY, scores, {"text": "a hook, é"})
    entry = open_store(tmp_path / "new" / "folder").read(store.reference(SHOWN), "42/7: ünïcode\n")
    assert entry.geometry == GEOMETRY
    assert entry.extra == {"text": "a hook, é"}
    assert entry.scores is not None
    assert entry.scores.tolist() == scores.tolist()  # exact: float64
    np.testing.assert_array_equal(entry.maps["hook"], np.eye(3))
    assert store.read("42/7: ünïcode\n", SHOWN).scores is not None


def test_no_predicted_class_is_a_complete_row_and_zeros_stay(tmp_path):
    store = HeatmapStore(tmp_path, MODEL)
    assert not store.has("none", SHOWN)
    store.write("none", SHOWN, {}, GEOMETRY)
    store.write("dark", SHOWN, {"hook": np.zeros((2, 2))}, GEOMETRY)
    assert store.has("none", SHOWN)
    assert store.read("none", SHOWN).maps == {}
    assert store.read("none", SHOWN).scores is None
    assert not store.read("dark", SHOWN).maps["hook"].any()


@given(st.text(max_size=300))
def test_any_row_id_is_a_file_of_its_own_in_the_models_folder(row_id):
    name = stores._file_name(row_id, SHOWN)
    assert "/" not in name
    assert not name.startswith(".")
    assert name.isascii()
    assert len(name) < 120
    assert name != stores._file_name(row_id + "_", SHOWN)


@pytest.mark.parametrize(("row_id", "other_id"), [("a/b", "a_b"), ("a b", "a:b"), ("x" * 200, "x" * 201), ("", "_")])
def test_ids_that_look_alike_do_not_collide(row_id, other_id):
    assert stores._file_name(row_id, SHOWN) != stores._file_name(other_id, SHOWN)


def test_two_models_never_mix(tmp_path):
    clip, blip = HeatmapStore(tmp_path, MODEL), HeatmapStore(tmp_path, MODEL | {"weights": "abd"})
    clip.write("r", SHOWN, {"hook": np.ones((2, 2))}, GEOMETRY)
    assert clip.key != blip.key
    assert not blip.has("r", SHOWN)
    assert open_store(tmp_path).keys() == sorted([clip.key, blip.key])
    assert open_store(tmp_path).model(clip.key) == MODEL
    with pytest.raises(InputError, match="no heatmaps of row 'r'"):
        blip.read("r", SHOWN)
    assert key_of(MODEL) == key_of(dict(reversed(MODEL.items())))


def test_a_row_that_was_shown_otherwise_is_another_file(tmp_path):
    store = HeatmapStore(tmp_path, MODEL)
    store.write("r", SHOWN, {"hook": np.eye(3)}, GEOMETRY, extra={"text": "one"})
    assert not store.has("r", OTHER)
    with pytest.raises(InputError, match=r"no heatmaps of row 'r' as it was shown(.|\n)*run the model on this row"):
        store.read("r", OTHER)
    store.write("r", OTHER, {"bag": np.ones((2, 2))}, GEOMETRY, extra={"text": "two"})
    reader = open_store(tmp_path)
    for fingerprint, name, text in ((SHOWN, "hook", "one"), (OTHER, "bag", "two")):
        assert reader.has(store.reference(fingerprint), "r")
        entry = reader.read(store.reference(fingerprint), "r")
        assert (list(entry.maps), entry.extra) == ([name], {"text": text})
    store.path("r", SHOWN).rename(store.path("r", OTHER))
    with pytest.raises(InputError, match="it holds row 'r' as '0123456789abcdef', not 'r' as 'fedcba9876543210'"):
        store.read("r", OTHER)


@pytest.mark.parametrize(
    "reference", ["", SHOWN, f"{SHOWN}/", f"../{SHOWN}", f"{SHOWN}/{SHOWN}/x", f"{SHOWN}/{SHOWN}\n", "A" * 33]
)
def test_a_reference_that_is_none_is_named(tmp_path, reference):
    for attempt in (open_store(tmp_path).read, open_store(tmp_path).has):
        with pytest.raises(InputError) as caught:
            attempt(reference, "frame 7")
        assert f"row frame 7: {reference!r} refers to no heatmaps" in str(caught.value)
        assert "run the model again" in str(caught.value)


def test_a_digest_that_is_none_is_not_written(tmp_path):
    store = HeatmapStore(tmp_path, MODEL)
    with pytest.raises(InputError, match="refers to no heatmaps"):
        store.write("r", "../elsewhere", {}, GEOMETRY)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["model.json"]


def test_digests_are_of_the_parts_put_together():
    assert digest_of(b"ab", b"c") == digest_of(b"abc") != digest_of(b"abd")
    assert len(digest_of()) == 16


def test_a_folder_that_describes_another_model(tmp_path):
    store = HeatmapStore(tmp_path, MODEL)
    (tmp_path / store.key / "model.json").write_text(json.dumps(MODEL | {"weights": "other"}))
    for attempt in (
        lambda: HeatmapStore(tmp_path, MODEL),
        lambda: open_store(tmp_path).read(store.reference(SHOWN), "r"),
    ):
        with pytest.raises(InputError, match=r"model\.json: describes another model") as caught:
            attempt()
        assert "delete the folder" in str(caught.value)
    (tmp_path / store.key / "model.json").write_text("{")
    with pytest.raises(InputError, match=r"model\.json: cannot be read"):
        HeatmapStore(tmp_path, MODEL)


def test_a_reader_of_what_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        open_store(tmp_path / "absent")
    with pytest.raises(InputError, match=f"no heatmaps of the model '{OTHER}'") as caught:
        open_store(tmp_path).read(f"{OTHER}/{SHOWN}", "r")
    assert "the folder has no heatmaps" in str(caught.value)


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        ({"hook": np.ones((2, 2, 2))}, r"'hook' has shape \(2, 2, 2\)"),
        ({"hook": np.ones((0, 2))}, r"'hook' has shape \(0, 2\)"),
        ({"hook": np.ones((2, 2)), "bag": np.ones((2, 3))}, r"'bag' has shape \(2, 3\)"),
        ({"hook": np.array([[1, np.nan]])}, "'hook' has NaN or infinity"),
        ({"hook": np.array([[1, np.inf]])}, "'hook' has NaN or infinity"),
        ({"hook": np.array([[1, -1e-9]])}, "'hook' has a negative value"),
    ],
)
def test_maps_that_are_none(tmp_path, maps, message):
    store = HeatmapStore(tmp_path, MODEL)
    with pytest.raises(InputError, match=message) as caught:
        store.write("frame 7", SHOWN, maps, GEOMETRY)
    assert "row frame 7" in str(caught.value)
    assert not store.has("frame 7", SHOWN)


def test_a_file_that_is_cut_short_anywhere_is_named(tmp_path):
    store = HeatmapStore(tmp_path, MODEL)
    store.write("r", SHOWN, {"hook": np.random.default_rng(0).random((7, 7))}, GEOMETRY, np.zeros(7))
    content = store.path("r", SHOWN).read_bytes()
    for length in range(0, len(content) - 1, 37):
        store.path("r", SHOWN).write_bytes(content[:length])
        with pytest.raises(InputError, match=r"r-\w+-\w+\.npz: is cut short or damaged"):
            store.read("r", SHOWN)
    maps = content.index(b"maps.npy") + len(b"maps.npy")
    for place in range(maps + 30, maps + 150, 7):  # a bit of the packed maps themselves
        flipped = bytearray(content)
        flipped[place] ^= 1
        store.path("r", SHOWN).write_bytes(flipped)
        with pytest.raises(InputError, match="cut short or damaged"):
            store.read("r", SHOWN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"maps": np.ones((2, 3, 3), np.float16)}, r"maps of shape \(2, 3, 3\) for 1 classes"),
        ({"maps": np.full((1, 3, 3), np.nan, np.float16)}, "NaN or infinity"),
        ({"peaks": np.ones(2)}, "for 1 classes"),
        (
            {"about": np.array('{"row": "other", "shown": "x"}')},
            "it holds row 'other' as 'x', not 'r' as '0123456789abcdef'",
        ),
        ({"about": np.array('{"row": "r", "shown": "x"}')}, "it holds row 'r' as 'x', not 'r' as '0123456789abcdef'"),
        ({"about": np.array('{"row": "r"}')}, "damaged"),
        ({"about": np.array("[]")}, "damaged"),
    ],
)
def test_a_file_whose_arrays_do_not_fit(tmp_path, change, message):
    store = HeatmapStore(tmp_path, MODEL)
    store.write("r", SHOWN, {"hook": np.ones((3, 3))}, GEOMETRY)
    with np.load(store.path("r", SHOWN)) as file:
        contents = {name: file[name] for name in file.files}
    np.savez(store.path("r", SHOWN), **(contents | change))
    with pytest.raises(InputError, match=message):
        store.read("r", SHOWN)


def test_a_write_that_fails_midway_leaves_what_was_there(tmp_path, monkeypatch):
    store = HeatmapStore(tmp_path, MODEL)
    store.write("r", SHOWN, {"hook": np.zeros((2, 2))}, GEOMETRY)
    path = store.path("r", SHOWN)
    path.with_name(f".{path.name}.1.partial").write_bytes(b"PK half a row")  # left by a killed writer
    assert not store.read("r", SHOWN).maps["hook"].any()
    store.write("r", SHOWN, {"hook": np.ones((2, 2))}, GEOMETRY)

    def full_disk(file, **arrays):
        file.write(b"PK half a row")
        raise OSError("no space left on device")

    monkeypatch.setattr(stores.np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="no space"):
        store.write("r", SHOWN, {"hook": np.zeros((2, 2))}, GEOMETRY)
    with pytest.raises(OSError, match="no space"):
        store.write("new", SHOWN, {"hook": np.zeros((2, 2))}, GEOMETRY)
    assert store.read("r", SHOWN).maps["hook"].all()
    assert not store.has("new", SHOWN)
