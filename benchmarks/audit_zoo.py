"""Error rate of an audit's verdicts on simulated models of known truth, under rule 1 and rule 2.

    python benchmarks/audit_zoo.py [--repetitions N] [--models NAME ...] [--sizes N ...] [--only {verdicts,checks}]

`audit_zoo_models.py` defines the models and the verdicts that would be wrong for each (`ZOO`). A model answers under
every condition of an audit: its own image, another patient's image, blind controls, harmless changes, edits of the
target region, and edits of another region.

The first 200 repetitions apply all rules. The remaining repetitions run if more than 1% of the verdicts of rule 2 are
wrong. A model that is wrong in 6.5% of audits stays below this limit less than once in 1,000 times.
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
from medfaith.evaluate_metrics.confidence.place import Edited, PlaceEffect, judge_place, measure_place_effect
from medfaith.evaluate_metrics.confidence.proportion import compute_wilson_interval
from medfaith.evaluate_metrics.confidence.reliance import reliance, verdicts
from medfaith.evaluate_metrics.confidence.score import permutation_test
from medfaith.loaders.progress import Progress

if not __package__:  # run as a file: the path has its folder, but not the parent
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
    """Answers of one model, in the form that the rules take."""

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
            {name: _select(condition, used) for name, condition in some.items()} for some in (self.blind, self.harmless)
        )
        patients, donors = self.rows.patient[used], self.rows.patient[self.rows.donor][used]  # one image each
        return measure_image_use(
            own, other, blind, harmless, margin=MARGIN, groups=patients, donors=donors, seed=seed
        )  # fmt: skip

    def measure_place(self, seed: int = 42) -> dict[str, PlaceEffect]:
        """Measure the effect of each kind of edit."""
        options = {"margin": MARGIN, "groups": self.rows.patient, "seed": seed}
        return {kind: measure_place_effect(doses, self.rows.gold == 1, **options) for kind, doses in self.edits.items()}


def answer_audit(model: Model, rows: Rows, rng: np.random.Generator, has_place: bool = True) -> Audit:
    """Let a model answer all rows under all conditions."""
    n = len(rows.gold)
    own_image, everywhere = np.arange(n), np.ones(n, dtype=bool)

    def show(
        make_condition: str, image: np.ndarray, finding: np.ndarray, sign: np.ndarray, trace: str = ""
    ) -> np.ndarray:
        return model(rows, Picture(make_condition, image, finding, sign, trace, rng))

    def make_condition(answers: np.ndarray, is_asked: np.ndarray = everywhere) -> Condition:
        changed = (_select_first_wording(answers) != _select_first_wording(own_answers)).astype(float)  # also declined
        scores = np.where(is_asked, _score(answers, rows.gold), np.nan)
        return Condition(scores, is_asked, np.where(is_asked, changed, np.nan))

    own_answers = show("own", own_image, rows.gold, rows.sign)
    nothing, absent = np.full(n, MISSING), np.zeros(n, dtype=int)
    has_donor = rows.donor != MISSING
    donor_answers = show("other", rows.donor, rows.gold[rows.donor], rows.sign[rows.donor])
    edits: dict[str, dict[int, Edited]] = {}
    for kind in EDITS if has_place else ():
        edits[kind] = {}
        for dose in DOSES:
            is_removed = rows.extent <= dose / 100
            at = show(kind, own_image, np.where(is_removed, 0, rows.gold), rows.sign, "at")
            shown_sign = np.where(is_removed & rows.is_covered, 0, rows.sign)
            elsewhere = show(kind, own_image, rows.gold, shown_sign, "elsewhere")
            flips = np.where(
                _is_missing(at) | _is_missing(elsewhere),
                np.nan,
                _select_first_wording(at) != _select_first_wording(elsewhere),
            )
            edits[kind][dose] = Edited(_score(at, rows.gold), _score(elsewhere, rows.gold), flips)
    return Audit(
        rows,
        make_condition(own_answers),
        make_condition(donor_answers, has_donor),
        {name: make_condition(show(name, nothing, absent, absent)) for name in BLIND},
        {name: make_condition(show(name, own_image, rows.gold, rows.sign)) for name in HARMLESS},
        edits,
    )


def _select_first_wording(answers: np.ndarray) -> np.ndarray:
    """Select the answers to the first wording."""
    return answers if answers.ndim == 1 else answers[0]


def _is_missing(answers: np.ndarray) -> np.ndarray:
    wording_answers = _select_first_wording(answers)
    return np.isnan(wording_answers) if wording_answers.dtype.kind == "f" else wording_answers == MISSING


def _score(answers: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Score answers, averaged over wordings; return scores unchanged."""
    if answers.dtype.kind == "f":
        return answers
    scores = np.where(answers == MISSING, np.nan, answers == gold)
    return scores if scores.ndim == 1 else scores.mean(axis=0)


