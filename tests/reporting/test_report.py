"""The CXR-ContraBench tables from logs with the paper's counts: the report prints the paper's figures.

These tests check some rows of each table; `evaluate_metrics/test_published_tables.py` checks all rows.
"""

from __future__ import annotations

import numpy as np
import pytest

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean, permutation_test
from tests.support.reporting.report_logs import (
    answered,
    check_published,
    extract_numbers,
    question,
    rows_of,
    write_log,
    write_report,
)

pytestmark = pytest.mark.usefixtures("tables_only")


def parse_lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


# Table 9. model, prompt | correct and negated on presence (n = 235) | correct, negated, unread on CheXpert absence
# (507) | correct, negated, put right, unread on OpenI absence (359) | the printed cells, errors before only
MATRIX = """
MedGemma    b0  74 153  122 351 0  253 79 59 0    31.49 96.60 +65.11 153 24.06 93.29 +69.23 351 70.47 86.91 +16.44 79
MedGemma    cot 101 122 165 282 0  164 177 118 0  42.98 94.89 +51.91 122 32.54 88.17 +55.63 282 45.68 78.55 +32.87 177
MedGemma-27B b0 122 105 158 335 4  55 199 133 24  51.91 96.60 +44.68 105 31.16 97.24 +66.08 335 15.32 52.37 +37.05 199
LLaVA-Med   b0  174 0   340 42 0   176 4 2 0      74.04 74.04 +0.00 0    67.06 75.35 +8.29 42   49.03 49.58 +0.55 4
"""
UNREAD = {"MedGemma-27B": ("0.00", "0.79", "6.69")}  # Table 17, note


@pytest.fixture(scope="module")
def external_report(tmp_path_factory) -> str:
    """Report on models and prompts under the three external protocols, with the counts of Table 9."""
    folder = tmp_path_factory.mktemp("external")
    for number, (model, prompt, *numbers) in enumerate(parse_lines(MATRIX)):
        a, b, c, d, unread, e, f, right, openi_unread = (int(count) for count in numbers[:9])
        date = f"2026-01-01T00-00-{number:02d}.000001"
        for answers in (
            answered("chexpert_presence", 235, a, b, prompt=prompt),
            answered("chexpert_absence", 507, c, d, unread=unread, prompt=prompt),
            answered("openi_report_absence", 359, e, f, drift=f - right, unread=openi_unread, prompt=prompt),
        ):
            write_log(folder / model, model, answers, date=date, filters=("b0", "m1"))
    return write_report([folder])


def test_the_papers_figures_stand_beside_those_of_its_models(external_report):
    """The logs have the paper's counts, so every difference is at most the paper's rounding."""
    rows = rows_of(external_report, "CXR-ContraBench, next to the paper")
    assert {row[0] for row in rows} == {"MedGemma", "MedGemma-27B", "LLaVA-Med"}
    check_published(external_report, "Table 9", 4 * 15)
    check_published(external_report, "Table 4", 6 * 10, noise=(3, 0.85))  # resampling noise of an interval's ends
    check_published(external_report, "Table 3", 3 * 4, noise=(0, 0.85))
    assert "MedGemma | Table 9 | CoT-B0 | CheXpert presence: base errors | 122 | 122 | +0 |" in external_report


def test_table_9(external_report):
    cells_by_run = {(row[0], row[1]): row[2:] for row in rows_of(external_report, "Table 9")}
    assert [*cells_by_run] == [
        ("LLaVA-Med", "B0"), ("MedGemma", "B0"), ("MedGemma", "CoT-B0"), ("MedGemma-27B", "B0"),
    ]  # fmt: skip
    for model, prompt, *printed in parse_lines(MATRIX):
        cells = cells_by_run[model, {"b0": "B0", "cot": "CoT-B0"}[prompt]]
        for i, rate in enumerate(UNREAD.get(model, ("0.00",) * 3)):
            before, after, gain, errors = printed[9 + 4 * i :][:4]
            base, verified, delta, *remaining = cells[6 * i :][:6]
            assert [base, verified, *remaining] == [before, after, f"{errors} → 0", rate, "0.00"]
            # The paper's deltas are partly the counts' and partly differences of the rounded accuracies.
            assert float(delta) == pytest.approx(float(gain), abs=0.0101)
    assert "CheXpert presence (n = 235): Base | Verified" in external_report


