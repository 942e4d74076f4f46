"""Runs of SurgXBench in sample logs: the answer to each frame, and the metrics of the model's attention.

Each sample holds, under the name of its task's first metric, the row that `tasks.surgx.adapter` computes from an
answer. Each row is checked here. The tables (`tables`) are computed from the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.ras.levels import LEVELS
from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED
from medfaith.evaluate_metrics.reading.surgery import read_reply
from medfaith.evaluate_metrics.reading.surgical_names import INSTRUMENTS, TRIPLETS
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import LoggedRows, Rows, SampleError, read_lines
from medfaith.tasks.stated_boxes import ASK
from medfaith.tasks.surgx.adapter import TIED

from ..stated_boxes import find_outcome, read_record

SOURCES = {  # source -> name
    "cholec80_boxes": "Cholec80-Boxes",
    "cholect45": "CholecT45",
    "cholect50": "CholecT50",
    "cholecseg8k": "CholecSeg8k",
}
PAPER_SOURCE = "cholec80_boxes"  # of the paper's question for instruments
_OF_BOXES, _OF_TRIPLETS = (PAPER_SOURCE, "cholecseg8k"), ("cholect45", "cholect50")
_ASKED_OF = {"instruments": _OF_BOXES, ASK: _OF_BOXES, "triplets": _OF_TRIPLETS}
FIRST_METRIC = {"instruments": "f1", "triplets": "coverage", "occlusion": "lost"}  # metric that holds the row
_RECORD_COLUMNS = {"instruments": "looks", "triplets": "seen"}  # column with the records of the heatmaps
# Arguments of this package's models that change predictions or heatmaps.
_TELLING = ("heatmap", "explainer", "threshold", "percentile", "layer", "target")
_STATES = ("degenerate", "without_map")
_RAS_STATES = (*_STATES, "without_motion", "without_prediction")


class SurgXSetting(NamedTuple):
    """The frames, the question and the prompt.

    Attributes:
        source: A key of SOURCES.
        ask: instruments, triplets, occlusion (of triplets) or stated_boxes.
        prompt: The prompt.
        variant: The model's distinctive arguments, such as "heatmap=centre".
    """

    source: str
    ask: str
    prompt: str
    variant: str


class SurgXRow(NamedTuple):
    """One frame.

    Attributes:
        id: Id of the row.
        video: Number of the video.
        gold: True classes.
        predicted: Predicted classes, best first; None for an unread or declined answer.
        tied: Whether equal similarities prevent some classes from being predicted.
        records: Records of `attention_alignment.score_frame` (instruments) or `ras.score_frame` (triplets); empty for
            occlusion.
        scores: A similarity for each of the 100 triplets, for occlusion before it; None if the model ranks no triplets.
        heatmaps: Reference to the answer's heatmaps in the model's store; None without heatmaps.
        occluded: For a frame with a covered triplet, {"triplet", "before", "after" (its similarities), "predicted" (the
            best triplets after occlusion)}. "after" and "predicted" are None if the heatmap has no region. Newer logs
            also have "top_after" (similarities of "predicted") and "painted" (share of the visible boxes of its
            instrument that is black). None for other frames.
        visible: Label of each true box, and the share of the box that the model saw after resizing and cropping; empty
            without heatmaps.
        declined: Whether the model declined to answer.
        stated: Record of the boxes that the answer states; None for other questions. Such a row is one instrument of a
            frame.
    """

    id: str
    video: int
    gold: tuple[str, ...]
    predicted: tuple[str, ...] | None
    tied: bool
    records: tuple[Mapping[str, Any], ...]
    scores: tuple[float, ...] | None
    heatmaps: str | None
    occluded: Mapping[str, Any] | None
    visible: tuple[tuple[str, float], ...]
    declined: bool = False
    stated: Mapping[str, Any] | None = None

    def visible_shares(self, label: str | None = None) -> list[float]:
        """List the visible shares of the true boxes.

        Args:
            label: Label of the boxes; None for all.

        Returns:
            The shares.
        """
        return [share for name, share in self.visible if label in (None, name)]


@dataclass(frozen=True, eq=False)
class SurgXRun(LoggedRows):
    """One model's answers to one question about one source, ordered by the frames' ids.

    Attributes:
        setting: The setting.
        rows: The frames.
    """

    setting: SurgXSetting
    rows: tuple[SurgXRow, ...]

    @property
    def telling(self) -> list[str]:
        """The model's distinctive arguments, and a prompt that differs from the task's own."""
        names = [self.setting.variant] * bool(self.setting.variant)
        return names + [self.setting.prompt] * (self.setting.prompt != "b0")

    @property
    def unread(self) -> list[str]:
        """Ids of the frames whose answers could not be read."""
        return [row.id for row in self.rows if row.predicted is None and not row.declined]

    @property
    def declined(self) -> list[str]:
        """Ids of the frames that the model declined to answer."""
        return [row.id for row in self.rows if row.declined]

    @property
    def videos(self) -> list[int]:
        """Video of each row, the unit that intervals resample."""
        return [row.video for row in self.rows]

    @property
    def records(self) -> list[Mapping[str, Any]]:
        """Records of all rows."""
        return [record for row in self.rows for record in row.records]


def sort_surgx_runs(runs: list[SurgXRun]) -> list[SurgXRun]:
    """Sort runs by model, arguments and prompt, then in the order of SOURCES.

    Args:
        runs: The runs.

    Returns:
        The sorted runs.
    """
    sources = [*SOURCES]
    return sorted(
        runs,
        key=lambda run: (
            run.model.casefold(), run.model, run.adapter, run.setting.variant, run.setting.prompt,
            sources.index(run.setting.source), run.setting.ask != "triplets",
        ),
    )  # fmt: skip


def read_surgx_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[SurgXRun]:
    """Read the runs of a sample log, one for each source.

    Args:
        file: The log.
        progress: Called with the number of bytes of each line read.

    Returns:
        The runs; [] for a log of another benchmark.

    Raises:
        InputError: As `logs.lines.read_lines`.
    """
    return read_lines(file, _SurgXLines, progress)


_SOURCE_BY_CONFIG = {
    "instruments": "cholec80_boxes", "triplets": "cholect45", "triplets_t50": "cholect50",
    "instruments_seg8k": "cholecseg8k",
}  # fmt: skip


class _SurgXLines(Rows):
    columns = ("ask", "gold", "boxes", "top_k", "video")

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> SurgXSetting:
        """Read the setting of a line; `run` adds the model's arguments."""
        source = doc["images"].split(":")[0] or _SOURCE_BY_CONFIG.get(
            doc["id"].split("/")[0], ""
        )  # without images: the id
        if source not in SOURCES:
            raise SampleError("doc.images", f"{doc['images']!r:.100} begins with none of {', '.join(SOURCES)}")
        if source not in _ASKED_OF.get(doc["ask"], ()):
            raise SampleError("doc.ask", f"{doc['ask']!r} does not fit a frame of {source}")
        return SurgXSetting(source, _get_task_kind(doc), str(doc.get("prompt") or "b0"), "")

    @staticmethod
    def row(sample: Mapping[str, Any]) -> SurgXRow:
        return _read_row(sample)

    def run(self, setting: SurgXSetting, file: SampleFile, *, single: bool) -> SurgXRun:
        return SurgXRun(setting=setting._replace(variant=file.telling(_TELLING)), **self.logged(file, single=single))


