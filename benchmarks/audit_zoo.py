"""How often the verdicts of an audit are right: simulated models of known truth, judged by rule 1 and by rule 2.

    python benchmarks/audit_zoo.py [--repetitions N] [--models NAME ...] [--sizes N ...] [--only {verdicts,checks}]

`audit_zoo_models.py` has the models, each with the verdicts that would be wrong for it (`ZOO`). A model answers under
every condition of an audit: its own image, another patient's, blind ones, harmless changes, edits of the place that is
asked about and of another one.

The first 200 repetitions judge by all rules. Where more than 1% of the verdicts of rule 2 are wrong, the rest of the
repetitions follow: a model that is wrong in 6.5% of audits passes the first step less than once in 1,000 times.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from medfaith.evaluate_metrics.confidence.image_use import Condition, ImageUse, measure_image_use
from medfaith.evaluate_metrics.confidence.image_verdict import MOST_UNANSWERED, judge_findings, judge_image_use
from medfaith.evaluate_metrics.confidence.paired import compute_wilson_interval
from medfaith.evaluate_metrics.confidence.place import Edited, PlaceEffect, judge_place, measure_place_effect
from medfaith.evaluate_metrics.confidence.reliance import reliance, verdicts
from medfaith.evaluate_metrics.confidence.score import permutation_test
from medfaith.loaders.progress import Progress

if not __package__:  # run as a file: its folder is on the path, the one above is not
    sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.audit_zoo_models import (
    BLIND,
    DOSES,
    EDITS,
    HARMLESS,
    MARGIN,
    MISSING,
    N_FINDINGS,
    ZOO,
    Model,
    Picture,
    Rows,
    draw_rows,
    grade,
    read,
    read_findings,
)

SIZES = (100, 500, 2000)
FIRST = 200  # repetitions after which a model that is hardly ever wrong is done
MOST_WRONG = 0.065  # upper bound of the share of wrong verdicts
IMAGE_NAMES = ("uses", "recalls", "no use", "reacts", "harmed", "open", "unanswered", "undefined")
PLACE_NAMES = ("depends", "no dependence", "elsewhere", "open", "undefined")


class Audit(NamedTuple):
    """The answers of one model, in the shape that the rules take."""

    rows: Rows
    own: Condition
    other: Condition
    blind: Mapping[str, Condition]
    harmless: Mapping[str, Condition]
    edits: Mapping[str, Mapping[int, Edited]]

    def measure(self, is_used: np.ndarray | None = None, seed: int = 42) -> ImageUse:
        """Run the tests of rule 2, on all rows or on some."""
        used = np.ones(len(self.rows.gold), dtype=bool) if is_used is None else is_used
        own, other = _select(self.own, used), _select(self.other, used)
        blind, harmless = (
            {name: _select(of, used) for name, of in some.items()} for some in (self.blind, self.harmless)
        )
        return measure_image_use(
            own, other, blind, harmless, margin=MARGIN, groups=self.rows.patient[used], seed=seed
        )  # fmt: skip

    def measure_place(self, seed: int = 42) -> dict[str, PlaceEffect]:
        """Measure the effect of each kind of edit."""
        how = {"margin": MARGIN, "groups": self.rows.patient, "seed": seed}
        return {kind: measure_place_effect(doses, self.rows.gold == 1, **how) for kind, doses in self.edits.items()}


def answer_audit(model: Model, rows: Rows, rng: np.random.Generator, has_place: bool = True) -> Audit:
    """Let a model answer all rows under all conditions."""
    n = len(rows.gold)
    own_image, everywhere = np.arange(n), np.ones(n, dtype=bool)

    def show(condition: str, image: np.ndarray, finding: np.ndarray, sign: np.ndarray, trace: str = "") -> np.ndarray:
        return model(rows, Picture(condition, image, finding, sign, trace, rng))

    def condition(answers: np.ndarray, is_asked: np.ndarray = everywhere) -> Condition:
        changed = np.where(_is_missing(answers) | _is_missing(own), np.nan, _first(answers) != _first(own))
        scores = np.where(is_asked, _score(answers, rows.gold), np.nan)
        return Condition(scores, is_asked, np.where(is_asked, changed, np.nan))

    own = show("own", own_image, rows.gold, rows.sign)
    nothing, absent = np.full(n, MISSING), np.zeros(n, dtype=int)
    has_donor = rows.donor != MISSING
    of_donor = show("other", rows.donor, rows.gold[rows.donor], rows.sign[rows.donor])
    edits: dict[str, dict[int, Edited]] = {}
    for kind in EDITS if has_place else ():
        edits[kind] = {}
        for dose in DOSES:
            is_removed = rows.extent <= dose / 100
            at = show(kind, own_image, np.where(is_removed, 0, rows.gold), rows.sign, "at")
            shown_sign = np.where(is_removed & rows.is_covered, 0, rows.sign)
            elsewhere = show(kind, own_image, rows.gold, shown_sign, "elsewhere")
            flips = np.where(_is_missing(at) | _is_missing(elsewhere), np.nan, _first(at) != _first(elsewhere))
            edits[kind][dose] = Edited(_score(at, rows.gold), _score(elsewhere, rows.gold), flips)
    return Audit(
        rows,
        condition(own),
        condition(of_donor, has_donor),
        {name: condition(show(name, nothing, absent, absent)) for name in BLIND},
        {name: condition(show(name, own_image, rows.gold, rows.sign)) for name in HARMLESS},
        edits,
    )


def _first(answers: np.ndarray) -> np.ndarray:
    """The answers to the first wording."""
    return answers if answers.ndim == 1 else answers[0]


def _is_missing(answers: np.ndarray) -> np.ndarray:
    first = _first(answers)
    return np.isnan(first) if first.dtype.kind == "f" else first == MISSING


def _score(answers: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Scores of answers, the mean over wordings; scores stay as they are."""
    if answers.dtype.kind == "f":
        return answers
    scores = np.where(answers == MISSING, np.nan, answers == gold)
    return scores if scores.ndim == 1 else scores.mean(axis=0)


