"""`medfaith quickstart`: from sources to tables on synthetic data, offline and without torch."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from medfaith import cards
from medfaith.audit.figures import audited
from medfaith.audit.plan import plan
from medfaith.audit.run import ask
from medfaith.audit.tables import Judged, judge, overview
from medfaith.audit.write import write_tables
from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench.questions import Wording
from medfaith.builders.registry import BENCHMARKS
from medfaith.loaders import phantom
from medfaith.loaders.errors import InputError
from medfaith.loaders.whole import whole_folder
from medfaith.printing import percent, table
from medfaith.report.page.write import write_page
from medfaith.report.write import collect
from medfaith.tasks import BASELINES
from medfaith.tasks.run import reference_model, run_baselines

CONTRABENCH, HEAL, SURGX = "medfaith_contrabench", "medfaith_heal_vindr", "medfaith_surgx"
MARGIN = 0.05
GOLD, SWAPPED = "medfaith_wrong_lung_gold", "medfaith_wrong_lung_swap_left_right"

# The last step: models whose use of the image is known. These tasks and controls take half a minute.
AUDITED = ("looks", "mirage", "looks_elsewhere", "question_prior", "always_yes", "oracle")
AUDITED_ROWS = 140  # of each task
AUDITED_TASKS = {
    "cxr-contrabench": (f"{CONTRABENCH}_chexpert_presence", f"{CONTRABENCH}_chexpert_absence"),
    "heal-medvqa": (f"{HEAL}_closed", f"{HEAL}_open"),
    "surgxbench": (f"{SURGX}_instruments", f"{SURGX}_triplets"),
    "wrong-lung": (GOLD,),
}
AUDITED_UNDER = ("none", "occluded", "occluded_elsewhere")

# The counts of answers that could not be read, by the tasks' metrics.
_UNREAD = (
    "n_closed_unparsed", "n_open_unreadable", "n_unparsed_originals", "n_unparsed_perturbed", "n_unparsed",
)  # fmt: skip

Results = Mapping[str, Mapping[str, Any]]  # by model, what lm-eval returns


def quickstart(out: Path, wording: Wording, verify: Callable[[Sequence[Path]], bool]) -> str:
    """Phantom sources -> build -> verify -> lm-eval with the reference models -> audit; returns the tables.

    Writes `phantom/`, `data/`, `heatmaps/`, `logs/`, `results.json`, `audit.csv` and `report.html` below `out`. The
    data serve all tasks.
    """
    _refuse_others(out / "phantom", phantom.SOURCES)
    _refuse_others(out / "logs", BASELINES)
    print("1/5  synthetic sources in the official layouts")
    roots = _phantom(out / "phantom")
    print("2/5  build")
    options = {cxr_contrabench.NAME: wording}
    folders = [
        folder
        for name, benchmark in BENCHMARKS.items()
        for folder in benchmark.build(roots, out / "data", options=options.get(name), card=cards.body)
    ]
    print("3/5  verify")
    verify(folders)
    print("4/5  lm-eval with the reference models")
    metadata = {"data": str(out / "data"), "roots": {source_id: str(root) for source_id, root in roots.items()}}
    kept = metadata | {"heatmaps": str(out / "heatmaps")}
    with whole_folder(out / "logs") as logs:
        results = {group: run_baselines(group, metadata, logs=logs) for group in (CONTRABENCH, HEAL)}
        results[SURGX] = run_baselines(SURGX, kept, _looking(out / "heatmaps"), logs)
        results |= {task: run_baselines(task, kept, _attending(out / "heatmaps"), logs) for task in (GOLD, SWAPPED)}
    print("5/5  audit: which of the models use the image?")
    judged = _audit(metadata, out)
    (out / "results.json").write_text(json.dumps(results, indent=2, default=str) + "\n", encoding="utf-8")
    return (
        contrabench_tables(results[CONTRABENCH], wording)
        + heal_table(results[HEAL])
        + surgx_table(results[SURGX])
        + wrong_lung_table(results[GOLD], results[SWAPPED])
        + audit_table(judged)
        + _closing(wording, out)
    )


def _refuse_others(folder: Path, own: Collection[str]) -> None:
    """Raises InputError for a folder that quickstart would replace although it did not write all that is in it."""
    if folder.exists() and (others := {path.name for path in folder.iterdir()} - set(own)):
        found = f"holds {min(others)!r}, which no quickstart wrote there, and would be replaced"
        raise InputError(folder, found, action="choose another --out")


def _phantom(folder: Path) -> dict[str, Path]:
    """Writes fresh synthetic sources to `folder`, which replace those of an earlier quickstart; returns their roots."""
    needed = {source for benchmark in BENCHMARKS.values() for need in benchmark.needs.values() for source in need}
    with whole_folder(folder) as partial:
        roots = phantom.write(partial, seed=0, sources=sorted(needed))
        places = {source_id: root.relative_to(partial) for source_id, root in roots.items()}
    return {source_id: folder / place for source_id, place in places.items()}


def contrabench_tables(results: Results, wording: Wording) -> str:
    """One table a task, one row a model: accuracy with its interval, "No X" errors, accuracies after repair."""
    order = ", target first" if wording.layout == "original" else ""
    tasks = [t for t in next(iter(results.values()))["results"] if t != CONTRABENCH]
    parts = []
    for task in tasks:
        rows, header = [], ["model", "B0", "95% CI", "unread"]
        for model, result in results.items():
            scores = result["results"][task]
            errors = next((n for n in ("n_reversals", "n_contradictions") if f"{n},b0" in scores), None)
            cells = [model, *_with_interval(scores, "accuracy", "b0"), percent(scores["parse_failure_rate,b0"])]
            if errors:
                cells += [str(scores[f"{errors},b0"])]
                cells += [
                    cell for reading in ("m1", "m1_extended") for cell in _with_interval(scores, "accuracy", reading)
                ]
                header[4:] = [errors.removeprefix("n_"), "M1", "95% CI", "extended M1", "95% CI"]
            rows.append(cells)
        title = task.removeprefix(f"{CONTRABENCH}_")
        parts.append(f"\n{title} (n = {_size(results, task)}{order}), accuracy in %\n{table(header, rows)}\n")
    return "".join(parts)


def heal_table(results: Results) -> str:
    """One row a model: F1 of closed and open questions, and the two perturbation tests, with their intervals."""
    columns = {  # header -> task, metric
        "yes/no F1": (f"{HEAL}_closed", "yes_no_f1"),
        "open F1": (f"{HEAL}_open", "open_f1"),
        "TPT": (f"{HEAL}_tpt", "tpt"),
        "VPT": (f"{HEAL}_vpt", "vpt"),
    }
    header = ["model", *(cell for name in columns for cell in (name, "95% CI")), "unread"]
    tasks = [task for task, _ in columns.values()]
    rows = [
        [
            model,
            *(c for task, metric in columns.values() for c in _with_interval(result["results"][task], metric)),
            _unread(result, tasks),
        ]
        for model, result in results.items()
    ]
    sizes = ", ".join(f"{name} {_size(results, task)}" for name, (task, _) in columns.items())
    return f"\nHEAL-MedVQA on VinDr-CXR (questions asked: {sizes}), in %\n{table(header, rows)}\n"


def _looking(store: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Row of the table -> model and its arguments: an oracle that looks at the right place or elsewhere, and others."""
    kinds = {f"oracle, {kind}": ("oracle", {"heatmap": kind}) for kind in ("box", "centre", "corner", "uniform")}
    models = {**kinds, "always_yes": ("always_yes", {}), "random, box": ("random", {"heatmap": "box"})}
    return {row: (name, given | {"store": str(store)}) for row, (name, given) in models.items()}


