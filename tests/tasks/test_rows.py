"""Rows for lm-eval: images opened on demand, and errors for missing or broken ones."""

from __future__ import annotations

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from medfaith.loaders.errors import ImageError, InputError, MedfaithError, MissingSourceError
from medfaith.tasks.contrabench.rows import facts
from medfaith.tasks.lazy_images import LazyImages, RecentImages
from medfaith.tasks.outcomes import is_cut
from medfaith.tasks.row_store import read, repository_path
from medfaith.tasks.rows import Adapter, load
from tests.support.builders.files import edited

REPOSITORY = "cxr-contrabench-chexpert"
WHICH = {"config": "chexpert_presence", "split": "validation"}


@pytest.fixture
def ask(phantom_build):
    """Load the rows of one split for lm-eval, with the options of `load`."""
    return lambda **options: load(REPOSITORY, Adapter(), **{"data": str(phantom_build)} | WHICH | options)["test"]


@pytest.fixture
def roots(phantom_roots, tmp_path) -> dict[str, str]:
    """The root of a copy of CheXpert that a test may damage."""
    return {"chexpert": str(shutil.copytree(phantom_roots["chexpert"], tmp_path / "chexpert"))}


def find_first_image(rows, roots: dict[str, str]) -> Path:
    source, key = str(rows[0]["images"]).split()[0].split(":")
    assert source == "chexpert"
    return next(Path(roots["chexpert"]).rglob(key))


def test_documents_of_a_row_know_that_its_answer_is_cut(ask, roots):
    """This includes a document read before the answer, which lm-eval passes to its filters."""
    rows = ask(roots=roots)
    before = rows[0]
    before["images"].tell_outcome("cut")
    docs = [before, rows[0], rows[1]]
    assert [doc["answer_outcome"] for doc in docs] == [None, "cut", None]
    assert [is_cut(doc) for doc in docs] == [True, True, False]


def test_images_are_opened_when_they_are_taken(ask, roots):
    rows = ask(roots=roots)
    lazy = rows[0]["images"]
    assert isinstance(lazy, LazyImages)
    assert [image.mode for image in lazy] == ["RGB"] * len(lazy)
    expected = Image.open(find_first_image(rows, roots)).convert("RGB").tobytes()
    assert lazy[:1][0].tobytes() == lazy[0].tobytes() == expected
    assert rows[0]["n_images_sent"] == len(lazy)
    assert roots["chexpert"] not in str(lazy)  # the sample log contains no local path


def test_an_image_is_read_once_for_all_models_and_none_can_change_it(ask, roots):
    rows = ask(roots=roots)
    image = rows[0]["images"][0]
    expected = image.tobytes()
    image.paste(0, (0, 0, *image.size))
    find_first_image(rows, roots).unlink()
    assert rows[0]["images"][0].tobytes() == expected


@pytest.mark.parametrize(
    ("asked", "n_bytes", "opened"),
    [
        ("aaa", 300, "a"),
        ("abab", 300, "ab"),
        ("abca", 300, "abca"),
        ("abacab", 300, "abcb"),  # b was asked for the longest time ago
        ("aa", 149, "aa"),  # too large to be held
    ],
)
def test_the_images_asked_for_last_are_held(asked, n_bytes, opened):
    names: list[str] = []
    recent = RecentImages(n_bytes)
    for name in asked:
        image = recent.get(name, 0, lambda name=name: names.append(name) or Image.new("RGB", (10, 5), ord(name)))
        assert image.getpixel((0, 0)) == (ord(name), 0, 0)
    assert "".join(names) == opened
    assert len(pickle.dumps(recent)) < 150


def test_threads_that_open_one_image_at_once_hold_it_once():
    names: list[str] = []

    def open_image(name):
        names.append(name)
        return Image.new("RGB", (10, 5))

    recent = RecentImages(300)
    recent.get("a", 0, lambda: recent.get("a", 0, lambda: open_image("a")))  # as a second thread, in the meantime
    for name in "bab":
        recent.get(name, 0, lambda name=name: open_image(name))
    assert names == ["a", "b"]
    with ThreadPoolExecutor(8) as pool:
        opened = pool.map(lambda n: recent.get(str(n % 7), 0, lambda: Image.new("L", (1 + n % 7, 9))), range(2000))
        assert [image.width for image in opened] == [1 + n % 7 for n in range(2000)]


@pytest.mark.parametrize(
    ("take", "options", "n_sent"),
    [
        (lambda images: None, {}, None),
        (lambda images: images[:0], {}, 0),
        (lambda images: images[:1], {}, 1),
        (lambda images: [images[-1], images[-1]], {}, 1),
        (list, {"max_images": 1}, 1),
        (list, {"max_images": 9}, 2),
        (lambda images: None, {"control": "none"}, 0),
    ],
)
def test_a_document_says_how_many_images_its_model_was_given(take, options, n_sent, ask, roots):
    """The model takes images from one document; lm-eval scores and logs another document of the same row."""
    rows, plain = ask(roots=roots, facts=facts, **options), ask()
    row = max(range(len(rows)), key=lambda number: len(plain[number]["images"]))
    take(rows[row]["images"])
    assert rows[row]["n_images_sent"] == n_sent
    assert row == 0 or rows[0]["n_images_sent"] == (0 if options.get("control") else None)


