"""That's the Wrong Lung! in sample logs: where a model's attention lies for each sentence, original or changed.

Every sample carries, under the name of its task's first metric, the row that `tasks.wrong_lung.adapter` makes of an
answer; each is checked here, and the tables (`wrong_lung_tables`) are computed from them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.localization.pairs import RANDOM_SENTENCES, SIMILARITIES, SUBSETS, VALUES, Row
from medfaith.evaluate_metrics.localization.score import RANKED, SCORED, STATES, distribution
from medfaith.loaders.errors import InputError
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import AGAIN, LoggedRows, Rows, SampleError, check_texts, read_lines
from medfaith.tasks.wrong_lung.adapter import SCORING, add_divergence, read_reply, unpacked

GOLD, SYNTHETIC, SWAPPED, TRIMMED = "gold", "synthetic", "synthetic_swapped_conditions", "trimmed"
CHANGED = ("swap_left_right", "shuffle_in_report", RANDOM_SENTENCES, "random_boxes", SYNTHETIC, SWAPPED, TRIMMED)
TASK = "medfaith_wrong_lung_"
HELD_OUT = "held-out patients"
BEFORE = {"upsampling": "bilinear", "precision_ties": "excluded"}  # of logs that do not say: those of earlier versions
# Arguments of the models of this package that change where the attention is said to lie.
_TELLING = ("heatmap", "explainer", "attention", "tau", "layer", "target")


class Scoring(NamedTuple):
    """How attention was scored (`tasks.wrong_lung.adapter.SCORING`). Figures of two scorings stand in no one table."""

    upsampling: str = SCORING["upsampling"][0]
    precision_ties: str = SCORING["precision_ties"][0]

    @property
    def words(self) -> list[str]:
        """What is not as by default."""
        named = {"nearest": "nearest upsampling", "excluded": "precision without ties"}
        return [named[value] for value in self if value in named]


class WrongLungSetting(NamedTuple):
    """config: gold, or that of the changed sentences. variant: the model's telling arguments, as "heatmap=centre", the
    control, and whether it was asked about held-out patients only: such a run is not held beside one about all.
    """

    config: str
    variant: str
    scoring: Scoring = Scoring()


class Sentence(NamedTuple):
    """One row of a log, see `evaluate_metrics.localization.pairs`.

    attention: as `adapter.packed`, where it is kept. heatmaps: where the store has it, None of an answer in words.
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


@dataclass(frozen=True, eq=False)
class WrongLungRun(LoggedRows):
    """One model's answers in one task, ordered by the rows' ids.

    rows: as `evaluate_metrics.localization.pairs` has them, each with `heatmaps`; those of random sentences with a
    value "kl". n_left_out: rows of patients that were not asked about (`--patients`).
    """

    setting: WrongLungSetting
    rows: tuple[Row, ...]
    n_left_out: int

    @property
    def telling(self) -> list[str]:
        """The model's telling arguments, whether it was asked about held-out patients only, and another scoring."""
        return [*filter(None, [self.setting.variant]), *self.setting.scoring.words]

    @property
    def originals(self) -> list[Row]:
        return [row for row in self.rows if row["perturbation"] is None]

    @property
    def changed(self) -> list[Row]:
        return [row for row in self.rows if row["perturbation"] is not None]


def in_wrong_lung_order(runs: list[WrongLungRun]) -> list[WrongLungRun]:
    """By scoring, by model and its arguments, then the gold sentences before CHANGED."""
    configs = [GOLD, *CHANGED]
    return sorted(
        runs,
        key=lambda run: (
            run.setting.scoring.words, run.model.casefold(), run.model, run.adapter, run.setting.variant,
            configs.index(run.setting.config),
        ),
    )  # fmt: skip


def read_wrong_lung_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[WrongLungRun]:
    """The run in a sample log; none for another benchmark's log.

    Args and Raises: as `logs.lines.read_lines`; also InputError for two attentions of a pair that cannot be compared.
    """
    return read_lines(file, _WrongLungLines, progress)


