"""SurgXBench's runs in sample logs: what a model said of each frame, and what the metrics found of where it looked.

Every sample carries, under the name of its task's first metric, the row that `tasks.surgx.adapter` makes of an answer;
each is checked here, and the tables (`surgx_tables`) are computed from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.ras.levels import LEVELS
from medfaith.evaluate_metrics.reading.outcome import DECLINED
from medfaith.evaluate_metrics.reading.surgery import read_reply
from medfaith.evaluate_metrics.reading.surgical_names import INSTRUMENTS, TRIPLETS
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import LoggedRows, Rows, SampleError, read_lines
from medfaith.tasks.surgx.adapter import TIED

SOURCES = {"cholec80_boxes": "Cholec80-Boxes", "cholect45": "CholecT45", "cholect50": "CholecT50"}  # of the frames
FIRST_METRIC = {"instruments": "f1", "triplets": "coverage", "occlusion": "lost"}  # where a sample keeps its row
_KEPT = {"instruments": "looks", "triplets": "seen"}  # in a row, what is known of the heatmaps
# Arguments of the models of this package that change what is predicted or where a model is said to look.
_TELLING = ("heatmap", "explainer", "threshold", "percentile", "layer", "target")
_STATES = ("degenerate", "without_map")
_RAS_STATES = (*_STATES, "without_motion", "without_prediction")


class SurgXSetting(NamedTuple):
    """What was asked and how. source: of SOURCES; ask: instruments, triplets or occlusion (of triplets); variant: the
    model's telling arguments, as "heatmap=centre".
    """

    source: str
    ask: str
    prompt: str
    variant: str


class SurgXRow(NamedTuple):
    """One frame.

    gold, predicted: classes, those predicted best first; None for an answer that is unread or declined.
    records: of `attention_alignment.score_frame` (instruments) or `ras.score_frame` (triplets); none of occlusion.
    tied: similarities tie, so that classes which would be predicted could not be named.
    scores: one number for each of the 100 triplets, None where the model ranks none; of occlusion, before.
    heatmaps: what the answer's heatmaps are found by in the model's store, None where it keeps none.
    occluded: of a frame with a covered triplet, what is left of that when the region the model looked at is black:
    {"triplet", "before", "after" (its similarities), "predicted" (the best triplets after)}, the last two None where
    the heatmap has no region; else None. Logs of older versions have no more; others have "top_after" (similarities of
    "predicted") and "painted" (share of the boxes of its instrument, as far as the model saw them, that is black).
    visible: of each true box in the frame its label and the share of it that the model could see, after its resizing
    and cropping; none where it keeps no heatmaps. declined: the model says that it cannot or will not answer.
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

    def visible_shares(self, label: str | None = None) -> list[float]:
        """Of the boxes with this label, or of all."""
        return [share for name, share in self.visible if label in (None, name)]


@dataclass(frozen=True, eq=False)
class SurgXRun(LoggedRows):
    """One model's answers to one question about one source, ordered by the frames' ids."""

    setting: SurgXSetting
    rows: tuple[SurgXRow, ...]

    @property
    def telling(self) -> list[str]:
        """The model's telling arguments, and the prompt where it is not the task's own."""
        own = [self.setting.variant] * bool(self.setting.variant)
        return own + [self.setting.prompt] * (self.setting.prompt != "b0")

    @property
    def unread(self) -> list[str]:
        """The ids of the frames whose answers could not be read."""
        return [row.id for row in self.rows if row.predicted is None and not row.declined]

    @property
    def declined(self) -> list[str]:
        """The ids of the frames whose answers decline to answer."""
        return [row.id for row in self.rows if row.declined]

    @property
    def videos(self) -> list[int]:
        """Of each row, what the intervals draw."""
        return [row.video for row in self.rows]

    @property
    def records(self) -> list[Mapping[str, Any]]:
        """Of all rows."""
        return [record for row in self.rows for record in row.records]


def in_surgx_order(runs: list[SurgXRun]) -> list[SurgXRun]:
    """By model, its arguments and prompt, then as SOURCES has them."""
    sources = [*SOURCES]
    return sorted(
        runs,
        key=lambda run: (
            run.model.casefold(), run.model, run.adapter, run.setting.variant, run.setting.prompt,
            sources.index(run.setting.source), run.setting.ask != "triplets",
        ),
    )  # fmt: skip


def read_surgx_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[SurgXRun]:
    """The runs in a sample log, one for each source; none for another benchmark's log.

    Args and Raises: as `logs.lines.read_lines`.
    """
    return read_lines(file, _SurgXLines, progress)


_OF_CONFIG = {"instruments": "cholec80_boxes", "triplets": "cholect45", "triplets_t50": "cholect50"}


class _SurgXLines(Rows):
    columns = ("ask", "gold", "boxes", "top_k", "video")

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> SurgXSetting:
        """Without the model's arguments, which `run` knows."""
        source = doc["images"].split(":")[0] or _OF_CONFIG.get(doc["id"].split("/")[0], "")  # none are shown: the id
        if source not in SOURCES:
            raise SampleError("doc.images", f"{doc['images']!r:.100} begins with none of {', '.join(SOURCES)}")
        if doc["ask"] not in _KEPT or (doc["ask"] == "instruments") != (source == "cholec80_boxes"):
            raise SampleError("doc.ask", f"{doc['ask']!r} of a frame of {source}")
        return SurgXSetting(source, _asked(doc), str(doc.get("prompt") or "b0"), "")

    @staticmethod
    def row(sample: Mapping[str, Any]) -> SurgXRow:
        return _row(sample)

    def run(self, setting: SurgXSetting, file: SampleFile, *, single: bool) -> SurgXRun:
        return SurgXRun(setting=setting._replace(variant=file.telling(_TELLING)), **self.logged(file, single=single))


