"""Asking the rows of an audit with the image, under each control and in each wording; finished steps are kept.

OUT/audit.json records the questions, OUT/rows.csv the rows, and OUT/logs/<task>/<condition>/<model>/ has the sample
logs in lm-eval's format. A condition is a control, a wording or IMAGE. Its folder is written atomically.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from medfaith.loaders import csv_table, json_text, limits
from medfaith.loaders.atomic import atomic_file, atomic_folder, remove_lock
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.progress import say
from medfaith.loaders.secrets import mask_arguments
from medfaith.logs.files import safe_name
from medfaith.tasks import BATCH, NO_MATTER
from medfaith.tasks.controls import UnsupportedControlError, in_order
from medfaith.tasks.models.answer_counts import LIMIT, advise, tally
from medfaith.tasks.outcomes import UNANSWERED
from medfaith.tasks.run import NEED_AN_IMAGE, Model, answer, load_tasks
from medfaith.tasks.wordings import UnsupportedWordingError

from . import TASKS, Rule
from .plan import ROWS, Task, write_rows

IMAGE = "image"  # the folder of the answers without a control
RECORD = "audit.json"
_ROOTS = "roots"  # entry of RECORD: source -> folder of its images
_FINGERPRINTS = "fingerprints"  # entry of RECORD: folder of logs -> fingerprint of its model
_WORDING = "wording_"  # begins the name of a condition that asks in another wording


def list_wording_names(n: int) -> list[str]:
    """Name the conditions of the first n paraphrases.

    Args:
        n: Number of paraphrases.

    Returns:
        The names.

    >>> list_wording_names(2)
    ['wording_1', 'wording_2']
    """
    return [f"{_WORDING}{number}" for number in range(1, n + 1)]


def is_wording(condition: str) -> bool:
    """Return whether a condition asks in another wording.

    Args:
        condition: Name of a condition.

    Returns:
        False for a control and for IMAGE.
    """
    return condition.startswith(_WORDING)


def ordered(conditions: Iterable[str]) -> list[str]:
    """Sort conditions: the image, then controls in their listed order, then wordings.

    Args:
        conditions: Names of conditions.

    Returns:
        The names, sorted.

    >>> ordered(["wording_1", "other", "image", "none"])
    ['image', 'none', 'other', 'wording_1']
    """
    names = [*conditions]
    wordings = sorted(filter(is_wording, names), key=lambda name: int(name.removeprefix(_WORDING)))
    controls = in_order(name for name in names if name != IMAGE and not is_wording(name))
    return [*([IMAGE] if IMAGE in names else []), *controls, *wordings]


def get_condition_metadata(condition: str | None) -> dict[str, Any]:
    """Get the metadata that make a task ask its rows under a condition.

    Args:
        condition: A control or a wording; None for the image.

    Returns:
        The metadata; an empty dict for the image.
    """
    if condition is None:
        return {}
    if is_wording(condition):
        return {"wording": int(condition.removeprefix(_WORDING))}
    return {"control": condition}


class Step(NamedTuple):
    """A task under one condition, for all models.

    Attributes:
        task: The task and its rows.
        condition: A control, a wording, or None for the image.
        label: Text for the user.
        n: Number of answers.
        n_left: Number of answers from this step to the end.
    """

    task: Task
    condition: str | None
    label: str
    n: int
    n_left: int


def ask(
    models: Mapping[str, Model],
    tasks: Sequence[Task],
    conditions: Sequence[str],
    metadata: Mapping[str, Any],
    out: Path,
    say: Callable[[str], None] = print,
    rule: Rule = 2,
) -> None:
    """Ask every model all questions that `out` has no answer to.

    Answers of batch engines are read again: reading them is cheap, and the files may hold other answers than before.

    Args:
        models: Folder of logs -> model.
        tasks: Tasks and rows.
        conditions: Controls and wordings, in addition to the image.
        metadata: Metadata of the tasks.
        out: Folder of the audit.
        say: Called with a line on each step and on the work that is left.
        rule: Version of the rule that will judge the answers; it is recorded.

    Raises:
        InputError: `out` holds an audit of other models, weights, rows, options or another rule, or the tasks refuse
            the data.
        MedfaithError: A server leaves more than 1% of the rows of a task without an answer.
    """
    task_metadata = begin(models, tasks, metadata, out, rule)
    reads_files = any(model.name == BATCH for model in models.values())
    steps = unanswered(models, tasks, conditions, out, reads_files=reads_files)
    if steps:
        _record_fingerprints(models, out)
    for step in steps:
        take(step, models=models, task_metadata=task_metadata, out=out, say=say)


def begin(
    models: Mapping[str, Model], tasks: Sequence[Task], metadata: Mapping[str, Any], out: Path, rule: Rule = 2
) -> dict[str, Any]:
    """Record the audit in `out`.

    Args:
        models: Folder of logs -> model.
        tasks: Tasks and rows.
        metadata: Metadata of the tasks.
        out: Folder of the audit.
        rule: Version of the rule.

    Returns:
        The metadata with the file of rows.

    Raises:
        InputError: See `ask`.
    """
    all_tasks = join_tasks(read_earlier_tasks(out, tasks), tasks)
    _record(models, tasks, metadata, out, rule)
    return dict(metadata) | {"row_ids": str(write_rows(out, all_tasks))}


def read_earlier_tasks(out: Path, tasks: Sequence[Task]) -> list[Task]:
    """Read the tasks of other benchmarks that an earlier run into the same folder has asked.

    Args:
        out: Folder of the audit.
        tasks: Tasks of this run. A benchmark among them is left out: this run plans all of its tasks.

    Returns:
        The tasks with their rows; none in a new folder.

    Raises:
        InputError: rows.csv is damaged, or audit.json records other rows than it.
    """
    path, action = out / ROWS, "restore the file, or choose another --out"
    if not (out / RECORD).is_file() or not path.is_file():
        return []
    counted = read_record(out)["rows"]
    planned = {task.benchmark for task in tasks}
    table = csv_table.read(path, dict.fromkeys(("id", "benchmark", "task"), pa.string()), action=action)
    ids: dict[tuple[str, str], list[str]] = {}
    for row in table.to_pylist():
        ids.setdefault((row["task"], row["benchmark"]), []).append(row["id"])
    earlier = []
    for (name, benchmark), task_ids in ids.items():
        if name not in TASKS.get(benchmark, ()) or benchmark in planned:
            continue
        if name not in counted or counted[name]["n"] != len(task_ids):
            problem, expected = f"has {len(task_ids)} rows of {name}", f"those that {RECORD} counts"
            raise InputError(path, problem, column="task", expected=expected, action=action)
        earlier.append(Task(name, benchmark, tuple(task_ids), str(counted[name].get("digest", ""))))
    return earlier


def join_tasks(earlier: Sequence[Task], tasks: Sequence[Task]) -> list[Task]:
    """Join the tasks of earlier runs and of this one, in the order in which one run asks all benchmarks.

    Args:
        earlier: Tasks of earlier runs.
        tasks: Tasks of this run.

    Returns:
        All tasks. Without earlier ones the order is that of `tasks`.
    """
    order = {name: number for number, name in enumerate(TASKS)}
    return sorted([*earlier, *tasks], key=lambda task: order[task.benchmark]) if earlier else [*tasks]


def unanswered(
    models: Collection[str], tasks: Sequence[Task], conditions: Sequence[str], out: Path, *, reads_files: bool = False
) -> list[Step]:
    """List the steps that have no answers in `out`, and remove stale locks of the others.

    The steps can be taken in any order.

    Args:
        models: Folders of logs.
        tasks: Tasks and rows.
        conditions: Controls and wordings.
        out: Folder of the audit.
        reads_files: Whether answers come from files: then all steps are open.

    Returns:
        The open steps.
    """
    pairs = [(task, condition) for task in tasks for condition in (None, *conditions)]
    n_left, steps = 0, []
    for position, (task, condition) in reversed([*enumerate(pairs, start=1)]):
        if not reads_files and (logs := folder(out, task.name, condition)).is_dir():
            remove_lock(logs)
        else:
            n = len(task.ids) * len(models)
            n_left += n
            label = f"[{position}/{len(pairs)}] {task.name}, {condition or 'with the image'}"
            steps.append(Step(task, condition, label, n, n_left))
    return steps[::-1]


def take(
    step: Step, *, models: Mapping[str, Model], task_metadata: Mapping[str, Any], out: Path, say: Callable[[str], None]
) -> None:
    """Ask the models the questions of one step.

    Args:
        step: A step from `unanswered`.
        models: Folder of logs -> model.
        task_metadata: Result of `begin`.
        out: Folder of the audit.
        say: Called with a line for the user.

    Raises:
        InputError: See `ask`.
        MedfaithError: See `ask`.
    """
    task, condition, label = step.task, step.condition, step.label
    answering = {name: model for name, model in models.items() if can_be_asked(model, condition)}
    if not answering:
        say(f"{label}: the model cannot answer without an image")
        return
    try:
        loaded = load_tasks(task.name, dict(task_metadata) | get_condition_metadata(condition))
        say(f"{label}: {step.n:,} answers; {step.n_left:,} left")
        with atomic_folder(folder(out, task.name, condition)) as logs, tally() as outcomes:
            for name, model in answering.items():
                answer(loaded, model, logs / name)
            _refuse_unanswered(outcomes, label, [model.name for model in answering.values()])
    except (UnsupportedControlError, UnsupportedWordingError) as error:
        say(f"{label}: {error.found}")


def _refuse_unanswered(outcomes: Counter[str], label: str, models: Sequence[str]) -> None:
    """Refuse a step with unanswered rows; the server's answers are kept, and a repeat asks only the missing rows."""
    missing, n = outcomes[UNANSWERED], outcomes.total()
    if missing > LIMIT * n:
        problem, action = f"{missing:,} of {n:,} rows have no answer", advise(models[0])
        raise MedfaithError(f"{label}: {problem}\n  what to do: {action}")


