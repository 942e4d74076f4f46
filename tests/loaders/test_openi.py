"""OpenI: every accepted layout gives the same reports, and files that differ from the release are refused."""

from __future__ import annotations

import csv
import io
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path, PurePosixPath
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.loaders import limits, openi, sources
from medfaith.loaders.errors import ImageError, InputError
from medfaith.loaders.openi import Image, Report, find_label_files, list_image_paths, read_reports


def make_report(number: int, findings="", impression="", major=(), images=(), automatic=()) -> Report:
    sections = {"findings": findings, "impression": impression, "indication": "Cough & fever", "comparison": "None."}
    terms = {"mesh_major": tuple(major), "mesh_automatic": tuple(automatic)}
    return Report(uid=f"CXR{number}", images=tuple(Image(f"{name}.png") for name in images), **sections, **terms)


FIRST = ["CXR1_1_IM-0001-3001", "CXR1_1_IM-0001-4001"]
NODULE = ["Nodule/lung/left", "Pulmonary Disease, Chronic Obstructive"]
REPORTS = [
    make_report(1, "Heart size < upper limit. No effusion.", "Clear.", ["normal"], FIRST),
    make_report(2, "", "Small nodule, left.", NODULE, ["CXR2_IM-0652-1001"]),
    make_report(10, "Granuloma.", "", ["Granuloma"], ["CXR10_IM-0002-1001-0001"]),
    make_report(33, "No image here."),
]


def format_xml(item: Report) -> str:
    texts = zip(openi.SECTIONS, (item.comparison, item.indication, item.findings, item.impression), strict=True)
    elements = [f"<AbstractText Label={quoteattr(label)}>{escape(text)}</AbstractText>" for label, text in texts]
    elements += ["</Abstract></Article></MedlineCitation><MeSH>"]
    elements += [f"<major>{escape(term)} </major>" for term in item.mesh_major]
    elements += [f"<automatic>{escape(term)}</automatic>" for term in item.mesh_automatic]
    ids = [quoteattr(image.key.removesuffix(".png")) for image in item.images]
    elements += ["</MeSH>", *(f"<parentImage id={name}><caption>PA</caption></parentImage>" for name in ids)]
    head = f'<?xml version="1.0" encoding="utf-8"?>\n<eCitation><uId id="{item.uid}"/>'
    return head + "<MedlineCitation><Article><Abstract>" + "\n".join(elements) + "</eCitation>"


