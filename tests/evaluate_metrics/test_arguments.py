"""Values that are no values: each public function of the metrics refuses them, and names the argument and the row."""

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.arguments.arrays import read_labels
from medfaith.evaluate_metrics.arguments.kinds import Kind
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean, permutation_test
from tests.support.evaluate_metrics.calls import ATTENTION, CALLS, FRAME, MAP, MASK, ORIGINAL, SENTENCE, iter_functions
from tests.support.evaluate_metrics.modules import compute_by_module

FUNCTIONS = dict(iter_functions())
NAN, MASKED = math.nan, np.ma.masked
NO_LISTS = (5, "ab", b"ab", {1: 2}, {1, 2}, 1j)
NO_NUMBERS = ("0.5", True, 1j, MASKED, [0.5])

# Bad values of each kind.
VALUES: dict[str, tuple] = {
    "whole": (0.5, 2.0, "1", None, True, 1j, NAN, -1, MASKED, [1]),
    "index": (0.5, 1.0, "1", True, 1j, MASKED, [1]),
    "real": (None, NAN, math.inf, 5, -5, *NO_NUMBERS),
    "float": (None, *NO_NUMBERS),
    "flag": ("False", "", 0, 1, None, 1.0, MASKED, []),
    "choice": ("", "Presence", None, 1, b"presence", MASKED, ["presence"]),
    "text": (None, 1, b"a", ["a"], MASKED, 1j),
    "label": (None, 1.5, NAN, True, b"a", MASKED, ["a"]),
    "answer": ("Maybe", None, True, MASKED),
    "texts": ("abc", None, 5, b"abc", [1], ["a", None], {"a": 1}, MASKED),
    "ids": ("abc", None, 5),
    "numbers": (None, *NO_LISTS),
    "unit": (None, *NO_LISTS),
    "labels": (None, *NO_LISTS),
    "indices": (None, "1", 0.5, True, 1j, {0}, MASKED),
    "choices": (None, "Presence", 1, MASKED),
    "flags": (None, *NO_LISTS),
    "list": (None, *NO_LISTS),
    "dict": (None, 5, "a", [1]),
    "mapping": (None, 5, "a", [1]),
    "record": (None, 5, "a", (1, 2, 3)),
    "instance": (None, 5, "a", 1j),
    "function": (None, 5, "a"),
    "bounds": (None, (1, 0), (0,), "ab", 5, (0, NAN), ("0", "1"), (0, 1j)),
    "limits": (5, "ab", (1,)),
    "ends": (None, 5, "ab", (1,)),
    "triplet": (None, "abc", ("a", "b"), ("a", "b", 1), ["a", "b", "c"]),
    "triplet text": (None, "a,b", 5, b"a,b,c", MASKED),
    "percentages": (None, 5, "ab", (0,), (100,), ("5",), (5j,), (True,), (NAN,)),
    "components": (None, [[0, 0, 0]] * 100, np.zeros((100, 3)), np.zeros((100, 2), dtype=int)),
    "row": (None, 5, {}, []),
    "size": (None, 5, "ab", [1], [0.5, 2], ["4", "6"], [0, 6], [NAN, 2], [True, 2], [1j, 2], [MASKED, 2]),
    "window": (5, "abcd", [0, 0, 1], [0, 0, "1", 1], [0, 0, 1j, 1], [0, 0, NAN, 1], [0, 0, 0, 1], [0, 0, MASKED, 1]),
    "boxes": (None, 5, "ab", [[0, 0, 1]], [["0", 0, 1, 1]], [[0, 0, 1j, 1]], [[0, 0, 0, 1]], [[0, 0, MASKED, 1]]),
    "box": (None, 5, "abcd", [0, 0, 1], ["0", 0, 1, 1], [0, 0, 1j, 1], [0, 0, 0, 1], [0, 0, MASKED, 1]),
    "grid": (
        5,
        "ab",
        [1.0],
        [["1", 0]],
        [[1j, 0]],
        [[0], [0, 1]],
        [[NAN, 0]],
        np.ma.array([[0.5, 0.5]], mask=[[0, 1]]),
    ),
    "maps": (None, 5, "ab", [1.0], [[["1"]]], [[[1j]]], np.ma.array([[[0.5, 0.5]]], mask=[[[0, 1]]])),
    "labelled pixels": (None, 5, [["True", "False"]], np.array([[1.0, 0.0]])),
    "motion": (5, "ab", [[[2, 0], [0, 0]]], [[["1", 0], [0, 0]]], np.ma.array(np.ones((1, 2, 2)), mask=True)),
    "mask": (5, "ab", {}, {"size": [2]}, {"size": [0.5, 2], "counts": "13"}, {"size": [2, 2], "counts": 5}),
    "scores": (5, "ab", [1.0], ["1"] * 100, [1j] * 100, [NAN] * 100, np.ma.array([1.0] * 100, mask=True)),
    "single map": ("ab", [["1", 0]], [[1j, 0]]),
    "array": (None, 5, "ab", ["1"], [1j]),
}
# Bad entries in the first row of an array.
ENTRIES: dict[str, tuple] = {
    "numbers": ("0.5", 1j, math.inf, (), np.datetime64("2020")),
    "unit": ("0.5", 1j, math.inf, 5, -1),
    "labels": (None, NAN, MASKED, ["a"], np.datetime64("NaT")),
    "indices": (0.5, "1", True, None, 1j, -5, MASKED),
    "choices": ("Presence", None, 1, MASKED),
    "flags": ("False", 1, None, MASKED),
}
# Kinds that the function itself reads: the message names the sample or what is wrong with it.
READ_LATER = {
    "maps", "grid", "window", "size", "boxes", "box", "motion", "mask", "scores", "array", "row", "index", "limits",
    "triplet text", "labelled pixels", "answer", "single map",
}  # fmt: skip
ANYTHING = {"stated", "unread"}  # `read_confidence` reads what a model states, `select_boxes` reads labels alone
ROW = r"row 1|rows of different lengths|map 1|box 1|union 1|number 1|\['|\[100\]"


