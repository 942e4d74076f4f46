"""Asks the rows of an audit with the image, under each control and in each wording; what is done stays done.

OUT/audit.json says what was asked, OUT/rows.csv of which rows, and OUT/logs/<task>/<condition>/<model>/ has the sample
logs as lm-eval writes them. A condition is a control, a wording or IMAGE. A folder there is whole or absent.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medfaith.loaders import json_text, limits
from medfaith.loaders.atomic import atomic_file, atomic_folder, remove_lock
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.logs.files import safe_name
from medfaith.tasks.controls import UnsupportedControlError, in_order
from medfaith.tasks.models.answer_counts import LIMIT, tally
from medfaith.tasks.outcomes import UNANSWERED
from medfaith.tasks.run import NEED_AN_IMAGE, Model, answer, load_tasks
from medfaith.tasks.wordings import UnsupportedWordingError

from . import Rule
from .plan import Task, write_rows

IMAGE = "image"  # the folder of the answers without a control
RECORD = "audit.json"
_WORDING = "wording_"  # begins the name of a condition that asks in another wording


def wording_names(n: int) -> list[str]:
    """Name the conditions of the first n paraphrases.

    >>> wording_names(2)
    ['wording_1', 'wording_2']
    """
    return [f"{_WORDING}{number}" for number in range(1, n + 1)]


def is_wording(condition: str) -> bool:
    """Whether a condition asks in another wording."""
    return condition.startswith(_WORDING)


def ordered(conditions: Iterable[str]) -> list[str]:
    """Sort conditions: the image, then controls as they are listed, then wordings.

    >>> ordered(["wording_1", "other", "image", "none"])
    ['image', 'none', 'other', 'wording_1']
    """
    given = [*conditions]
    wordings = sorted(filter(is_wording, given), key=lambda name: int(name.removeprefix(_WORDING)))
    controls = in_order(name for name in given if name != IMAGE and not is_wording(name))
    return [*([IMAGE] if IMAGE in given else []), *controls, *wordings]


def _metadata_of(condition: str | None) -> dict[str, Any]:
    """What a task takes so that its rows are asked under a condition."""
    if condition is None:
        return {}
    if is_wording(condition):
        return {"wording": int(condition.removeprefix(_WORDING))}
    return {"control": condition}


class Step(NamedTuple):
    """A task under a condition, or with the image (None), of which all models are asked.

    place: as a user is told of it. n: how many answers. left: how many there are from here on.
    """

    task: Task
    condition: str | None
    place: str
    n: int
    left: int


def ask(
    models: Mapping[str, Model],
    tasks: Sequence[Task],
    conditions: Sequence[str],
    metadata: Mapping[str, Any],
    out: Path,
    say: Callable[[str], None] = print,
    rule: Rule = 2,
) -> None:
    """Asks every model what is not yet answered in `out`.

    Args:
        models: by the name of the folder of their logs. say: is told what is asked next, and how much is left.
        rule: version of the rule that is to judge the answers; it is recorded.

    Raises:
        InputError: `out` holds an audit of other models or rows, another way to ask or another rule; or as the tasks
            do.
        MedfaithError: a server leaves more than 1% of the rows of a task without an answer.
    """
    given = begin(models, tasks, metadata, out, rule)
    for step in unanswered(models, tasks, conditions, out):
        take(step, models=models, given=given, out=out, say=say)


def begin(
    models: Mapping[str, Model], tasks: Sequence[Task], metadata: Mapping[str, Any], out: Path, rule: Rule = 2
) -> dict[str, Any]:
    """Writes to `out` what is asked, and returns what the tasks take. Raises InputError as `ask` does."""
    _record(models, tasks, metadata, out, rule)
    return dict(metadata) | {"row_ids": str(write_rows(out, tasks))}


def unanswered(models: Collection[str], tasks: Sequence[Task], conditions: Sequence[str], out: Path) -> list[Step]:
    """The steps of which `out` has no answers yet; the order in which they are taken does not matter.

    It removes the locks that killed processes left of the others.
    """
    pairs = [(task, condition) for task in tasks for condition in (None, *conditions)]
    left, steps = 0, []
    for number, (task, condition) in reversed([*enumerate(pairs, start=1)]):
        if (logs := folder(out, task.name, condition)).is_dir():
            remove_lock(logs)
        else:
            n = len(task.ids) * len(models)
            left += n
            place = f"[{number}/{len(pairs)}] {task.name}, {condition or 'with the image'}"
            steps.append(Step(task, condition, place, n, left))
    return steps[::-1]


def take(
    step: Step, *, models: Mapping[str, Model], given: Mapping[str, Any], out: Path, say: Callable[[str], None]
) -> None:
    """Asks the models what a step of `unanswered` holds. given: what `begin` returned. Raises as `ask` does."""
    task, condition, place = step.task, step.condition, step.place
    answering = {name: model for name, model in models.items() if can_be_asked(model, condition)}
    if not answering:
        say(f"{place}: the model cannot answer without an image")
        return
    try:
        loaded = load_tasks(task.name, dict(given) | _metadata_of(condition))
        say(f"{place}: {step.n:,} answers; {step.left:,} left")
        with atomic_folder(folder(out, task.name, condition)) as logs, tally() as outcomes:
            for name, model in answering.items():
                answer(loaded, model, logs / name)
            _refuse_unanswered(outcomes, place)
    except (UnsupportedControlError, UnsupportedWordingError) as error:
        say(f"{place}: {error.found}")


def _refuse_unanswered(outcomes: Counter[str], place: str) -> None:
    """Of a server that leaves rows without an answer. What it did answer is kept; only the others are asked again."""
    missing, n = outcomes[UNANSWERED], outcomes.total()
    if missing > LIMIT * n:
        action = "start the same command again: it asks only these"
        raise MedfaithError(f"{place}: {missing:,} of {n:,} rows have no answer\n  what to do: {action}")


def can_be_asked(model: Model, condition: str | None) -> bool:
    """Whether the model can answer under the condition: some need an image."""
    return condition != "none" or model.name not in NEED_AN_IMAGE


def name_of(model: Model) -> str:
    """The folder of a model's logs: its name or path, as one part of a path."""
    return safe_name(str(model.arguments.get("pretrained") or model.arguments.get("model") or model.name))


