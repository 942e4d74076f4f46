"""The `evaluate` module of the intervals and tests."""

import datasets
import evaluate

from medfaith.evaluate_metrics.arguments.stored import CheckedRows
from medfaith.evaluate_metrics.confidence.score import score_values

_DESCRIPTION = """
The mean of per-example numbers with a percentile bootstrap interval, by example or by cluster (study, patient, video),
and, given a second system's numbers on the same examples, the difference with its interval and a permutation test.
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
    predictions: list of float, one number per example (1.0 for a correct answer); NaN or None where undefined.
    groups: list of labels, one per example; whole groups are resampled.
    baseline: list of float, another system's numbers on the same examples.
    n_resamples: number of bootstrap resamples (2000).
    n_permutations: number of random permutations (10000).
    seed: seed of both (42).
    confidence_level: level of the intervals, between 0 and 1 (0.95).
    alternative: "two-sided" (default), "greater" (predictions above baseline) or "less".
    permutation: "paired" (default) or "independent".
    bounds: (0, 1) if the predictions are shares or scores: near 0 and 1 the interval of their mean is then Wilson's.

Returns:
    dict of mean, low, high, n, n_nan, n_groups; with a baseline also difference, difference_low, difference_high,
    p_value and n_pairs.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class Confidence(CheckedRows, evaluate.Metric):
    """The metric `confidence`: the mean of numbers with its interval, and the difference from a baseline."""

    def get_scorer(self):
        """Return the function that scores the rows."""
        return score_values

    def _info(self):
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": datasets.Value("float64")}),
        )

    def _compute(self, predictions, **options):
        return score_values(predictions, **options)
