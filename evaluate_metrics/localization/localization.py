"""The `evaluate` module of localization (That's the Wrong Lung!)."""

import datasets
import evaluate

from medfaith.evaluate_metrics.arguments.stored import CheckedRows
from medfaith.evaluate_metrics.localization.predictions import score_predictions

_DESCRIPTION = """
Location of a model's attention for a sentence of a radiology report, compared with the regions of the sentence (AUROC,
average precision, IoU and precision of the pixels with the most attention), and its change when the sentence or the
boxes are perturbed.
"""

_CITATION = """
@inproceedings{mcinerney2022wronglung,
  title = {That's the Wrong Lung! Evaluating and Improving the Interpretability of Unsupervised Multimodal Encoders
    for Medical Data},
  author = {McInerney, Denis Jered and Young, Geoffrey and van de Meent, Jan-Willem and Wallace, Byron C.},
  booktitle = {Proceedings of the 2022 Conference on Empirical Methods in Natural Language Processing},
  year = {2022}
}
"""

_INPUTS = """
Args:
    predictions: list of dict, one per sentence, with attention (rows of numbers of at least 0, which sum to 1 minus the
        attention on no region; None if the model gave none), window ([x, y, width, height] in the image's pixels,
        the part of the image that the attention covers; None for the full image), local and global (float, similarity
        of image and sentence; None where missing).
    references: list of dict, one per sentence, with id (str), original_id and perturbation (str; None for an original),
        cluster (str, the patient), size ([height, width] of the image), boxes (list of dict of label and xywh, in
        pixels), abnormal, one_lung and mdrb (bool, the subsets).
    upsampling: "bilinear" (default; the paper) or "nearest" (its code).
    precision_ties: "included" (default; the paper's code): precision counts the pixels that are tied with the
        threshold of the top T %; or "excluded": it does not, like IoU.
    kl_no_attn: whether the attention on no region is a share of kl (False, as in the paper's code).
    n_resamples: number of bootstrap resamples of clusters (2000).
    seed: seed of the resampling (42).
    confidence_level: level of the intervals, between 0 and 1 (0.95).
    per_sample: whether to return each sentence's values too.

Returns:
    dict of original and each perturbation, for all, abnormal, one_lung and mdrb: dict of auroc, average_precision,
    iou_5, iou_10, iou_30, precision_5, precision_10, precision_30, entropy, no_attn, local and global (means, NaN
    without any), each with _ci_low and _ci_high, and n_<name>; n_rows, n_clusters and counts of states. For a
    perturbation also delta_ for each of them, kl, n_pairs and n_unpaired; for random_sentences, local_accuracy and
    global_accuracy. per_sample on request.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class Localization(CheckedRows, evaluate.Metric):
    """The metric `localization`: attention of sentences compared with boxes, and its change under perturbation."""

    def get_scorer(self):
        """Return the function that scores the rows."""
        return score_predictions

    def _info(self):
        text, flag, number = datasets.Value("string"), datasets.Value("bool"), datasets.Value("float64")
        numbers = datasets.List(number)
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": {
                        "attention": datasets.List(numbers),
                        "window": numbers,
                        "local": number,
                        "global": number,
                    },
                    "references": {
                        "id": text,
                        "original_id": text,
                        "perturbation": text,
                        "cluster": text,
                        "size": datasets.List(datasets.Value("int64")),
                        "boxes": datasets.List({"label": text, "xywh": numbers}),
                        "abnormal": flag,
                        "one_lung": flag,
                        "mdrb": flag,
                    },
                }
            ),
        )

    def _enforce_nested_string_type(self, schema, obj):
        # evaluate checks the types in the first row only; a missing value there has no type.
        if obj is not None:
            super()._enforce_nested_string_type(schema, obj)

    def _compute(self, predictions, references, **options):
        return score_predictions(predictions, references, **options)
