"""The published tables of CXR-ContraBench from their counts: predictions in, printed figures out.

Arithmetic ties the accuracy and the counts of a row (235 * 31.49% = 74; 74 + 153 = 227 = 96.60%), so the printed
figures determine the counts. Each row here becomes that many answered questions; the metric has to print the table
again.

Inconsistent printed figures, and their treatment here:

- OpenI report-style absence, CheXpert train absence (Table 10), shuffled layouts under slot-0 (Table 13): more
  contradictions are removed than answers become right: slot-0 if the first positive option is not the target
  (Figure 14, "no-evidence drift"). "put right" is then the accuracy's gain, and the rest are questions of that layout.
- OpenI CheXStruct (Table 11): 428 + 73 negated answers stay, of questions whose options all share a concept word
  (Figure 14, "persistent No X"), and the original rule does not fire; again only their number is read off.
  tests/reporting/test_report.py covers these and Table 16's control.
- Tables 19 and 21 print 23.08% / 356 (MedGemma) and 0.20% / 505 (Qwen) for the canonical wording of CheXpert absence;
  Tables 9, 10, 12 and 13 print 24.06% / 351 and 0.39% / 504. The tests take both from the print.
- Deltas of Table 9 are differences of the counts' accuracies or of the two rounded ones. Either is accepted.
- Train-split percentages of Table 10 leave several counts open (0.01% is 13 records); one that fits both is taken.
"""

import pytest

from medfaith.evaluate_metrics.polarity.score import score_predictions
from tests.support.tiers import keep_quick

QUESTIONS = {
    "presence": "Which of the following findings is present on this chest X-ray study?",
    "absence": "Which of the following findings is absent on this chest X-ray study?",
    "P1": "Which of the following findings is missing from this chest X-ray study?",
    "P2": "Which of these findings is absent from the images of this study?",
    "P3": "Which of the listed findings is not identified on this chest X-ray study?",
}
FORMS = {
    "canonical_no": "No edema", "absence_of": "Absence of edema", "not_present": "Edema is not present",
    "no_evidence_of": "No evidence of edema", "clear_of": "Clear of edema",
}  # fmt: skip


def make_reference(question, options, answer, negated):
    return {
        "question": QUESTIONS[question], "polarity": "presence" if question == "presence" else "absence",
        "options": options, "answer": answer, "negated": negated, "counterpart": answer, "finding": options[answer],
    }  # fmt: skip


def make_answers(question, n, correct, negated, *, drift=0, unread=0, form="canonical_no"):
    """Make `n` answered questions and their predictions.

    Args:
        question: The kind of question.
        n: The number of questions.
        correct: The number of right answers.
        negated: The number of answers that choose the negated option.
        drift: The number of negated answers with a distractor in slot 0.
        unread: The number of unread answers; the remaining answers are wrong.
        form: The form of the negation.
    """
    fixed = make_reference(question, ["Edema", FORMS[form], "Atelectasis"], 0, 1)
    drifting = make_reference(question, ["Atelectasis", "Edema", FORMS[form]], 1, 2)
    groups = [
        ("A", fixed, correct),
        ("B. " + FORMS[form], fixed, negated - drift),
        (FORMS[form], drifting, drift),
        ("The image is sharp.", fixed, unread),
        ("C", fixed, n - correct - negated - unread),
    ]
    assert min(count for *_, count in groups) >= 0
    predictions = [text for text, _, count in groups for _ in range(count)]
    return predictions, [row for _, row, count in groups for _ in range(count)]


def format_percent(fraction):
    return f"{100 * fraction:.2f}"


def count_errors(scores, question, suffix=""):
    name = "n_reversals" if question == "presence" else "n_contradictions"
    return scores[name + suffix]