# Table 4, as printed: model, prompt, protocol | B0 | M1 | contradictions | p < 0.001 (paired; see the metric's card)
INTERVALS = """
MedGemma   B0     CheXpert 24.06 20.51 27.81 93.29 91.12 95.47   351 331 370  yes
MedGemma   B0     OpenI    70.47 65.74 75.21 86.91 83.57 90.25   79 64 95     yes
LLaVA-Med  B0     CheXpert 67.06 63.31 71.20 75.35 71.60 79.09   42 30 54     yes
LLaVA-Med  B0     OpenI    49.03 43.73 54.04 49.58 44.57 54.87   4 1 8        no
"""


@pytest.mark.parametrize("line", INTERVALS.strip().splitlines())
def test_table_4(external_report, line):
    model, prompt, source, *numbers, significant = line.split()
    rows = rows_of(external_report, "Table 4")
    (row,) = [row for row in rows if row[:2] == [model, prompt] and row[2].startswith(f"{source} report")]
    measured, printed = extract_numbers(row[4:7]), [float(number) for number in numbers]
    assert measured[::3] == printed[::3]
    assert measured[:6] == pytest.approx(printed[:6], abs=0.85)  # resampling noise of an interval's ends, in points
    assert measured[6:] == pytest.approx(printed[6:], abs=3)
    assert row[6].endswith("→ 0")
    assert (row[7] == "< 0.001") == (significant == "yes")


def test_tables_3_and_4_print_the_confidence_metric(tmp_path):
    """Three studies have several questions each; intervals and p-values equal the metric's, by example and by study."""
    correct = [0, 1, 0, 0, 1, 0, 0, 1]
    answers = []
    for i, right in enumerate(correct):
        finding = ["edema", "pneumothorax", "cardiomegaly"][i % 3]
        row = question("chexpert_absence", i, study_id=f"s{i // 3}", finding=finding)
        answers.append((row, "A" if right else "B" if i % 2 == 0 else "C"))
    write_log(tmp_path, "m", answers)
    report = write_report([tmp_path])
    # Rows are sorted by id, here the order of i.
    before = np.array(correct, float)
    after = np.where(np.arange(8) % 2 == 0, 1.0, before)
    studies = np.arange(8) // 3
    (row,) = rows_of(report, "Table 3")
    by_study, by_example = (bootstrap_mean(after - before, groups=groups, few=1) for groups in (studies, None))
    assert row[3:6] == ["8", "3", "+37.50"]
    assert row[6:8] == [f"{100 * by_example.low:.2f}", f"{100 * by_example.high:.2f}"]
    assert row[9:11] == [f"{100 * by_study.low:.2f}", f"{100 * by_study.high:.2f}"]
    p = [permutation_test(after, before, groups=groups).p_value for groups in (None, studies)]
    assert [row[8], row[11]] == [f"{value:.3f}" for value in p]
    (row,) = rows_of(report, "Table 4")
    interval = bootstrap_mean(before, few=1)
    assert row[4] == f"37.50 [{100 * interval.low:.2f}, {100 * interval.high:.2f}]"


def test_a_gain_has_a_width_where_no_answer_changes(tmp_path):
    """The verifier changes none of fifty right answers; Wilson's upper bound of 0 of 50 is 7.13% in both directions."""
    write_log(tmp_path, "m", answered("chexpert_absence", 50, 50, 0))
    (row,) = rows_of(write_report([tmp_path]), "Table 3")
    assert row[5:8] == ["+0.00", "-7.13", "7.13"]


def test_table_10(tmp_path):
    write_log(tmp_path / "a", "MedGemma", answered("chexpert_absence", 50, 12, 35), filters=("m1",))
    train = answered("chexpert_absence", 2000, 1000, 900, drift=100, split="train")
    write_log(tmp_path / "a", "MedGemma", train, task="absence_train", filters=("m1",))
    write_log(tmp_path / "b", "not replicated", answered("chexpert_absence", 50, 2, 48), date="2026-01-01T00-00-01")
    report = write_report([tmp_path])
    assert rows_of(report, "Table 10") == [
        ["Report-style absence val.", "MedGemma", "B0", "50", "24.00", "94.00", "35 → 0", "70.00", "0.00", "0.00"],
        ["Report-style absence train", "MedGemma", "B0", "2,000", "50.00", "90.00", "900 → 0", "45.00", "0.00", "0.00"],
    ]
    assert [row[3] for row in rows_of(report, "Table 9")] == ["94.00", "100.00"], "train rows have no place in Table 9"
    figures = [row[2:5] for row in rows_of(report, "CXR-ContraBench, next to the paper") if row[1] == "Table 10"]
    assert [figure for figure in figures if figure[1] in ("base errors", "base error rate")] == [
        ["Report-style absence val., B0", "base errors", "351"],
        ["Report-style absence val., B0", "base error rate", "69.23"],
        ["Report-style absence train, B0", "base errors", "12,490"],
        ["Report-style absence train, B0", "base error rate", "48.22"],
    ]


