"""The silver sentences of Chest ImaGenome as rows: those of scene graphs, which programs made, of patients not in gold.

The paper's models are trained on them (section 4.1). There are a quarter of a million graphs, so an image's rows are in
memory as such only until they are in a table.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...loaders.chest_imagenome_silver import ZIP, SceneGraphs, find_split_file, parse, read_split
from ...loaders.errors import InputError
from ..parallel import HERE, Workers
from .sentences import SUBSETS, in_image, least, mean_overlap

SPLITS = ("train", "validation", "test")
AVOID = "avoid"
AT_ONCE = 500  # images whose rows are in memory
NO_IMAGE = "images that MIMIC-CXR-JPG's metadata has not"
NO_GRAPH = "images without a scene graph"
NO_TEXT = "sentences without a text"
OF_GOLD = "images of gold patients, left out"
IN_TWO = "patients in two of the splits"


class Made(NamedTuple):
    """What build.json says of a split beside its rows. sha256: of its scene graphs, however they are packed."""

    counted: Counter[str]
    sha256: str


@dataclass
class Silver:
    """The silver dataset below a root, whose graphs `workers` read.

    splits: the images of each that are no gold patient's. n_of_gold: how many others each lists. images:
    `mimic_cxr.read_images`. made: of every split that `table` has made.
    """

    root: Path
    splits: Mapping[str, pa.Table]
    n_of_gold: Mapping[str, int]
    images: pa.Table
    workers: Workers
    made: dict[str, Made] = field(default_factory=dict)

    @property
    def counted(self) -> Counter[str]:
        """Of all splits made, by split and reason."""
        found = Counter({f"silver: {IN_TWO}": _in_two(self.splits)})
        for split, made in self.made.items():
            found.update({f"silver, {split}: {reason}": n for reason, n in made.counted.items()})
        return found

    @property
    def find_label_files(self) -> list[Path]:
        """The lists of images; the graphs' hashes are in `made`."""
        return [find_split_file(self.root, split) for split in (*SPLITS, AVOID)]

    def table(self, split: str, schema: pa.Schema, benchmark: str) -> pa.Table:
        """The rows of a split, in the order of its list and of each graph; `benchmark` begins each id.

        Raises:
            InputError: no graphs, one that is damaged, an image in another study than MIMIC-CXR-JPG's, no row.
        """
        listed, counted, digest = self.splits[split], Counter({OF_GOLD: self.n_of_gold[split]}), hashlib.sha256()
        places = pc.index_in(listed["dicom_id"].combine_chunks(), value_set=self.images["dicom_id"].combine_chunks())
        batches, overlaps = [], []
        tasks = (
            (
                listed["dicom_id"].slice(start, AT_ONCE).to_pylist(),
                self.images.take(places.slice(start, AT_ONCE)).to_pylist(),
            )
            for start in range(0, len(places), AT_ONCE)
        )
        with self.workers.each(
            partial(_batch, root=self.root, schema=schema, benchmark=benchmark), tasks, reads=[self.root],
            title=f"reading graphs of {split}", unit="images", total=len(places), length=lambda task: len(task[0]),
        ) as results:  # fmt: skip
            for made in results:
                batches.append(made.rows)
                overlaps += made.overlaps
                counted.update(made.counted)
                digest.update(made.digests)
        _opened.cache_clear()
        if not overlaps:
            reasons = "".join(f"; {n} {reason}" for reason, n in (+counted).items())
            action = "check that both roots are complete and of the same release"
            raise InputError(find_split_file(self.root, split), f"no sentence of its images{reasons}", action=action)
        table = _with_mdrb(pa.Table.from_batches(batches, schema), least(overlaps))
        inside = table["subsets"].combine_chunks()
        counted.update({text: pc.sum(inside.field(name)).as_py() for name, text in SUBSETS.items()})
        self.made[split] = Made(counted, digest.hexdigest())
        return table


