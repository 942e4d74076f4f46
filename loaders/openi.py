"""Open-i Indiana University chest X-rays (NLMCXR): reports, MeSH indexing, and the images of each report.

Source: Demner-Fushman et al., "Preparing a collection of radiology examinations for distribution and retrieval" (2016).
Accepted: the XML files (`ecgen-radiology/`), `NLMCXR_reports.tgz`, and the Kaggle pair `indiana_reports.csv` +
`indiana_projections.csv`. A report has the same content in each of them, with two exceptions that no benchmark row
depends on: the Kaggle copy has no automatic MeSH terms, and its views are ignored, because the official release states
none.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa

from . import csv_table, layouts, limits
from .errors import ImageError, InputError
from .progress import Progress

ARCHIVE = "NLMCXR_reports.tgz"
REPORTS_CSV, PROJECTIONS_CSV = "indiana_reports.csv", "indiana_projections.csv"
REPORTS_COLUMNS = ("uid", "MeSH", "indication", "comparison", "findings", "impression")
PROJECTIONS_COLUMNS = ("uid", "filename")
SECTIONS = ("COMPARISON", "INDICATION", "FINDINGS", "IMPRESSION")
EXPECTED = f"the reports' XML files in ecgen-radiology/, or {ARCHIVE}, or {REPORTS_CSV} + {PROJECTIONS_CSV}"
ACTION = "download the reports again from Open-i (NLMCXR_reports.tgz) and use them unchanged"
KAGGLE_LINE = r'"?[0-9]+"?,'  # the first line of a row begins with the uid
KAGGLE_ACTION = "use the csv pair of the Kaggle copy 'chest-xrays-indiana-university' unchanged"


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a report.

    Attributes:
        key: `{parentImage id}.png`, in any file format of the pixels.
        view: "", because the official release states none.
    """

    key: str
    view: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One study; white space in texts is collapsed.

    Attributes:
        uid: CXR and the number of the report.
        findings: The section, or "".
        impression: The section, or "".
        indication: The section, or "".
        comparison: The section, or "".
        mesh_major: Slash-delimited terms, "Opacity/lung/upper lobe/right".
        mesh_automatic: Terms.
        images: Images in order of key.
    """

    uid: str
    findings: str
    impression: str
    indication: str
    comparison: str
    mesh_major: tuple[str, ...]
    mesh_automatic: tuple[str, ...]
    images: tuple[Image, ...]


def find_label_files(root: Path) -> list[Path]:
    """Find the files that `read_reports` reads: XML files if there are any, else the archive, else the csv pair.

    Args:
        root: The folder of the reports, or the archive.

    Returns:
        The paths, in order of the reports.

    Raises:
        InputError: The root is missing, or has none of the accepted forms.
    """
    if root.is_file() and root.name.endswith((".tgz", ".tar.gz")):
        return [root]
    if not root.is_dir():
        problem = "is no .tgz archive" if root.is_file() else "no such file or folder"
        raise InputError(root, problem, expected=EXPECTED, action="give the folder that holds the OpenI reports")
    for folder in (root, root / "ecgen-radiology", *sorted(root.glob("*/ecgen-radiology"))):
        if files := sorted(layouts.list_files(folder, ".xml"), key=_parse_file_order):
            return files
    if limits.has_file(root / ARCHIVE):
        return [root / ARCHIVE]
    pair = [root / REPORTS_CSV, root / PROJECTIONS_CSV]
    missing = [file.name for file in pair if not limits.has_file(file)]
    for file in (root / ARCHIVE, *(root / name for name in missing)):
        layouts.refuse_similar_name(file)
    if len(missing) == len(pair):
        raise InputError(root, "holds no OpenI reports", expected=EXPECTED, action=ACTION)
    if missing:
        raise InputError(root, f"{missing[0]} is missing", expected=f"{pair[0].name} + {pair[1].name}", action=EXPECTED)
    return pair


def read_reports(root: Path) -> list[Report]:
    """Read all reports of one copy.

    Args:
        root: The folder of the reports, or the archive.

    Returns:
        The reports in numeric order of uid (CXR1, CXR2, CXR3, ...).

    Raises:
        InputError: A file differs from the release; the error names the file (and the row and column of a csv).
    """
    files = find_label_files(root)
    if files[0].suffix == ".csv":
        reports, total = _read_kaggle_reports(*files)
    elif files[0].suffix == ".xml":
        _require_unpacked(root / ARCHIVE, files)
        reports, total = ((file, _parse_report(_read_file(file), file)) for file in files), len(files)
    else:
        documents = _read_archive(files[0])
        reports, total = ((where, _parse_report(data, where)) for where, data in documents), len(documents)
    numbered: dict[int, Report] = {}
    first_places: dict[str, str | Path] = {}  # uid or image key -> its file
    for where, report in Progress(reports, title="reading reports of openi", total=total, unit="reports"):
        for name in (report.uid, *(image.key for image in report.images)):
            if name in first_places:
                problem = f"{name} was already in {first_places[name]}"
                raise InputError(where, problem, expected="each report and each image once", action=ACTION)
            first_places[name] = where
        numbered[int(report.uid.removeprefix("CXR"))] = report
    return [numbered[number] for number in sorted(numbered)]


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of an image below the root: PNG, Kaggle's PNG, DICOM.

    DICOM files (and Kaggle's, made from them) have the id without its leading "CXR"; report 1 also drops its "1_".

    Args:
        key: The key of a row's image.

    Returns:
        The paths, most likely first.

    Raises:
        ImageError: The key is not a plain `.png` file name.
    """
    if not key.endswith(".png") or not _is_plain(key):
        raise ImageError(f"{key}: not an OpenI image key\n  expected: the id of the image and .png, without a folder")
    dicom = key.removeprefix("CXR1_").removeprefix("CXR").removesuffix(".png") + ".dcm"
    study = re.match(r"[0-9]*", key.removeprefix("CXR"))
    folder = study.group() if study else ""
    places = [key, f"NLMCXR_png/{key}", f"images/{key}"]
    places += [f"{parent}{dicom}.png" for parent in ("images/images_normalized/", "images_normalized/", "")]
    places += [dicom, f"NLMCXR_dcm/{dicom}"]
    if folder:
        places += [f"NLMCXR_dcm/{folder}/{dicom}", f"{folder}/{dicom}"]
    return tuple(places)


