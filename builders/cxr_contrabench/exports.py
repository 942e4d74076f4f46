"""Sets for training and prompting, taken from the protocols' rows: the LoRA set (Appendix H), few-shot pools (G).

The LoRA set is also written for fine-tuning tools, as JSONL in the common chat format:

    {"id": ..., "messages": [{"role": "user", "content": "<image>...question, options"},
                             {"role": "assistant", "content": "A"}], "images": ["train/patient00001/...jpg", ...]}

The content has one `<image>` for each path of `images`, in order; the paths are keys below the root of the user's
licensed copy (the tools' image or media folder). The user's message is what evaluation asks as prompt B0, and the
assistant's the letter of the gold option. In LLaMA-Factory's terms this is `formatting: sharegpt` with the columns
`messages` and `images` and the tags role, content, user, assistant.
"""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..verify import REBUILD, read_split
from ..write import RECORD
from .questions import sample_order

LORA, LORA_SPLIT = "chexpert_lora_train", "train"
LORA_ROWS = 2_000  # of presence and of absence each
FEWSHOT = {"fewshot_presence": "openi_chexstruct_presence", "fewshot_absence": "openi_report_absence"}
FEWSHOT_SPLIT = "train"  # exemplars, not evaluation
FEWSHOT_ROWS = 20
INSTRUCTION = "Answer with the letter of the correct option."


def lora_train(
    presence: pa.Table, absence: pa.Table, held_out: Collection[str], *, seed: int = 0, n: int = LORA_ROWS
) -> pa.Table:
    """`n` rows of each of two tables of CheXpert train rows, in one seeded order; fewer, but equally many, if short.

    held_out: ids of studies whose patients may not occur; those of the validation split. (The official splits have no
    patient in common, so that it makes no difference there; it guards copies that were split anew.)
    """
    patients = pa.array(sorted({patient(study) for study in held_out}), pa.string())
    tables = []
    for rows in (presence, absence):
        of_row = pc.list_element(pc.split_pattern(rows["study_id"], "/", max_splits=1), 0)
        tables.append(rows.filter(pc.invert(pc.is_in(of_row, value_set=patients))))
    n = min(n, *(table.num_rows for table in tables))
    tables = [table.take(pa.array(sample_order(table["id"].to_pylist(), seed, LORA)[:n])) for table in tables]
    both = pa.concat_tables(tables)
    return both.take(pa.array(sample_order(both["id"].to_pylist(), seed, LORA)))


def patient(study: str) -> str:
    """`patient00001/study1` -> `patient00001`."""
    return study.split("/", maxsplit=1)[0]


def fewshot(rows: pa.Table, config: str, *, seed: int = 0, n: int = FEWSHOT_ROWS) -> pa.Table:
    """A seeded pool of `n` rows (all, if there are fewer), with at least two findings where the rows have two."""
    order = sample_order(rows["id"].to_pylist(), seed, config)
    findings = np.array(rows["finding"].to_pylist(), object)[order]
    chosen = order[:n]
    others = np.flatnonzero(findings != findings[:1])
    if others.size and others[0] >= n > 1:  # the first n are all of one finding
        chosen = np.append(order[: n - 1], order[others[0]])
    return rows.take(pa.array(chosen))


def chat_jsonl(rows: pa.Table) -> bytes:
    """The rows as JSONL in chat format, one line a row, in order."""
    return "".join(f"{line}\n" for line in _chat_lines(rows)).encode()


def _chat_lines(rows: pa.Table) -> Iterator[str]:
    for row in rows.to_pylist():
        lettered = [f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, row["options"], strict=False)]
        content = "\n".join(["<image>" * len(row["images"]), row["question"], *lettered, INSTRUCTION])
        line = {
            "id": row["id"],
            "messages": [
                {"role": "user", "content": content},
                {"role": "assistant", "content": string.ascii_uppercase[row["answer"]]},
            ],
            "images": [image["key"] for image in row["images"]],
        }
        yield json.dumps(line, ensure_ascii=False)


def export_problems(folder: Path, config: str, split: str, sound: Collection[tuple[str, str]]) -> list[str]:
    """What is wrong with the export of a split: it is there, is what build.json lists, and is made of the split's rows.

    folder: of a repository. sound: the splits whose rows are in order, which an export does not depend on.
    """
    path = f"{config}/{split}.jsonl"
    file = folder / path
    recorded = json.loads((folder / RECORD).read_text(encoding="utf-8")).get("exports", {}).get(path)
    if recorded is None:
        return [f"{path} is there, and {RECORD} does not list it; {REBUILD}"] if file.is_file() else []
    if not file.is_file():
        return [f"{path} is missing; {REBUILD}"]
    data = file.read_bytes()
    problems = []
    if (found := hashlib.sha256(data).hexdigest()) != recorded:
        problems.append(f"{path}: sha256 {recorded} recorded, {found} found")
    if data != chat_jsonl(read_split(folder, config, split)):
        problems.append(f"{path}: is not what the rows of {config} give")
    return problems
