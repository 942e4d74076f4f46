"""Sets for training and prompting, taken from the protocols' rows: the LoRA set (Appendix H), few-shot pools (G).

The LoRA set is also written for fine-tuning tools, as JSONL in the common chat format:

    {"id": ..., "messages": [{"role": "user", "content": "<image>...question, options"},
                             {"role": "assistant", "content": "A"}], "images": ["train/patient00001/...jpg", ...]}

The content has one `<image>` for each path in `images`, in order. The paths are keys below the root of the user's
licensed copy (the image or media folder of the tool). The user's message equals prompt B0 of the evaluation; the
assistant's message is the letter of the gold option. In LLaMA-Factory's terms this is `formatting: sharegpt` with the
columns `messages` and `images` and the tags role, content, user, assistant.
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


def sample_lora_rows(
    presence: pa.Table, absence: pa.Table, held_out: Collection[str], *, seed: int = 0, n: int = LORA_ROWS
) -> pa.Table:
    """Sample `n` rows from each of two tables of CheXpert train rows, in one seeded order.

    If a table is too short, both give equally many rows. The official splits share no patient, so `held_out` removes
    rows only from copies with other splits.

    Args:
        presence: Rows of the presence protocol.
        absence: Rows of the absence protocol.
        held_out: Study ids of the validation split. Their patients are excluded.
        seed: The seed of the build.
        n: Number of rows from each table.

    Returns:
        The rows.
    """
    patients = pa.array(sorted({patient(study) for study in held_out}), pa.string())
    tables = []
    for rows in (presence, absence):
        patient_ids = pc.list_element(pc.split_pattern(rows["study_id"], "/", max_splits=1), 0)
        tables.append(rows.filter(pc.invert(pc.is_in(patient_ids, value_set=patients))))
    n = min(n, *(table.num_rows for table in tables))
    tables = [table.take(pa.array(sample_order(table["id"].to_pylist(), seed, LORA)[:n])) for table in tables]
    combined = pa.concat_tables(tables)
    return combined.take(pa.array(sample_order(combined["id"].to_pylist(), seed, LORA)))


def patient(study: str) -> str:
    """Get the patient of a study: `patient00001/study1` -> `patient00001`.

    Args:
        study: The id of the study.

    Returns:
        The id of the patient.
    """
    return study.split("/", maxsplit=1)[0]


def fewshot(rows: pa.Table, config: str, *, seed: int = 0, n: int = FEWSHOT_ROWS) -> pa.Table:
    """Sample a seeded pool of rows, with at least two findings if the rows have two.

    Args:
        rows: The rows to sample from.
        config: The name of the few-shot config.
        seed: The seed of the build.
        n: Number of rows; all rows if there are fewer.

    Returns:
        The rows.
    """
    order = sample_order(rows["id"].to_pylist(), seed, config)
    findings = np.array(rows["finding"].to_pylist(), object)[order]
    indices = order[:n]
    other_findings = np.flatnonzero(findings != findings[:1])
    if other_findings.size and other_findings[0] >= n > 1:  # the first n rows have the same finding
        indices = np.append(order[: n - 1], order[other_findings[0]])
    return rows.take(pa.array(indices))


def format_chat_jsonl(rows: pa.Table) -> bytes:
    """Format rows as JSONL in chat format, one line per row, in order.

    Args:
        rows: Rows in the schema QUESTION.

    Returns:
        The content of the file.
    """
    return "".join(f"{line}\n" for line in _iterate_chat_lines(rows)).encode()


def _iterate_chat_lines(rows: pa.Table) -> Iterator[str]:
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


def find_export_problems(folder: Path, config: str, split: str, sound: Collection[tuple[str, str]]) -> list[str]:
    """Find faults in the export of a split.

    The file must exist, have the hash in build.json and contain the rows of the split.

    Args:
        folder: The folder of the repository.
        config: The name of the config.
        split: The name of the split.
        sound: The splits whose rows are sound. An export does not depend on other splits.

    Returns:
        The problems.
    """
    path = f"{config}/{split}.jsonl"
    file = folder / path
    recorded_digest = json.loads((folder / RECORD).read_text(encoding="utf-8")).get("exports", {}).get(path)
    if recorded_digest is None:
        return [f"{path} is there, and {RECORD} does not list it; {REBUILD}"] if file.is_file() else []
    if not file.is_file():
        return [f"{path} is missing; {REBUILD}"]
    data = file.read_bytes()
    problems = []
    if (digest := hashlib.sha256(data).hexdigest()) != recorded_digest:
        problems.append(f"{path}: sha256 {recorded_digest} recorded, {digest} found")
    if data != format_chat_jsonl(read_split(folder, config, split)):
        problems.append(f"{path}: is not what the rows of {config} give")
    return problems