@dataclass
class _WrongLungLines(Rows):
    columns = ("sentence", "subsets", "perturbation", "patient_id")
    n_left_out: int = 0

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> WrongLungSetting:
        """Without the model's arguments, which `run` knows."""
        config = next((config for config in (GOLD, *CHANGED) if task.endswith(f"wrong_lung_{config}")), None)
        if config is None:
            raise SampleError("doc", f"of the task {task}, which is none of {TASK}{GOLD}, {TASK}{', '.join(CHANGED)}")
        if doc["perturbation"] not in ((None,) if config == GOLD else (None, config)):
            raise SampleError("doc.perturbation", f"{doc['perturbation']!r} in the task {task}")
        scoring = Scoring(*(doc.get(name, before) for name, before in BEFORE.items()))
        for name, choices in SCORING.items():
            if (value := getattr(scoring, name)) not in choices:
                raise SampleError(f"doc.{name}", f"{value!r} is none of {', '.join(choices)}")
        return WrongLungSetting(config, "", scoring)

    @staticmethod
    def row(sample: Mapping[str, Any]) -> Sentence:
        return _sentence(sample)

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
        telling = file.telling(_TELLING), dict(file.told).get("control"), HELD_OUT if self.n_left_out else ""
        variant = ", ".join(filter(None, telling))
        own = {"setting": setting._replace(variant=variant), "rows": tuple(rows), "n_left_out": self.n_left_out}
        return WrongLungRun(**logged | own)


def _sentence(sample: Mapping[str, Any]) -> Sentence:
    doc = sample["doc"]
    where = "delta_auroc" if "delta_auroc" in sample else "auroc"
    row = sample.get(where)
    if not isinstance(row, dict):
        raise SampleError(where, f"{str(row)[:100]!r} is not the row that the task keeps there")
    for column in ("id", "original_id", "perturbation"):
        if row[column] != doc[column]:
            raise SampleError(f"{where}.{column}", f"{row[column]!r} of the document's {doc[column]!r}")
    check_texts(row, ("id", "cluster", *(("original_id",) if row["perturbation"] is not None else ())), where)
    subsets = {name: row["subsets"][name] for name in SUBSETS[1:]}
    if not all(isinstance(inside, bool) for inside in subsets.values()):
        raise SampleError(f"{where}.subsets", f"{subsets!r}; expected true or false of each")
    return Sentence(
        row["id"], row["original_id"], row["perturbation"], row["cluster"], subsets, row["state"],
        _values(row, where), _attention(row, where), read_reply(sample["filtered_resps"][0]).heatmaps,
    )  # fmt: skip


def _values(row: Mapping[str, Any], where: str) -> dict[str, float | None]:
    """A share, an entropy or a similarity; None where it is undefined."""
    if row["state"] not in STATES:
        raise SampleError(f"{where}.state", f"{row['state']!r} is none of {', '.join(STATES)}")
    values = {name: row["values"][name] for name in VALUES}
    for name, value in values.items():
        if value is None:
            continue
        lowest = -math.inf if name in SIMILARITIES else 0
        highest = 1 if name in (*RANKED, "no_attn") else math.inf
        number = isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not lowest <= value <= highest:
            raise SampleError(f"{where}.values", f"{name} is {value!r}")
        if name in RANKED and row["state"] != SCORED:
            raise SampleError(f"{where}.values", f"{name} is {value!r} in the state {row['state']}")
    return values


def _attention(row: Mapping[str, Any], where: str) -> Mapping[str, Any] | None:
    """What `unpacked` and the divergence can read."""
    kept = row.get("attention")
    if kept is None:
        return None
    try:
        distribution(unpacked(kept))
    except (LookupError, TypeError, ValueError, zlib.error) as error:
        raise SampleError(f"{where}.attention", f"cannot be read ({str(error)[:100]})") from error
    return kept