def iter_bad(kind: Kind, good: Any) -> Iterator[tuple[Any, str]]:
    """Iterate over the bad values of a kind, with the kind that is wrong within them."""
    is_optional, name = kind.name.startswith("optional "), kind.name.removeprefix("optional ")
    if name in ANYTHING:
        return
    for value in VALUES[name]:
        if not (is_optional and (value is None or value is MASKED)):
            yield value, name
    for entry in ENTRIES.get(name, ()):
        yield replace_first(good, entry), f"{name} entry"
    if name == "record":
        for field, part in (kind.fields or {}).items():
            for bad, bad_name in iter_bad(part, getattr(good, field)):
                yield good._replace(**{field: bad}), bad_name
    elif name == "list" and len(good) and kind.entry:
        for bad, bad_name in iter_bad(kind.entry, good[0]):
            yield [bad, *good[1:]], f"{bad_name} entry"
    elif name == "mapping" and kind.entry:
        key = next(iter(good))
        yield from ((good | {key: bad}, f"{bad_name} entry") for bad, bad_name in iter_bad(kind.entry, good[key]))
    elif name == "dict":
        for column, part in (kind.fields or {}).items():
            yield from (
                (good | {column: bad}, f"{bad_name} column {column}") for bad, bad_name in iter_bad(part, good[column])
            )
            yield {key: value for key, value in good.items() if key != column}, f"missing column {column}"


def replace_first(values: Any, entry: Any) -> list:
    """Replace the first number of an array of any shape, as nested lists."""
    first, *rest = values
    is_nested = isinstance(first, list | np.ndarray)
    return [replace_first(first, entry) if is_nested else entry, *rest]


def find_fault(name: str, argument: str, value: Any, wrong: str) -> str:
    """Call a function with a bad value; describe what is wrong with the outcome, "" if the error names the place."""
    try:
        FUNCTIONS[name](**CALLS[name] | {argument: value})
    except ValueError as error:
        kind, *within = re.split(r" (?=entry|column)", wrong)
        is_named = re.search(rf"\b{argument}\b", str(error)) or kind in READ_LATER
        has_row = not within or re.search(ROW, str(error))
        return "" if is_named and has_row else f"{argument}={value!r} ({wrong}): {error}"
    except Exception as error:
        return f"{argument}={value!r} ({wrong}): {type(error).__name__} {error}"
    return f"{argument}={value!r} ({wrong}): accepted"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_argument_refuses_bad_values(name):
    FUNCTIONS[name](**CALLS[name])
    kinds: dict[str, Kind] = FUNCTIONS[name].__dict__["argument_kinds"]
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    assert set(kinds) == {key for key, parameter in parameters.items() if parameter.kind is not parameter.VAR_KEYWORD}
    faults = [
        find_fault(name, argument, value, wrong)
        for argument, kind in kinds.items()
        for value, wrong in iter_bad(kind, CALLS[name][argument])
    ]
    assert [fault for fault in faults if fault] == []


NUMBERS = [
    (name, argument)
    for name, function in FUNCTIONS.items()
    for argument, kind in function.__dict__["argument_kinds"].items()
    if kind.name.removeprefix("optional ") in {"numbers", "unit", "array"}
]


@pytest.mark.parametrize(("name", "argument"), NUMBERS)
def test_masked_numbers_are_missing_numbers(name, argument):
    """Also masked entries within lists; a function that needs each number refuses both by the row."""
    good = np.asarray(CALLS[name][argument], dtype=float)
    mask = np.zeros(good.shape, dtype=bool)
    mask.flat[0] = True
    masked = np.ma.array(good, mask=mask)
    outcomes = []
    for values in (np.where(mask, NAN, good), masked, list(masked), replace_first(good.tolist(), None)):
        try:
            outcomes.append(FUNCTIONS[name](**CALLS[name] | {argument: values}))
        except ValueError as error:
            outcomes.append(str(error))
    assert not isinstance(outcomes[0], str) or f"{argument}, row 1: NaN or masked" in outcomes[0]
    if callable(outcomes[0][-1] if isinstance(outcomes[0], tuple) else None):
        outcomes = [outcome[:-1] for outcome in outcomes]
    for outcome in outcomes[1:]:
        np.testing.assert_equal(outcome, outcomes[0])


