"""Every file of every source with every kind of damage: its reader accepts it or raises the documented error."""

from __future__ import annotations

import contextlib
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from medfaith.loaders.errors import InputError, MedfaithError
from tests.support.loaders.damage import DAMAGES, FINDERS, ODD, READINGS, Find, Read, count_records
from tests.support.tiers import choose_size


def mark_slow(readings: list[tuple[str, str, Read]]) -> list[Any]:
    """Mark the tables of CholecT45 full whose reader reads another, too."""
    slow = ("instrument/*.txt", "verb/*.txt", "target/*.txt")
    return [pytest.param(reading, marks=pytest.mark.full if reading[1] in slow else ()) for reading in readings]


@pytest.mark.parametrize(
    "reading",
    mark_slow(READINGS),
    ids=[f"{source}:{name}" for source, name, _ in READINGS],
)
def test_a_file_is_read_and_with_each_damage_read_or_refused(copied: dict[str, Path], reading: tuple[str, str, Read]):
    source, name, reader = reading
    root = copied[source]
    file = min(root.glob(name))
    data = file.read_bytes()
    with pytest.raises(MedfaithError) if file.name == "valid.csv" else nullcontext():  # which is not in the test set
        reader(root, file)
    wrong = {}
    # In the regular run each file has half of the damages, and each damage half of the files.
    first, step = choose_size((READINGS.index(reading) % 2, 2), (0, 1))
    for damage, lay in [*DAMAGES.items()][first::step]:
        lay(file)
        try:
            reader(root, file)
        except Exception as error:
            if not isinstance(error, MedfaithError) or "what to do: " not in str(error):
                wrong[damage] = repr(error)
        if file.is_dir() and not file.is_symlink():
            file.rmdir()
        file.unlink(missing_ok=True)
        file.write_bytes(data)
    assert wrong == {}


TABLES = [
    reading
    for reading in READINGS
    if reading[1].endswith((".csv", ".csv.gz", ".txt")) and reading[0] != "mimic_cxr_reports"
]


@pytest.mark.parametrize(
    "reading",
    mark_slow(TABLES),
    ids=[f"{source}:{name}" for source, name, _ in TABLES],
)
def test_no_row_of_an_odd_table_is_lost_in_silence(copied: dict[str, Path], reading: tuple[str, str, Read]):
    """Each layout has all rows: a reader finds all of them, or refuses the table."""
    source, name, reader = reading
    root = copied[source]
    file = min(root.glob(name))
    data = file.read_bytes()
    n_records = count_records(reader(root, file))
    lost, n_read = {}, 0
    first, step = choose_size((READINGS.index(reading) % 2, 2), (0, 1))  # as of the damages above
    for layout, change in [*ODD.items()][first::step]:
        file.write_bytes(change(data))
        with contextlib.suppress(MedfaithError):
            n_found = count_records(reader(root, file))
            n_read += n_found == n_records
            if n_found < n_records:
                lost[layout] = f"{n_found} of {n_records}"
    file.write_bytes(data)
    assert lost == {}
    assert n_read >= choose_size(2, 4)


@pytest.mark.parametrize("damage", ["a folder", "a pipe", "a link to nothing"])
@pytest.mark.parametrize("finder", FINDERS, ids=[f"{source}:{name}" for source, name, _ in FINDERS])
def test_a_name_that_is_no_file_is_not_taken_for_a_missing_file(
    copied: dict[str, Path], finder: tuple[str, str, Find], damage: str
):
    """Otherwise a build would lack a split, or rows, in silence."""
    source, name, find = finder
    file = min(copied[source].glob(name))
    data = file.read_bytes()
    find(copied[source])
    DAMAGES[damage](file)
    try:
        with pytest.raises(
            InputError, match=f"{re.escape(file.name)}: is (a folder|no regular file|a link to nothing)"
        ):
            find(copied[source])
    finally:
        file.rmdir() if file.is_dir() else file.unlink()
        file.write_bytes(data)