def _asked(doc: Mapping[str, Any]) -> str:
    return "occlusion" if doc.get("occlude") else doc["ask"]


def _row(sample: Mapping[str, Any]) -> SurgXRow:
    doc, reply = sample["doc"], sample["filtered_resps"][0]
    ask = _asked(doc)
    where = FIRST_METRIC[ask]
    row = sample.get(where)
    if not isinstance(row, dict):
        raise SampleError(where, f"{str(row)[:100]!r} is not the row that the task keeps there")
    if not isinstance(reply, str):
        raise SampleError("filtered_resps", f"{str(reply)[:100]} is not a text")
    if not isinstance(row["video"], int):
        raise SampleError(f"{where}.video", f"{row['video']!r} is not a number")
    instruments, said = ask == "instruments", read_reply(reply)
    gold = _names(row["gold"], f"{where}.gold", INSTRUMENTS if instruments else TRIPLETS)
    predicted = None
    if row["predicted"] is not None:  # a language model may combine a triplet that is none of the 100
        predicted = _names(row["predicted"], f"{where}.predicted", INSTRUMENTS if instruments else None)
    return SurgXRow(
        doc["id"],
        row["video"],
        gold,
        predicted,
        row.get("outcome") == TIED,
        _records(row, ask, (predicted or ()) if instruments else gold) if ask in _KEPT else (),
        None if instruments else _scores(row["scores"] if ask == "triplets" else said.scores, f"{where}.scores"),
        said.heatmaps,
        None if instruments else _occluded(row.get("occluded"), gold, f"{where}.occluded"),
        _visible(row.get("visible"), doc["boxes"], f"{where}.visible"),
        row.get("outcome") == DECLINED and predicted is None,
    )


def _records(row: Mapping[str, Any], ask: str, expected: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
    """One for each class that is expected, in that order."""
    records, column = row[_KEPT[ask]], f"{FIRST_METRIC[ask]}.{_KEPT[ask]}"
    check, label = (_check_look, "label") if ask == "instruments" else (_check_seen, "triplet")
    for record in records:
        check(record, column)
    if tuple(record[label] for record in records) != expected:
        raise SampleError(column, f"{len(records)} records, not one for each of {list(expected)}")
    return tuple(records)


def _names(names: Any, column: str, classes: tuple[str, ...] | None) -> tuple[str, ...]:
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
        raise SampleError(column, f"the rank {record['rank']!r} of the level {record['level']}")
    if not all(isinstance(record[name], bool) for name in ("null", "has_box")) or record["n_left_out"] < 0:
        raise SampleError(column, f"{dict(record)!r:.200} is not a record of RAS")
    _check_state(record, "ras", _RAS_STATES, column)


def _check_state(record: Mapping[str, Any], score: str, unscored: tuple[str, ...], column: str) -> None:
    """A share where the state is "scored", NaN where it says why there is none."""
    state, value = record["state"], record[score]
    if not isinstance(record["video"], str):
        raise SampleError(column, f"the video {record['video']!r} is not a text")
    if not isinstance(record.get("cut_at_zero", False), bool):  # logs of earlier versions lack it
        raise SampleError(column, f"cut_at_zero is {record['cut_at_zero']!r}, not true or false")
    if state != "scored" and state not in unscored:
        raise SampleError(column, f"the state {state!r} is none of scored, {', '.join(unscored)}")
    known = isinstance(value, float | int) and not math.isnan(value)
    if not isinstance(value, float | int) or known != (state == "scored") or (known and not 0 <= value <= 1):
        raise SampleError(column, f"{score} is {value!r} in the state {state}")


def _scores(scores: Any, column: str) -> tuple[float, ...] | None:
    if scores is None:
        return None
    numbers = [value for value in scores if isinstance(value, float | int) and math.isfinite(value)]
    if len(numbers) != len(scores) or len(scores) != len(TRIPLETS):
        raise SampleError(column, f"{len(numbers)} numbers; expected one for each of the {len(TRIPLETS)} triplets")
    return tuple(scores)


def _occluded(occluded: Any, gold: tuple[str, ...], column: str) -> Mapping[str, Any] | None:
    if occluded is None:
        return None
    if occluded["triplet"] not in gold:
        raise SampleError(column, f"{occluded['triplet']!r} is none of the frame's triplets, {list(gold)}")
    if occluded["after"] is not None or occluded["predicted"] is not None:
        _names(occluded["predicted"], column, TRIPLETS)
    for name in ("before", "after") if occluded["predicted"] is not None else ("before",):
        if not isinstance(occluded[name], float | int) or not math.isfinite(occluded[name]):
            raise SampleError(column, f"{name} is {occluded[name]!r}, not a similarity")
    if occluded.get("top_after") is not None and len(occluded["top_after"]) != len(occluded["predicted"]):
        raise SampleError(column, f"{len(occluded['top_after'])} similarities of {len(occluded['predicted'])} triplets")
    return occluded


def _visible(
    shares: Sequence[Any] | None, boxes: Sequence[Mapping[str, Any]], column: str
) -> tuple[tuple[str, float], ...]:
    if shares is None:
        return ()
    if len(shares) != len(boxes):
        raise SampleError(column, f"{len(shares)} shares; expected one for each of the frame's {len(boxes)} boxes")
    for share in shares:
        if not isinstance(share, float | int) or share < 0 or share > 1:  # NaN is neither: a box without area
            raise SampleError(column, f"{share!r} is not a share")
    return tuple((box["label"], share) for box, share in zip(boxes, shares, strict=True) if not math.isnan(share))
