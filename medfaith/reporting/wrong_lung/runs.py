"""Runs of That's the Wrong Lung! in sample logs: the model's attention for each original or changed sentence.

Each sample holds, under the name of its task's first metric, the row that `tasks.wrong_lung.adapter` computes from an
answer. Each row is checked here. The tables (`tables`) are computed from the rows.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.localization.pairs import RANDOM_SENTENCES, SIMILARITIES, SUBSETS, VALUES, Row
from medfaith.evaluate_metrics.localization.score import RANKED, SCORED, STATES, distribution
from medfaith.loaders.errors import InputError
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import AGAIN, LoggedRows, Rows, SampleError, check_texts, read_lines
from medfaith.tasks.explain.token_relevancy import Relevancy
from medfaith.tasks.wrong_lung.adapter import SCORING, TAKES_BOXES, add_divergence, read_reply, unpacked

from ..relevancy import read_relevancy

GOLD, SYNTHETIC, SWAPPED, TRIMMED = "gold", "synthetic", "synthetic_swapped_conditions", "trimmed"
CHANGED = ("swap_left_right", "shuffle_in_report", RANDOM_SENTENCES, "random_boxes", SYNTHETIC, SWAPPED, TRIMMED)
TASK = "medfaith_wrong_lung_"
HELD_OUT = "held-out patients"
_OLD_SCORING = {"upsampling": "bilinear", "precision_ties": "excluded"}  # scoring of earlier versions, which log none
# Arguments of this package's models that change the attention.
_TELLING = ("heatmap", "explainer", "attention", "tau", "layer", "target")


class Scoring(NamedTuple):
    """How attention was scored (`tasks.wrong_lung.adapter.SCORING`); no table mixes two scorings.

    Attributes:
        upsampling: Interpolation of the heatmap.
        precision_ties: Whether precision counts pixels tied with the threshold.
    """

    upsampling: str = SCORING["upsampling"][0]
    precision_ties: str = SCORING["precision_ties"][0]

    @property
    def words(self) -> list[str]:
        """Labels of the choices that differ from the default."""
        label_by_value = {"nearest": "nearest upsampling", "excluded": "precision without ties"}
        return [label_by_value[value] for value in self if value in label_by_value]


class WrongLungSetting(NamedTuple):
    """The sentences, the model's arguments and the scoring.

    Attributes:
        config: gold, or the config of the changed sentences.
        variant: The model's distinctive arguments, such as "heatmap=centre", the control, and whether the run covers
            held-out patients only, because such a run is not comparable with one over all patients.
        scoring: How attention was scored.
    """

    config: str
    variant: str
    scoring: Scoring = Scoring()


class Sentence(NamedTuple):
    """One row of a log, see `evaluate_metrics.localization.pairs`.

    Attributes:
        id: Id of the row.
        original_id: Id of the original sentence.
        perturbation: Name of the perturbation; None for an original.
        cluster: The patient.
        subsets: Subset -> whether the sentence belongs to it.
        state: Whether the attention could be scored, or why not.
        values: Value by name; None if undefined.
        attention: The attention as `adapter.packed` encodes it; None if the log does not have it.
        heatmaps: Reference to the store; None for an answer in words.
        takes_boxes: Whether the model's input has the reference boxes of the image.
        relevancy: The relevancy of image tokens and text tokens; None if the model gave none.
    """

    id: str
    original_id: str | None
    perturbation: str | None
    cluster: str
    subsets: Mapping[str, bool]
    state: str
    values: Mapping[str, float | None]
    attention: Mapping[str, Any] | None
    heatmaps: str | None
    takes_boxes: bool
    relevancy: Relevancy | None = None


@dataclass(frozen=True, eq=False)
class WrongLungRun(LoggedRows):
    """One model's answers in one task, ordered by row id.

    Attributes:
        setting: The setting.
        rows: Rows as in `evaluate_metrics.localization.pairs`, with `heatmaps`; random sentences have a value "kl".
        n_left_out: Number of rows of patients that --patients excludes.
    """

    setting: WrongLungSetting
    in_words = False
    rows: tuple[Row, ...]
    n_left_out: int

    @property
    def ids(self) -> Collection[str]:
        """Ids of the rows."""
        return [row["id"] for row in self.rows]

    @property
    def telling(self) -> list[str]:
        """The model's distinctive arguments, the restriction to held-out patients and a non-default scoring."""
        return [*filter(None, [self.setting.variant]), *self.setting.scoring.words]

    @property
    def originals(self) -> list[Row]:
        """Rows of original sentences."""
        return [row for row in self.rows if row["perturbation"] is None]

    @property
    def changed(self) -> list[Row]:
        """Rows of changed sentences."""
        return [row for row in self.rows if row["perturbation"] is not None]


def sort_wrong_lung_runs(runs: list[WrongLungRun]) -> list[WrongLungRun]:
    """Sort runs by scoring, model and arguments, then gold before the configs of CHANGED.

    Args:
        runs: The runs.

    Returns:
        The sorted runs.
    """
    configs = [GOLD, *CHANGED]
    return sorted(
        runs,
        key=lambda run: (
            run.setting.scoring.words, run.model.casefold(), run.model, run.adapter, run.setting.variant,
            configs.index(run.setting.config),
        ),
    )  # fmt: skip


