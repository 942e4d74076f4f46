"""CXR-ContraBench for lmms-eval: writes tasks in its own YAML, whose functions are those below.

    python -m medfaith.tasks.adapters.lmms_eval --data medfaith-data --root chexpert=PATH --out lmms-tasks
    python -m lmms_eval --include_path lmms-tasks --tasks medfaith_contrabench --model MODEL --log_samples

The files are written and not shipped because lmms-eval takes a data set's place from the YAML alone, and lm-eval would
take every YAML below its include path for a task of its own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from ..contrabench import prompts
from ..rows import LazyImages, read, repository_path
from . import questions

CONFIGS = ("chexpert_presence", "chexpert_absence", "chexpert_positive_only", "openi_report_absence")
HERE = "medfaith.tasks.adapters.lmms_eval"


def doc_to_visual(doc: dict[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> list[Image.Image]:
    """The study's images, opened below the roots that the YAML names."""
    roots = questions.resolve_roots((lmms_eval_specific_kwargs or {}).get("roots"))
    return LazyImages(doc["id"], doc["images"], roots)[:]


def doc_to_text(doc: dict[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """B0."""
    return questions.prompt(doc)


def doc_to_target(doc: dict[str, Any]) -> str:
    """The letter of the gold option."""
    return prompts.target(doc)


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A row's rates, each as {score, study_id}: lmms-eval clusters its standard errors by `cluster_key`."""
    found = questions.values(doc, results[0])
    return {name: {"score": value, "study_id": doc["study_id"]} for name, value in found.items()}


def mean(items: Sequence[Mapping[str, Any]]) -> float:
    """Aggregation: the mean score."""
    return sum(item["score"] for item in items) / len(items)


def task_yaml(config: str, data: str, roots: Mapping[str, str]) -> str:
    """One task; `roots` name folders of this machine. Raises InputError where `data` has no such rows."""
    repository, split = questions.place(config)
    read(repository, config, split, data)
    path = repository_path(repository, data)
    lines = [
        "# Names folders of this machine: keep it here.",
        f"task: medfaith_contrabench_{config}",
        "tag: medfaith_contrabench",
        f"dataset_path: {json.dumps(str(Path(path).resolve()) if Path(path).is_dir() else path)}",
        f"dataset_name: {config}",
        f"test_split: {split}",
        "output_type: generate_until",
        *(f"{name}: !function {HERE}.{name}" for name in ("doc_to_visual", "doc_to_text", "doc_to_target")),
        f"process_results: !function {HERE}.process_results",
        "cluster_key: study_id",
        "generation_kwargs: {max_new_tokens: 64, do_sample: false, temperature: 0}",
        f"lmms_eval_specific_kwargs: {json.dumps({'default': {'roots': dict(roots)}})}",
        "metric_list:",
    ]
    for name in questions.RATES:
        better = str(name == "accuracy").lower()
        lines += [f"  - metric: {name}", f"    aggregation: !function {HERE}.mean", f"    higher_is_better: {better}"]
    return "\n".join([*lines, "metadata:", "  version: 1.0", ""])


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {HERE}", description="Writes tasks for lmms-eval.")
    parser.add_argument("--config", action="append", help=f"repeatable (default: {', '.join(CONFIGS)})")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for lmms-eval's --include_path")
    return questions.command(_write, parser, argv)


def _write(arguments: argparse.Namespace) -> None:
    roots = {source: str(path) for source, path in questions.resolve_roots(arguments.root).items()}
    questions.refuse_builds(arguments.out)
    texts = {config: task_yaml(config, arguments.data, roots) for config in arguments.config or CONFIGS}
    arguments.out.mkdir(parents=True, exist_ok=True)
    for config, text in texts.items():
        (arguments.out / f"medfaith_contrabench_{config}.yaml").write_text(text, encoding="utf-8")
    print(f"python -m lmms_eval --include_path {arguments.out} --tasks medfaith_contrabench --model MODEL")


if __name__ == "__main__":
    raise SystemExit(main())
