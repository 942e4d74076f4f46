"""HEAL-MedVQA's Tables 2, 3 and 4 (section 5) from the sample logs of its tasks.

Every figure is computed from the responses, by the metrics of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.medvqa_f1.labels import Extraction, extract_labels
from medfaith.evaluate_metrics.medvqa_f1.llm_extractor import agreement
from medfaith.evaluate_metrics.medvqa_f1.score import closed_scores, open_scores
from medfaith.evaluate_metrics.medvqa_f1.vocabulary import CLASSES
from medfaith.evaluate_metrics.medvqa_f1.yes_no import read_yes_no
from medfaith.evaluate_metrics.tpt import score as tpt
from medfaith.evaluate_metrics.tpt.perturbation import ORIGINAL
from medfaith.evaluate_metrics.vpt import score as vpt
from medfaith.loaders.errors import InputError

from .extractors import Extractor
from .intervals import SEED
from .naming import model_name
from .read import SampleFile
from .runs import Logged
from .samples import AGAIN, Rows, SampleError, read_lines
from .tables import MODEL, SIZE, UNDEFINED, Column, Table, count, fraction, fraction_interval

SOURCES = {"mimic": "MIMIC", "vindr": "VinDr"}  # the paper's names, in its order
ASKED = {"closed": "yes/no", "open": "open-ended", "tpt": "TPT", "vpt": "VPT"}
_PAIRED = {"tpt": tpt, "vpt": vpt}
_SINGLE = {"positive": "closed", "hallucinated": "closed", "abnormal": "open", "normal": "open"}
_KINDS = {*_SINGLE, ORIGINAL, *tpt.KINDS, *vpt.KINDS}
_INTERVALS = f"95% intervals: bootstrap over images, 2,000 resamples, seed {SEED}."


class HealSetting(NamedTuple):
    """What was asked. ask: closed, open, tpt or vpt; split: train, validation or test."""

    config: str
    split: str
    prompt: str
    ask: str


class HealRow(NamedTuple):
    """One question and its response. answer: "yes", "no", or "" of an open question, whose gold is `diseases`."""

    id: str
    image_id: str
    original_id: str
    kind: str
    answer: str
    diseases: tuple[str, ...]
    response: str


@dataclass(frozen=True, eq=False)
class HealRun(Logged):
    """One model's responses to one kind of question about one source, ordered by question id."""

    setting: HealSetting
    rows: tuple[HealRow, ...]

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def name(self) -> str:
        """The model's, with prompt and split where they are not the task's own."""
        changed = [self.setting.prompt] * (self.setting.prompt != "b0")
        changed += [self.setting.split] * (self.setting.split != "test")
        return model_name(self) + (f" ({', '.join(changed)})" if changed else "")

    def scores(self) -> dict[str, Any]:
        """Of the metric that the setting asks for; open-ended answers read by words."""
        responses = [row.response for row in self.rows]
        if self.setting.ask == "open":
            return self.open_scores([extract_labels(response) for response in responses])
        if self.setting.ask == "closed":
            gold, images = [row.answer for row in self.rows], [row.image_id for row in self.rows]
            return closed_scores([read_yes_no(text) for text in responses], gold, groups=images, seed=SEED)
        return _PAIRED[self.setting.ask].score_predictions(responses, [row._asdict() for row in self.rows], seed=SEED)

    def open_scores(self, extractions: Sequence[Extraction]) -> dict[str, Any]:
        """Of open-ended answers as an extractor read them, one extraction a row."""
        images = [row.image_id for row in self.rows]
        return open_scores(extractions, [row.diseases for row in self.rows], groups=images, seed=SEED)


