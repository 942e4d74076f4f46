"""Extraction of the answer from text with reasoning marked in any form, and removal of markup."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.reading.markup import readable
from medfaith.evaluate_metrics.reading.reasoning import LIMIT, exceeds_limit, extract_answer, find_answer_span
from medfaith.evaluate_metrics.reading.statements import fields, statements

PARTS = {  # text: (the answer in it, how it was found)
    "Yes": ("Yes", "whole"),
    "<think>a</think>b": ("b", "after reasoning"),
    "<Thinking>a</ thinking >b": ("b", "after reasoning"),
    "a</think>b": ("b", "after reasoning"),
    "<think>a</think>b<think>c</think>d": ("d", "after reasoning"),
    "<reasoning type='x'>a</reasoning>b": ("b", "after reasoning"),
    "[THINK]a[/THINK]b": ("b", "after reasoning"),
    "◁think▷a◁/think▷b": ("b", "after reasoning"),
    "<unused94>thought\na<unused95>b": ("b", "after reasoning"),
    "<|begin_of_thought|>a<|end_of_thought|>b": ("b", "after reasoning"),
    "analysisThe user asks.assistantfinalb": ("b", "after reasoning"),
    "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b": ("b", "after reasoning"),
    "## Thinking\na\n## Final Response\nb": ("\nb", "after reasoning"),
    "b\n<think>a</think>": ("b\n", "before reasoning"),
    "b <think>a": ("b ", "before reasoning"),
    "<think>a": ("a", "open reasoning"),
    "<think>a</think>": ("", "before reasoning"),
    "a <answer>b</answer> c": ("b", "tagged"),
    "<answer>b</answer><answer>c</answer>": ("b</answer><answer>c", "tagged"),
    "<answer>b": ("b", "tagged"),
    "a\nb</answer>": ("b", "tagged"),
    "<answer></answer>b": ("</answer>b", "tagged"),
    "<think>a</think><answer>b</answer>": ("b", "tagged"),
    "<|begin_of_box|>b<|end_of_box|>": ("b", "tagged"),
    "b<|im_end|>\n<|im_start|>user\nc": ("b", "whole"),
    "b</s>c": ("b", "whole"),
    "b\nQuestion: c": ("b\n", "whole"),
    "b. Question: c": ("b. ", "whole"),
    "Question: c": ("Question: c", "whole"),
    "The analysis shows b": ("The analysis shows b", "whole"),
}


def test_the_answer_is_found():
    spans = {text: find_answer_span(text) for text in PARTS}
    assert {text: (text[start:end], kind) for text, (start, end, kind) in spans.items()} == PARTS
    answers = {text: "" if kind == "open reasoning" else answer for text, (answer, kind) in PARTS.items()}
    assert {text: extract_answer(text) for text in PARTS} == answers


@given(st.text(max_size=60), st.text("ab<>/[]|think answer\n◁▷", max_size=60))
def test_a_span_lies_in_any_text(before, noise):
    text = before + noise
    start, end, _ = find_answer_span(text)
    assert 0 <= start <= end <= len(text)


READABLE = {
    "**B.** `No` _edema_": "B. No edema",
    "# Answer\n> B": "# Answer\n> B",
    "＂Ｂ＂ 【C】": "B (C)",
    "$45 \\mathrm{~cm}$": "45 cm",
    "\\frac{10}{3}": "10/3",
    "it’s ‘B’": "it’s B",
    "B ✅ C ❌": "B (correct) C (incorrect)",
    "👉 B": "B",
    "<b>B</b>": "B",
    "a\u200bb": "ab",
    "A\x00\x00": "A",
    "\x1bede\xadma": "edema",
}


def test_markup_goes_and_words_stay():
    assert {text: readable(text) for text in READABLE} == READABLE


STATED = {  # text: (kind, the first words said)
    "The answer is B.": ("answer", "B."),
    "The best answer, given the findings, is B": ("answer", "B"),
    "Final answer: B": ("final", "B"),
    "final answer (B)": ("final", "(B)"),
    "## Answer\nB": ("answer", "B"),
    "I would choose B": ("chosen", "B"),
    "The most likely diagnosis is edema": ("chosen", "edema"),
    "This corresponds to option B": ("chosen", "option B"),
    "The finding that is absent is edema": ("chosen", "edema"),
    "La respuesta correcta es B": ("answer", "B"),
    "答案：B": ("answer", "B"),
    "Đáp án: B": ("answer", "B"),
    "so \\boxed{B}": ("box", "B"),
}


NOTHING_STATED = [
    "To answer the question, look at B", "If it were blunted, the answer would be B.", "The answer cannot be B",
    "Working through each option: B", "",
]  # fmt: skip


def test_a_statement_is_found():
    for text, stated in STATED.items():
        assert stated in {(item.kind, item.text.strip()) for item in statements(readable(text))}, text
    for text in NOTHING_STATED:
        assert not [item for item in statements(readable(text)) if item.kind in ("final", "answer")], text


@pytest.mark.parametrize(
    ("before", "behind", "cut"),
    [
        ("", "b" * LIMIT, False), ("", "b" * LIMIT + "c", True), ("<think>" + "a " * LIMIT + "</think>", "b", False),
        ("<think>a</think>", "b" * LIMIT + "<think>c", False), ("<think>", "b" * LIMIT + "c", True),
        ("a<answer>", "b" * LIMIT + "</answer>c", False),
    ],
    ids=["fits", "longer", "long reasoning", "before reasoning", "open reasoning", "tagged"],
)  # fmt: skip
def test_of_the_answer_itself_a_limit_is_read(before, behind, cut):
    start, end, _ = find_answer_span(before + behind)
    assert (start, end) == (len(before), len(before) + min(len(behind.partition("<")[0]), LIMIT))
    assert exceeds_limit(before + behind) == cut


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"answer": "B"}', ["B"]), ("{'final_answer': 'B'}", ["B"]), ('{"choice": ["B"]}', []),
            ('{"label": 1}', ["1"]),
        ('{"answer": true, "reason": "A"}', ["true"]), ('```json\n{"prediction": "B', ["B"]),
            ('{"answer": "A", "answer": "B"}', ["A", "B"]),
    ],
)  # fmt: skip
def test_json_fields_that_name_an_answer_are_read_whole_or_broken(text, values):
    assert [field.text for field in fields(text)] == values