def test_a_document_names_the_views_of_the_images_that_are_shown(ask, roots):
    for selection in ("all", "first"):
        for doc in ask(roots=roots, images=selection):
            paths = str(doc["images"]).split()
            views = {"lateral" if "lateral" in path else doc["views"].split(" and ")[0] for path in paths}
            assert views < {"AP", "PA", "lateral"}
            assert doc["views"] == " and ".join(sorted(views))
    assert {doc["views"] for doc in ask(roots=roots, control="none")} == {""}


def test_data_may_be_the_build_or_one_repository_and_metadata_of_lm_eval_is_accepted(ask, phantom_build):
    rows = ask(version=1.0, config_source="x", pretrained="y")
    assert len(ask(data=str(phantom_build / REPOSITORY))) == len(rows) > 10


def test_rows_are_read_once_for_the_same_files_and_again_for_others(phantom_build, tmp_path):
    shutil.copytree(phantom_build / "cxr-contrabench-chexpert", tmp_path / "cxr-contrabench-chexpert")
    location = ("cxr-contrabench-chexpert", "chexpert_presence", "validation", str(tmp_path))
    before = read(*location)
    assert read(*location) is before
    (file,) = (tmp_path / location[0] / location[1]).glob("validation-*.parquet")
    pq.write_table(pq.read_table(file).slice(1), file)
    card = tmp_path / location[0] / "README.md"
    card.write_text(card.read_text().replace("description: rows ", "description: other rows "))
    assert read(*location)["id"] == before["id"][1:]


def test_the_first_image_alone_can_be_shown(ask, roots):
    all_images, first_only = ask(roots=roots), ask(roots=roots, images="first")
    assert max(len(row["images"]) for row in all_images) > 1
    assert [str(row["images"]) for row in first_only] == [str(row["images"]).split()[0] for row in all_images]
    assert (set(all_images["images_shown"]), set(first_only["images_shown"])) == ({"all"}, {"first"})


def test_a_folder_without_the_repository_is_not_taken_for_an_organisation(phantom_build, tmp_path):
    with pytest.raises(InputError, match="holds no heal-medvqa-vindr_cxr") as error:
        repository_path("heal-medvqa-vindr_cxr", str(phantom_build))
    assert "cxr-contrabench-chexpert, cxr-contrabench-openi" in str(error.value)
    with pytest.raises(InputError, match="no build"):
        repository_path("heal-medvqa-vindr_cxr", str(tmp_path))
    assert repository_path("x", "clinic") == "clinic/x"


def test_a_missing_image_stops_before_the_first_answer_and_names_the_row(ask, roots):
    rows = ask(roots=roots)
    find_first_image(rows, roots).unlink()
    with pytest.raises(ImageError, match=f"row {rows[0]['id']}(.|\n)*--skip-missing-images"):
        ask(roots=roots)


def test_a_truncated_image_stops_when_it_is_opened_and_names_the_row(ask, roots):
    path = find_first_image(ask(roots=roots), roots)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    rows = ask(roots=roots)
    with pytest.raises(ImageError, match=f"row {rows[0]['id']}"):
        list(rows[0]["images"])


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_rows_without_their_images_are_left_out_and_counted_on_request(ask, roots, damage):
    before = ask(roots=roots)
    path = find_first_image(before, roots)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:200])
    lost = [row["id"] for row in before if path.as_posix().endswith(str(row["images"]).split()[0].split(":")[1])]
    after = ask(roots=roots, skip_missing_images=True)
    assert len(after) == len(before) - len(lost)
    assert set(after["n_rows_skipped"]) == {len(lost)}
    assert not set(lost) & set(after["id"])


def test_no_row_left_is_an_error(ask, roots):
    shutil.rmtree(next(Path(roots["chexpert"]).rglob("valid")))
    with pytest.raises(ImageError, match="no row is left"):
        ask(roots=roots, skip_missing_images=True)


def test_without_a_root_rows_load_and_an_image_says_how_to_get_access(ask):
    with pytest.raises(MissingSourceError, match="how to get it"):
        ask()[0]["images"][0]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"data": None}, MedfaithError, "no data was named"),
        ({"split": "test"}, InputError, "cannot be loaded"),
        ({"images": "last"}, InputError, "option images: is 'last'"),
        ({"config": "nothing", "split": "train"}, InputError, "cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_explained(ask, options, error, message):
    with pytest.raises(error, match=message):
        ask(**options)


@pytest.mark.parametrize("n_groups", [0, 1])
def test_a_split_without_rows_is_refused(n_groups, phantom_build, tmp_path):
    """A build writes one row group without rows."""
    folder = edited(phantom_build / REPOSITORY, tmp_path, WHICH["config"], lambda table: table, WHICH["split"])
    (path,) = folder.glob("chexpert_presence/validation-*.parquet")
    with pq.ParquetWriter(path, schema := pq.read_schema(path)) as file:
        for _ in range(n_groups):
            file.write_table(schema.empty_table())
    message = "config 'chexpert_presence', split 'validation' has no row\n  what to do: choose another task"
    with pytest.raises(InputError, match=f"{folder}: {message}"):
        read(REPOSITORY, *WHICH.values(), str(tmp_path))