def read_wrong_lung_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[WrongLungRun]:
    """Read the run of a sample log.

    Args:
        file: The log.
        progress: Called with the number of bytes of each line read.

    Returns:
        One run; [] for a log of another benchmark.

    Raises:
        InputError: As `logs.lines.read_lines`; or the two attentions of a pair cannot be compared.
    """
    return read_lines(file, _WrongLungLines, progress)


@dataclass
class _WrongLungLines(Rows):
    columns = ("sentence", "subsets", "perturbation", "patient_id")
    n_left_out: int = 0

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> WrongLungSetting:
        """Read the setting of a line; `run` adds the model's arguments."""
        config = next((config for config in (GOLD, *CHANGED) if task.endswith(f"wrong_lung_{config}")), None)
        if config is None:
            raise SampleError("doc", f"the task {task} is none of {TASK}{GOLD}, {TASK}{', '.join(CHANGED)}")
        if doc["perturbation"] not in ((None,) if config == GOLD else (None, config)):
            raise SampleError("doc.perturbation", f"{doc['perturbation']!r} in the task {task}")
        scoring = Scoring(*(doc.get(name, before) for name, before in _OLD_SCORING.items()))
        for name, choices in SCORING.items():
            if (value := getattr(scoring, name)) not in choices:
                raise SampleError(f"doc.{name}", f"{value!r} is none of {', '.join(choices)}")
        return WrongLungSetting(config, "", scoring)

    @staticmethod
    def row(sample: Mapping[str, Any]) -> Sentence:
        return _read_sentence(sample)

    def add(self, sample: Mapping[str, Any]) -> None:
        super().add(sample)
        self.n_left_out = max(self.n_left_out, int(sample["doc"].get("n_rows_left_out") or 0))

    def run(self, setting: WrongLungSetting, file: SampleFile, *, single: bool) -> WrongLungRun:
        logged = self.logged(file, single=single)
        logged["n_data"] += self.n_left_out
        rows = [row._asdict() for row in logged["rows"]]
        if setting.config == RANDOM_SENTENCES:
            try:
                rows = add_divergence(rows)
            except ValueError as error:
                raise InputError(file.path, f"has a pair without divergence: {error}", action=AGAIN) from error
        distinctive = file.telling(_TELLING), dict(file.told).get("control"), HELD_OUT if self.n_left_out else ""
        variant = ", ".join(filter(None, distinctive))
        fields: dict[str, Any] = {
            "setting": setting._replace(variant=variant),
            "rows": tuple(rows),
            "n_left_out": self.n_left_out,
        }
        return WrongLungRun(**logged | fields)


def _read_sentence(sample: Mapping[str, Any]) -> Sentence:
    doc = sample["doc"]
    metric = "delta_auroc" if "delta_auroc" in sample else "auroc"
    row = sample.get(metric)
    if not isinstance(row, dict):
        raise SampleError(metric, f"{str(row)[:100]!r} is not the row that the task logs")
    for column in ("id", "original_id", "perturbation"):
        if row[column] != doc[column]:
            raise SampleError(f"{metric}.{column}", f"{row[column]!r} differs from the document's {doc[column]!r}")
    check_texts(row, ("id", "cluster", *(("original_id",) if row["perturbation"] is not None else ())), metric)
    subsets = {name: row["subsets"][name] for name in SUBSETS[1:]}
    if not all(isinstance(inside, bool) for inside in subsets.values()):
        raise SampleError(f"{metric}.subsets", f"{subsets!r}; expected true or false of each")
    reply = read_reply(sample["filtered_resps"][0])
    return Sentence(
        row["id"], row["original_id"], row["perturbation"], row["cluster"], subsets, row["state"],
        _check_values(row, metric), _check_attention(row, metric), reply.heatmaps, row.get(TAKES_BOXES) is True,
        read_relevancy(reply.relevancy),
    )  # fmt: skip


def _check_values(row: Mapping[str, Any], metric: str) -> dict[str, float | None]:
    """Check the values of a row: shares, entropies and similarities; None if undefined."""
    if row["state"] not in STATES:
        raise SampleError(f"{metric}.state", f"{row['state']!r} is none of {', '.join(STATES)}")
    values = {name: row["values"][name] for name in VALUES}
    for name, value in values.items():
        if value is None:
            continue
        lowest = -math.inf if name in SIMILARITIES else 0
        highest = 1 if name in (*RANKED, "no_attn") else math.inf
        is_number = isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not lowest <= value <= highest:
            raise SampleError(f"{metric}.values", f"{name} is {value!r}")
        if name in RANKED and row["state"] != SCORED:
            raise SampleError(f"{metric}.values", f"{name} is {value!r} in the state {row['state']}")
    return values


def _check_attention(row: Mapping[str, Any], metric: str) -> Mapping[str, Any] | None:
    """Check that `unpacked` and the divergence can read the attention."""
    packed = row.get("attention")
    if packed is None:
        return None
    try:
        distribution(unpacked(packed))
    except (LookupError, TypeError, ValueError, zlib.error) as error:
        raise SampleError(f"{metric}.attention", f"cannot be read ({str(error)[:100]})") from error
    return packed