def surgx_table(results: Results) -> str:
    """One row a model and heatmap: F1 of instruments, AA and AC of the heatmap, coverage of triplets."""
    columns = {  # header -> task, metric
        "F1": (f"{SURGX}_instruments", "f1"),
        "AA": (f"{SURGX}_instruments", "tp_aa"),
        "AC": (f"{SURGX}_instruments", "tp_ac"),
        "AC of false": (f"{SURGX}_instruments", "fp_ac"),
        "triplets found": (f"{SURGX}_triplets", "coverage"),
    }
    rows = [
        [
            model,
            *(percent(result["results"][task][f"{metric},none"]) for task, metric in columns.values()),
            _unread(result, [f"{SURGX}_instruments", f"{SURGX}_triplets"]),
        ]
        for model, result in results.items()
    ]
    frames = f"{_size(results, f'{SURGX}_instruments')} and {_size(results, f'{SURGX}_triplets')} frames"
    return f"\nSurgXBench ({frames}): what is named, and how much of what is looked at lies on it, in %\n" + (
        f"{table(['model, heatmap', *columns, 'unread'], rows)}\n"
    )


def _attending(store: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Row of the table -> the oracle and its attention: on what a sentence names, on the other side, and elsewhere."""
    kinds = ("box", "mirror", "image_only", "uniform")
    return {f"oracle, {kind}": ("oracle", {"heatmap": kind, "store": str(store)}) for kind in kinds}


def wrong_lung_table(gold: Results, swapped: Results) -> str:
    """One row a kind of attention: its AUROC, of all boxes and of one lung, and the change when sides are swapped."""
    columns = {  # header -> results, metric
        "AUROC": (gold, "auroc"),
        "of one lung": (gold, "auroc_one_lung"),
        "swapped, change": (swapped, "delta_auroc"),
        "of one lung, change": (swapped, "delta_auroc_one_lung"),
    }
    rows = []
    for model in gold:
        cells = []
        for found, metric in columns.values():
            (scores,) = (found[model]["results"][task] for task in found[model]["results"])
            cells.append(percent(scores[f"{metric},none"]))
        rows.append([model, *cells])
    sentences = next(iter(next(iter(gold.values()))["n-samples"].values()))["effective"]
    title = (
        f"That's the Wrong Lung! ({sentences} sentences): where attention lies, and whether it follows the text, in %"
    )
    return f"\n{title}\n{table(['attention', *columns], rows)}\n"


def _audit(metadata: Mapping[str, Any], out: Path) -> list[Judged]:
    """What the audit says of models whose use of the image is known; writes audit.csv and report.html to `out`.

    Its logs are not kept: they ask only some rows.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        kept = dict(metadata) | {"heatmaps": f"{folder}/heatmaps"}
        tasks, _ = plan(AUDITED_TASKS, kept, AUDITED_ROWS)
        models = {name: reference_model(name, store=kept["heatmaps"]) for name in AUDITED}
        ask(models, tasks, AUDITED_UNDER, kept, Path(folder), say=lambda _: None)
        judged = judge(audited(Path(folder), AUDITED, tasks, MARGIN))
        write_tables(Path(folder), judged, MARGIN)
        shutil.copy(Path(folder) / "audit.csv", out)
        write_page(out / "report.html", collect([Path(folder)], controls=False), [Path(folder)], "medfaith quickstart")
        return judged


def audit_table(judged: Sequence[Judged]) -> str:
    """One row a model and benchmark: its score with the image and without, and whether it uses the image."""
    titles, rows = overview(judged, MARGIN).cells()
    shown = [number for number, title in enumerate(titles) if title not in ("Rows", "Unrelated")]
    cells = [[row[number].split(" with n = ")[0] for number in shown] for row in rows]  # audit.csv has the numbers
    title = "Does the model use the image? (scores with the image and, best, without; in %)"
    return f"\n{title}\n{table([titles[number] for number in shown], cells)}\n"


def _size(results: Results, task: str) -> int:
    return next(iter(results.values()))["n-samples"][task]["effective"]


def _unread(result: Mapping[str, Any], tasks: Sequence[str]) -> str:
    """Of the answers to some tasks, the share that could not be read."""
    counts = {f"{name},none" for name in _UNREAD}
    n_unread = sum(value for task in tasks for key, value in result["results"][task].items() if key in counts)
    return percent(n_unread / sum(result["n-samples"][task]["effective"] for task in tasks))


def _with_interval(scores: Mapping[str, Any], metric: str, reading: str = "none") -> list[str]:
    value, low, high = (percent(scores[f"{metric}{end},{reading}"]) for end in ("", "_ci_low", "_ci_high"))
    return [value, f"[{low}, {high}]"]


def _closing(wording: Wording, out: Path) -> str:
    note = ""
    if wording.layout == "original":
        note = (
            "\nThe original layout of CXR-ContraBench puts the target first, so always_yes and majority are right"
            "\nwithout looking. In the default layout, shuffled, they are right in about a third of the questions."
        )
    note += "\nunread: share of the answers that could not be read, in %."
    note += "\n– means undefined. TPT and VPT are shares of the true positives; a model that always says No has none.\n"
    note += (
        "looks answers from the pixels, mirage does so in half of the rows; looks_elsewhere takes its answers from "
        "another\nplace in the image; the others never look. Reliance: what the image adds to the best score without "
        "it. Mirage: of\nthe right answers, those that stay right without the image. Causal: those that are lost with "
        "the place asked about.\n"
    )
    note += "A uniform heatmap looks at no place, so its AA and AC are undefined.\n"
    note += (
        f"\nSynthetic data in {out}/phantom, rows in {out}/data, logs in {out}/logs, results in {out}/results.json and "
        f"{out}/audit.csv.\n"
    )
    note += f"A page to open in a browser: {out}/report.html.\n"
    named = shlex.quote(str(out))
    group = "medfaith_contrabench_3shot"
    return (
        f"{note}\nNext:"
        f"\n  medfaith report {named}  # the papers' tables of these models"
        f"\n  medfaith eval --data {named}/data --model random --tasks {group} --output_path results --log_samples"
        "\n  medfaith sources  # the licensed sources: which of them you have, and how to get the others"
    )
