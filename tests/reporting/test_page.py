"""The report as one HTML file: content, no network requests, and use in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medfaith.cli import main
from medfaith.reporting.page.cases import RIGHT, UNREAD, WRONG, collect_cases
from medfaith.reporting.page.forest import by_kind, by_view, forests
from medfaith.reporting.page.text import LONGEST, shown
from medfaith.reporting.results import read_results
from tests.support.browser import browser
from tests.support.reporting.heal_logs import CLOSED, OPEN, question, write_heal
from tests.support.reporting.option_score_logs import SCORES, write_scores
from tests.support.reporting.report_logs import answered, write_log

HOSTILE = "</script><img src='https://example.org/x.png' onerror='alert(1)'> \x1b[31mred \u202eleft \u2028 <!-- "


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on CXR-ContraBench, one on HEAL-MedVQA, with and without a control; one answers with an attack."""
    folder = tmp_path_factory.mktemp("logs")
    write_log(folder / "a", "model-a", answered("chexpert_presence", 40, 30, 4, unread=2))
    write_log(folder / "b", "/home/somebody/models/model-b", answered("chexpert_presence", 40, 10, 20))
    attacked = [*CLOSED[:-1], (question(5, "hallucinated"), HOSTILE + "x" * 10**6)]
    write_heal(folder / "c", "closed", attacked, model="model-c")
    blind = [(doc | {"prompt": "b0, blank", "control": "blank"}, "No") for doc, _ in CLOSED]
    write_heal(folder / "d", "closed", blind, model="model-c", date="2026-02-02T00-00-00")
    write_heal(folder / "e", "open", OPEN, model="model-c")
    return folder