def _get_task_kind(doc: Mapping[str, Any]) -> str:
    return "occlusion" if doc.get("occlude") else doc["ask"]


def _read_row(sample: Mapping[str, Any]) -> SurgXRow:
    doc, reply = sample["doc"], sample["filtered_resps"][0]
    ask = _get_task_kind(doc)
    if ask == ASK:
        return _read_stated_row(doc, read_record(sample))
    metric = FIRST_METRIC[ask]
    row = sample.get(metric)
    if not isinstance(row, dict):
        raise SampleError(metric, f"{str(row)[:100]!r} is not the row that the task logs")
    if not isinstance(reply, str):
        raise SampleError("filtered_resps", f"{str(reply)[:100]} is not a text")
    if not isinstance(row["video"], int):
        raise SampleError(f"{metric}.video", f"{row['video']!r} is not a number")
    is_instruments, reply_parts = ask == "instruments", read_reply(reply)
    gold = _check_names(row["gold"], f"{metric}.gold", INSTRUMENTS if is_instruments else TRIPLETS)
    predicted = None
    if row["predicted"] is not None:  # a language model may write a triplet outside of the 100
        predicted = _check_names(row["predicted"], f"{metric}.predicted", INSTRUMENTS if is_instruments else None)
    return SurgXRow(
        doc["id"],
        row["video"],
        gold,
        predicted,
        row.get("outcome") == TIED,
        _check_records(row, ask, (predicted or ()) if is_instruments else gold) if ask in _RECORD_COLUMNS else (),
        None
        if is_instruments
        else _check_scores(row["scores"] if ask == "triplets" else reply_parts.scores, f"{metric}.scores"),
        reply_parts.heatmaps,
        None if is_instruments else _check_occluded(row.get("occluded"), gold, f"{metric}.occluded"),
        _check_visible(row.get("visible"), doc["boxes"], f"{metric}.visible"),
        row.get("outcome") == DECLINED and predicted is None,
    )


def _read_stated_row(doc: Mapping[str, Any], record: Mapping[str, Any]) -> SurgXRow:
    """Read one instrument of a frame."""
    outcome = find_outcome(record)
    predicted = () if outcome == ANSWERED else None
    gold = _check_names(doc["gold"], "doc.gold", INSTRUMENTS)
    return SurgXRow(
        doc["id"], doc["video"], gold, predicted, False, (), None, None, None, (), outcome == DECLINED, record
    )