def read(root: Path, images: pa.Table, gold: Collection[str], workers: Workers = HERE) -> Silver:
    """The splits without the images of gold patients, who are those of `gold` (ids) and of images_to_avoid.csv.

    Raises:
        InputError: a list that is missing or broken.
    """
    avoid = read_split(root, AVOID)
    patients = pa.array(sorted({*gold, *avoid["subject_id"].to_pylist()}), pa.string())
    listed = {split: read_split(root, split) for split in SPLITS}
    splits = {split: table.filter(_of_others(table, patients, avoid["dicom_id"])) for split, table in listed.items()}
    n_of_gold = {split: table.num_rows - splits[split].num_rows for split, table in listed.items()}
    columns = ["dicom_id", "study_id", "subject_id", "key", "view", "width", "height"]
    images = images.select(columns).combine_chunks()  # of many chunks, `take` would copy all
    return Silver(root, splits, n_of_gold, images, workers)


def _of_others(table: pa.Table, patients: pa.Array, images: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which rows of a list are of none of these patients and images."""
    of_patient = pc.is_in(table["subject_id"], value_set=patients)
    return pc.invert(pc.or_(of_patient, pc.is_in(table["dicom_id"], value_set=images)))


class Batch(NamedTuple):
    """Of some images: their rows, how much the boxes of each row's image overlap, a hash of each graph, and counts."""

    rows: pa.RecordBatch
    overlaps: list[float]
    digests: bytes
    counted: Counter[str]


def _batch(
    task: tuple[Sequence[str], Sequence[Mapping[str, Any]]], *, root: Path, schema: pa.Schema, benchmark: str
) -> Batch:
    """Of images, by their names and their rows of `Silver.images`."""
    packed = root / ZIP
    graphs = _opened(root, packed.stat().st_mtime_ns if packed.is_file() else 0)
    rows, overlaps, digests, counted = [], [], [], Counter()
    for name, image in zip(*task, strict=True):
        own = _rows(name, image, graphs, digests, counted, benchmark)
        overlaps += [mean_overlap(own)] * len(own)
        rows += own
    return Batch(pa.RecordBatch.from_pylist(rows, schema=schema), overlaps, b"".join(digests), counted)


@lru_cache(maxsize=1)
def _opened(root: Path, _changed: int) -> SceneGraphs:
    """Kept by a worker from task to task: the list of a zip's files alone takes seconds to read."""
    return SceneGraphs(root)


def _rows(
    name: str,
    image: Mapping[str, Any],
    graphs: SceneGraphs,
    digests: list[bytes],
    counted: Counter[str],
    benchmark: str,
) -> list[dict[str, Any]]:
    """Of one image; a study may have several, with the same sentences, so that its name is a part of their ids."""
    if image["dicom_id"] is None:
        counted[NO_IMAGE] += 1
        return []
    graph = graphs.find(name)
    if graph is None:
        counted[NO_GRAPH] += 1
        return []
    digests.append(hashlib.sha256(graph.data).digest())
    rows = []
    for one in parse(graph, name):
        if not one.sentence.strip():
            counted[NO_TEXT] += 1
        elif (made := in_image(one, image, f"{benchmark}:{one.id}|{name}", counted)) is not None:
            rows.append(made.row)
    return rows


def _with_mdrb(table: pa.Table, flags: Any) -> pa.Table:
    """The table with the flags as subset MDRB, which only all rows decide."""
    subsets = table["subsets"].combine_chunks()
    fields = list(subsets.type)
    columns = [pa.array(flags) if field.name == "mdrb" else subsets.field(field.name) for field in fields]
    place = table.schema.get_field_index("subsets")
    return table.set_column(place, table.schema.field(place), pa.StructArray.from_arrays(columns, fields=fields))


def _in_two(splits: Mapping[str, pa.Table]) -> int:
    """How many patients more than one split has."""
    times = Counter(patient for table in splits.values() for patient in pc.unique(table["subject_id"]).to_pylist())
    return sum(n > 1 for n in times.values())