def folder(out: Path, task: str, condition: str | None) -> Path:
    """Where the logs of a task under a condition lie."""
    return out / "logs" / task / (condition or IMAGE)


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


def _record(
    models: Mapping[str, Model], tasks: Sequence[Task], metadata: Mapping[str, Any], out: Path, rule: Rule
) -> None:
    """Writes what is asked; an audit that is resumed has to ask the same."""
    told = ("images", "model_name", "skip_missing_images", "patients", "upsampling", "precision_ties")
    record: dict[str, Any] = {
        "medfaith": importlib.metadata.version("medfaith"),
        "rule": rule,
        "models": {name: _described(model) for name, model in models.items()},
        "asked": {name: metadata[name] for name in told if name in metadata},
        "rows": {task.name: {"n": len(task.ids), "digest": task.digest} for task in tasks},
    }
    record = json.loads(json.dumps(record, default=str))
    if (out / RECORD).exists():
        before: dict[str, Any] = {"rule": 1, **read_record(out)}  # the first rule had no number
        others = {
            name: of for name, of in before["rows"].items() if name in record["rows"] and of != record["rows"][name]
        }
        faults = [
            f"{name} was {before[name]}, now {record[name]}"
            for name in ("medfaith", "rule", "models", "asked")
            if before[name] != record[name]
        ]
        faults += [f"{name} had {of['n']} rows, and other ones" for name, of in others.items()]
        if faults:
            raise InputError(
                out, f"holds an audit of something else: {'; '.join(faults)}",
                expected="the same model, data, rule and options",
                action="resume it with what it was begun with, or choose another --out",
            )  # fmt: skip
        record["rows"] = before["rows"] | record["rows"]
    with atomic_file(out / RECORD) as partial:
        partial.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _described(model: Model) -> dict[str, Any]:
    own = {name: value for name, value in model.arguments.items() if name not in ("store", "answers")}
    seeds, generation = list(model.seeds), dict(model.generation)
    return {"model": model.name, "arguments": own, **model.options, "generation": generation, "seeds": seeds}