# Tables 9, 10, 11, 17 (and 2, 12, 13 in the original wording), and 13 in shuffled layouts: B0 and M1 from the print;
# at the end Table 17's instruction prompts. "-" is not printed.
# table, model, question, n, correct, negated, put right, unread
# | B0 acc, M1 acc, delta, rate of negated answers, their share of the wrong ones, parse failures
MAIN = """
9     MedGemma        presence  235     74     153    153    0   31.49  96.60  65.11  65.11  -      -
9     MedGemma-CoT    presence  235     101    122    122    0   42.98  94.89  51.91  -      -      -
9     MedGemma-27B    presence  235     122    105    105    0   51.91  96.60  44.68  -      -      -
9     LLaVA-1.5       presence  235     133    27     27     0   56.60  68.09  11.49  -      -      -
9     LLaVA-Med       presence  235     174    0      0      0   74.04  74.04  0.00   -      -      -
9     LLaVA-Med-CoT   presence  235     160    0      0      0   68.09  68.09  0.00   -      -      -
9     CheXagent       presence  235     89     7      7      0   37.87  40.85  2.98   -      -      -
9     Qwen2.5-VL      presence  235     71     153    153    0   30.21  95.32  65.11  -      -      -
9     Qwen2.5-VL-CoT  presence  235     128    57     57     0   54.47  78.72  24.26  -      -      -
9     GPT-4o          presence  235     147    25     25     0   62.55  73.19  10.64  -      -      -
9,17  MedGemma        absence   507     122    351    351    0   24.06  93.29  69.23  69.23  -      -
9     MedGemma-CoT    absence   507     165    282    282    0   32.54  88.17  55.63  -      -      -
9,17  MedGemma-27B    absence   507     158    335    335    4   31.16  97.24  66.08  -      -      0.79
9     LLaVA-1.5       absence   507     139    348    348    0   27.42  96.06  68.64  -      -      -
9     LLaVA-Med       absence   507     340    42     42     0   67.06  75.35  8.29   -      -      -
9     LLaVA-Med-CoT   absence   507     60     446    446    0   11.83  99.80  87.97  -      -      -
9     CheXagent       absence   507     33     186    186    0   6.51   43.20  36.69  -      -      -
9     Qwen2.5-VL      absence   507     2      504    504    0   0.39   99.80  99.41  99.41  -      -
9     Qwen2.5-VL-CoT  absence   507     138    368    368    0   27.22  99.80  72.58  -      -      -
9,17  GPT-4o          absence   507     11     470    470    0   2.17   94.87  92.70  -      -      -
9,17  MedGemma        absence   359     253    79     59     0   70.47  86.91  16.44  -      -      -
9     MedGemma-CoT    absence   359     164    177    118    0   45.68  78.55  32.87  -      -      -
9,17  MedGemma-27B    absence   359     55     199    133    24  15.32  52.37  37.05  -      -      6.69
9     LLaVA-1.5       absence   359     145    212    115    0   40.39  72.42  32.03  -      -      -
9     LLaVA-Med       absence   359     176    4      2      0   49.03  49.58  0.55   -      -      -
9     LLaVA-Med-CoT   absence   359     139    218    150    0   38.72  80.50  41.78  -      -      -
9     CheXagent       absence   359     9      189    99     0   2.51   30.08  27.57  -      -      -
9     Qwen2.5-VL      absence   359     45     311    186    0   12.53  64.35  51.82  -      -      -
9     Qwen2.5-VL-CoT  absence   359     53     288    137    0   14.76  52.92  38.16  -      -      -
9,17  GPT-4o          absence   359     58     284    171    0   16.16  63.79  47.63  -      -      -
10    MedGemma        presence  135754  44861  84966  84966  0   33.05  95.63  -      62.59  -      -
10    Qwen2.5-VL      presence  135754  41360  88668  88668  0   30.47  95.78  -      65.32  -      -
10    MedGemma        absence   25900   12864  12490  9506   0   49.67  86.37  -      48.22  -      -
10    Qwen2.5-VL      absence   25900   3815   21919  12901  0   14.73  64.54  -      84.63  -      -
13    MedGemma        absence   507     238    256    190    0   46.94  84.42  -      -      -      -
13    Qwen2.5-VL      absence   507     84     420    256    0   16.57  67.06  -      -      -      -
11    MedGemma        presence  396     117    270    270    0   29.55  -      -      -      96.77  -
11    Qwen2.5-VL      presence  396     86     287    287    0   21.72  -      -      -      92.58  -
11    LLaVA-1.5       presence  396     247    62     62     0   62.37  -      -      -      41.61  -
11    LLaVA-Med       presence  396     278    25     25     0   70.20  -      -      -      21.19  -
17    MedGemma        absence   507     62     406    406    0   12.23  -      -      -      -      0.00
17    MedGemma        absence   359     176    162    162    0   49.03  -      -      -      -      0.00
17    MedGemma-27B    absence   507     392    18     18     61  77.32  -      -      -      -      12.03
17    MedGemma-27B    absence   359     157    38     38     44  43.73  -      -      -      -      12.26
17    GPT-4o          absence   507     290    135    135    0   57.20  83.83  -      -      -      0.00
17    GPT-4o          absence   359     244    1      1      0   67.97  68.25  -      -      -      0.00
"""


