"""The `evaluate` module of mask overlap."""

import datasets
import evaluate

from medfaith.evaluate_metrics.arguments.stored import CheckedRows
from medfaith.evaluate_metrics.mask_overlap.score import score_predictions

_DESCRIPTION = """
Dice coefficient and intersection over union (IoU) of segmentation masks in COCO's compressed run-length encoding, per
sample and as a mean.
"""

_CITATION = """
@article{dice1945measures,
  title = {Measures of the Amount of Ecologic Association Between Species},
  author = {Dice, Lee R.},
  journal = {Ecology},
  year = {1945}
}
"""

_INPUTS = """
Args:
    predictions: list of dict, one mask per sample, with size ([height, width]) and counts (str); None for no mask.
    references: list of dict, the true masks, all present.
    ids: list of str, names of the samples, for errors.
    per_sample: whether to return each sample's dice and iou too.

Returns:
    dict of dice and iou (unrounded means over the samples where they are defined, otherwise NaN) and the counts (n_...)
    behind them; per_sample on request.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class MaskOverlap(CheckedRows, evaluate.Metric):
    """The metric `mask_overlap`: Dice and IoU of segmentation masks."""

    def get_scorer(self):
        """Return the function that scores the rows."""
        return score_predictions

    def _info(self):
        mask = {"size": datasets.List(datasets.Value("int64")), "counts": datasets.Value("string")}
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": mask, "references": mask}),
        )

    def _enforce_nested_string_type(self, schema, obj):
        # evaluate checks the types in the first row only; a missing mask there has no type.
        if obj is not None or not isinstance(schema, dict):
            super()._enforce_nested_string_type(schema, obj)

    def _compute(self, predictions, references, **options):
        return score_predictions(predictions, references, **options)
