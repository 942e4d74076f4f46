"""`medfaith quickstart`: the whole way on synthetic data, offline and without torch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medfaith import cards
from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench.questions import Wording
from medfaith.loaders import phantom
from medfaith.loaders.errors import InputError
from medfaith.printing import percent, table
from medfaith.tasks.run import run_baselines

GROUP = "medfaith_contrabench"
SOURCES = ("chexpert", "openi")


def quickstart(out: Path, wording: Wording, verify: Callable[[Sequence[Path]], bool]) -> str:
    """Phantom sources -> build -> verify -> lm-eval with the reference models; returns the tables.

    Writes `phantom/`, `data/` and `results.json` below `out`.
    """
    cxr_contrabench.check_wording(wording)
    print("1/4  synthetic sources in the official layouts")
    roots = _phantom(out / "phantom")
    print("2/4  build")
    folders = cxr_contrabench.build(roots, out / "data", wording=wording, card=cards.body)
    print("3/4  verify")
    verify(folders)
    print("4/4  lm-eval with the reference models")
    metadata = {"data": str(out / "data"), "roots": {source_id: str(root) for source_id, root in roots.items()}}
    results = run_baselines(GROUP, metadata)
    (out / "results.json").write_text(json.dumps(results, indent=2, default=str) + "\n", encoding="utf-8")
    return result_tables(results) + _closing(wording, out)


def _phantom(folder: Path) -> dict[str, Path]:
    """Fresh synthetic sources in `folder`, in place of those of an earlier quickstart."""
    if folder.exists() and not {path.name for path in folder.iterdir()} <= set(SOURCES):
        raise InputError(folder, "holds something else than synthetic sources", action="choose another --out")
    partial = folder.with_name(".phantom.partial")
    shutil.rmtree(partial, ignore_errors=True)
    roots = phantom.write(partial, seed=0, sources=SOURCES)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return {source_id: folder / root.relative_to(partial) for source_id, root in roots.items()}


def result_tables(results: Mapping[str, Mapping[str, Any]]) -> str:
    """One table a task: rows models; accuracy with its interval before and after the verifier, and "No X" errors."""
    tasks = [t for t in next(iter(results.values()))["results"] if t != GROUP]
    parts = []
    for task in tasks:
        rows, header = [], ["model", "B0", "95% CI"]
        for model, result in results.items():
            scores = result["results"][task]
            errors = next((n for n in ("n_reversals", "n_contradictions") if f"{n},b0" in scores), None)
            cells = [model, *_accuracy(scores, "b0")]
            if errors:
                cells += [str(scores[f"{errors},b0"]), *_accuracy(scores, "m1"), *_accuracy(scores, "m1_extended")]
                header[3:] = [errors.removeprefix("n_"), "M1", "95% CI", "extended M1", "95% CI"]
            rows.append(cells)
        n = next(iter(results.values()))["n-samples"][task]["effective"]
        parts.append(
            f"\n{task.removeprefix('medfaith_contrabench_')} (n = {n}), accuracy in %\n{table(header, rows)}\n"
        )
    return "".join(parts)


def _accuracy(scores: Mapping[str, Any], reading: str) -> list[str]:
    low, high = (percent(scores[f"accuracy_ci_{end},{reading}"]) for end in ("low", "high"))
    return [percent(scores[f"accuracy,{reading}"]), f"[{low}, {high}]"]


def _closing(wording: Wording, out: Path) -> str:
    note = ""
    if wording.layout == "original":
        note = (
            "\nThe published layout puts the target first, so always_yes and majority are right without looking;"
            "\nmedfaith quickstart --layout shuffled shows them at their floor.\n"
        )
    return f"{note}\nSynthetic data in {out}/phantom, rows in {out}/data, results in {out}/results.json."