@pytest.fixture(scope="module")
def page(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", str(logs), "--html", str(path)]) == 0
    return path


def test_scores_of_options_are_no_answers_in_words(tmp_path: Path):
    write_scores(tmp_path, SCORES)
    results = read_results([tmp_path])
    assert len(results.all) == 1
    assert collect_cases(results.runs).cases == []


def test_every_question_with_every_answer(logs: Path):
    question_cases = collect_cases(read_results([logs]).runs)
    assert (question_cases.n, len(question_cases.cases)) == (40 + 10 + 4, 40 + 10 + 4)
    by_id = {case.id: case for case in question_cases.cases}
    closed = by_id["vindr/test/0/positive"]
    assert [(a.shown, a.raw, a.outcome) for a in closed.answers] == [("image", "Yes", RIGHT), ("blank", "No", WRONG)]
    assert by_id["vindr/test/3/positive"].answers[0].outcome == UNREAD
    first_case = question_cases.cases[0]
    assert {answer.model for answer in first_case.answers} == {"model-a", "model-b"}
    outcomes = [case.answers[0].outcome for case in question_cases.cases[:40]]
    assert (outcomes.count(RIGHT), outcomes.count(UNREAD)) == (30, 2)
    some = collect_cases(read_results([logs]).runs, most=20)
    assert some.n == 54
    assert len(some.cases) <= 20 + 7, "one more at most of each task and outcome"
    presence_cases = [case for case in some.cases if case.benchmark == "CXR-ContraBench"]
    assert [case.answers[0].outcome for case in presence_cases].count(RIGHT) == 20 * 30 // 54


def test_plots_have_every_run_and_finding_with_a_value(logs: Path):
    answers, _ = read_results([logs]).collect_answers()
    plots_by_kind = by_kind(answers)
    assert [*plots_by_kind] == ["HEAL-MedVQA VinDr open: F1 of a row"], "all others are about one thing"
    for title, plots in plots_by_kind.items():
        (run_answers,) = (item for item in answers if title.startswith(item.task) and "control" not in item.how)
        for plot in plots:
            (line,) = plot.lines
            finding_values = [
                value for value, kinds in zip(run_answers.values, run_answers.about, strict=True) if plot.task in kinds
            ]
            assert (line.model, line.n, line.mean) == (
                "model-c",
                len(finding_values),
                pytest.approx(np.mean(finding_values)),
            )
        assert {plot.task for plot in plots} == {kind for kinds in run_answers.about for kind in kinds}
    views = np.resize(["AP", "PA", ""], len(answers[0].ids)).tolist()
    for title, plots in by_view([answers[0]._replace(views=views)]).items():
        assert title == f"{answers[0].task}: {answers[0].metric}"
        assert [(plot.task, *(line.n for line in plot.lines)) for plot in plots] == [("AP", 14), ("PA", 13)]
    run_answers = answers[0]
    mostly_unknown = run_answers._replace(
        values=np.where(np.arange(len(run_answers.values)) < 3, run_answers.values, np.nan)
    )
    ((line,),) = (plot.lines for plot in forests([mostly_unknown]))
    assert (line.n, line.mean) == (3, np.mean(run_answers.values[:3]))


def test_what_others_wrote_is_data(page: Path):
    text = page.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 3
    assert all(image_tag.startswith(' class="drawn" src="data:image/svg+xml,') for image_tag in text.split("<img")[1:])
    assert "https://example.org" in text  # shown as plain text
    assert not {"\x1b", "\u202e", "\u2028"} & {*text}
    assert len(text) < 400_000, "a long answer is cut"
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    (hostile_text,) = [stored_text for stored_text in data["texts"] if stored_text.startswith("</script>")]
    assert hostile_text == shown(HOSTILE + "x" * 10**6)
    assert hostile_text.endswith(f"(1,000,{len(HOSTILE):03} characters; the first {LONGEST:,} are shown)")
    assert "/home/somebody" not in text
    assert str(page.parent) not in text
    assert re.search(r"default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'", text)


@pytest.mark.full  # several pages
def test_nothing_is_left_where_it_cannot_be_written(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("")
    assert main(["report", str(logs), "--html", str(tmp_path / "file" / "report.html")]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def opened(page: Path) -> Iterator[tuple[Any, list[str]]]:
    """Open the page in a browser; collect all requests and errors."""
    with browser() as running:
        tab = running.new_page(viewport={"width": 1280, "height": 900})
        events: list[str] = []
        tab.on("request", lambda request: events.append(request.url))
        tab.on("pageerror", lambda error: events.append(str(error)))
        tab.on("console", lambda message: events.append(message.text))
        tab.goto(page.as_uri())
        yield tab, events


def test_a_person_can_sort_filter_choose_and_come_back(opened: tuple[Any, list[str]], page: Path):
    tab, events = opened
    table = tab.locator("table.sortable").first
    accuracy = table.get_by_role("button", name="CheXpert presence (n = 40): Base")
    accuracy.click()
    column = accuracy.evaluate("(button) => button.closest('th').cellIndex")
    values = table.locator(f"tbody td:nth-child({column + 1})")
    assert values.all_inner_texts() == ["25.00", "75.00"]
    accuracy.click()
    assert values.all_inner_texts() == ["75.00", "25.00"]

    tab.get_by_label("Outcome").select_option("unread")
    assert tab.locator("#found").inner_text() == "5 of 54 questions"
    tab.get_by_label("Benchmark").select_option("CXR-ContraBench")
    assert tab.locator("#found").inner_text() == "2 of 54 questions"
    tab.get_by_role("button", name="Clear").click()
    tab.get_by_label("Words").fill("model-nobody")
    assert tab.locator("#found").inner_text() == "0 of 54 questions"
    tab.get_by_label("Words").fill("EXAMPLE.org")
    tab.locator("#list").focus()
    tab.keyboard.press("ArrowDown")
    assert "onerror" in tab.locator("#case").inner_text()
    link = tab.url
    assert link.endswith("#case=medfaith_heal_vindr_closed/vindr%2Ftest%2F5%2Fhallucinated")
    tab.goto("about:blank")
    tab.goto(link)
    assert "onerror" in tab.locator("#case").inner_text()
    assert {*events} <= {page.as_uri(), "about:blank"}, "it asks for nothing"


@pytest.mark.full  # a browser
def test_a_table_can_be_copied(opened: tuple[Any, list[str]]):
    tab, _ = opened
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copied = []
    for name in ("Copy as Markdown", "CSV", "LaTeX"):
        tab.get_by_role("button", name=name).first.click()
        tab.get_by_text("Copied.").first.wait_for()
        copied.append(tab.evaluate("navigator.clipboard.readText()"))
    markdown, csv, latex = copied
    assert markdown.startswith("| Model | Prompt |")
    assert csv.startswith("Model,Prompt,")
    assert "model-b & B0 & 25.00 & 75.00 & +50.00 & 20 $\\to$ 0 & 0.00 & 0.00 \\\\" in latex


@pytest.mark.full
def test_it_is_accessible_narrow_and_printable(opened: tuple[Any, list[str]]):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab, _ = opened
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        results = axe.run(tab)
        assert results.violations_count == 0, results.generate_report()
    tab.set_viewport_size({"width": 360, "height": 780})
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    assert tab.pdf().startswith(b"%PDF")
