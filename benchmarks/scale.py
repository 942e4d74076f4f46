"""Time and memory of builds by the size of their input, gain of a second worker, and projected time for all data.

    uv run python benchmarks/scale.py [--fraction F] [--minutes M]

MIMIC-CXR (HEAL-MedVQA, config mimic) has a quarter, a half and all of F times its 377,110 images (F: 1/4). They are
copies of a synthetic source of 40 studies under different ids: tables, one report for each study, one text file of a
detector for each frontal image, and CXAS's COCO file with masks of 512 x 512 for each image. Images have the sizes of
radiographs, so each mask is scaled. Pixels are left out, because no build reads them. Reports have 470 characters.

CheXpert (presence) has the real labels, 4F, 16F and 64F times their 223,414 rows, each time for other patients.

Each build has its own process. Time is CPU time without imports; the exponent describes its growth. Memory is the peak
of the largest process. Speed-up is measured in wall-clock time, and Amdahl's law gives the time for more cores. No
larger build starts after M minutes (10). Required: exponents below 1.05, memory below 2,048 MiB.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from medfaith.builders import cxr_contrabench, heal_medvqa
from medfaith.loaders import chexpert, phantom, rle, sources

WHOLE = 377_110  # images of MIMIC-CXR-JPG
SOURCES = heal_medvqa.NEEDS["mimic"]
ENLARGED = 12  # times the synthetic images' sides
CORES = (1, 16, 64)
EXPONENT, MEBIBYTES = 1.05, 2048


class Measured(NamedTuple):
    """Measurements of one build.

    Attributes:
        size: Number of images or rows.
        seconds: Processor seconds.
        wall: Wall-clock seconds.
        mib: Peak memory in MiB.
    """

    size: int
    seconds: float
    wall: float
    mib: float


class Repeated:
    """The synthetic MIMIC-CXR, written several times under different ids."""

    def __init__(self, folder: Path) -> None:
        self.roots = {name: folder / name for name in SOURCES}
        phantom.write(folder, seed=0, sources=SOURCES)
        main = self.roots["mimic_cxr"]
        self.tables = {path.name: self._read_rows(path) for path in sorted(main.glob("*.csv.gz"))}
        self.reports = {path.stem[1:]: path.read_bytes() for path in main.rglob("s*.txt")}
        detected = self.roots["mimic_cxr_detections"]
        self.classes = (detected / "classes.txt").read_bytes()
        self.boxes = {path.stem: path.read_bytes() for path in detected.glob("*-*.txt")}
        self.masks = {path.name: _read_coco(path) for path in self.roots["mimic_cxr_anatomy"].iterdir()}
        self.n_images = len(self.tables["mimic-cxr-2.0.0-metadata.csv.gz"]) - 1

    def _read_rows(self, path: Path) -> list[list[str]]:
        with gzip.open(path, "rt", newline="") as file:
            return list(csv.reader(file))

    def write(self, folder: Path, n_images: int) -> int:
        """Write about `n_images` images below the folder; return their number."""
        times = max(1, round(n_images / self.n_images))
        for name in ("mimic_cxr/files", "mimic_cxr_anatomy", "mimic_cxr_detections"):
            (folder / name).mkdir(parents=True)
        (folder / "mimic_cxr_detections/classes.txt").write_bytes(self.classes)
        for name, (header, *rows) in self.tables.items():
            with gzip.open(folder / "mimic_cxr" / name, "wt", newline="", compresslevel=1) as file:
                writer = csv.writer(file)
                writer.writerow(header)
                writer.writerows(self._iterate_renamed(header, row, k) for k in range(times) for row in rows)
        header, *rows = self.tables["mimic-cxr-2.0.0-metadata.csv.gz"]
        for k in range(times):
            for row in rows:
                self._write_image(folder, dict(zip(header, row, strict=True)), k)
        return times * self.n_images

    def _iterate_renamed(self, header: Sequence[str], row: Sequence[str], k: int) -> Iterator[str]:
        for name, value in zip(header, row, strict=True):
            match name:
                case "dicom_id":
                    yield _rename_dicom(value, k)
                case "subject_id" | "study_id":
                    yield _renumber(value, k)
                case "Rows" | "Columns":
                    yield str(ENLARGED * int(value))
                case _:
                    yield value

    def _write_image(self, folder: Path, row: Mapping[str, str], k: int) -> None:
        image, study, patient = row["dicom_id"], row["study_id"], _renumber(row["subject_id"], k)
        if study in self.reports:
            path = folder / "mimic_cxr/files" / f"p{patient[:2]}" / f"p{patient}" / f"s{_renumber(study, k)}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.reports[study])
        name = _rename_dicom(image, k)
        if image in self.boxes:
            (folder / "mimic_cxr_detections" / f"{name}.txt").write_bytes(self.boxes[image])
        if image in self.masks:
            text = json.dumps(
                self.masks[image] | {"images": [self.masks[image]["images"][0] | {"file_name": f"{name}.jpg"}]}
            )
            (folder / "mimic_cxr_anatomy" / f"{name}.json").write_text(text)


def _rename_dicom(image: str, k: int) -> str:
    digits = hashlib.sha1(f"{image} {k}".encode(), usedforsecurity=False).hexdigest()
    return "-".join(digits[start : start + 8] for start in range(0, 40, 8))


def _renumber(number: str, k: int) -> str:
    """Shift a synthetic number: the phantom uses the first thousand of each kind."""
    return str(int(number) + 1000 * k)


def _read_coco(folder: Path) -> dict[str, Any]:
    """Read the masks of the synthetic PNG files as CXAS's COCO format of one image."""
    masks = [(path.stem, rle.encode(np.asarray(Image.open(path)))) for path in sorted(folder.glob("*.png"))]
    return {
        "images": [{"id": 0, "width": 512, "height": 512}],
        "categories": [{"id": number, "name": name} for number, (name, _) in enumerate(masks)],
        "annotations": [
            {"image_id": 0, "category_id": number, "segmentation": mask} for number, (_, mask) in enumerate(masks)
        ],
    }


