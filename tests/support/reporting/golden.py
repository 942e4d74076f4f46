"""Golden files: the Markdown, the CSV files and the list of all files of whole reports."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from tests.support.reporting.report_logs import write_report

GOLDEN = Path(__file__).parents[2] / "reporting" / "golden"
UPDATE = "--update-golden"


def compare_with_golden(name: str, *arguments: object, out: Path, update: bool, **options: object) -> None:
    """Compare report.md, the CSV files and the names of all files of a report with the golden files of this name.

    The golden files show that an output changed, not that it was right: they come from this package.

    Args:
        name: Folder of the golden files.
        arguments: As for `make_report`.
        out: A new folder for the report.
        update: Whether to replace the golden files instead.
        options: As for `make_report`.

    Raises:
        AssertionError: A file differs; the message is a unified diff.
    """
    write_report(*arguments, out=out, **options)
    texts = {path.name: normalize(path) for path in out.iterdir() if path.suffix in {".md", ".csv"}}
    texts["files.txt"] = "".join(f"{path.name}\n" for path in sorted(out.iterdir()))
    folder = GOLDEN / name
    if update:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    golden = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*")}
    diff = [
        line
        for file in sorted({*texts, *golden})
        for line in difflib.unified_diff(
            golden.get(file, "").splitlines(), texts.get(file, "").splitlines(),
            f"golden/{name}/{file}", "the report now", lineterm="", n=1,
        )
    ]  # fmt: skip
    assert not diff, "\n".join([f"if this is as wanted: python -m pytest tests/reporting {UPDATE}", *diff])


def normalize(path: Path) -> str:
    """Read a file of a report without the folder of the test.

    Unrounded numbers keep 9 decimals, because processors differ in the last ones.

    Args:
        path: The file.

    Returns:
        The text.
    """
    text = path.read_text(encoding="utf-8").replace(f"{path.parents[1]}/", "")
    return re.sub(r"-?\d+\.\d{10,}(e-\d+)?", lambda match: str(round(float(match[0]), 9) + 0.0), text)