def can_be_asked(model: Model, condition: str | None) -> bool:
    """Return whether the model can answer under the condition.

    Args:
        model: The model.
        condition: A control or a wording; None for the image.

    Returns:
        False for `none` and a model that needs an image.
    """
    return condition != "none" or model.name not in NEED_AN_IMAGE


def name_of(model: Model) -> str:
    """Name the folder of a model's logs by its name or path.

    Args:
        model: The model.

    Returns:
        A name that is safe for a folder.
    """
    return safe_name(str(model.arguments.get("pretrained") or model.arguments.get("model") or model.name))


def folder(out: Path, task: str, condition: str | None) -> Path:
    """Return the folder of the logs of a task under a condition.

    Args:
        out: Folder of the audit.
        task: Name of the task.
        condition: A control or a wording; None for the image.

    Returns:
        The path; the folder may be missing.
    """
    return out / "logs" / task / (condition or IMAGE)


def read_record(out: Path) -> dict[str, Any]:
    """Read audit.json.

    Args:
        out: Folder of an audit.

    Returns:
        The content: models, options, rows and rule.

    Raises:
        InputError: The file is missing, unreadable, or no record of an audit.
    """
    path, action = out / RECORD, "name the --out folder of a medfaith audit"
    try:
        record = json_text.parse(limits.read_bytes(path, limits.JSON_BYTES))
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", expected="an audit", action=action) from error
    except ValueError as error:
        raise InputError(path, "is not JSON", expected="what medfaith audit wrote", action=action) from error
    is_ours = isinstance(record, dict) and {"medfaith", "models", "asked", "rows"} <= set(record)
    if not is_ours or not isinstance(record["rows"], dict) or not all(map(_is_counted, record["rows"].values())):
        raise InputError(path, "is no record of an audit", expected="what medfaith audit wrote", action=action)
    return record