def _select(condition: Condition, used: np.ndarray) -> Condition:
    return Condition(*(None if values is None else values[used] for values in condition))  # pyright: ignore


class Verdicts(NamedTuple):
    """The verdicts of one audit."""

    rule_1: str
    rule_2: str
    place: str


def judge_rule_1(audit: Audit, seed: int) -> str:
    """Rule 1: unanswered is wrong; no verdict where most answers with the image are missing."""
    missing = np.isnan(audit.own.scores)
    if missing.mean() > MOST_UNANSWERED:
        return "unanswered"
    blind = {name: np.nan_to_num(condition.scores) for name, condition in audit.blind.items()}
    image = np.nan_to_num(audit.own.scores)
    return verdicts([reliance(image, blind, margin=MARGIN, groups=audit.rows.patient, seed=seed)])[0].name


def judge_once(name: str, n: int, repetition: int, parts: Sequence[str] = ("rule_1", "rule_2", "place")) -> Verdicts:
    """Simulate one audit of one model, and judge it."""
    known = ZOO[name]
    rng = np.random.default_rng([repetition, n, sorted(ZOO).index(name)])
    rows = draw_rows(rng, n, **known.rows)  # pyright: ignore
    audit = answer_audit(known.model, rows, rng, has_place="place" in parts)
    image = judge_image_use([audit.measure(seed=repetition)])[0].name
    uses_image = image in ("uses", "recalls")
    return Verdicts(
        judge_rule_1(audit, repetition) if "rule_1" in parts else "",
        image,
        judge_place([audit.measure_place(seed=repetition)], [uses_image], MARGIN)[0].name if "place" in parts else "",
    )


def judge_repetitions(name: str, n: int, repetitions: range, parts: Sequence[str]) -> list[Verdicts]:
    """Judge some repetitions: a part of the work of one process."""
    return [judge_once(name, n, repetition, parts) for repetition in repetitions]


def share_wrong(names: Sequence[str], wrong: frozenset[str]) -> tuple[str, float, float]:
    """The wrong verdict that falls most often, its share, and the upper bound of a one-sided 95% interval (Wilson)."""
    counts = Counter(name for name in names if name in wrong)
    worst, count = counts.most_common(1)[0] if counts else ("", 0)
    share = count / len(names)
    return worst, share, compute_wilson_interval(share, len(names), 0.9)[1]