LABELS = st.sampled_from(
    [1, "1", 1.0, True, "a", "a\0", "", 2**53, 2**53 + 1, 2.0**53, (1, "a"), np.int64(1), np.str_("a")]
)


def number_labels(labels):
    """Number labels by a plain comparison of each with all before: equal if type and value are."""
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return [
        next(first for first, other in enumerate(plain) if type(other) is type(label) and other == label)
        for label in plain
    ]


@given(st.lists(LABELS, max_size=12), st.data())
def test_labels_of_different_types_are_different_groups(labels, data):
    codes, expected = read_labels(labels, "groups").tolist(), number_labels(labels)
    assert [codes.index(code) for code in codes] == expected
    values = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, NAN]), min_size=len(labels), max_size=len(labels)))
    for groups in (labels, tuple(labels)):
        assert repr(bootstrap_mean(values, groups=groups, n_resamples=20)) == repr(
            bootstrap_mean(values, groups=expected, n_resamples=20)
        )
    other_values = values[::-1]
    tests = [permutation_test(values, other_values, groups=groups, n_resamples=20) for groups in (labels, expected)]
    assert repr(tests[0]) == repr(tests[1])


@pytest.mark.parametrize(
    "groups", [["a", "b"], [1, 2], [1.5, 2.5], np.array(["a", "b"]), np.array([1, 2]), ["1", 1], ["a", "a\0"]], ids=repr
)
@pytest.mark.parametrize("missing", [None, NAN, MASKED])
def test_a_missing_label_is_refused_by_its_row(groups, missing):
    with pytest.raises(ValueError, match=r"groups, row 3: (None|nan|masked); expected a label"):
        bootstrap_mean([0.0, 1.0, 1.0], groups=[*groups, missing])
    masked = np.ma.array([1, 2, 3], mask=[False, False, True])
    with pytest.raises(ValueError, match="groups, row 3: masked"):
        bootstrap_mean([0.0, 1.0, 1.0], groups=masked)


@pytest.mark.parametrize(
    ("values", "groups", "message"),
    [
        (np.array(["2020-01-01"], dtype="datetime64[s]"), None, "values, row 1: datetime"),
        (
            np.zeros(1, dtype=[("score", float)]),
            None,
            r"values: values of type \[\('score'.*; expected a number or NaN",
        ),
        (np.array([], dtype=complex), None, "values: values of type complex128; expected a number or NaN in each row"),
        ([0.0, 1.0], np.array([["a"], ["b"]]), r"groups: shape \(2, 1\); expected one label per value, shape \(n,\)"),
    ],
    ids=["times", "a table", "no complex number", "a column of labels"],
)
def test_arrays_of_other_types_and_shapes_are_refused(values, groups, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_mean(values, groups=groups, n_resamples=20)


@pytest.mark.parametrize(
    ("metric", "prediction", "reference", "message"),
    [
        (
            "localization",
            ATTENTION,
            SENTENCE | {"abnormal": "False"},
            "column 'abnormal': 'False'; expected True or False",
        ),
        ("localization", ATTENTION, SENTENCE | {"mdrb": 0}, "column 'mdrb': 0; expected True or False"),
        ("localization", ATTENTION, SENTENCE | {"size": [9, 9.5]}, r"column 'size': size \[9, 9.5\]; expected"),
        ("localization", ATTENTION | {"local": "0.5"}, SENTENCE, "column 'local': '0.5'; expected a number"),
        ("localization", ATTENTION | {"attention": [["0.5"]]}, SENTENCE, "column 'attention': no heatmap"),
        ("attention_alignment", {"labels": [], "maps": []}, FRAME | {"size": ["4", 6]}, "column 'size': size"),
        ("attention_alignment", {"labels": ["a"], "maps": [[["0.5"]]]}, FRAME, "column 'maps', row 1: no heatmap"),
        (
            "ras",
            {"triplets": [], "maps": [MAP]},
            FRAME | {"triplets": [], "motion": None, "window": "abcd"},
            "'window': window",
        ),
        ("mask_overlap", MASK | {"size": [2, 2.5]}, MASK, r"size \[2, 2.5\]; expected"),
        ("tpt", "Yes", ORIGINAL | {"image_id": None}, "column 'image_id': None; expected a text or a whole number"),
    ],
)
def test_a_module_checks_rows_before_it_stores_them(metric, prediction, reference, message):
    """The storage of evaluate turns 0.5 into 0, "False" into True, and "0.5" into a number."""
    with pytest.raises(ValueError, match=f"row 1.*{message}"):
        compute_by_module(metric, [prediction], [reference])