def _select(condition: Condition, used: np.ndarray) -> Condition:
    is_changed = None if condition.is_changed is None else condition.is_changed[used]
    return Condition(condition.scores[used], condition.is_asked[used], is_changed)


class Verdicts(NamedTuple):
    """Verdicts of one audit."""

    rule_1: str
    rule_2: str
    place: str


def judge_rule_1(audit: Audit, seed: int) -> str:
    """Judge by rule 1: unanswered counts as wrong; no verdict if most answers with the image are missing."""
    missing = np.isnan(audit.own.scores)
    if missing.mean() > MOST_UNANSWERED:
        return "unanswered"
    blind = {name: np.nan_to_num(condition.scores) for name, condition in audit.blind.items()}
    image = np.nan_to_num(audit.own.scores)
    return verdicts([reliance(image, blind, margin=MARGIN, groups=audit.rows.patient, seed=seed)])[0].name


def judge_once(name: str, n: int, repetition: int, rules: Sequence[str] = ("rule_1", "rule_2", "place")) -> Verdicts:
    """Simulate and judge one audit of one model."""
    entry = ZOO[name]
    rng = np.random.default_rng([repetition, n, sorted(ZOO).index(name)])
    rows = draw_rows(rng, n, **entry.rows)
    audit = answer_audit(entry.model, rows, rng, has_place="place" in rules)
    image = judge_image_use([audit.measure(seed=repetition)])[0].name
    uses_image = image in ("uses", "recalls")
    return Verdicts(
        judge_rule_1(audit, repetition) if "rule_1" in rules else "",
        image,
        judge_place([audit.measure_place(seed=repetition)], [uses_image], MARGIN)[0].name if "place" in rules else "",
    )


def judge_repetitions(name: str, n: int, repetitions: range, rules: Sequence[str]) -> list[Verdicts]:
    """Judge the repetitions that one process works on."""
    return [judge_once(name, n, repetition, rules) for repetition in repetitions]


def compute_share_wrong(names: Sequence[str], wrong: frozenset[str]) -> tuple[str, float, float]:
    """Compute the most frequent wrong verdict, its share, and the upper bound of a one-sided 95% interval (Wilson)."""
    counts = Counter(name for name in names if name in wrong)
    worst, count = counts.most_common(1)[0] if counts else ("", 0)
    share = count / len(names)
    return worst, share, compute_wilson_interval(share, len(names), 0.9)[1]


def simulate_verdicts(
    names: Sequence[str], sizes: Sequence[int], repetitions: int, n_jobs: int
) -> dict[tuple[str, int], list[Verdicts]]:
    """Judge each model at each size: `FIRST` repetitions, and the rest where more than 1% of the verdicts are wrong."""
    n_first = min(FIRST, repetitions)
    cases = [(name, n) for name in names for n in sizes]
    verdicts_by_case = _run(
        cases, [range(n_first)] * len(cases), [Verdicts._fields] * len(cases), n_jobs, "first repetitions"
    )
    more = []
    for name, n in cases:
        rules = [
            rule
            for rule, wrong in (("rule_2", ZOO[name].wrong), ("place", ZOO[name].wrong_place))
            if compute_share_wrong([getattr(row, rule) for row in verdicts_by_case[name, n]], wrong)[1] > 0.01
        ]
        if rules and repetitions > n_first:
            more.append((name, n, rules))
    more_verdicts = _run(
        [(name, n) for name, n, _ in more], [range(n_first, repetitions)] * len(more), [row[2] for row in more], n_jobs,
        "more repetitions",
    )  # fmt: skip
    return {case: verdicts_by_case[case] + more_verdicts.get(case, []) for case in cases}


def _run(
    cases: Sequence[tuple[str, int]],
    repetitions: Sequence[range],
    rules_by_case: Sequence[Sequence[str]],
    n_jobs: int,
    title: str,
) -> dict[tuple[str, int], list[Verdicts]]:
    step = 50
    jobs = [
        (name, n, case_repetitions[start : start + step], rules)
        for (name, n), case_repetitions, rules in zip(cases, repetitions, rules_by_case, strict=True)
        for start in range(0, len(case_repetitions), step)
    ]
    results: dict[tuple[str, int], list[Verdicts]] = {case: [] for case in cases}
    done = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(judge_repetitions)(*job) for job in jobs)
    for job, verdicts_of_job in zip(jobs, Progress(done, title=title, total=len(jobs), unit="parts"), strict=True):
        results[job[:2]] += verdicts_of_job
    return results