def _is_counted(rows: Any) -> bool:
    return isinstance(rows, dict) and "n" in rows


def _record(
    models: Mapping[str, Model], tasks: Sequence[Task], metadata: Mapping[str, Any], out: Path, rule: Rule
) -> None:
    """Write audit.json, or check that a resumed audit has the same models, rows, options and rule."""
    recorded = ("images", "model_name", "skip_missing_images", "patients", "upsampling", "precision_ties")
    record: dict[str, Any] = {
        "medfaith": importlib.metadata.version("medfaith"),
        "rule": rule,
        "models": {name: _described(model) for name, model in models.items()},
        "asked": {name: metadata[name] for name in recorded if name in metadata},
        "rows": {task.name: {"n": len(task.ids), "digest": task.digest} for task in tasks},
        _ROOTS: {source: str(Path(root).resolve()) for source, root in metadata.get("roots", {}).items()},
    }
    record = json.loads(json.dumps(record, default=str))
    if (out / RECORD).exists():
        earlier: dict[str, Any] = {"rule": 1, **read_record(out)}  # the first rule had no number
        changed_rows = {
            name: counted
            for name, counted in earlier["rows"].items()
            if name in record["rows"] and counted != record["rows"][name]
        }
        faults = [
            f"{name} was {earlier[name]}, now {record[name]}"
            for name in ("medfaith", "rule", "models", "asked")
            if earlier[name] != record[name]
        ]
        faults += [f"{name} had {counted['n']} rows, and other ones" for name, counted in changed_rows.items()]
        if faults:
            raise InputError(
                out, f"holds an audit of something else: {'; '.join(faults)}",
                expected="the same model, data, rule and options",
                action="resume it with what it was begun with, or choose another --out",
            )  # fmt: skip
        record["rows"] = earlier["rows"] | record["rows"]
        record |= {_FINGERPRINTS: earlier[_FINGERPRINTS]} if _FINGERPRINTS in earlier else {}
        _warn_of_other_images(earlier.get(_ROOTS, {}), record[_ROOTS], out)
        record[_ROOTS] = earlier.get(_ROOTS, {}) | record[_ROOTS]
    _write_record(out, record)


