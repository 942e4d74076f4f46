"""The `evaluate` module of the Textual Perturbation Test."""

import datasets
import evaluate

from medfaith.evaluate_metrics.arguments.stored import CheckedRows
from medfaith.evaluate_metrics.tpt.score import score_predictions

_DESCRIPTION = """
Textual Perturbation Test of HEAL-MedVQA: the share of questions that a model rightly answers Yes whose answer changes
to No when the question names another, absent anatomy or disease.
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
  note = {Section 3.1}
}
"""

_INPUTS = """
Args:
    predictions: list of str, one response per row: free text, or "yes" and "no".
    references: list of dict, one per row, with original_id (str), kind ("original", "anatomy" or "disease") and
        image_id (str, of the original's image). Originals are closed questions whose gold answer is Yes.
    questions: the questions, one per prediction; with them a sentence counts only if it is about the question.
    n_resamples: number of bootstrap resamples of images (2000).
    seed: seed of the resampling (42).
    confidence_level: level of the intervals, between 0 and 1 (0.95).
    per_sample: whether to return each response's reading too.

Returns:
    dict of tpt, tpt_anatomy and tpt_disease (shares in [0, 1], NaN without a pair), each with _ci_low and _ci_high and
    their counts (n_...); per_sample on request.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class TPT(CheckedRows, evaluate.Metric):
    """The metric `tpt`: the share of Yes answers that change to No when the question is perturbed."""

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
                        "original_id": datasets.Value("string"),
                        "kind": datasets.Value("string"),
                        "image_id": datasets.Value("string"),
                    },
                }
            ),
        )

    def _compute(self, predictions, references, **options):
        return score_predictions(predictions, references, **options)
