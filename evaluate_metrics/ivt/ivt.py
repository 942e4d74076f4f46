"""The `evaluate` module of instrument and triplet recognition."""

import datasets
import evaluate

from medfaith.evaluate_metrics.arguments.stored import CheckedRows
from medfaith.evaluate_metrics.ivt.score import score_instruments, score_triplets
from medfaith.evaluate_metrics.reading.surgical_names import INSTRUMENTS

_DESCRIPTION = """
Recognition of surgical instruments and action triplets (instrument, verb, target) in endoscopic frames. Two
configurations: "instruments" gives precision, recall and F1 of sets of instruments, "triplets" average precision of
triplets and of their parts, video by video, and the share of triplets among the five best (SurgXBench).
"""

_CITATION = """
@inproceedings{cheng2026surgxbench,
  title = {{SurgXBench}: Explainable Vision-Language Model Benchmark for Surgery},
  author = {Cheng, Jiajun and Zhao, Xianwu and Liu, Sainan and Yu, Xiaofan and Prakash, Ravi and Codd, Patrick J. and
    Katz, Jonathan Elliott and Lin, Shan},
  booktitle = {Proceedings of the IEEE/CVF Winter Conference on Applications of Computer Vision (WACV)},
  year = {2026},
  note = {Appendix D}
}
@article{nwoye2022data,
  title = {Data Splits and Metrics for Method Benchmarking on Surgical Action Triplet Datasets},
  author = {Nwoye, Chinedu Innocent and Padoy, Nicolas},
  journal = {arXiv preprint arXiv:2204.05235},
  year = {2022}
}
"""

_INPUTS = """
Args:
    predictions: "instruments": list of str, one answer per frame: text, or a JSON object with predicted (list of str).
        "triplets": list of lists of 100 numbers, one per triplet in the order of ids.
    references: list of dict, one per frame, with video (str) and, for "instruments", classes (list of str) or, for
        "triplets", triplets (list of str like "grasper,retract,gallbladder").
    classes: "instruments": list of str, the possible classes; default: the seven of Cholec80-Boxes.
    k: "triplets": number of the best triplets that count as predicted (5).
    ignore_null: "triplets": whether to leave null triplets out of ap_ivt (False).
    n_resamples: number of bootstrap resamples of videos (2000).
    seed: seed of the resampling (42).
    confidence_level: level of the intervals, between 0 and 1 (0.95).
    per_sample: whether to return each frame's reading too.

Returns:
    dict of unrounded scores in [0, 1], higher is better, NaN where undefined, and their counts (n_...):
    "instruments": precision, recall, f1, macro_... and per_class; "triplets": ap_i, ap_v, ap_t, ap_iv, ap_it, ap_ivt,
    each also _pooled, coverage, per_video and per_class; per_sample on request.
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class IVT(CheckedRows, evaluate.Metric):
    """The metric `ivt`: F1 of surgical instruments, or average precision of action triplets."""

    def get_scorer(self):
        """Return the function that scores the rows."""
        return score_triplets if self.config_name == "triplets" else score_instruments

    def _info(self):
        text, texts = datasets.Value("string"), datasets.List(datasets.Value("string"))
        if self.config_name == "triplets":
            features = {
                "predictions": datasets.List(datasets.Value("float64")),
                "references": {"triplets": texts, "video": text},
            }
        elif self.config_name in {"instruments", "default"}:
            features = {"predictions": text, "references": {"classes": texts, "video": text}}
        else:
            raise ValueError(f"configuration {self.config_name!r}; expected instruments or triplets")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(features),
        )

    def _compute(  # noqa: PLR0913 (options of the metric)
        self,
        predictions,
        references,
        *,
        classes=INSTRUMENTS,
        k=5,
        ignore_null=False,
        n_resamples=2000,
        seed=42,
        confidence_level=0.95,
        per_sample=False,
    ):
        options = {
            "n_resamples": n_resamples,
            "seed": seed,
            "confidence_level": confidence_level,
            "per_sample": per_sample,
        }
        if self.config_name == "triplets":
            return score_triplets(predictions, references, k=k, ignore_null=ignore_null, **options)
        return score_instruments(predictions, references, classes=classes, **options)