def _check_records(row: Mapping[str, Any], ask: str, expected: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
    """Check the records: one for each expected class, in that order."""
    records, column = row[_RECORD_COLUMNS[ask]], f"{FIRST_METRIC[ask]}.{_RECORD_COLUMNS[ask]}"
    check, label = (_check_look, "label") if ask == "instruments" else (_check_seen, "triplet")
    for record in records:
        check(record, column)
    if tuple(record[label] for record in records) != expected:
        raise SampleError(column, f"{len(records)} records, not one for each of {list(expected)}")
    return tuple(records)


def _check_names(names: Any, column: str, classes: tuple[str, ...] | None) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SampleError(column, f"{names!r} is not a list of texts")
    unknown = sorted({*names} - {*classes}) if classes else []
    if unknown:
        raise SampleError(column, f"{unknown[0]!r} is none of the {len(classes or ())} classes")
    return tuple(names)


def _check_look(record: Mapping[str, Any], column: str) -> None:
    if record["outcome"] not in ("tp", "fp"):
        raise SampleError(column, f"the outcome {record['outcome']!r} is neither tp nor fp")
    for score in ("aa", "ac"):
        _check_state(record, score, _STATES, column)


def _check_seen(record: Mapping[str, Any], column: str) -> None:
    if record["level"] not in LEVELS:
        raise SampleError(column, f"the level {record['level']!r} is none of {', '.join(LEVELS)}")
    if (record["rank"] is None) != (record["level"] == "missed"):
        raise SampleError(column, f"the rank {record['rank']!r} does not fit the level {record['level']}")
    if not all(isinstance(record[name], bool) for name in ("null", "has_box")) or record["n_left_out"] < 0:
        raise SampleError(column, f"{dict(record)!r:.200} is not a record of RAS")
    _check_state(record, "ras", _RAS_STATES, column)


def _check_state(record: Mapping[str, Any], score: str, unscored: tuple[str, ...], column: str) -> None:
    """Check a record: a share in the state "scored", NaN in a state without score."""
    state, value = record["state"], record[score]
    if not isinstance(record["video"], str):
        raise SampleError(column, f"the video {record['video']!r} is not a text")
    if not isinstance(record.get("cut_at_zero", False), bool):  # missing from logs of earlier versions
        raise SampleError(column, f"cut_at_zero is {record['cut_at_zero']!r}, not true or false")
    if state != "scored" and state not in unscored:
        raise SampleError(column, f"the state {state!r} is none of scored, {', '.join(unscored)}")
    is_number = isinstance(value, float | int) and not math.isnan(value)
    if not isinstance(value, float | int) or is_number != (state == "scored") or (is_number and not 0 <= value <= 1):
        raise SampleError(column, f"{score} is {value!r} in the state {state}")


def _check_scores(scores: Any, column: str) -> tuple[float, ...] | None:
    if scores is None:
        return None
    numbers = [value for value in scores if isinstance(value, float | int) and math.isfinite(value)]
    if len(numbers) != len(scores) or len(scores) != len(TRIPLETS):
        raise SampleError(column, f"{len(numbers)} numbers; expected one for each of the {len(TRIPLETS)} triplets")
    return tuple(scores)


def _check_occluded(occluded: Any, gold: tuple[str, ...], column: str) -> Mapping[str, Any] | None:
    if occluded is None:
        return None
    if occluded["triplet"] not in gold:
        raise SampleError(column, f"{occluded['triplet']!r} is none of the frame's triplets, {list(gold)}")
    predicted, top_after = occluded["predicted"], occluded.get("top_after")
    if occluded["after"] is not None or predicted is not None:
        _check_names(predicted, column, TRIPLETS)
    for name in ("before", "after") if predicted is not None else ("before",):
        if not isinstance(occluded[name], float | int) or not math.isfinite(occluded[name]):
            raise SampleError(column, f"{name} is {occluded[name]!r}, not a similarity")
    if top_after is not None and len(top_after) != len(predicted):
        raise SampleError(column, f"{len(top_after)} similarities of {len(predicted)} triplets")
    return occluded


def _check_visible(
    shares: Sequence[Any] | None, boxes: Sequence[Mapping[str, Any]], column: str
) -> tuple[tuple[str, float], ...]:
    if shares is None:
        return ()
    if len(shares) != len(boxes):
        raise SampleError(column, f"{len(shares)} shares; expected one for each of the frame's {len(boxes)} boxes")
    for share in shares:
        if not isinstance(share, float | int) or share < 0 or share > 1:  # False for NaN (a box without area)
            raise SampleError(column, f"{share!r} is not a share")
    return tuple((box["label"], share) for box, share in zip(boxes, shares, strict=True) if not math.isnan(share))