@pytest.mark.full  # golden files have this table
def test_table_11(tmp_path):
    """Both sides of MedGemma and the presence side of a second model have the counts of Table 11."""
    counts = {"MedGemma": (117, 270), "Qwen2.5-VL": (86, 287)}
    for model, (correct, negated) in counts.items():
        shared = 73 if model == "MedGemma" else 0
        write_log(tmp_path / model, model, answered("openi_chexstruct_presence", 396, correct, negated, shared=shared))
    absence = answered("openi_chexstruct_absence", 979, 186, 784, drift=356 - 205, shared=428)
    write_log(tmp_path / "MedGemma", "MedGemma", absence)
    report = write_report([tmp_path])
    upper = [
        row[2:] for row in rows_of(report, "Table 11: retrospective OpenI CheXStruct audit") if row[0] == "MedGemma"
    ]
    assert upper == [
        ["All", "1,375", "22.04", "51.27", "1,054 → 501", "–", "0.00", "0.00"],
        ["Absence", "979", "19.00", "39.94", "784 → 428", "–", "0.00", "0.00"],
        ["Presence", "396", "29.55", "79.29", "270 → 73", "197", "0.00", "0.00"],
    ]
    lower = {row[0]: row[2:] for row in rows_of(report, "Table 11: retrospective OpenI CheXStruct audit, presence")}
    assert lower["MedGemma"] == ["396", "29.55", "270", "279", "96.77", "0.00", "0.00"]
    assert [lower["Qwen2.5-VL"][at] for at in (1, 2, 4)] == ["21.72", "287", "92.58"]
    check_published(report, "Table 11", 3 * 4 + 1 + 2 * 3)
    by_finding = [row[2:] for row in rows_of(report, "Figure 4C") if row[0] == "MedGemma"]
    assert by_finding == [
        ["OpenI CheXStruct presence", "Edema", "396", "29.55", "79.29", "270 → 73", "0.00", "0.00"],
        ["OpenI CheXStruct absence", "Edema", "979", "19.00", "39.94", "784 → 428", "0.00", "0.00"],
    ]


# Tables 12, 13, 20 and 21, a wording or layout a row. model, form | correct, negated, of the negated those in slot 0
# where the table knows | the printed cells after n
STRESS = {  # title: (column, protocol, n, rows)
    "Tables 2 and 12": ("question_form", "chexpert_absence", 507, """
MedGemma original  122 351  24.06 351 93.29 0   93.29 0 0
MedGemma p1        115 283  22.68 283 22.68 283 78.50 0 0
MedGemma p2        96  381  18.93 381 94.08 0   94.08 0 0
"""),
    "Table 13": ("layout", "chexpert_absence", 507, """
MedGemma original 122 351 351  24.06 351 93.29 0 93.29 0
MedGemma shuffled 238 256 190  46.94 256 84.42 0 97.44 0
Qwen2.5-VL original 2   504 504  0.39  504 99.80 0 99.80 0
Qwen2.5-VL shuffled 84  420 256  16.57 420 67.06 0 99.41 0
"""),
    "Table 20": ("negation_form", "chexpert_presence", 235, """
MedGemma canonical_no    74 153  31.49 153 96.60 0   96.60 0 0 0
MedGemma absence_of      51 178  21.70 178 21.70 178 97.45 0 0 0
MedGemma not_present     92 124  39.15 124 39.15 124 91.91 0 0 0
"""),
    "Table 21": ("negation_form", "chexpert_absence", 507, """
Qwen2.5-VL canonical_no    1   505  0.20  505 99.80 0   99.80  0 0 0
Qwen2.5-VL clear_of        77  377  15.19 377 89.55 0   89.55  0 0 0
Qwen2.5-VL not_present     0   505  0.00  505 0.00  505 99.61  0 0 0
"""),
}  # fmt: skip