def _parse_file_order(file: Path) -> tuple[int, str]:
    return (int(file.stem) if file.stem.isascii() and file.stem.isdigit() else 0, file.name)


def _is_plain(name: str) -> bool:
    """Return whether `name` can only be a file directly in a folder: a key must not leave its root."""
    return bool(name) and not set(name) & set("/\\\0:") and not name.startswith(".") and ".." not in name


def _read_archive(archive: Path) -> list[tuple[str, bytes]]:
    """Read (archive/member, content) of every XML file; nothing is unpacked to disk."""
    try:
        # Reading the archive to its end compares its checksum.
        with gzip.open(archive) as packed:
            content = packed.read(limits.REPORTS_BYTES + 1)
        if len(content) > limits.REPORTS_BYTES:
            problem = f"more than {limits.REPORTS_BYTES:,} bytes when unpacked"
            raise InputError(archive, problem, expected="reports of a few KB each", action=ACTION)
        tar = io.BytesIO(content)
        with tarfile.open(fileobj=tar, mode="r:") as members:
            documents = [
                (f"{archive}/{member.name}", file.read())
                for member in members
                if member.name.endswith(".xml") and not Path(member.name).name.startswith(".")
                if (file := members.extractfile(_require_regular_member(member, archive))) is not None
            ]
    # ValueError, OverflowError: tarfile passes them on from the numbers of headers.
    except (EOFError, OSError, ValueError, OverflowError, zlib.error, tarfile.TarError) as error:
        expected = f"a complete {ARCHIVE}"
        raise InputError(archive, f"truncated or damaged ({error})", expected=expected, action=ACTION) from error
    if not documents:
        raise InputError(archive, "holds no XML file", expected="ecgen-radiology/1.xml, ...", action=ACTION)
    return documents


def _require_unpacked(archive: Path, files: Sequence[Path]) -> None:
    """Raise InputError if an archive has more reports than the XML files that were unpacked from it.

    Its unpacking was interrupted then, and a build would lack reports in silence. A missing or damaged archive is no
    error.
    """
    try:
        n_documents = len(_read_archive(archive)) if archive.is_file() else 0
    except InputError:  # a damaged archive says nothing about the files
        return
    if len(files) < n_documents:
        problem = f"has {len(files):,} of the {n_documents:,} reports of {archive.name}"
        action = f"unpack {archive.name} again, or move it out of the folder"
        raise InputError(files[0].parent, problem, expected="all of them", action=action)


def _read_file(file: Path) -> bytes:
    try:
        return limits.read_bytes(file, limits.REPORT_BYTES)
    except OSError as error:
        raise InputError(file, f"cannot be read ({error.strerror})", action=ACTION) from None


def _require_regular_member(member: tarfile.TarInfo, archive: Path) -> tarfile.TarInfo:
    """Return the member. Raise InputError for a link, for a name that is no UTF-8, and for a size beyond the limit."""
    problem = ""
    if member.islnk() or member.issym():  # it may have no target or be circular
        problem = f"{member.name} is a link to {member.linkname}"
    elif member.issparse():  # its few bytes can unpack to terabytes
        problem = f"{member.name} is a sparse file"
    elif member.size > limits.REPORT_BYTES:
        problem = f"{member.name} has more than {limits.REPORT_BYTES:,} bytes, which is the limit"
    elif any(0xDC80 <= ord(character) <= 0xDCFF for character in member.name):  # tarfile's surrogates for other bytes
        problem = f"the name of the member {member.name} is no UTF-8"
    if problem:
        raise InputError(archive, problem, expected="files, as released", action=ACTION)
    return member


