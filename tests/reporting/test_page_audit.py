"""The audit on the page: verdicts of both rules, controls on axes, the place, findings, wordings; wide and narrow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.cli import main
from medfaith.evaluate_metrics.confidence import image_verdict, place
from medfaith.loaders.errors import InputError
from medfaith.reporting.page.audits import audits
from medfaith.reporting.page.plots import make_axis, plot_changes, plot_doses
from medfaith.reporting.page.verdict_words import IMAGE_WORDS, PLACE_WORDS
from tests.support.browser import browser
from tests.support.reporting.audit_folder import (
    make_change_row,
    make_edit_row,
    make_finding_row,
    make_verdict_row,
    make_wording_row,
    write_audit,
)
from tests.support.reporting.report_logs import answered, write_log

HOSTILE = "</script><img src='https://example.org/x.png' onerror='alert(1)'>\x1b[31m\u202e" + "x" * 300
HEAL, SURGX, CXR = "HEAL-MedVQA", "SurgXBench", "CXR-ContraBench"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of one model, and an audit of three: one reads, one declines, one has a name that attacks."""
    path = tmp_path_factory.mktemp("audit")
    write_log(path / "logs", "reader", answered("chexpert_presence", 8, 6, 1))
    declining = {"declined_rate": 0.01, "declined_rate_blind": 0.9821, "by_other_alone": True}
    doses = "25%:+10.00 50%:+21.50 100%:+40.00"
    return write_audit(path, {
        "": [
            make_verdict_row("reader", HEAL, "uses", "depends", grounding=0.45, grounding_floor=0.01, n_place=120),
            make_verdict_row("reader", CXR, "recalls"),
            make_verdict_row("decliner", HEAL, "no use", "no dependence", **declining),
            make_verdict_row(HOSTILE, HEAL, "reacts", "open", n_place=40, n_enough_place=1000, grounding=1.0),
        ],
        "_heal_medvqa": [
            make_change_row("reader", "image", ""), make_change_row("reader", "other", -0.5),
            make_change_row("reader", "none", -0.4),
            make_change_row("decliner", "none", 0.0, 0.01, 0.98), make_change_row("reader", "occluded", -0.4),
            make_change_row("reader", "occluded_elsewhere", 0.05, 0.02), make_change_row("reader", "occluded@50", -0.2),
            make_change_row("reader", "occluded_elsewhere@50", 0.0), make_change_row("reader", "cropped", 0.0),
            make_change_row("reader", "wording_1", -0.1), make_change_row(HOSTILE, HOSTILE, 0.3),
            make_change_row("reader", "none", 0.9) | {"task": "medfaith_heal_vindr_closed"},
        ],
        "_heal_medvqa_edits": [
            make_edit_row("reader", "occluded", 0.4, doses, 0.41),
            make_edit_row("reader", "blurred", 0.3, "100%:+30.00"),
            make_edit_row(HOSTILE, HOSTILE, -0.4, "25%:–" + "9" * 400 + "%:+1.00 900%:+1.00 50%:+1e9", 0.1),
        ],
        "_heal_medvqa_findings": [
            make_finding_row("reader", "effusion", "uses"), make_finding_row("reader", "edema", "uses"),
            make_finding_row("reader", "fracture", "no use"), make_finding_row(HOSTILE, HOSTILE, "open"),
        ],
        "_heal_medvqa_wordings": [
            make_wording_row("reader", "image", 0.8), make_wording_row("reader", "wording_1", 0.7),
            make_wording_row("reader", "wording_2", 0.85),
        ],
    })  # fmt: skip