@pytest.mark.full  # golden files have these tables
@pytest.mark.parametrize("title", STRESS)
def test_tables_of_wordings_and_layouts(tmp_path, title):
    column, protocol, n, text = STRESS[title]
    printed, published = [], {}
    for model, form, *numbers in parse_lines(text):
        n_counts = next(i for i, number in enumerate(numbers) if "." in number)
        (correct, negated, *in_slot), cells = map(int, numbers[:n_counts]), numbers[n_counts:]
        drift = negated - in_slot[0] if in_slot else 0
        answers = answered(protocol, n, correct, negated, drift=drift, **{column: form})
        write_log(tmp_path / model, model, answers, task=f"{protocol}_{form}")
        printed.append([model, form, str(n), *cells])
        if form in ("canonical_no", "shuffled") or (column, form) == ("question_form", "original"):
            published[model] = [cells[0], cells[2]]
    report = write_report([tmp_path])
    assert [[row[0], *row[2:-2]] for row in rows_of(report, title)] == printed
    check_published(report, title, sum(len(row) - 3 for row in printed))
    matrix = {row[0]: [cell for cell in row[2:] if "." in cell][:2] for row in rows_of(report, "Table 9")}
    assert matrix == published, "the other tables have the published wording and one layout alone"
    assert [row[0] for row in rows_of(report, "Table 4")] == [*published]


def test_no_table_holds_both_layouts_but_the_one_that_compares_them(tmp_path):
    for model, layout, counts in (("a", "shuffled", (40, 30)), ("a", "original", (10, 80)), ("b", "original", (0, 99))):
        answers = answered("chexpert_absence", 100, *counts, layout=layout)
        write_log(tmp_path / "logs" / model, model, answers, task=f"absence_{layout}")
    report = write_report([tmp_path / "logs"], tmp_path / "report")
    titles = [line[3:] for line in report.splitlines() if line.startswith("## ")]
    marked = [title for title in titles if title.endswith(" – options in the original order")]
    assert [f"{title} – options in the original order" for title in titles if f"{title} – options" in report] == marked
    assert [row[3] for row in rows_of(report, "Table 9: cross-model external results\n")] == ["70.00"]
    original_rows = rows_of(report, "Table 9: cross-model external results – options in the original order")
    assert [(row[0], row[2]) for row in original_rows] == [("a", "10.00"), ("b", "0.00")]
    assert [row[2] for row in rows_of(report, "Table 13")] == ["original", "shuffled", "original"]
    assert {row[4] for row in rows_of(report, "Runs")} == {"original", "shuffled"}
    assert write_report([tmp_path / "logs"], tmp_path / "report") == report, "its own files are replaced"


def test_tables_14_and_15(tmp_path):
    """Rates by finding: MedGemma's row of Table 14; mean, minimum and maximum rate over the variants of Table 15."""
    sizes = {"atelectasis": (62, 7), "cardiomegaly": (51, 41), "consolidation": (31, 31), "edema": (33, 26),
             "pleural effusion": (56, 46), "pneumothorax": (2, 2)}  # fmt: skip
    presence = [
        ({**row, "options": ["E", "No E", "F"]}, text[:1])
        for finding, (n, negated) in sizes.items()
        for row, text in answered("chexpert_presence", n, 0, negated, finding=finding)
    ]
    write_log(tmp_path / "a", "MedGemma", presence)
    for model, n_edema in (("MedGemma", 90), ("Qwen", 0), ("LLaVA", 45)):
        edema = answered("chexpert_absence", 90, 0, n_edema)
        pneumothorax = answered("chexpert_absence", 10, 5, 5, finding="pneumothorax")
        write_log(
            tmp_path / model,
            model,
            [*edema, *[({**row, "id": f"{row['id']}2"}, text[:1]) for row, text in pneumothorax]],
        )
    report = write_report([tmp_path])
    (row,) = rows_of(report, "Table 14")
    assert row[3:] == ["11.29", "80.39", "100.00", "78.79", "82.14", "100.00", "0.00", "0.00"]
    check_published(report, "Table 14", 6)
    check_published(report, "Table 15", 0)
    assert rows_of(report, "Table 15") == [
        ["Edema", "90", "3", "50.00", "0.00", "100.00", "0.00", "0.00"],
        ["Pneumothorax", "10", "3", "50.00", "50.00", "50.00", "0.00", "0.00"],
    ]
    assert [(row[0], *row[3:5]) for row in rows_of(report, "Figure 13A")] == [
        ("LLaVA", "50.00", "50.00"), ("MedGemma", "100.00", "50.00"), ("Qwen", "0.00", "50.00")
    ]  # fmt: skip