def simulate_verdicts(
    names: Sequence[str], sizes: Sequence[int], repetitions: int, n_jobs: int
) -> dict[tuple[str, int], list[Verdicts]]:
    """Judge each model at each size: `FIRST` repetitions, and the rest where more than 1% of the verdicts are wrong."""
    first = min(FIRST, repetitions)
    cases = [(name, n) for name in names for n in sizes]
    found = _run(cases, [range(first)] * len(cases), [Verdicts._fields] * len(cases), n_jobs, "first repetitions")
    more = []
    for name, n in cases:
        parts = [
            part
            for part, wrong in (("rule_2", ZOO[name].wrong), ("place", ZOO[name].wrong_place))
            if share_wrong([getattr(of, part) for of in found[name, n]], wrong)[1] > 0.01
        ]
        if parts and repetitions > first:
            more.append((name, n, parts))
    rest = _run(
        [(name, n) for name, n, _ in more], [range(first, repetitions)] * len(more), [of[2] for of in more], n_jobs,
        "more repetitions",
    )  # fmt: skip
    return {case: found[case] + rest.get(case, []) for case in cases}


def _run(
    cases: Sequence[tuple[str, int]],
    repetitions: Sequence[range],
    parts: Sequence[Sequence[str]],
    n_jobs: int,
    title: str,
) -> dict[tuple[str, int], list[Verdicts]]:
    step = 50
    jobs = [
        (name, n, of[start : start + step], some)
        for (name, n), of, some in zip(cases, repetitions, parts, strict=True)
        for start in range(0, len(of), step)
    ]
    results: dict[tuple[str, int], list[Verdicts]] = {case: [] for case in cases}
    done = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(judge_repetitions)(*job) for job in jobs)
    for job, verdicts_of_job in zip(jobs, Progress(done, title=title, total=len(jobs), unit="parts"), strict=True):
        results[job[:2]] += verdicts_of_job
    return results


def print_verdicts(found: Mapping[tuple[str, int], Sequence[Verdicts]]) -> bool:
    """Print the shares of the verdicts and whether few enough are wrong."""
    is_good = True
    tables = (("rule_1", IMAGE_NAMES), ("rule_2", IMAGE_NAMES), ("place", PLACE_NAMES))
    for part, names in tables:
        print(f"\n{part}: verdicts in %, margin {MARGIN:g}; wrong: share of the wrong verdict that falls most often")
        print(f"{'model':32}{'n':>6}{'audits':>8}" + "".join(f"{name:>15}" for name in names) + "   wrong [upper 95%]")
        for (model, n), of in found.items():
            verdict = [getattr(one, part) for one in of if getattr(one, part)]
            counts = Counter(verdict)
            wrong = ZOO[model].wrong_place if part == "place" else ZOO[model].wrong
            worst, share, high = share_wrong(verdict, wrong)
            is_wrong = high >= MOST_WRONG or share > 0.05
            is_good &= not is_wrong or part == "rule_1"
            shares = "".join(f"{100 * counts[name] / len(verdict):15.1f}" for name in names).replace("  0.0", "    -")
            mark = "  WRONG " + worst if is_wrong else ""
            print(f"{model:32}{n:6}{len(verdict):8}{shares}   {100 * share:5.1f} [{100 * high:.1f}]{mark}")
    return is_good


def check_power(seed: int) -> dict[str, bool]:
    """Judge a reader that is better by 10 points, of 500 rows: than another image, and than blind."""
    found = {}
    for title, p in (("over other", 0.10), ("over blind", 0.10 / 0.34)):  # the guess is wrong in 34% of rows
        rng = np.random.default_rng([seed, 1])
        audit = answer_audit(partial(read, p=p), draw_rows(rng, 500), rng, has_place=False)
        found[f"10 points {title}: uses"] = judge_image_use([audit.measure(seed=seed)])[0].name == "uses"
    return found


def draw_null_p(seed: int) -> float:
    """P-value of (a) for graded scores without effect, clustered, of 200 rows; ties of right or wrong make steps."""
    rng = np.random.default_rng([seed, 2])
    rows = draw_rows(rng, 200)
    model = partial(grade, own=0.4, other=0.4, blind=0.4)
    own, other = (model(rows, Picture(name, rows.donor, rows.gold, rows.sign, "", rng)) for name in ("own", "other"))
    return permutation_test(own, other, alternative="greater", groups=rows.patient, n_resamples=2000, seed=seed).p_value