def write_xml(folder: Path, items=REPORTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for item in items:
        (folder / f"{item.uid[3:]}.xml").write_text(format_xml(item), encoding="utf-8")
    return folder


def write_tgz(file: Path, documents: dict[str, str]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:gz") as tar:
        for name, text in documents.items():
            data = text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file


def make_release(items=REPORTS) -> dict[str, str]:
    # The order is not numeric, like that of the official archive.
    return {
        f"ecgen-radiology/{item.uid[3:]}.xml": format_xml(item) for item in sorted(items, key=lambda item: item.uid)
    }


def write_kaggle(folder: Path, items=REPORTS, *, drop: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    reports, projections = [], []
    for item in items:
        number = item.uid[3:]
        texts = {name: getattr(item, name) for name in ("indication", "comparison", "findings", "impression")}
        reports.append({"uid": number, "MeSH": ";".join(item.mesh_major), "Problems": "", "image": "PA"} | texts)
        for i, image in enumerate(item.images):
            name = image.key.removeprefix("CXR1_").removeprefix("CXR").removesuffix(".png") + ".dcm.png"
            projections.append({"uid": number, "filename": name, "projection": ("Frontal", "Lateral")[i % 2]})
    for name, table in ((openi.REPORTS_CSV, reports), (openi.PROJECTIONS_CSV, reversed(projections))):
        rows = [{column: value for column, value in row.items() if column != drop} for row in table]
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return folder


LAYOUTS = {
    "xml at the top": write_xml,
    "ecgen-radiology": lambda root: write_xml(root / "ecgen-radiology").parent,
    "one level down": lambda root: write_xml(root / "NLMCXR_reports" / "ecgen-radiology").parent.parent,
    "archive in a folder": lambda root: write_tgz(root / "NLMCXR_reports.tgz", make_release()).parent,
    "archive itself": lambda root: write_tgz(root / "NLMCXR_reports.tgz", make_release()),
    "renamed archive itself": lambda root: write_tgz(root / "reports.tar.gz", make_release()),
    "kaggle": write_kaggle,
}


LABEL_FILES = {
    "ecgen-radiology": [f"ecgen-radiology/{number}.xml" for number in (1, 2, 10, 33)],
    "archive in a folder": ["NLMCXR_reports.tgz"],
    "kaggle": [openi.REPORTS_CSV, openi.PROJECTIONS_CSV],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_reads_the_same(layout, tmp_path):
    root = LAYOUTS[layout](tmp_path / "root")
    assert read_reports(root) == REPORTS
    if layout in LABEL_FILES:
        assert [file.relative_to(root).as_posix() for file in find_label_files(root)] == LABEL_FILES[layout]


def test_xml_wins_over_the_archive_beside_it_and_hidden_files_of_a_copy_are_not_reports(tmp_path):
    write_tgz(tmp_path / openi.ARCHIVE, make_release(REPORTS[:1]))
    write_xml(tmp_path / "ecgen-radiology")
    (tmp_path / "ecgen-radiology" / "._1.xml").write_bytes(b"\x00\x05\x16\x07")
    assert read_reports(tmp_path) == REPORTS
    documents = {**make_release(), "ecgen-radiology/._1.xml": "\x00"}
    assert read_reports(write_tgz(tmp_path / "a" / openi.ARCHIVE, documents)) == REPORTS


def test_white_space_is_collapsed_and_automatic_terms_are_read(tmp_path):
    item = make_report(7, "No  effusion.\n  Clear.", major=["Subcutaneous  Emphysema "], automatic=["lung"])
    _, _, parsed_report, _, _ = read_reports(write_xml(tmp_path, [item, *REPORTS]))
    assert parsed_report.findings == "No effusion. Clear."
    assert parsed_report.mesh_major == ("Subcutaneous Emphysema",)
    assert parsed_report.mesh_automatic == ("lung",)


def _broken(text: str, encoding="utf-8"):
    return lambda root: (write_xml(root), (root / "2.xml").write_text(text, encoding=encoding))


def _edited(file: str, change, write=write_kaggle):
    """Replace text of a file once: `change` holds the old and the new text, or is a function of the lines."""

    def make(root):
        write(root)
        text = (root / file).read_text(encoding="utf-8")
        changed = "\n".join(change(text.splitlines())) if callable(change) else text.replace(*change, 1)
        assert changed != text
        (root / file).write_text(changed, encoding="utf-8")

    return make


def _truncated(n_bytes_lost: int):
    def make(root):
        file = write_tgz(root / openi.ARCHIVE, make_release())
        file.write_bytes(file.read_bytes()[:-n_bytes_lost])

    return make


IMAGES = ("CXR2_IM-0652-1001", "CXR1_1_IM-0001-3001")
LOCAL_FILE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><eCitation>&x;</eCitation>'
BOMB = '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]><eCitation>&y;</eCitation>'


XML, TGZ, CSV, PAIR = "2.xml", openi.ARCHIVE, openi.REPORTS_CSV, openi.PROJECTIONS_CSV
FAULTS = {
    "no such root": (lambda root: None, "no such file or folder"),
    "empty folder": (lambda root: root.mkdir(), "holds no OpenI reports"),
    "another file": (lambda root: root.write_text(""), "is no .tgz archive"),
    "broken xml": (_broken("<eCitation><uId id='CXR2'"), "2.xml: not well-formed XML"),
    "not utf-8": (_broken("", "utf-16"), "2.xml: not well-formed XML"),
    "other xml": (_broken("<html><body/></html>"), "2.xml: not an OpenI report"),
    "external entity": (_broken(LOCAL_FILE), "2.xml: has a document type"),
    "entity expansion": (_broken(BOMB), "2.xml: has a document type"),
    "section missing": (_edited(XML, ("IMPRESSION", "SUMMARY"), write_xml), "2.xml: not an OpenI report"),
    "uid": (_edited(XML, ('"CXR2"', '"2"'), write_xml), "2.xml: unknown uid '2'"),
    "uid twice": (_edited(XML, ('"CXR2"', '"CXR1"'), write_xml), "2.xml: CXR1 was already in"),
    "image twice": (_edited(XML, IMAGES, write_xml), f"2.xml: {IMAGES[1]}.png was already in"),
    "image id": (_edited(XML, (IMAGES[0], "../x"), write_xml), "2.xml: image id '../x'"),
    "archive lacks its last byte": (_truncated(1), "truncated or damaged"),
    "archive cut": (_truncated(200), "truncated or damaged"),
    "empty archive": (lambda root: write_tgz(root / TGZ, {"readme.txt": ""}), "holds no XML file"),
    "broken xml in the archive": (lambda root: write_tgz(root / TGZ, {"5.xml": "<a>"}), f"{TGZ}/5.xml: not well"),
    "half of the csv pair": (lambda root: (write_kaggle(root), (root / PAIR).unlink()), f"{PAIR} is missing"),
    "csv column": (lambda root: write_kaggle(root, drop="MeSH"), f"{CSV}, column 'MeSH'"),
    "other csv's column": (lambda root: write_kaggle(root, drop="filename"), f"{PAIR}, column 'filename'"),
    "orphan": (_edited(CSV, ("\n10,", "\nten,")), f"{PAIR}, row 1, column 'uid'"),
    "csv uid": (_edited(CSV, ("\n33,", "\nxx,")), f"{CSV}, row 4, column 'uid'"),
    "csv uid twice": (_edited(CSV, ("\n33,", "\n10,")), "row 4: CXR10 was already in"),
    "fields": (_edited(CSV, ("\n33,,", "\n33,")), f"{CSV}, row 4: the row has 7 cells"),
    "csv image name": (_edited(PAIR, (f"{IMAGES[0][3:]}.dcm.png", "2.jpg")), "row 2, column 'filename': unknown image"),
    "csv image twice": (_edited(PAIR, lambda lines: [*lines, lines[1]]), f"{PAIR}, row 5"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_is_refused_by_name(fault, tmp_path):
    make, message = FAULTS[fault]
    root = tmp_path / "root"
    make(root)
    with pytest.raises(InputError) as error:
        read_reports(root)
    assert message in str(error.value)
    assert str(root) in str(error.value)
    assert "what to do" in str(error.value)


def test_an_archive_above_the_limit_is_refused(tmp_path, monkeypatch):
    archive = write_tgz(tmp_path / openi.ARCHIVE, make_release())
    monkeypatch.setattr(limits, "REPORTS_BYTES", 1_000)
    with pytest.raises(InputError, match=f"{archive}: more than 1,000 bytes when unpacked"):
        read_reports(tmp_path)


@pytest.mark.parametrize(
    ("key", "paths"),
    [
        (
            "CXR10_IM-0002-1001.png",
            "NLMCXR_png/CXR10_IM-0002-1001.png images/CXR10_IM-0002-1001.png 10_IM-0002-1001.dcm "
            "images/images_normalized/10_IM-0002-1001.dcm.png NLMCXR_dcm/10/10_IM-0002-1001.dcm",
        ),
        ("CXR21_IM-0729-1001-0001.png", "images/images_normalized/21_IM-0729-1001-0001.dcm.png"),
        (
            "CXR1_1_IM-0001-3001.png",
            "images/images_normalized/1_IM-0001-3001.dcm.png NLMCXR_dcm/1/1_IM-0001-3001.dcm",
        ),
    ],
)
def test_image_paths_cover_the_known_layouts(key, paths):
    assert set(paths.split()) < set(list_image_paths(key))
    assert list_image_paths(key)[0] == key


@given(st.text(st.sampled_from("CXR1_.-/\\:\0png"), max_size=16).map(lambda text: text + ".png"))
def test_no_image_path_leaves_the_root(key):
    try:
        paths = list_image_paths(key)
    except ImageError:
        return
    for path in paths:
        assert not PurePosixPath(path).is_absolute()
        assert not any(sign in path for sign in ("..", "\\", ":"))


@pytest.mark.parametrize("key", ["", "a.jpg", "../a.png", "a/b.png", "/a.png", "a\\b.png", ".png", "a..png", "C:a.png"])
def test_keys_that_are_no_plain_png_name_are_refused(key):
    with pytest.raises(ImageError):
        list_image_paths(key)


ROOT = sources.resolve_roots({"openi": "torchxrayvision"}, environ={})["openi"]


def survive_the_kaggle_form(reports: list[Report], folder: Path) -> bool:
    write_kaggle(folder, reports)
    return read_reports(folder) == [replace(report, mesh_automatic=()) for report in reports]


def test_fifty_real_reports(tmp_path):
    """Read fifty of the 3,955 reports in the installed torchxrayvision (located, not imported)."""
    with tarfile.open(find_label_files(ROOT)[0]) as archive:
        members = [member for member in archive if member.name.endswith(".xml")]
        assert len(members) == 3955
        archive.extractall(tmp_path / "xml", members[:2000:40], filter="data")
    reports = read_reports(tmp_path / "xml")
    assert len(reports) == 50
    assert all(report.findings or report.impression for report in reports)
    assert sum(bool(report.mesh_automatic) for report in reports) > 10
    assert survive_the_kaggle_form(reports, tmp_path / "kaggle")


@pytest.mark.full
def test_all_real_reports(tmp_path):
    real = read_reports(ROOT)
    assert len(real) == 3955
    assert [item.uid for item in real[:2]] == ["CXR1", "CXR2"]
    assert Counter(len(item.images) for item in real) == {0: 104, 1: 446, 2: 3208, 3: 181, 4: 15, 5: 1}
    empty = {name: sum(not getattr(item, name) for item in real) for name in ("findings", "impression", "indication")}
    assert empty == {"findings": 530, "impression": 34, "indication": 90}
    assert Counter(term.split("/")[0] for item in real for term in item.mesh_major)["Pleural Effusion"] == 172
    assert survive_the_kaggle_form(real, tmp_path)


def test_an_interrupted_unpacking_is_named(tmp_path):
    documents = {f"ecgen-radiology/{item.uid[3:]}.xml": format_xml(item) for item in REPORTS}
    archive = write_tgz(tmp_path / openi.ARCHIVE, documents)
    write_xml(tmp_path / "ecgen-radiology", REPORTS[:2])
    with pytest.raises(InputError, match=r"ecgen-radiology: has 2 of the 4 reports of NLMCXR_reports.tgz"):
        openi.read_reports(tmp_path)
    archive.write_bytes(archive.read_bytes()[:50])  # says nothing about the files
    assert len(openi.read_reports(tmp_path)) == 2