def test_the_papers_table_15_stands_beside_a_mean_of_as_many_variants(tmp_path):
    for n in range(8):
        write_log(tmp_path / f"{n}", f"m{n}", answered("chexpert_absence", 10, 0, n + 2, finding="pleural effusion"))
    report = write_report([tmp_path])
    assert rows_of(report, "CXR-ContraBench, next to the paper") == [
        ["–", "Table 15", "Pleural effusion", "mean rate of 8 variants", "64.52", "55.00", "-9.52"],
        ["–", "Table 15", "Pleural effusion", "least rate of 8 variants", "5.88", "20.00", "+14.12"],
        ["–", "Table 15", "Pleural effusion", "greatest rate of 8 variants", "100.00", "90.00", "-10.00"],
    ]


@pytest.mark.parametrize("prompt", ["instruct", "3shot", "packet"])
def test_table_15_is_a_mean_over_b0_and_cot_alone(tmp_path, prompt):
    """The paper's eight variants are models under B0 and CoT-B0 (Figure 3)."""
    for name, n_negated in (("b0", 1), ("cot", 3), (prompt, 8)):
        write_log(tmp_path / name, "MedGemma", answered("chexpert_absence", 10, 0, n_negated, prompt=name))
    report = write_report([tmp_path])
    assert [row[:6] for row in rows_of(report, "Table 15")] == [["Edema", "10", "2", "20.00", "10.00", "30.00"]]
    assert [row[3] for row in rows_of(report, "Figure 13A")] == ["10.00", "30.00", "80.00"]


def test_figure_11c_has_the_training_split_alone(tmp_path):
    for split, n_negated in (("validation", 1), ("train", 4)):
        write_log(tmp_path / split, "MedGemma", answered("chexpert_absence", 10, 0, n_negated, split=split))
    report = write_report([tmp_path])
    assert [row[3] for row in rows_of(report, "Figure 11C")] == ["40.00"]
    assert [row[3] for row in rows_of(report, "Figure 13A")] == ["10.00"]


# Table 16. model | right and "No X" on the paired direct questions, right on the control | printed cells after n
CONTROL = """
GPT-4o        131 20  96   62.38 45.71 -16.67 20  9.52
MedGemma      63  139 119  30.00 56.67 +26.67 139 66.19
MedGemma-27B  107 95  128  50.95 60.95 +10.00 95  45.24
Qwen2.5-VL    63  136 97   30.00 46.19 +16.19 136 64.76
"""


@pytest.mark.full  # golden files have this table
def test_table_16(tmp_path):
    """210 of 235 direct questions have a control; the other 25, all answered right, must not count."""
    for model, direct, negated, control, *_ in parse_lines(CONTROL):
        paired = answered("chexpert_presence", 210, int(direct), int(negated))
        unpaired = [(question("chexpert_presence", 1000 + i), "A") for i in range(25)]
        columns = {"options": ["Edema", "Fracture", "Pneumonia"], "negated": -1, "negation_form": "none"}
        controls = [
            (question("chexpert_positive_only", i, **columns), "A" if i < int(control) else "B") for i in range(210)
        ]
        write_log(tmp_path / model, model, [*unpaired, *paired])
        write_log(tmp_path / model, model, controls)
    report = write_report([tmp_path])
    table_rows = [[row[0], *row[3:-4]] for row in rows_of(report, "Table 16")]
    assert table_rows == [[model, "210", *cells] for model, _, _, _, *cells in parse_lines(CONTROL)]
    check_published(report, "Table 16", 4 * 5)
    assert "chexpert_positive_only" not in report.split("\n## Table 4")[1].split("\n## ")[0]


# Table 17. model, protocol, n | B0 correct, negated, put right, unread | Instruct correct, negated, unread | printed
# cells | parse failures of B0 and Instruct
INSTRUCT = """
GPT-4o       chexpert_absence     507  11 470 470 0   290 135 0  2.17 470 57.20 135 PARTIAL 94.87 0   0.00 0.00
GPT-4o       openi_report_absence 359  58 284 171 0   244 1 0    16.16 284 67.97 1 PARTIAL 63.79 0    0.00 0.00
MedGemma     chexpert_absence     507  122 351 351 0  62 406 0   24.06 351 12.23 406 BACKFIRE 93.29 0 0.00 0.00
MedGemma-27B chexpert_absence     507  158 335 335 4  392 18 61  31.16 335 77.32 18 PARTIAL 97.24 0   0.79 12.03
"""