@pytest.fixture(scope="module")
def page(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", str(folder), "--html", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def tab(page: Path) -> Iterator[Any]:
    with browser() as running:
        opened = running.new_page(viewport={"width": 1280, "height": 900})
        events: list[str] = []
        opened.on("pageerror", lambda error: events.append(str(error)))
        opened.on("console", lambda message: events.append(message.text))
        opened.goto(page.as_uri())
        yield opened
        assert not events


def test_every_verdict_has_words_a_sign_and_a_class_of_its_own():
    for names, texts_by_name in ((image_verdict.Name, IMAGE_WORDS), (place.Name, PLACE_WORDS)):
        assert set(texts_by_name) == set(get_args(names))
        verdict_texts = list(texts_by_name.values())
        assert (
            len({entry.kind for entry in verdict_texts})
            == len({entry.mark for entry in verdict_texts})
            == len({entry.text for entry in verdict_texts})
            == len(verdict_texts)
        )
        assert [name for name, entry in texts_by_name.items() if "not asked" in entry.text] == ["undefined"]


@pytest.mark.parametrize(
    ("columns", "image", "place_words"),
    [
        ({"uses_image": "uses", "depends_on_place": "elsewhere"}, "uses the image", "another place"),
        ({"uses_image": "unanswered"}, "no verdict: too much unread or declined", "no verdict"),
        (
            {"uses_image": "unanswered", "depends_on_place": "unanswered"},
            "no verdict: too much unread or declined",
            "no verdict",
        ),
        ({"uses_image": "undefined"}, "not asked", "not asked"),
        ({"uses_image": "a later one"}, "a verdict that this version does not know", "not asked"),
        ({"uses_image": "uses", "depends_on_place": "uses", "rule": None}, "uses the image", "yes"),
        ({"uses_image": "uses", "depends_on_place": "no use", "rule": None}, "uses the image", "no"),
        ({"uses_image": "harmed", "depends_on_place": "harmed", "rule": None}, "is harmed by it", "another place"),
        ({"uses_image": "undefined", "rule": None}, "no verdict: not asked, or too much unread", "no verdict"),
    ],
)
def test_verdicts_of_this_and_of_older_versions(columns, image, place_words, tmp_path):
    row = make_verdict_row("a", HEAL, "") | columns
    if row["rule"] is None:  # the columns of the first version
        column_names = (
            "n",
            "score",
            "blind",
            "reliance",
            "low",
            "high",
            "n_differ",
            "grounding",
            "n_enough",
            "best_blind",
        )
        column_names = ("model", "benchmark", "uses_image", "depends_on_place", *column_names)
        row = {name: row[name] for name in column_names}
    verdict = audits([write_audit(tmp_path, {"": [row]})]).verdicts["a"][HEAL]
    assert (verdict.image.text, verdict.place.short) == (image, place_words)
    assert verdict.own_less_blind == "+30.00 [20.00, 40.00]"
    assert verdict.has_other is ("rule" in row)
    assert verdict.declines == ("None declined" if "rule" in row else "")


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("wording only", "yes, it is right by the wording only"), ("depends", "yes, a paraphrase is worse"),
        ("not shown", "nothing shows it"), ("", "–"),
    ],
)  # fmt: skip
def test_the_page_says_whether_the_wording_decides(verdict, expected, tmp_path):
    tables = {
        "": [make_verdict_row("a", HEAL, "uses")],
        "_heal_medvqa_wordings": [
            make_wording_row("a", "image", 0.8, verdict),
            make_wording_row("a", "wording_1", 0.3, verdict),
        ],
    }
    (wording,) = audits([write_audit(tmp_path, tables)]).wordings[HEAL]
    assert wording.verdict == expected


@pytest.mark.parametrize(
    ("rate_with_image", "blind", "expected"),
    [
        (0.0, 0.0, "None declined"),
        (0.0, "", "None declined"),
        (0.1, "", "Declines with the image in 10.00%"),
        (0.01, 0.9821, "Declines without an image in 98.21%, as it should; with it in 1.00%"),
        (0.4, 0.4, "Declines without an image in 40.00%; with it in 40.00%"),
        ("", "", ""),
    ],
)
def test_declining_is_a_virtue_only_without_an_image(rate_with_image, blind, expected, tmp_path):
    row = make_verdict_row("a", HEAL, "uses", declined_rate=rate_with_image, declined_rate_blind=blind)
    assert audits([write_audit(tmp_path, {"": [row]})]).verdicts["a"][HEAL].declines == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"score": "abc"}, r"audit\.csv, row 1, column 'score': 'abc'"),
        ({"own_low": "inf"}, r"audit\.csv, row 1, column 'own_low'"),
        ({"model": ""}, r"audit\.csv, row 1, column 'model': is blank"),
        ({"uses_image": None}, r"audit\.csv, column 'uses_image': the header has the column 0|column is missing"),
    ],
)
def test_a_broken_table_is_named(columns, message, tmp_path):
    row = {name: value for name, value in (make_verdict_row("a", HEAL, "uses") | columns).items() if value is not None}
    with pytest.raises(InputError, match=message):
        audits([write_audit(tmp_path, {"": [row]})])


def test_a_benchmark_names_no_file_of_others_and_the_last_audit_counts(tmp_path):
    first_tables = {"": [make_verdict_row("a", HEAL, "uses")], "_heal_medvqa": [make_change_row("a", "none", -0.5)]}
    last_tables = {"": [make_verdict_row("a", "../x", "uses"), make_verdict_row("a", HEAL, "no use")]}
    last_tables |= {"_heal_medvqa": [make_change_row("a", "none", 0.0)]}
    (tmp_path / "x.csv").write_text("model\n1\n")
    folders = [
        write_audit(tmp_path / name, tables) for name, tables in (("first", first_tables), ("last", last_tables))
    ]
    loaded_audits = audits([*folders, tmp_path])
    assert loaded_audits.verdicts["a"][HEAL].image == IMAGE_WORDS["no use"]
    assert [change.difference for change in loaded_audits.changes[HEAL]] == [0.0]
    assert set(loaded_audits.changes) == {HEAL}