def _parse_report(data: bytes, where: str | Path) -> Report:
    try:
        text = data.decode("utf-8-sig")
        # Only a document type can declare entities, which can read files or expand to gigabytes; no report has one.
        if "<!DOCTYPE" in text:
            raise InputError(where, "has a document type declaration", expected="plain XML, as released", action=ACTION)
        root = ElementTree.fromstring(text)  # noqa: S314 - entities are refused
    except (UnicodeDecodeError, ElementTree.ParseError) as error:
        raise InputError(where, f"not well-formed XML ({error})", expected="an OpenI report", action=ACTION) from error
    uid = root.find("uId")
    sections = {section.get("Label"): _collapse(section.text) for section in root.iter("AbstractText")}
    if uid is None or not set(SECTIONS) <= set(sections):
        expected = f"<uId id=...> and AbstractText labelled {', '.join(SECTIONS)}"
        raise InputError(where, "not an OpenI report", expected=expected, action=ACTION)
    return Report(
        uid=_require_uid(uid.get("id", ""), where),
        findings=sections["FINDINGS"],
        impression=sections["IMPRESSION"],
        indication=sections["INDICATION"],
        comparison=sections["COMPARISON"],
        mesh_major=_collect_terms(term.text for term in root.iterfind("MeSH/major")),
        mesh_automatic=_collect_terms(term.text for term in root.iterfind("MeSH/automatic")),
        images=_build_images((image.get("id", "") for image in root.iterfind("parentImage")), where),
    )


def _read_kaggle_reports(reports: Path, projections: Path) -> tuple[Iterator[tuple[str, Report]], int]:
    rows = _read_csv_rows(reports, REPORTS_COLUMNS)
    uids = {row["uid"] for _, row in rows}
    names: dict[str, list[str]] = {}
    rows_by_image: dict[str, int] = {}  # image id -> row
    for number, row in _read_csv_rows(projections, PROJECTIONS_COLUMNS):
        if row["uid"] not in uids:
            problem = f"no report has the uid {row['uid']!r}"
            expected = f"a uid of {reports.name}"
            raise InputError(projections, problem, expected=expected, action=KAGGLE_ACTION, row=number, column="uid")
        image_id = _parse_image_id(row["filename"], projections, number)
        if rows_by_image.setdefault(image_id, number) != number:
            problem = f"{row['filename']!r} repeats row {rows_by_image[image_id]}"
            expected = "each image once"
            raise InputError(
                projections, problem, expected=expected, action=KAGGLE_ACTION, row=number, column="filename"
            )
        names.setdefault(row["uid"], []).append(image_id)

    def build_report(number: int, row: dict[str, str]) -> Report:
        return Report(
            uid=_require_uid(f"CXR{row['uid']}", reports, row=number, column="uid"),
            findings=_collapse(row["findings"]),
            impression=_collapse(row["impression"]),
            indication=_collapse(row["indication"]),
            comparison=_collapse(row["comparison"]),
            mesh_major=_collect_terms(row["MeSH"].split(";")),
            mesh_automatic=(),
            images=_build_images(names.get(row["uid"], []), projections),
        )

    return ((f"{reports}, row {number}", build_report(number, row)) for number, row in rows), len(rows)


def _read_csv_rows(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Read (1-based row number, row) of a csv file of the Kaggle copy; a blank cell is ""."""
    types = dict.fromkeys(columns, pa.string())
    table = csv_table.read(path, types, action=KAGGLE_ACTION, first_line=KAGGLE_LINE)
    rows = [{name: cell or "" for name, cell in row.items()} for row in table.to_pylist()]
    return list(enumerate(rows, 1))


def _parse_image_id(filename: str, where: Path, row: int) -> str:
    """Convert a Kaggle file name to the official id: 10_IM-0002-1001.dcm.png is CXR10_IM-0002-1001.

    Report 1 repeats its number.
    """
    stem = filename.removesuffix(".dcm.png")
    if stem == filename:
        expected = "<number>_IM-....dcm.png"
        problem = f"unknown image name {filename!r}"
        raise InputError(where, problem, expected=expected, action=KAGGLE_ACTION, row=row, column="filename")
    return f"CXR1_{stem}" if stem.startswith("1_") else f"CXR{stem}"


def _require_uid(uid: str, where: str | Path, row: int | None = None, column: str | None = None) -> str:
    if not re.fullmatch(r"CXR[1-9][0-9]{0,7}", uid):
        expected = "CXR and a number (Kaggle: the number alone)"
        raise InputError(where, f"unknown uid {uid!r}", expected=expected, action=ACTION, row=row, column=column)
    return uid


def _build_images(ids: Iterable[str], where: str | Path) -> tuple[Image, ...]:
    ids = sorted(ids)
    for name in ids:
        if not _is_plain(name):
            expected = "a plain file name such as CXR10_IM-0002-1001"
            raise InputError(where, f"image id {name!r}", expected=expected, action=ACTION)
    return tuple(Image(f"{name}.png") for name in ids)


def _collect_terms(texts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(term for text in texts if (term := _collapse(text)))


def _collapse(text: str | None) -> str:
    return " ".join((text or "").split())
