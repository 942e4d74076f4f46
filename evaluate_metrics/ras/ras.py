"""The `evaluate` module of the RAFT attention score (SurgXBench)."""

import datasets
import evaluate

from medfaith.evaluate_metrics.arguments.stored import CheckedRows
from medfaith.evaluate_metrics.ras.score import score_predictions

_DESCRIPTION = """
RAFT attention score (RAS) of SurgXBench: the share of the top 20 % of a triplet prediction's heatmap on moving tissue
or on the instrument, by the level of the match with the true triplet: instrument, verb and target (IVT), instrument and
verb (IV), instrument and target (IT), only the instrument (I), or none (missed).
"""

_CITATION = """
@inproceedings{cheng2026surgxbench,
  title = {{SurgXBench}: Explainable Vision-Language Model Benchmark for Surgery},
  author = {Cheng, Jiajun and Zhao, Xianwu and Liu, Sainan and Yu, Xiaofan and Prakash, Ravi and Codd, Patrick J. and
    Katz, Jonathan Elliott and Lin, Shan},
  booktitle = {Proceedings of the IEEE/CVF Winter Conference on Applications of Computer Vision (WACV)},
  year = {2026},
  note = {Sections 3.4.2 and 4.3.2}
}
"""

_INPUTS = """
Args:
    predictions: list of dict, one per frame, with triplets (list of str, "instrument,verb,target", best first) and maps
        (one heatmap for each, rows of numbers; None if the model gave none).
    references: list of dict, one per frame, with video (str), triplets (list of str, the true ones), size ([height,
        width]), boxes (list of dict of label and xywh, in pixels), motion (dict of size and counts, a mask in COCO's
        compressed run-length encoding; None if unknown) and window: None if the maps have the frame's
        size, otherwise [x, y, width, height], the part of the frame in pixels that the coarser maps cover.
    top_k: number of predictions that count (5); None for all.
    top_fraction: share of a map's pixels that make its attention region (0.2).
    null_triplets: whether true triplets in which the instrument does nothing take part (True).
    n_resamples: number of bootstrap resamples of videos (2000).
    seed: seed of the resampling (42).
    confidence_level: level of the intervals, between 0 and 1 (0.95).
    ids: list of str, names of the frames, for errors.
    per_sample: whether to return each true triplet's level and value too.

Returns:
    dict of ras_local_ivt, ras_local_iv, ras_local_it, ras_local_i and ras_global_missed (means in [0, 1], NaN without
    any), each with _ci_low, _ci_high, _q1, _median, _q3, _whisker_low and _whisker_high; share_ivt to share_missed,
    among all true triplets, with intervals; and their counts (n_...); per_sample on request.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class RAS(CheckedRows, evaluate.Metric):
    """The metric `ras`: the share of a heatmap's attention region on moving tissue or the instrument."""

    def get_scorer(self):
        """Return the function that scores the rows."""
        return score_predictions

    def _info(self):
        numbers = datasets.List(datasets.Value("float64"))
        texts = datasets.List(datasets.Value("string"))
        heatmap = datasets.List(datasets.List(datasets.Value("float64")))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": {"triplets": texts, "maps": datasets.List(heatmap)},
                    "references": {
                        "video": datasets.Value("string"),
                        "triplets": texts,
                        "size": datasets.List(datasets.Value("int64")),
                        "window": numbers,
                        "boxes": datasets.List({"label": datasets.Value("string"), "xywh": numbers}),
                        "motion": {"size": datasets.List(datasets.Value("int64")), "counts": datasets.Value("string")},
                    },
                }
            ),
        )

    def _enforce_nested_string_type(self, schema, obj):
        # evaluate checks the types in the first row only; a missing mask there has no type.
        if obj is not None or not isinstance(schema, dict):
            super()._enforce_nested_string_type(schema, obj)

    def _compute(self, predictions, references, **options):
        return score_predictions(predictions, references, **options)
