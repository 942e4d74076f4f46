"""The `evaluate` module of the accuracy of HEAL-MedVQA's answers."""

import datasets
import evaluate

from medfaith.evaluate_metrics.arguments.stored import CheckedRows
from medfaith.evaluate_metrics.medvqa_f1.score import score_predictions

_DESCRIPTION = """
Accuracy of medical visual question answering as in HEAL-MedVQA: precision, recall and F1 of yes/no answers, and
multi-label precision, recall and micro F1 of the diseases that open-ended answers name.
"""

_CITATION = """
@misc{nguyen2025localizing,
  title = {Localizing Before Answering: A Hallucination Evaluation Benchmark for Grounded Medical Multimodal {LLMs}},
  author = {Nguyen, Dung and Ho, Minh Khoi and Ta, Huy and Nguyen, Thanh Tam and Chen, Qi and Rav, Kumar and Dang, Quy
    Duong and Ramchandre, Satwik and Phung, Son Lam and Liao, Zhibin and To, Minh-Son and Verjans, Johan and Nguyen,
    Phi Le and Phan, Vu Minh Hieu},
  year = {2025},
  eprint = {2505.00744},
  archivePrefix = {arXiv},
  note = {Section 5}
}
"""

_INPUTS = """
Args:
    predictions: list of str, one response per question.
    references: list of dict, one per question, with question_type ("closed" or "open"), answer (closed: "Yes" or "No"),
        diseases (open: list of str, empty for a normal region) and image_id (str).
    labels: list, one per question, the labels that another extractor read (None: unread), instead of reading by words.
    vocabulary: list of str, the possible labels; default: the 22 local findings of VinDr-CXR.
    n_resamples: number of bootstrap resamples of images (2000).
    seed: seed of the resampling (42).
    confidence_level: level of the intervals, between 0 and 1 (0.95).
    per_sample: whether to return each response's reading too.

Returns:
    dict of unrounded scores (yes_no_..., open_...; NaN where undefined) and their counts (n_...); per_sample
    on request.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class MedVQAF1(CheckedRows, evaluate.Metric):
    """The metric `medvqa_f1`: F1 of yes/no answers and of the diseases that open-ended answers name."""

    def get_scorer(self):
        """Return the function that scores the rows."""
        return score_predictions

    def _info(self):
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": datasets.Value("string"),
                    "references": {
                        "question_type": datasets.Value("string"),
                        "answer": datasets.Value("string"),
                        "diseases": datasets.List(datasets.Value("string")),
                        "image_id": datasets.Value("string"),
                    },
                }
            ),
        )

    def _compute(self, predictions, references, **options):
        return score_predictions(predictions, references, **options)
