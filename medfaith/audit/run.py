"""Asks the rows of an audit with the image and under each control; what is done stays done.

OUT/audit.json says what was asked, OUT/rows.csv of which rows, and OUT/logs/<task>/<control>/<model>/ has the sample
logs as lm-eval writes them. A folder there is whole or absent.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medfaith.loaders import json_text, limits
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.whole import remove_lock, whole_file, whole_folder
from medfaith.logs.files import safe_name
from medfaith.tasks.controls import UnsupportedControlError
from medfaith.tasks.models.tally import LIMIT, tally
from medfaith.tasks.outcomes import UNANSWERED
from medfaith.tasks.run import NEED_AN_IMAGE, Model, answer, load_tasks

from .plan import Task, write_rows

IMAGE = "image"  # the folder of the answers without a control
RECORD = "audit.json"


class Step(NamedTuple):
    """A task under a control, or with the image (None), of which all models are asked.

    place: as a user is told of it. n: how many answers. left: how many there are from here on.
    """

    task: Task
    control: str | None
    place: str
    n: int
    left: int


def ask(
    models: Mapping[str, Model],
    tasks: Sequence[Task],
    controls: Sequence[str],
    metadata: Mapping[str, Any],
    out: Path,
    say: Callable[[str], None] = print,
) -> None:
    """Asks every model what is not yet answered in `out`.

    Args:
        models: by the name of the folder of their logs. say: is told what is asked next, and how much is left.

    Raises:
        InputError: `out` holds an audit of other models or rows, or another way to ask; or as the tasks do.
        MedfaithError: a server leaves more than 1% of the rows of a task without an answer.
    """
    given = begin(models, tasks, metadata, out)
    for step in unanswered(models, tasks, controls, out):
        take(step, models=models, given=given, out=out, say=say)


def begin(models: Mapping[str, Model], tasks: Sequence[Task], metadata: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Writes to `out` what is asked, and returns what the tasks take. Raises InputError as `ask` does."""
    _record(models, tasks, metadata, out)
    return dict(metadata) | {"row_ids": str(write_rows(out, tasks))}


def unanswered(models: Collection[str], tasks: Sequence[Task], controls: Sequence[str], out: Path) -> list[Step]:
    """The steps of which `out` has no answers yet; the order in which they are taken does not matter.

    It removes the locks that killed processes left of the others.
    """
    pairs = [(task, control) for task in tasks for control in (None, *controls)]
    left, steps = 0, []
    for number, (task, control) in reversed([*enumerate(pairs, start=1)]):
        if (logs := folder(out, task.name, control)).is_dir():
            remove_lock(logs)
        else:
            n = len(task.ids) * len(models)
            left += n
            place = f"[{number}/{len(pairs)}] {task.name}, {control or 'with the image'}"
            steps.append(Step(task, control, place, n, left))
    return steps[::-1]


def take(
    step: Step, *, models: Mapping[str, Model], given: Mapping[str, Any], out: Path, say: Callable[[str], None]
) -> None:
    """Asks the models what a step of `unanswered` holds. given: what `begin` returned. Raises as `ask` does."""
    task, control, place = step.task, step.control, step.place
    answering = {name: model for name, model in models.items() if can_be_asked(model, control)}
    if not answering:
        say(f"{place}: the model cannot answer without an image")
        return
    try:
        loaded = load_tasks(task.name, dict(given) | ({"control": control} if control else {}))
        say(f"{place}: {step.n:,} answers; {step.left:,} left")
        with whole_folder(folder(out, task.name, control)) as logs, tally() as outcomes:
            for name, model in answering.items():
                answer(loaded, model, logs / name)
            _refuse_unanswered(outcomes, place)
    except UnsupportedControlError as error:
        say(f"{place}: {error.found}")


def _refuse_unanswered(outcomes: Counter[str], place: str) -> None:
    """Of a server that leaves rows without an answer. What it did answer is kept; only the others are asked again."""
    missing, n = outcomes[UNANSWERED], outcomes.total()
    if missing > LIMIT * n:
        action = "start the same command again: it asks only these"
        raise MedfaithError(f"{place}: {missing:,} of {n:,} rows have no answer\n  what to do: {action}")


def can_be_asked(model: Model, control: str | None) -> bool:
    """Whether the model can answer under the control: some need an image."""
    return control != "none" or model.name not in NEED_AN_IMAGE


def name_of(model: Model) -> str:
    """The folder of a model's logs: its name or path, as one part of a path."""
    return safe_name(str(model.arguments.get("pretrained") or model.arguments.get("model") or model.name))


def folder(out: Path, task: str, control: str | None) -> Path:
    """Where the logs of a task under a control lie."""
    return out / "logs" / task / (control or IMAGE)


def read_record(out: Path) -> dict[str, Any]:
    """What an audit asked: the content of its audit.json.

    Raises InputError where there is none, or one that cannot be read.
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


def _record(models: Mapping[str, Model], tasks: Sequence[Task], metadata: Mapping[str, Any], out: Path) -> None:
    """Writes what is asked; an audit that is resumed has to ask the same."""
    told = ("images", "model_name", "skip_missing_images", "patients", "upsampling", "precision_ties")
    record: dict[str, Any] = {
        "medfaith": importlib.metadata.version("medfaith"),
        "models": {name: _described(model) for name, model in models.items()},
        "asked": {name: metadata[name] for name in told if name in metadata},
        "rows": {task.name: {"n": len(task.ids), "digest": task.digest} for task in tasks},
    }
    record = json.loads(json.dumps(record, default=str))
    if (out / RECORD).exists():
        before = read_record(out)
        others = {
            name: of for name, of in before["rows"].items() if name in record["rows"] and of != record["rows"][name]
        }
        faults = [
            f"{name} was {before[name]}, now {record[name]}"
            for name in ("medfaith", "models", "asked")
            if before[name] != record[name]
        ]
        faults += [f"{name} had {of['n']} rows, and other ones" for name, of in others.items()]
        if faults:
            raise InputError(
                out, f"holds an audit of something else: {'; '.join(faults)}",
                expected="the same model, data and options",
                action="resume it with what it was begun with, or choose another --out",
            )  # fmt: skip
        record["rows"] = before["rows"] | record["rows"]
    with whole_file(out / RECORD) as partial:
        partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _described(model: Model) -> dict[str, Any]:
    own = {name: value for name, value in model.arguments.items() if name not in ("store", "answers")}
    seeds, generation = list(model.seeds), dict(model.generation)
    return {"model": model.name, "arguments": own, **model.options, "generation": generation, "seeds": seeds}