def test_controls_stand_in_groups_and_an_edit_beside_itself_elsewhere(folder: Path):
    plot = plot_changes("", audits([folder]).changes[HEAL])
    rows = {title.split(":")[0]: [(row["model"], row["shown"]) for row in rows] for title, rows in plot["groups"]}
    assert rows == {
        "Own image": [("reader", "")],
        "Other patients' images": [("reader", "other")],
        "Without an image (blind)": [("reader", "none"), ("decliner", "none")],
        "The place, edited": [("reader", "occluded"), ("reader", "occluded, 50%")],
        "Harmless changes": [("reader", "cropped")],
        "Other wordings": [("reader", "wording 1"), (HOSTILE, HOSTILE.replace("_", " "))],
    }
    (pair, _) = dict(plot["groups"])["The place, edited: filled at the place that is asked about, hollow elsewhere"]
    assert [mark.is_filled for mark in pair["marks"]] == [True, False]
    assert pair["texts"] == ["-40.00 [-50.00, -30.00]", "+5.00 [-5.00, 15.00]"]
    assert pair["told"] == ["elsewhere: unread 2.00%, declined 0.00%"]
    assert plot["ticks"] == ["-75", "-50", "-25", "0", "+25", "+50"]
    assert plot["middle"] == pytest.approx(60)
    (mark,) = dict(plot["groups"])["Other patients' images"][0]["marks"]
    assert [mark.low, mark.at, mark.high] == pytest.approx([12, 20, 28])


@given(st.lists(st.floats(allow_infinity=True, allow_nan=True)))
def test_an_axis_holds_0_and_every_value_that_can_be(values):
    axis = make_axis(values)
    assert 2 <= len(axis.ticks) <= 9
    assert axis.ticks[0] <= 0 <= axis.ticks[-1]
    assert len({round(b - a, 9) for a, b in zip(axis.ticks, axis.ticks[1:], strict=False)}) == 1
    for value in values:
        place = axis.place(value)
        assert place is None if math.isnan(value) else place is not None and 0 <= place <= 100
        if abs(value) <= 2:
            assert axis.ticks[0] <= value <= axis.ticks[-1]


@given(st.dictionaries(st.sampled_from([25, 50, 75, 100]), st.floats(-200, 200)))
def test_a_plot_of_doses_stays_in_its_frame_and_keeps_the_order(by_dose):
    plot = plot_doses(by_dose)
    assert (plot is None) is (len(by_dose) < 2)
    if plot is not None:
        assert [x for x, _, _ in plot.points] == sorted(x for x, _, _ in plot.points)
        assert all(0 <= x <= 190 and 18 <= y <= 80 for x, y, _ in plot.points)
        heights = [y for _, (_, y, _) in sorted(zip([n for _, n in sorted(by_dose.items())], plot.points, strict=True))]
        assert heights == sorted(heights, reverse=True)


def test_the_page_says_what_the_tables_say(tab: Any, page: Path):
    text = page.read_text(encoding="utf-8")
    assert all(image_tag.startswith(' class="drawn" src="data:image/svg+xml,') for image_tag in text.split("<img")[1:])
    assert text.count("<script") == 3
    assert not {"\x1b", "\u202e"} & {*text}
    cells = tab.locator(".verdicts tbody td").all_inner_texts()
    reader, recalled, declining = cells[0], cells[1], cells[2]
    assert reader.startswith("✓ uses the image")
    assert "Own less other +50.00 [40.00, 60.00]" in reader
    assert "Depends on the place? ✓ yes" in reader
    assert recalled.startswith("↺ right only on the images as stored")
    assert "Declines without an image in 98.21%, as it should; with it in 1.00%" in declining
    assert "the comparison with other images alone decides" in declining
    edits = tab.get_by_role("region", name="HEAL-MedVQA: the place").inner_text()
    assert "causal grounding 45.00%, floor 1.00%" in edits
    assert "causal grounding 100.00%, no row shows a floor" in edits
    assert "+40.00 [30.00, 50.00]" in edits
    assert tab.get_by_role("img", name="Net effect by dose: 25% +10.00, 50% +21.50, 100% +40.00").count() == 1
    section = tab.locator("section:has(#verdicts)")
    assert "reader: uses the image for effusion, edema; not for fracture." in section.inner_text()
    wordings = tab.get_by_role("region", name="Wordings").inner_text().split()
    assert " ".join(wordings).endswith(
        "reader HEAL-MedVQA 80.00 70.00 (wording 1) 85.00 (wording 2) 15.00 yes, a paraphrase is worse"
    )
    assert "unread 1.00%, declined 98.00%" in section.inner_text()


@pytest.mark.full
def test_it_is_read_without_scrolling_sideways(tab: Any):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    for width in (1280, 390):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            results = axe.run(tab)
            assert results.violations_count == 0, results.generate_report()
    for table in tab.locator("table.cards").all():
        assert table.evaluate("(table) => table.scrollWidth <= table.closest('.wide').clientWidth")
        assert table.evaluate(
            "(table) => [...table.querySelectorAll('caption:not(.unseen), td')].every((part) => {"
            "const box = part.getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth; })"
        )
    assert tab.get_by_role("cell").count() > 10, "cards are still cells of a table"
    first_cell = tab.locator(".verdicts td").first
    assert first_cell.evaluate("(cell) => getComputedStyle(cell, '::before').content") == '"reader, HEAL-MedVQA"'
