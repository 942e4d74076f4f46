"""Planted leaks in every published part are refused; unchanged builds pass."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from medfaith.builders import cxr_contrabench
from medfaith.builders.surgxbench.motion_rows import MotionOptions
from medfaith.cards import row_keys
from medfaith.cards.publication import Publication, read
from medfaith.cards.publish import guard, reports, staging
from medfaith.loaders import sources
from medfaith.loaders.errors import InputError
from tests.support.cards.guard_scenes import (
    CHEXPERT,
    HEAL,
    OPENI,
    QUOTE,
    REPORT,
    REXVQA,
    SURGX,
    WRONG_LUNG,
    encode_image,
    find_first_parquet,
    open_licences,
    put_before_footer,
    put_value,
    read_rows,
    update_record,
    update_rows,
    write_changed,
)  # fmt: skip
from tests.support.tiers import choose_size, keep_quick

PNG, TOKEN = encode_image("PNG"), "hf_" + "aB3" * 12


def get_identifier(publication: Publication) -> str:
    return read_rows(publication)[0]["id"]


def get_row(publication: Publication) -> str:
    return json.dumps({name: value for name, value in read_rows(publication)[0].items() if name != "region"})


# Kind of leak -> text, or a function that makes the text from a build.
KINDS: dict[str, str | Callable[[Publication], str]] = {
    "an image in base64": base64.b64encode(PNG).decode(),
    "an image in a data URI": f"data:image/png;base64,{base64.b64encode(PNG).decode()[:40]}",
    "an image in hexadecimal": PNG.hex()[:90],
    "an image with escapes": repr(PNG)[:90],
    "a list of pixels": ", ".join(map(str, range(100, 180))),
    "a report": REPORT.text,
    "eight words of a report": QUOTE,
    "an absolute path": "/data/licensed/openi",
    "a Windows path": r"D:\CheXpert-v1.0\train.csv",
    "a path on a server": r"\\server\share\openi",
    "a home folder": "~/openi",
    "the address of a file": "file:///openi/CXR1.png",
    "a token of the Hub": TOKEN,
    "a key of a cloud": "AKIA" + "ABCD1234" * 2,
    "a private key": "-----BEGIN RSA PRIVATE KEY-----",
    "a password": "password: open-sesame",
    "a secret of the environment": "correct horse battery",
    "an e-mail address": "jane.doe@hospital.org",
    "a name of the user": "CXAS of jdoe",
    "a name of the machine": "CXAS on Ward7",
    "the key of the hashes": lambda publication: next(
        (key.secret.hex() for key in publication.split_keys.values()), "0" * 65
    ),
    "an identifier": get_identifier,
    "a row": get_row,
}


def stage_build(name: str, publication: Publication, folder: Path) -> Path:
    """Stage a build in a subfolder of `folder`."""
    (staged := folder / name).mkdir()
    staging.generate(publication, f"phantom-org/{name}", False, staged)
    return staged


def put_segmenter(record: dict[str, Any], text: str) -> None:
    record["arguments"]["segmenter"] = text


def put_reason(record: dict[str, Any], text: str) -> None:
    record.setdefault("skipped", {})[text] = 9


def put_term(record: dict[str, Any], text: str) -> None:
    next(iter(next(iter(record["splits"].values()))["counts"].values()))[text] = 9


# Places in a build's record that medfaith itself would publish.
PLACES = [(put_segmenter, kind) for kind in KINDS]
PLACES += [
    (place, kind) for place in (put_reason, put_term) for kind in ("a report", "an e-mail address", "an identifier")
]


# test_texts.py has each kind of leak in a text.
QUICK = ("a report", "an identifier")


@pytest.mark.parametrize(("place", "kind"), keep_quick(PLACES, lambda case: case[1] in QUICK))
def test_a_text_that_a_build_brings_along_is_refused(place, kind, publications, refused, tmp_path):
    text = KINDS[kind]
    text = text if isinstance(text, str) else text(publications[HEAL])
    publication = update_record(publications[HEAL], lambda record: place(record, text))
    assert TOKEN not in str(refused(stage_build(HEAL, publication, tmp_path), REPORT, publication=publication))


# Kind -> column of openi_report_absence, and a value that no template produces.
VALUES = {
    "a sentence of the report": ("cue", "There is a small left pleural effusion with adjacent atelectasis."),
    "a cue with a word more": ("cue", "no evidence of cancer"),
    "eight words of the report": ("question", QUOTE),
    "a question with a word more": (
        "question",
        "Which of the following findings is present on this old chest X-ray study?",
    ),
    "an option of its own": ("options", "Small left effusion"),
    "a finding of its own": ("finding", "lung cancer of Jane Doe"),
    "an absolute key": ("images.key", "/data/openi/CXR1.png"),
    "a key that leads out": ("images.key", "NLMCXR_png/../CXR1.png"),
    "a key with a name": ("images.key", "Jane Doe.png"),
    "a view of its own": ("images.view", "as Dr. Who sees it"),
    "a study with a name": ("study_id", "Jane Doe"),
    "an id with a name": ("id", "openi/Jane Doe/report_absence/edema"),
    "an image in the finding": ("finding", base64.b64encode(PNG).decode()),
    "a layout of its own": ("layout", "hf_layout"),
    "a token as a protocol": ("protocol", TOKEN),
    "a polarity of its own": ("polarity", "patient 12"),
    "a form of its own": ("negation_form", "No, says Jane"),
    "a question form of its own": ("question_form", "p9"),
    "a source of its own": ("images.source", "my disk"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_that_no_template_makes_is_refused(kind, publications):
    column, value = VALUES[kind]
    publication = update_rows(publications[OPENI], lambda table: put_value(table, 7, column, value))
    (leak,) = guard.words.find_leaks(publication)
    assert (leak.row, leak.column, "no template makes" in leak.found) == (7, column, True)


def add(name: str, text: str) -> Callable[[Path], Any]:
    """Return an edit that appends text to a file, or creates the file."""
    return lambda folder: (folder / name).open("a", encoding="utf-8").write(text)


def update_parquet(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], Any]:
    return lambda folder: write_changed(find_first_parquet(folder), change)


def put_link(folder: Path) -> None:
    card, elsewhere = folder / "README.md", folder.parent / "card"
    card.rename(elsewhere)
    card.symlink_to(elsewhere)


# Edits of a staged folder that add or change a file.
FILES: dict[str, Callable[[Path], Any]] = {
    "a word on the card": add("README.md", f"\nFor example {TOKEN}\n"),
    "a space in build.json": add("build.json", " "),
    "JSON that cannot be read": add("croissant.json", "{"),
    "an image": lambda folder: (folder / "CXR1.png").write_bytes(PNG),
    "a hidden file": add(".cache", "x"),
    "a folder": lambda folder: (folder / "images").mkdir(),
    "a folder in place of a file": lambda f: (f / "build.json").unlink() or (f / "build.json").mkdir(),
    "a link in place of a file": put_link,
    "a link to a folder": lambda folder: (folder / "more").symlink_to(folder.parent),
    "a pipe": lambda folder: os.mkfifo(folder / "pipe"),
    "a missing split": lambda folder: find_first_parquet(folder).unlink(),
    "an image inside Parquet": lambda folder: put_before_footer(find_first_parquet(folder), PNG),
    "Parquet that another program wrote": update_parquet(lambda table: table),
    "rows in another order": update_parquet(lambda table: table.take(pa.array(range(len(table))[::-1]))),
    "metadata of Parquet": update_parquet(lambda table: table.replace_schema_metadata({b"note": b"x"})),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_medfaith_did_not_write_is_refused(kind, staged, refused, tmp_path):
    folder = shutil.copytree(staged[SURGX], tmp_path / SURGX)
    FILES[kind](folder)
    error = refused(folder)
    assert error.expected == "what medfaith makes of the build, byte for byte, and nothing else"
    assert TOKEN not in str(error)


# Edits of build.json that make it invalid: repository, edit, expected column.
RECORDS: dict[str, tuple[str, Callable[[dict[str, Any]], Any], str]] = {
    "an entry of its own": (CHEXPERT, lambda r: r.update(note="x"), "note"),
    "an option of its own": (CHEXPERT, lambda r: r["arguments"].update(note="x"), "arguments.note"),
    "a value of its own": (CHEXPERT, lambda r: r["arguments"].update(layout="x"), "arguments.layout"),
    "a row as an option": (CHEXPERT, lambda r: r["arguments"].update(layout={"id": 1}), "arguments.layout"),
    "a long value": (HEAL, lambda r: r["arguments"].update(segmenter="word " * 30), "arguments.segmenter"),
    "a value of two lines": (HEAL, lambda r: r["arguments"].update(segmenter="a\nb"), "arguments.segmenter"),
    "another version": (CHEXPERT, lambda r: r["sources"]["chexpert"].update(version="Jane"), "chexpert'.version"),
    "more of a source": (CHEXPERT, lambda r: r["sources"]["chexpert"].update(owner="Jane"), "sources.'chexpert'"),
    "no digest": (CHEXPERT, lambda r: r["sources"]["chexpert"]["files"].update({"train.csv": "x"}), "'train.csv'"),
    "more of a split": (CHEXPERT, lambda r: next(iter(r["splits"].values())).update(ids=["x"]), "splits."),
    "a count of another column": (
        REXVQA, lambda r: next(iter(r["splits"].values()))["counts"].update(finding={"edema": 7, "mass": 7}), "finding"
    ),
    "a long term": (CHEXPERT, lambda r: put_term(r, "word " * 9), ".counts."),
    "a long reason": (CHEXPERT, lambda r: put_reason(r, "word " * 30), "skipped."),
    "another source": (CHEXPERT, lambda r: r.update(source="Jane"), "source"),
    "a reason of another benchmark": (HEAL, lambda r: put_reason(r, "sentences without a text"), "skipped."),
    "a number as a text": (HEAL, lambda r: r["arguments"].update(threshold="0.5"), "arguments.threshold"),
    "a number out of range": (HEAL, lambda r: r["arguments"].update(threshold=10000032), "arguments.threshold"),
    "a frame number of a patient": (SURGX, lambda r: r["arguments"].update(boxes_first=10000032), "boxes_first"),
    "a seed as a text": (CHEXPERT, lambda r: r.update(seed="1"), "seed"),
    "a seed of eleven digits": (CHEXPERT, lambda r: r.update(seed=10**10), "seed"),
    "a digest of zeros": (
        CHEXPERT, lambda r: r["sources"]["chexpert"]["files"].update({"train.csv": "0" * 64}), "'train.csv'"
    ),
    "a split's digest of zeros": (OPENI, lambda r: next(iter(r["splits"].values())).update(sha256="0" * 64), "splits."),
    "an option of motion": (SURGX, lambda r: r["arguments"].update(motion={"note": "x"}), "arguments.motion.note"),
    "motion in words": (SURGX, lambda r: r["arguments"].update(motion="seen by Jane"), "arguments.motion"),
    "a flow of its own": (SURGX, lambda r: r["arguments"].update(motion={"flow": "of Jane"}), "arguments.motion.flow"),
    "a reason of its own": (CHEXPERT, lambda r: r.update(absent={"train": "lost by Jane"}), "absent.'train'"),
    "a split of its own": (CHEXPERT, lambda r: r.update(absent={"Jane": "no row could be made"}), "absent.'Jane'"),
    "no count": (CHEXPERT, lambda r: next(iter(r["splits"].values())).update(studies="Jane"), "studies"),
    "no medfaith": (CHEXPERT, lambda r: r.pop("medfaith"), "medfaith"),
    "another medfaith": (CHEXPERT, lambda r: r.update(medfaith="of Jane Doe"), "medfaith"),
}  # fmt: skip


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_that_says_more_than_it_may_is_refused(kind, publications):
    name, change, column = RECORDS[kind]
    leak, *_ = guard.record.find_leaks(update_record(publications[name], change))
    assert column in str(leak.column)


# Free text that no entry of a record may have.
FREE_TEXTS = [
    "No pneumothorax.", "Stable cardiomegaly", "There is a small left pleural effusion.", "small right effusion 1.0",
    "Jane", "Jane 1.0", "Jane Doe 1.0", "Jane Doe", "Doe, Jane", "Dr. Who", "Jane Doe 12.11.1970", "J. D. of ward 7",
    "10000032", "p10000032", "s50414267", "MRN 123456", "patient=10000032", "02aa804e-bde0afdd",
    "<b>x</b>", "<script>alert(1)</script>", "&lt;img&gt;", "[a](https://example.org)", "a\nb",
    "correct horse battery", TOKEN, "CXAS, patient=jane", "CXAS 1.0, device=jane", "github.com/Jane", "Jane/Doe 1.0",
]  # fmt: skip


def put_argument(name: str, in_list: bool = False) -> Callable[[dict[str, Any], str], None]:
    def put(record: dict[str, Any], text: str) -> None:
        record["arguments"][name] = [text] if in_list else text

    return put


def put_version(record: dict[str, Any], text: str) -> None:
    record["medfaith"] = text


def put_seed(record: dict[str, Any], text: str) -> None:
    record["seed"] = text


def put_digest(record: dict[str, Any], text: str) -> None:
    files = record["sources"]["vindr_cxr"]["files"]
    files[next(iter(files))] = text


def put_source_version(record: dict[str, Any], text: str) -> None:
    record["sources"]["vindr_cxr"]["version"] = text


def put_absent(record: dict[str, Any], text: str) -> None:
    record["absent"] = {"train": text}


FIELDS = {
    "the segmenter": put_segmenter, "a reason": put_reason, "a view": put_argument("views", in_list=True),
    "an anatomy": put_argument("anatomies", in_list=True), "a choice": put_argument("measure"),
    "a number": put_argument("threshold"), "the version": put_version, "the seed": put_seed, "a digest": put_digest,
    "a counted term": put_term, "the version of a source": put_source_version,
    "the reason of an absent split": put_absent,
}  # fmt: skip


@pytest.mark.parametrize("text", FREE_TEXTS)
@pytest.mark.parametrize("field", FIELDS)
def test_free_text_is_refused_in_every_entry(field, text, publications):
    publication = update_record(publications[HEAL], lambda record: FIELDS[field](record, text))
    assert list(guard.record.find_leaks(publication))


@pytest.mark.parametrize("digest", ["0" * 64, "f" * 64, "A" * 64, "0f" * 31, "Jane Doe"])
def test_a_lock_is_made_of_digests(digest, publications):
    (lock, *_) = [key.lock for key in publications[HEAL].split_keys.values()]
    assert row_keys.is_lock(lock)
    assert not row_keys.is_lock(lock | {"fingerprint": digest})
    assert not row_keys.is_lock(lock | {"blocks": [*lock["blocks"], digest]})


OPTIONS = [
    (HEAL, {"segmenter": "TotalSegmentator 2.4.0, threshold=0.5", "views": ["AP AXIAL"], "anatomies": ["heart"]}),
    (HEAL, {"threshold": 0.3, "detection_threshold": 1, "places": "anatomical", "donor_diagnosis": "region"}),
    (SURGX, {"boxes_step": 25, "boxes_first": 0}),
    (SURGX, {"motion": MotionOptions("raft").describe()}),
    (SURGX, {"motion": MotionOptions("a folder", trim=0.25).describe()}),
    ("own-table", {"mapping": "slake.toml"}),
]


@pytest.mark.parametrize(("name", "arguments"), OPTIONS)
def test_options_of_a_build_pass(name, arguments, publications):
    publication = update_record(publications[name], lambda record: record["arguments"].update(arguments))
    assert list(guard.record.find_leaks(publication)) == []
    assert publication.published_record["arguments"] == publications[name].record["arguments"] | arguments


def test_the_name_of_a_mapping_stays_with_its_user(publications, tmp_path):
    name = "own-table"
    publication = update_record(
        publications[name], lambda record: record["arguments"].update(mapping="Jane Doe 1970.toml")
    )
    assert list(guard.record.find_leaks(publication)) == []
    folder = stage_build(name, publication, tmp_path)
    texts = [(folder / file).read_text(encoding="utf-8") for file in ("README.md", "build.json", "croissant.json")]
    assert not any("Jane" in text for text in texts)
    assert "--mapping FILE" in texts[0]


@pytest.mark.parametrize(
    ("name", "change", "column"),
    [
        (OPENI, lambda built: update_rows(built, lambda table: put_value(table, 7, "question", QUOTE)), "question"),
        (CHEXPERT, lambda built: update_record(built, lambda record: record.update(note="x")), "note"),
    ],
    ids=["rows", "record"],
)
def test_the_guard_looks_at_rows_and_at_the_record(name, change, column, publications, refused, tmp_path):
    changed = change(publications[name])
    assert refused(stage_build(name, changed, tmp_path), publication=changed).column == column


@pytest.mark.parametrize("source", ["chexpert", "vindr_cxr_anatomy"])
def test_a_file_of_the_users_is_named_nowhere(source, publications, tmp_path):
    """A mask file named after a person and a record number once got into all three files."""
    name = CHEXPERT if source == "chexpert" else HEAL
    file_hashes = {"Jane Doe 12345.json": "ab" * 32, "12345.json": "cd" * 32}
    publication = update_record(
        publications[name], lambda record: record["sources"][source]["files"].update(file_hashes)
    )
    folder = stage_build(name, publication, tmp_path)
    for file in ("README.md", "build.json", "croissant.json"):
        text = (folder / file).read_text(encoding="utf-8")
        assert not any(word in text for word in ("Jane", "12345", "abab"))
    assert " other files" in (folder / "build.json").read_text(encoding="utf-8")


def test_what_is_built_passes(staged, publications):
    quick = {HEAL, OPENI, CHEXPERT}  # rows, a recipe, and a recipe that needs the user's reports
    for name in choose_size(sorted(quick), [*publications]):
        publication = publications[name]
        restage = partial(staging.generate, publication, f"phantom-org/{name}", False)
        guard.check(staged[name], publication, [REPORT], restage)


def test_rows_of_a_benchmark_without_a_vocabulary_are_refused(publications):
    with pytest.raises(InputError, match="have no vocabulary"):
        list(guard.words.find_leaks(open_licences(publications["own-table"])))


@pytest.mark.full
@pytest.mark.parametrize(("source_id", "n_texts"), [("openi", 3_955), ("chexpert", 0)])
def test_a_build_of_the_real_labels_passes(source_id, n_texts, tmp_path):
    """The label files inside torchxrayvision are the sources' own. Only OpenI has reports."""
    roots = sources.resolve_roots({source_id: "torchxrayvision"}, environ={})
    (folder,) = cxr_contrabench.build(roots, tmp_path / "data")
    publication = read(folder)
    texts = list(reports.texts(publication, roots))
    assert len(texts) == n_texts
    (tmp_path / "staged").mkdir()
    staging.stage(publication, tmp_path / "staged", repo_id="phantom-org/x", texts=texts)


def test_a_recipe_is_held_against_the_reports_that_are_at_hand(
    publications, phantom_wrong_lung_roots, phantom_heal_roots
):
    texts = list(reports.texts(publications[WRONG_LUNG], phantom_wrong_lung_roots))
    assert any(text.where.startswith("sentence ") for text in texts)
    publication = publications["heal-medvqa-mimic_cxr"]
    mimic_texts = list(
        reports.texts(publication, {**phantom_heal_roots, "mimic_cxr_reports": phantom_heal_roots["mimic_cxr"]})
    )
    assert mimic_texts
    assert list(reports.texts(publication, {})) == []
    with pytest.raises(InputError, match="are needed to check"):
        list(reports.texts(publications[OPENI], {}))


def test_the_message_counts_the_other_leaks(staged, refused, tmp_path):
    folder = shutil.copytree(staged[OPENI], tmp_path / OPENI)
    for name in "ab":
        (folder / f"{name}.txt").write_text("x")
    add("README.md", "\n/home/user/openi\n")(folder)
    error = refused(folder)
    assert error.where.endswith("README.md")
    assert error.found.endswith("(and 2 more)")