# The train splits of Table 10 take seconds; the tables of 235 to 507 questions are counted in the same way.
@pytest.mark.parametrize("line", keep_quick(MAIN.strip().splitlines(), lambda line: int(line.split()[3]) < 1_000))
def test_base_and_verified(line):
    _, _, question, *counted = line.split()
    (n, correct, negated, right, unread), printed = map(int, counted[:5]), counted[5:]
    case = make_answers(question, n, correct, negated, drift=negated - right, unread=unread)
    scores = score_predictions(*case, trigger="original", replacement="slot0")
    rate = "reversal_rate" if question == "presence" else "contradiction_rate"
    names = ("accuracy", "accuracy_verified", "accuracy_delta", rate, "wrong_with_negated_rate", "parse_failure_rate")
    percentages = [format_percent(scores[name]) for name in names]
    if printed[2] != percentages[2] and "-" not in printed[1:3]:
        percentages[2] = f"{float(printed[1]) - float(printed[0]):.2f}"  # of the rounded accuracies
    assert [value if cell != "-" else "-" for value, cell in zip(percentages, printed, strict=True)] == printed
    assert (count_errors(scores, question), count_errors(scores, question, "_verified")) == (negated, 0)
    counts = [scores[name] for name in ("n_changed", "n_improved", "n_worsened", "n_unparsed")]
    assert counts == [negated, right, 0, unread]
    if n < 1000:
        # Whatever slot 0 holds, the concept's own counterpart puts every one of them right (Table 13: 97.44, 99.41).
        agnostic = score_predictions(*case, trigger="original", replacement="slot_agnostic")
        assert agnostic["n_improved"] == negated


# Tables 20 (n = 235) and 21 (n = 507); 2 and 12 (other wordings of the question, n = 507).
# model, question, form, correct, negated | B0 acc, original M1 acc, extended M1 acc
NEGATION_FORMS = """
MedGemma  presence  canonical_no    74   153  31.49  96.60   96.60
MedGemma  presence  absence_of      51   178  21.70  21.70   97.45
MedGemma  presence  not_present     92   124  39.15  39.15   91.91
MedGemma  presence  no_evidence_of  18   215  7.66   7.66    99.15
MedGemma  presence  clear_of        19   214  8.09   8.09    99.15
Qwen      presence  canonical_no    71   153  30.21  95.32   95.32
Qwen      presence  absence_of      78   140  33.19  33.19   92.77
Qwen      presence  not_present     46   188  19.57  19.57   99.57
Qwen      presence  no_evidence_of  61   168  25.96  25.96   97.45
Qwen      presence  clear_of        94   132  40.00  40.00   96.17
MedGemma  absence   canonical_no    117  356  23.08  93.29   93.29
MedGemma  absence   absence_of      93   379  18.34  18.34   93.10
MedGemma  absence   not_present     115  349  22.68  22.68   91.52
MedGemma  absence   no_evidence_of  143  326  28.21  92.50   92.50
MedGemma  absence   clear_of        210  221  41.42  85.01   85.01
Qwen      absence   canonical_no    1    505  0.20   99.80   99.80
Qwen      absence   absence_of      0    507  0.00   0.00    100.00
Qwen      absence   not_present     0    505  0.00   0.00    99.61
Qwen      absence   no_evidence_of  1    506  0.20   100.00  100.00
Qwen      absence   clear_of        77   377  15.19  89.55   89.55
MedGemma  P1        canonical_no    115  283  22.68  22.68   78.50
MedGemma  P2        canonical_no    96   381  18.93  94.08   94.08
MedGemma  P3        canonical_no    125  379  24.65  24.65   99.41
"""


@pytest.mark.parametrize("line", NEGATION_FORMS.strip().splitlines())
def test_negation_forms(line):
    _, question, form, correct, negated, b0, original, extended = line.split()
    n = 235 if question == "presence" else 507
    case = make_answers(question, n, int(correct), int(negated), form=form)
    for trigger, printed in (("original", original), ("extended", extended)):
        scores = score_predictions(*case, trigger=trigger)
        assert (format_percent(scores["accuracy"]), count_errors(scores, question)) == (b0, int(negated))
        n_errors = int(negated) if printed == b0 else 0
        assert (format_percent(scores["accuracy_verified"]), count_errors(scores, question, "_verified")) == (
            printed,
            n_errors,
        )
        assert scores["n_worsened"] == 0