def write_chexpert(folder: Path, times: float) -> int:
    """Write the real rows `times` times, each time with different patients; return their number."""
    root = sources.resolve_roots({"chexpert": "torchxrayvision"}, environ={})["chexpert"]
    with gzip.open(chexpert.find_label_files(root)["train"], "rt", encoding="utf-8") as file:
        header, *lines = file
    lines = lines[: round(times * len(lines))] if times < 1 else lines
    folder.mkdir(parents=True)
    with (folder / "train.csv").open("w", encoding="utf-8") as file:
        file.write(header)
        for k in range(max(1, round(times))):
            file.writelines(line.replace("/patient", f"/patient{k}" if k else "/patient", 1) for line in lines)
    return len(lines) * max(1, round(times))


def build(job: str, root: str, out: str, workers: str) -> None:
    """Build and print seconds and memory: the child process of `run_measured`."""
    folder = Path(root)
    started, spent = time.perf_counter(), _read_seconds()
    if job == "mimic":
        roots = {name: folder / name for name in SOURCES}
        heal_medvqa.build(roots, Path(out), configs=["mimic"], workers=int(workers))
    else:
        cxr_contrabench.build({"chexpert": folder}, Path(out), configs=["chexpert_presence"], workers=int(workers))
    wall = time.perf_counter() - started
    if int(workers) > 1:  # ends the processes, to read their time and memory
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown()
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps([_read_seconds() - spent, wall, peak / 1024]))


def _read_seconds() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def run_measured(job: str, root: Path, out: Path, size: int, workers: int = 1) -> Measured:
    """Build in a new process and return its measurements."""
    command = [sys.executable, __file__, "build", job, str(root), str(out), str(workers)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Measured(size, *json.loads(done.stdout))


def run_growing(
    job: str, unit: str, sizes: Sequence[float], write: Callable[[Path, float], int], folder: Path, until: float
) -> list[Measured]:
    """Run and print builds of growing size; skip sizes that would not end in time."""
    runs: list[Measured] = []
    for size in sizes:
        if runs and time.monotonic() + 2 * runs[-1].wall * size / sizes[len(runs) - 1] > until:
            print(f"{job}: no time is left for {size:,.0f} {unit}")
            break
        n = write(folder / f"{job}{len(runs)}", size)
        runs.append(run_measured(job, folder / f"{job}{len(runs)}", folder / "out", n))
        run = runs[-1]
        print(
            f"{job}  {n:>9,} {unit:6}  {run.seconds:7.1f} s  {1e6 * run.seconds / n:7.0f} us each  {run.mib:6.0f} MiB"
        )
    return runs


def compute_exponent(runs: Sequence[Measured]) -> float:
    """Compute the exponent of the growth of time with size."""
    sizes, seconds = np.log([(run.size, run.seconds) for run in runs]).T
    return float(np.polyfit(sizes, seconds, 1)[0])


def main() -> None:
    """Print exponent, memory and the gain of a second worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fraction", type=float, default=0.25)
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args()
    until = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = [arguments.fraction * times for times in (4, 16, 64)]
        labels = run_growing("chexpert", "rows", rows, write_chexpert, folder, until)
        repeated = Repeated(folder / "phantom")
        shares = [arguments.fraction * share * WHOLE for share in (1 / 4, 1 / 2, 1)]
        images = run_growing("mimic", "images", shares, lambda at, n: repeated.write(at, round(n)), folder, until)
        last = images[-1]
        two = run_measured("mimic", folder / f"mimic{len(images) - 1}", folder / "out", last.size, workers=2)
    for job, runs in (("chexpert", labels), ("mimic", images)):
        peak = max(run.mib for run in runs)
        print(f"{job}: exponent {compute_exponent(runs):.3f} (wanted: below {EXPONENT}), "
              f"peak {peak:.0f} MiB (wanted: below {MEBIBYTES})")  # fmt: skip
    gained = last.wall / two.wall
    serial_share = max(0.0, 2 / gained - 1)
    print(f"mimic: 2 workers in {two.wall:.1f} s, 1 in {last.wall:.1f} s: {gained:.2f} times as fast, "
          f"{two.mib:.0f} MiB; {100 * serial_share:.0f}% are done by one process")  # fmt: skip
    full_seconds = last.wall * (WHOLE / last.size) ** max(1.0, compute_exponent(images))
    for cores in CORES:
        minutes = full_seconds * (serial_share + (1 - serial_share) / cores) / 60
        print(f"mimic: all {WHOLE:,} images with {cores} cores: {minutes:.0f} minutes (extrapolated)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["build"]:
        build(*sys.argv[2:])
    else:
        main()