def read_heal_runs(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> list[HealRun]:
    """The runs in a sample log, one for each source and kind of question; none for another benchmark's log.

    Args and Raises: as `samples.read_lines`.
    """
    return read_lines(file, _HealLines, progress)


class _HealLines(Rows):
    columns = ("original_id", "image_id", "kind", "question_type", "diseases")

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> HealSetting:
        """An original is one of either perturbation test: `run` says which."""
        config, split = (*doc["id"].split("/"), "")[:2]
        if config not in SOURCES:
            raise SampleError("doc.id", f"{doc['id']!r} begins with none of {', '.join(SOURCES)}")
        if doc["kind"] not in _KINDS:
            raise SampleError("doc.kind", f"{doc['kind']!r} is none of {', '.join(sorted(_KINDS))}")
        return HealSetting(config, split, str(doc.get("prompt") or "b0"), _SINGLE.get(doc["kind"], "paired"))

    @staticmethod
    def row(sample: Mapping[str, Any]) -> HealRow:
        return _row(sample["doc"], sample["filtered_resps"][0])

    def run(self, setting: HealSetting, file: SampleFile, *, single: bool) -> HealRun:
        if setting.ask == "paired":
            setting = setting._replace(ask=self._test(file))
        return HealRun(setting=setting, **self.logged(file, single=single))

    def _test(self, file: SampleFile) -> str:
        """Which perturbation test it is; a log that --limit left with originals only has its task's name to tell."""
        kinds = {row.kind for row in self.rows.values()}
        tests = [name for name, test in _PAIRED.items() if kinds & {*test.KINDS}]
        tests = tests or [name for name in _PAIRED if file.task.endswith(f"_{name}")]
        if len(tests) != 1:
            found = f"its perturbed questions are of {' and '.join(tests) or 'neither test'}"
            raise InputError(file.path, found, expected="those of one test, TPT or VPT", action=AGAIN)
        return tests[0]


def _row(doc: Mapping[str, Any], response: Any) -> HealRow:
    for column in ("id", "image_id", "original_id"):
        if not isinstance(doc[column], str):
            raise SampleError(f"doc.{column}", f"{doc[column]!r} is not a text")
    if not isinstance(response, str):
        raise SampleError("filtered_resps", f"{str(response)[:100]} is not a text")
    if doc["kind"] == ORIGINAL and doc["id"] != doc["original_id"]:
        raise SampleError("doc.original_id", f"{doc['original_id']!r} is not the id of this original")
    opened = _SINGLE.get(doc["kind"]) == "open"
    if doc["question_type"] != ("open" if opened else "closed"):
        raise SampleError("doc.question_type", f"{doc['question_type']!r} for a question of kind {doc['kind']!r}")
    unknown = sorted({*doc["diseases"]} - {*CLASSES})
    if opened and unknown:
        raise SampleError("doc.diseases", f"{unknown[0]!r} is none of the {len(CLASSES)} classes")
    answer = "" if opened else str(dict(enumerate(doc["options"])).get(doc["answer"])).casefold()
    if not opened and answer not in {"yes", "no"}:
        raise SampleError("doc.answer", f"{answer!r} is neither Yes nor No")
    names = (doc["id"], doc["image_id"], doc["original_id"], doc["kind"])
    return HealRow(*names, answer, tuple(doc["diseases"]), response)


def heal_tables(runs: Sequence[HealRun]) -> list[Table]:
    """The runs, and the tables of the paper that they give."""
    runs = sorted(runs, key=_place)
    asked = {run.setting.ask for run in runs}
    tables = [_runs_table(runs)] if runs else []
    tables += [_accuracy_table(runs)] if asked & {"closed", "open"} else []
    tables += [_tpt_table(runs)] if "tpt" in asked else []
    return tables + ([_vpt_table(runs)] if "vpt" in asked else [])


def extractors_table(runs: Sequence[HealRun], extractor: Extractor) -> Table | None:
    """Open-ended scores by words and by the extractor, and how far the two agree; None without such answers."""
    opened = sorted((run for run in runs if run.setting.ask == "open"), key=_place)
    if not opened:
        return None
    read = iter(extractor.read([row.response for run in opened for row in run.rows]))
    rows = []
    for run in opened:
        words = [extract_labels(row.response) for row in run.rows]
        theirs = [next(read) for _ in run.rows]
        agreed = agreement(words, theirs)
        cells = [scores[name] for scores in map(run.open_scores, (words, theirs)) for name in _OPEN]
        both = [agreed[name] for name in ("exact", "jaccard", "kappa")]
        rows.append([run.name, SOURCES[run.setting.config], run.n, run.n_data, *cells, *both, run.source.task])
    columns = [MODEL, Column("Source", ("source",)), SIZE]
    for title, name in (("By words", "words"), ("By the model", "model")):
        columns += [
            column._replace(title=f"{title}: {column.title}", names=tuple(f"{name}_{n}" for n in column.names))
            for column in _OPEN_COLUMNS
        ]
    columns += [
        Column("Same labels", ("same_labels",), fraction), Column("Jaccard", ("jaccard",), fraction),
        Column("κ", ("kappa",), fraction), Column(None, ("task",)),
    ]  # fmt: skip
    notes = [
        f"By the model: labels read by {extractor.name}, asked with this package's prompt (the paper names Llama 3.1 "
        "8B and prints none). By words: the scores of Table 2. Same labels: share of answers with equal label sets; "
        "Jaccard: labels in both over labels in either; κ: Cohen's, over every answer and label. An answer that an "
        f"extractor cannot read (unread) has no label. {_INTERVALS}"
    ]
    return Table("heal_extractors", "HEAL open-ended labels: two extractors", columns, rows, notes)


def _place(run: HealRun) -> tuple:
    setting = run.setting
    of_setting = [*SOURCES].index(setting.config), [*ASKED].index(setting.ask)
    return run.model.casefold(), run.model, run.adapter, setting.prompt, setting.split != "test", *of_setting


def _part(value: Any, total: Any) -> str:
    return UNDEFINED if total is None else f"{count(value)} of {count(total)}"


def _total(*values: Any) -> str:
    return UNDEFINED if None in values else count(sum(values))


def _f1_columns(name: str, n_unread: str, n: str) -> list[Column]:
    return [
        Column("F1 [95% CI]", tuple(f"{name}_f1{end}" for end in ("", "_ci_low", "_ci_high")), fraction_interval),
        Column("precision", (f"{name}_precision",), fraction),
        Column("recall", (f"{name}_recall",), fraction),
        Column("unread", (n_unread, n), _part),
    ]


def _score_column(title: str | None, name: str) -> Column:
    return Column(title, (name, f"{name}_ci_low", f"{name}_ci_high"), fraction_interval)


_CLOSED_COLUMNS = _f1_columns("yes_no", "n_closed_unparsed", "n_closed")
_OPEN_COLUMNS = _f1_columns("open", "n_open_unreadable", "n_open")
_OPEN = [name for column in _OPEN_COLUMNS for name in column.names]
_TRUE_POSITIVES = Column("true positives", ("n_true_positives", "n_originals"), _part)
_UNREAD = Column("unread", ("n_unparsed_originals", "n_unparsed_perturbed"), _total)
_PAIRED_NOTE = (
    "true positives: originals that the model answers Yes, of all that were asked; pairs: true positives and their "
    "perturbed partners. A partner that could not be read did not turn to No; unread counts these and the originals "
    f"that could not be read. {_INTERVALS}"
)


def _runs_table(runs: Sequence[HealRun]) -> Table:
    rows = [
        [run.name, SOURCES[run.setting.config], ASKED[run.setting.ask], run.n, run.n_data, run.n_skipped,
         run.source.task, run.source.date]
        for run in runs
    ]  # fmt: skip
    columns = [
        MODEL, Column("Source", ("source",)), Column("Questions", ("questions",)), SIZE,
        Column("Without images", ("n_skipped",), count), Column("Task", ("task",)), Column("Date", ("date",)),
    ]  # fmt: skip
    notes = ["n: questions asked; “a of b” marks a run with --limit or without the rows whose images are missing."]
    return Table("heal_runs", "HEAL runs", columns, rows, notes)


def _accuracy_table(runs: Sequence[HealRun]) -> Table:
    cells = [
        (ask, column._replace(title=f"{ASKED[ask]} {column.title}"))
        for ask, columns in (("closed", _CLOSED_COLUMNS), ("open", _OPEN_COLUMNS))
        for column in columns
    ]
    notes = [
        "Yes is the positive class of yes/no questions; open-ended ones have the multi-label micro F1 of the diseases "
        "that an answer names, read by words (the paper reads them with a language model). What could not be read is "
        f"wrong, and names no disease. {_INTERVALS}"
    ]
    return _table("heal_table_02_accuracy", "HEAL Table 2: accuracy", cells, runs, notes)


def _tpt_table(runs: Sequence[HealRun]) -> Table:
    cells = [
        ("tpt", column)
        for kind in tpt.KINDS
        for column in (_score_column(f"{kind} [95% CI]", f"tpt_{kind}"), Column("pairs", (f"n_pairs_{kind}",), count))
    ]
    cells += [("tpt", column) for column in (_TRUE_POSITIVES, _UNREAD, _score_column(None, "tpt"))]
    notes = [f"Share of true positives whose Yes turns to No with another anatomy or disease in the question. "
             f"{_PAIRED_NOTE}"]  # fmt: skip
    return _table("heal_table_03_tpt", "HEAL Table 3: TPT", cells, runs, notes)


def _vpt_table(runs: Sequence[HealRun]) -> Table:
    columns = (_score_column("VPT [95% CI]", "vpt"), Column("pairs", ("n_pairs",), count), _TRUE_POSITIVES, _UNREAD)
    notes = [f"Share of true positives whose Yes turns to No with another patient's region in the image. "
             f"{_PAIRED_NOTE}"]  # fmt: skip
    return _table("heal_table_04_vpt", "HEAL Table 4: VPT", [("vpt", c) for c in columns], runs, notes)


def _table(
    name: str, title: str, cells: Sequence[tuple[str, Column]], runs: Sequence[HealRun], notes: Sequence[str]
) -> Table:
    """A row a model, in which each source has the columns of `cells`; these are named after the metric's keys.

    cells: (ask, column).
    """
    asked = {ask for ask, _ in cells}
    of_model: dict[tuple, dict[tuple[str, str], dict[str, Any]]] = {}
    for run in runs:
        if run.setting.ask in asked:
            key = (run.name, run.model, run.adapter, run.setting.prompt, run.setting.split)
            of_model.setdefault(key, {})[run.setting.config, run.setting.ask] = run.scores()
    columns = [MODEL] + [
        Column(column.title and f"{source} {column.title}", tuple(f"{config}_{n}" for n in column.names), column.show)
        for config, source in SOURCES.items()
        for _, column in cells
    ]
    rows = [
        [key[0]]
        + [scores.get((config, ask), {}).get(n) for config in SOURCES for ask, column in cells for n in column.names]
        for key, scores in of_model.items()
    ]
    return Table(name, title, columns, rows, notes)