@pytest.mark.full  # golden files have this table
def test_table_17(tmp_path):
    for model, protocol, *numbers in parse_lines(INSTRUCT):
        n, a, b, right, unread, c, d, instruct_unread = (int(number) for number in numbers[:8])
        write_log(tmp_path / model, model, answered(protocol, n, a, b, drift=b - right, unread=unread))
        instruct = answered(protocol, n, c, d, unread=instruct_unread, prompt="instruct")
        write_log(tmp_path / model, model, instruct, task=f"{protocol}_instruct")
    report = write_report([tmp_path])
    rows = rows_of(report, "Table 17")
    printed = [[numbers[0], *numbers[8:]] for _, _, *numbers in parse_lines(INSTRUCT)]
    assert [row[2:10] + row[12::2] for row in rows] == printed
    check_published(report, "Table 17", 4 * 6 + 2)
    assert [row[10] for row in rows if row[0] == "GPT-4o"] == ["83.83", "68.25"], "Instruct+M1, section F.2"


def test_table_17_pairs_by_question(tmp_path):
    """An instruction run on the last 4 of 10 questions is compared with B0 on the same 4 questions."""
    b0 = answered("chexpert_absence", 10, 6, 3)
    instruct = [({**row, "prompt": "instruct"}, "A") for row, _ in b0[6:]]
    write_log(tmp_path, "m", b0)
    write_log(tmp_path, "m", instruct, task="instruct", n_data=10)
    (row,) = rows_of(write_report([tmp_path]), "Table 17")
    assert row[2:8] == ["4 of 10", "0.00", "3", "100.00", "0", "FULL_SOLVE"]


@pytest.mark.full  # golden files have both tables
def test_tables_18_and_19(tmp_path):
    """Few-shot rows of Table 18, and the MedGemma block of Table 19, where an adapter is the fine-tuned model."""
    sides = {"chexpert_presence": 235, "chexpert_absence": 507}
    counts = {"b0": ((74, 153), (117, 356)), "3shot": ((69, 160), (11, 486)), "cot": ((104, 110), (168, 285))}
    for prompt, prompt_counts in counts.items():
        for (protocol, n), (correct, negated) in zip(sides.items(), prompt_counts, strict=True):
            answers = answered(protocol, n, correct, negated, prompt=prompt)
            write_log(tmp_path / "m", "MedGemma", answers, task=f"{protocol}_{prompt}")
    for protocol, n in sides.items():
        tuned = {"pretrained": "MedGemma", "peft": "lora-r16", "dtype": "bfloat16"}
        write_log(tmp_path / "tuned", "", answered(protocol, n, n, 0), model_args=tuned)
    report = write_report([tmp_path])
    assert [row[1:] for row in rows_of(report, "Table 18")] == [
        ["CheXpert direct presence", "FS-B0", "235", "29.36", "160", "160", "0", "0.00", "0.00"],
        ["CheXpert direct presence", "FS+M1", "235", "97.45", "0", "160", "0", "0.00", "0.00"],
        ["CheXpert report-style absence", "FS-B0", "507", "2.17", "486", "486", "0", "0.00", "0.00"],
        ["CheXpert report-style absence", "FS+M1", "507", "98.03", "0", "486", "0", "0.00", "0.00"],
    ]
    check_published(report, "Table 18", 4 * 4)
    check_published(report, "Table 19", 6 * 4)
    cells_by_name = {row[1]: (row[2], row[4], row[8]) for row in rows_of(report, "Table 19")}
    assert cells_by_name == {
        "B0": ("", "31.49 / 153", "23.08 / 356"),
        "CoT-B0": ("", "44.26 / 110", "33.14 / 285"),
        "FS-B0": ("", "29.36 / 160", "2.17 / 486"),
        "M1": ("", "96.60 / 0", "93.29 / 0"),
        "LoRA-FT": ("lora-r16", "100.00 / 0", "100.00 / 0"),
        "LoRA+M1": ("lora-r16", "100.00 / 0", "100.00 / 0"),
    }
    assert {row[0] for row in rows_of(report, "Table 9")} == {"MedGemma", "MedGemma + lora-r16"}