def print_verdicts(verdicts_by_case: Mapping[tuple[str, int], Sequence[Verdicts]]) -> bool:
    """Print the shares of the verdicts and whether few enough are wrong."""
    is_good = True
    tables = (("rule_1", IMAGE_NAMES), ("rule_2", IMAGE_NAMES), ("place", PLACE_NAMES))
    for rule, names in tables:
        print(f"\n{rule}: verdicts in %, margin {MARGIN:g}; wrong: share of the wrong verdict that falls most often")
        print(f"{'model':32}{'n':>6}{'audits':>8}" + "".join(f"{name:>15}" for name in names) + "   wrong [upper 95%]")
        for (model, n), case_verdicts in verdicts_by_case.items():
            verdict = [
                getattr(audit_verdicts, rule) for audit_verdicts in case_verdicts if getattr(audit_verdicts, rule)
            ]
            counts = Counter(verdict)
            wrong = ZOO[model].wrong_place if rule == "place" else ZOO[model].wrong
            worst, share, high = compute_share_wrong(verdict, wrong)
            is_wrong = high >= MOST_WRONG or share > 0.05
            is_good &= not is_wrong or rule == "rule_1"
            shares = "".join(f"{100 * counts[name] / len(verdict):15.1f}" for name in names).replace("  0.0", "    -")
            mark = "  WRONG " + worst if is_wrong else ""
            print(f"{model:32}{n:6}{len(verdict):8}{shares}   {100 * share:5.1f} [{100 * high:.1f}]{mark}")
    return is_good


def check_power(seed: int) -> dict[str, bool]:
    """Judge a reader that is better by 10 points, of 500 rows: than another image, and than blind."""
    results = {}
    for title, p in (("over other", 0.10), ("over blind", 0.10 / 0.34)):  # the guess is wrong in 34% of rows
        rng = np.random.default_rng([seed, 1])
        audit = answer_audit(partial(read, p=p), draw_rows(rng, 500), rng, has_place=False)
        results[f"10 points {title}: uses"] = judge_image_use([audit.measure(seed=seed)])[0].name == "uses"
    return results


def draw_null_p(seed: int) -> float:
    """Draw the P-value of (a) for clustered graded scores of 200 rows without effect.

    Scores of 0 and 1 would have ties, and the P-values steps.
    """
    rng = np.random.default_rng([seed, 2])
    rows = draw_rows(rng, 200)
    model = partial(grade, p_own=0.4, p_other=0.4, blind=0.4)
    own_scores, other_scores = (
        model(rows, Picture(name, rows.donor, rows.gold, rows.sign, "", rng)) for name in ("own", "other")
    )
    return permutation_test(
        own_scores, other_scores, alternative="greater", groups=rows.patient, n_resamples=2000, seed=seed
    ).p_value


def answer_doses(rows: Rows, picture: Picture, floor: float) -> np.ndarray:
    """Call all findings present; miss removed findings; deny at edit traces in a share of patients."""
    is_removed = (picture.trace == "at") & (rows.gold == 1) & (picture.finding == 0) & (rows.trait[2] < 0.6)
    is_fooled = (picture.trace == "at") & (rows.patient_trait[1] < floor)
    return np.where(is_removed | is_fooled, 0, 1)


def check_doses(seed: int, floor: float = 0.2) -> dict[str, float]:
    """Measure the dose-response of a model whose net effect of the whole place is 0.6 (1 - floor).

    Traces are fully visible at every dose: effect and floor cancel in rows that the traces change anyway.
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
    """Judge the selective reader by finding: 3 of 8 findings count."""
    rng = np.random.default_rng([seed, 4])
    rows = draw_rows(rng, n_each * N_FINDINGS)
    audit = answer_audit(read_findings, rows, rng, has_place=False)
    finding_verdicts = judge_findings([audit.measure(rows.finding == finding, seed) for finding in range(N_FINDINGS)])
    uses = np.array([verdict.name == "uses" for verdict in finding_verdicts])
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
        results = run(check, n)
        means |= {name: float(np.mean([result[name] for result in results])) for name in results[0]}
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
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000, help="audits of a model at each size (default: 1000)")
    parser.add_argument("--models", nargs="+", choices=list(ZOO), default=list(ZOO), help="models (default: all)")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="rows (default: 100 500 2000)")
    parser.add_argument("--only", choices=("verdicts", "checks"), help="a part of the work (default: both)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    return parser.parse_args(arguments)


def main() -> None:
    """Print the verdicts and the checks; exit with status 1 if one fails."""
    arguments = parse_arguments()
    is_good = True
    if arguments.only != "checks":
        verdicts_by_case = simulate_verdicts(arguments.models, arguments.sizes, arguments.repetitions, arguments.jobs)
        is_good &= print_verdicts(verdicts_by_case)
    if arguments.only != "verdicts":
        is_good &= run_checks(arguments.repetitions, arguments.jobs)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
