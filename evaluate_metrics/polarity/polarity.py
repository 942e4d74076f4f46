"""The `evaluate` module of the polarity scores."""

import datasets
import evaluate

from medfaith.evaluate_metrics.arguments.stored import CheckedRows
from medfaith.evaluate_metrics.polarity.score import check_references, score_predictions

_DESCRIPTION = """
Polarity of multiple-choice answers about findings: accuracy, presence questions answered with the negated option
(reversals), absence questions answered with it (contradictions), unread and declined responses, and the same
scores after the deterministic verifier QCCV-Neg of CXR-ContraBench.
"""

_CITATION = """
@misc{fang2026cxrcontrabench,
  title = {{CXR-ContraBench}: Benchmarking Negated-Option Attraction in Medical {VLMs}},
  author = {Fang, Zhengru and Ma, Yanan and Guo, Yu and Hu, Senkang and Zhang, Yixian and Cao, Hangcheng and Ding,
    Wenbo and Fang, Yuguang},
  year = {2026},
  eprint = {2605.05810},
  archivePrefix = {arXiv}
}
"""

_INPUTS = """
Args:
    predictions: list of str, one response per question: a letter, an option's text, or sentences.
    references: list of dict, one per question, with question (str), options (list of str), answer, negated and
        counterpart (0-based index into options; -1 without a negated option or a counterpart), polarity
        ("presence", "absence" or "other") and finding (str).
    trigger: "original" (default; published literal words), "extended" (paraphrase-aware) or "authors" (those of the
        authors' published code).
    replacement: "slot0" (default; published) or "slot_agnostic".
    verify_prose: whether the verifier also replaces choices that were read from sentences (False).
    per_sample: whether to return each question's reading and verdict too.

Returns:
    dict of unrounded fractions and their counts (n_...), by_finding, and per_sample on request.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class Polarity(CheckedRows, evaluate.Metric):
    """The metric `polarity`: accuracy, reversals and contradictions of multiple-choice answers."""

    def get_scorer(self):
        """Return the function that scores the rows."""
        return score_predictions

    def check_rows(self, predictions, references):
        """Check the rows, also each index by the number of its row's options.

        Args:
            predictions: The predictions.
            references: The references.
        """
        check_references([] if references is None else references)
        super().check_rows(predictions, references)

    def _info(self):
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": datasets.Value("string"),
                    "references": {
                        "question": datasets.Value("string"),
                        "options": datasets.List(datasets.Value("string")),
                        "answer": datasets.Value("int64"),
                        "negated": datasets.Value("int64"),
                        "counterpart": datasets.Value("int64"),
                        "polarity": datasets.Value("string"),
                        "finding": datasets.Value("string"),
                    },
                }
            ),
        )

    def _compute(self, predictions, references, **options):
        return score_predictions(predictions, references, **options)
