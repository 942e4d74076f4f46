"""The `evaluate` module of attention alignment (SurgXBench)."""

import datasets
import evaluate

from medfaith.evaluate_metrics.arguments.stored import CheckedRows
from medfaith.evaluate_metrics.attention_alignment.score import score_predictions

_DESCRIPTION = """
Attention alignment of SurgXBench: the share of a heatmap's top 20 % on the instrument that the model
predicts (AA), and on any instrument (AC), for true positive and false positive predictions, and per instrument.
"""

_CITATION = """
@inproceedings{cheng2026surgxbench,
  title = {{SurgXBench}: Explainable Vision-Language Model Benchmark for Surgery},
  author = {Cheng, Jiajun and Zhao, Xianwu and Liu, Sainan and Yu, Xiaofan and Prakash, Ravi and Codd, Patrick J. and
    Katz, Jonathan Elliott and Lin, Shan},
  booktitle = {Proceedings of the IEEE/CVF Winter Conference on Applications of Computer Vision (WACV)},
  year = {2026},
  note = {Sections 3.4.1 and 4.3.1}
}
"""

_INPUTS = """
Args:
    predictions: list of dict, one per frame, with labels (list of str, the predicted classes) and maps (one heatmap for
        each label, rows of numbers; None if the model gave none).
    references: list of dict, one per frame, with video (str), size ([height, width]), boxes (list of dict of label and
        xywh, in pixels) and window: None if the maps have the frame's size, otherwise [x, y, width, height], the part
        of the frame in pixels that the coarser maps cover.
    top_fraction: share of a map's pixels that make its attention region (0.2).
    n_resamples: number of bootstrap resamples of videos (2000).
    seed: seed of the resampling (42).
    confidence_level: level of the intervals, between 0 and 1 (0.95).
    ids: list of str, names of the frames, for errors.
    per_sample: whether to return each prediction's values too.

Returns:
    dict of tp_aa, tp_ac and fp_ac (means in [0, 1], NaN without any), each with _ci_low, _ci_high, _q1, _median, _q3,
    _whisker_low and _whisker_high, their counts (n_...), and per_instrument with the same for each class;
    per_sample on request.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class AttentionAlignment(CheckedRows, evaluate.Metric):
    """The metric `attention_alignment`: the share of a heatmap's attention region on the instruments."""

    def get_scorer(self):
        """Return the function that scores the rows."""
        return score_predictions

    def _info(self):
        numbers = datasets.List(datasets.Value("float64"))
        heatmap = datasets.List(datasets.List(datasets.Value("float64")))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": {
                        "labels": datasets.List(datasets.Value("string")),
                        "maps": datasets.List(heatmap),
                    },
                    "references": {
                        "video": datasets.Value("string"),
                        "size": datasets.List(datasets.Value("int64")),
                        "window": numbers,
                        "boxes": datasets.List({"label": datasets.Value("string"), "xywh": numbers}),
                    },
                }
            ),
        )

    def _compute(self, predictions, references, **options):
        return score_predictions(predictions, references, **options)