def _warn_of_other_images(earlier_roots: Mapping[str, str], roots: Mapping[str, str], out: Path) -> None:
    """Warn of images that come from another folder than before: a copy is the same, a smaller version is not."""
    for source, root in roots.items():
        if (earlier_root := earlier_roots.get(source, root)) != root:
            say(
                f"medfaith: WARNING: {out}: the images of {source} came from {earlier_root}, and now come from {root}. "
                "Finished steps keep their answers. What to do: if the images differ, choose another --out"
            )


def _record_fingerprints(models: Mapping[str, Model], out: Path) -> None:
    """Record the fingerprint of each model that has one; raise InputError if an earlier run had another.

    The name of a folder or of a served model stays if its weights change, and steps of both would make one table.
    """
    record = read_record(out)
    earlier = record.get(_FINGERPRINTS, {})
    fingerprints = {name: getattr(model.answering, "fingerprint", None) for name, model in models.items()}
    for name, fingerprint in fingerprints.items():
        if fingerprint and earlier.get(name, fingerprint) != fingerprint:
            raise InputError(
                out, f"holds answers of {name} with other weights, or another configuration or version of it",
                expected="the same model", action="restore it, or choose another --out",
            )  # fmt: skip
    _write_record(out, record | {_FINGERPRINTS: earlier | fingerprints})


def _write_record(out: Path, record: Mapping[str, Any]) -> None:
    with atomic_file(out / RECORD) as partial:
        partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _described(model: Model) -> dict[str, Any]:
    arguments = {name: value for name, value in model.arguments.items() if name not in ("store", *NO_MATTER)}
    arguments = mask_arguments(arguments)
    seeds, generation = list(model.seeds), dict(model.generation)
    return {"model": model.name, "arguments": arguments, **model.options, "generation": generation, "seeds": seeds}