def answer_doses(rows: Rows, picture: Picture, floor: float) -> np.ndarray:
    """Call all findings present; miss what an edit removes; deny at its traces in a share of patients."""
    is_removed = (picture.trace == "at") & (rows.gold == 1) & (picture.finding == 0) & (rows.trait[2] < 0.6)
    is_fooled = (picture.trace == "at") & (rows.patient_trait[1] < floor)
    return np.where(is_removed | is_fooled, 0, 1)


def check_doses(seed: int, floor: float = 0.2) -> dict[str, float]:
    """Measure the dose-response of a model whose net effect of the whole place is 0.6 (1 - floor).

    Traces show wholly at every dose, so that effect and floor cancel in rows that the traces change anyway.
    """
    rng = np.random.default_rng([seed, 3])
    rows = draw_rows(rng, 500)
    edits = answer_audit(partial(answer_doses, floor=floor), rows, rng)
    effect = edits.measure_place(seed)["occluded"]
    slope = 0.6 * (1 - floor)
    assert effect.floor is not None
    return {
        "slope / truth": effect.slope / slope,
        "slope covered": effect.slope_low <= slope <= effect.slope_high,
        "net covered": effect.low <= slope <= effect.high,
        "floor covered": effect.floor.low <= floor <= effect.floor.high,
    }


def check_findings(seed: int, n_each: int = 300) -> dict[str, float]:
    """Judge the selective reader by finding: 3 are to be found of 8."""
    rng = np.random.default_rng([seed, 4])
    rows = draw_rows(rng, n_each * N_FINDINGS)
    audit = answer_audit(read_findings, rows, rng, has_place=False)
    found = judge_findings([audit.measure(rows.finding == finding, seed) for finding in range(N_FINDINGS)])
    uses = np.array([of.name == "uses" for of in found])
    return {
        "selective: recovered exactly": bool(uses[:3].all() and not uses[3:].any()),
        "selective: false discoveries": uses[3:].sum() / max(1, uses.sum()),
    }


def run_checks(repetitions: int, n_jobs: int) -> bool:
    """Print the checks and whether all hold."""
    from scipy.stats import kstest

    def run(check: Callable, n: int) -> list:
        done = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(check)(seed) for seed in range(n))
        return list(Progress(done, title=check.__name__.replace("_", " "), total=n))

    n_findings = max(1, repetitions // 5)
    means: dict[str, float] = {}
    for check, n in ((check_power, repetitions), (check_doses, repetitions), (check_findings, n_findings)):
        found = run(check, n)
        means |= {name: float(np.mean([of[name] for of in found])) for name in found[0]}
    uniform = kstest(run(draw_null_p, repetitions), "uniform")
    limits = {
        "10 points over other: uses": (0.8, 1), "10 points over blind: uses": (0.8, 1),
        "slope / truth": (0.9, 1.1), "slope covered": (0.93, 1), "net covered": (0.93, 1),
        "floor covered": (0.93, 0.97),
        "selective: recovered exactly": (0.9, 1), "selective: false discoveries": (0, 0.05),
    }  # fmt: skip
    print(f"\nchecks, {repetitions} repetitions ({n_findings} by finding)")
    for name, (low, high) in limits.items():
        is_good = low <= means[name] <= high
        print(f"{name:36}{means[name]:8.3f}   wanted {low:g} to {high:g}" + ("" if is_good else "  WRONG"))
    print(f"p of (a) under no effect: Kolmogorov-Smirnov {uniform.statistic:.3f}, p = {uniform.pvalue:.3f}")
    return uniform.pvalue > 0.01 and all(low <= means[name] <= high for name, (low, high) in limits.items())


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000, help="audits of a model at each size (default: 1000)")
    parser.add_argument("--models", nargs="+", choices=list(ZOO), default=list(ZOO), help="models (default: all)")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="rows (default: 100 500 2000)")
    parser.add_argument("--only", choices=("verdicts", "checks"), help="a part of the work (default: both)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    return parser.parse_args(arguments)


def main() -> None:
    arguments = parse_arguments()
    is_good = True
    if arguments.only != "checks":
        found = simulate_verdicts(arguments.models, arguments.sizes, arguments.repetitions, arguments.jobs)
        is_good &= print_verdicts(found)
    if arguments.only != "verdicts":
        is_good &= run_checks(arguments.repetitions, arguments.jobs)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
