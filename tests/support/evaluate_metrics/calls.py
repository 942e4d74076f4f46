"""A valid call of each public function of the metrics, from which tests make bad calls."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.confidence.image_use import Condition, measure_image_use
from medfaith.evaluate_metrics.confidence.paired import compute_paired_difference
from medfaith.evaluate_metrics.confidence.place import Edited, measure_place_effect
from medfaith.evaluate_metrics.confidence.reliance import reliance
from medfaith.evaluate_metrics.localization.score import METRICS
from medfaith.evaluate_metrics.polarity.fallback import read_packet
from medfaith.evaluate_metrics.polarity.score import Samples
from medfaith.evaluate_metrics.reading.choice import Answer
from medfaith.evaluate_metrics.reading.diseases import Extraction

ROOM = Path(__file__).resolve().parents[3] / "evaluate_metrics"
INNER = {"reading", "arguments"}  # no metrics

ONES, ZEROS = [1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]
GROUPS = ["a", "b", "c", "c"]
CONDITION = Condition(np.array(ONES), np.ones(4, dtype=bool), np.array(ZEROS))
EDITED = Edited(np.array(ZEROS), np.array(ONES), np.array(ZEROS))
PRESENT = np.array([True, True, False, False])
DRAWS = {"n_resamples": 5, "rng": np.random.default_rng(1)}
DIFFERENCE = compute_paired_difference(ONES, ZEROS)
USE = measure_image_use(CONDITION, CONDITION, {"blank": CONDITION}, {}, margin=0.05)
EFFECT = measure_place_effect({100: EDITED}, PRESENT, margin=0.05)
BOX = {"label": "hook", "xywh": [0, 0, 2, 2]}
MAP = [[0.0, 0.5], [0.25, 0.25]]
MASK = {"size": [2, 2], "counts": "13"}  # one pixel of four, then three
TRIPLET = "hook,dissect,gallbladder"
FRAME = {"video": "v", "size": [2, 2], "window": None, "boxes": [BOX]}
RECORD = {"video": "v", "label": "hook", "outcome": "tp", "state": "scored", "aa": 0.5, "ac": 0.5}
RAS_RECORD = {
    "video": "v", "null": False, "has_box": True, "level": "ivt", "state": "scored", "ras": 0.5, "n_left_out": 0,
}  # fmt: skip
ROW = {
    "id": "row 1", "original_id": None, "perturbation": None, "cluster": "p",
    "subsets": {"abnormal": True, "one_lung": False, "mdrb": False},
    "state": "scored", "values": dict.fromkeys(METRICS, 0.5),
}  # fmt: skip
ATTENTION = {"attention": MAP, "window": [0, 0, 9, 9], "local": 0.5, "global": 0.5}
SENTENCE = {
    "id": "row 1", "original_id": None, "perturbation": None, "cluster": "p", "size": [9, 9], "boxes": [BOX],
    "abnormal": True, "one_lung": False, "mdrb": False,
}  # fmt: skip
QUESTION = {
    "question": "Which finding is present?", "options": ["Edema", "No edema"], "answer": 0, "negated": 1,
    "counterpart": 0, "polarity": "presence", "finding": "edema",
}  # fmt: skip
SAMPLES = Samples(*(np.array([value]) for value in (1, 0, 0, 1, 0, "presence", "answered", "", "letter", "edema")))
CLOSED = {"question_type": "closed", "answer": "Yes", "diseases": [], "image_id": "i"}
OPEN = {"question_type": "open", "answer": None, "diseases": ["Edema"], "image_id": "i"}
ORIGINAL = {"original_id": "q", "kind": "original", "image_id": "i"}
SCORES = np.linspace(0, 1, 200).reshape(2, 100)
GOLD = np.eye(2, 100)
PAIR = {"scores": [[1.0, 2.0]], "negated": [1], "counterpart": [0]}
BOOTSTRAP = {"n_resamples": 5, "seed": 1, "confidence_level": 0.9}
PAIRED = {"after": ONES, "before": ZEROS, "groups": GROUPS, "n_resamples": 5, "seed": 1}
LABELLED = {"values": np.array(ONES), "labels": np.arange(4)}

CALLS: dict[str, dict[str, Any]] = {
    "attention_alignment.boxes.find_pixel_rectangles": {"xywh": [[0, 0, 2, 2]], "size": (2, 2), "name": "row 1"},
    "attention_alignment.boxes.split_disjoint": {"rectangles": [(0, 0, 1, 1)]},
    "attention_alignment.frames.to_frame": {"grid": MAP, "size": (2, 2), "window": [0, 0, 2, 2], "name": "row 1"},
    "attention_alignment.frames.score_frames": {
        "predictions": [{"maps": [MAP]}], "references": [FRAME], "ids": ["row 1"], "score": lambda *_: [],
    },
    "attention_alignment.frames.build_maps": {"prediction": {"maps": [MAP]}, "reference": FRAME, "name": "row 1"},
    "attention_alignment.frames.merge_maps": {"maps": [MAP], "numbers": [0]},
    "attention_alignment.frames.select_boxes": {"boxes": [BOX], "label": "hook"},
    "attention_alignment.regions.find_attention_region": {"maps": [MAP], "top_fraction": 0.5, "ids": ["row 1"]},
    "attention_alignment.regions.compute_shares_inside": {
        "maps": [MAP], "unions": [[[[0, 0, 2, 2]]]], "motion": np.ones((1, 2, 2), dtype=bool), "top_fraction": 0.5,
        "ids": ["row 1"],
    },
    "attention_alignment.score.attention_alignment": {
        "maps": [MAP], "class_boxes": [[[0, 0, 2, 2]]], "all_boxes": [[[0, 0, 2, 2]]], "top_fraction": 0.5,
        "ids": ["row 1"],
    },
    "attention_alignment.score.score_frame": {
        "maps": [MAP], "labels": ["hook"], "boxes": [BOX], "video": "v", "top_fraction": 0.5, "name": "row 1",
    },
    "attention_alignment.score.summarise": {"records": [RECORD], **BOOTSTRAP},
    "attention_alignment.score.score_predictions": {
        "predictions": [{"labels": ["hook"], "maps": [MAP]}], "references": [FRAME], "top_fraction": 0.5, **BOOTSTRAP,
        "ids": ["row 1"], "per_sample": True,
    },
    "attention_alignment.spread.spread": {"name": "aa", "values": ONES, "groups": GROUPS},
    "attention_alignment.spread.group_records": {"records": [RECORD], "key": "label"},
    "attention_alignment.spread.count_cut_at_zero": {"records": [RECORD]},
    "confidence.image_use.compare_conditions": {
        "after": ONES, "before": ZEROS, "margin": 0.05, "threshold": 0.0, "groups": GROUPS, "seed": 1,
        "bounds": (np.array(ZEROS), np.array(ONES)), "n_tests": 1,
    },
    "confidence.image_use.compute_settling_n": {"difference": DIFFERENCE, "margin": 0.05, "threshold": 0.0},
    "confidence.image_use.measure_image_use": {
        "own_image": CONDITION, "other_image": CONDITION, "blind": {"blank": CONDITION},
        "harmless": {"cropped": CONDITION}, "margin": 0.05, "groups": GROUPS, "donors": GROUPS, "seed": 1,
    },
    "confidence.image_verdict.judge_image_use": {"uses": [USE]},
    "confidence.image_verdict.judge_findings": {"finding_uses": [USE]},
    "confidence.image_verdict.compute_uses_p": {"use": USE},
    "confidence.image_verdict.compute_no_use_p": {"use": USE},
    "confidence.paired.compute_paired_difference": {**PAIRED, "confidence_level": 0.9},
    "confidence.paired.describe_difference": {
        "after": np.array(ONES), "before": np.array(ZEROS), "labels": np.arange(4), "n_nan": 0, "way": "wilson",
        "interval": (0.0, 1.0),
    },
    "confidence.paired.compute_equivalence_p": {**PAIRED, "margin": 0.05},
    "confidence.paired.compute_superiority_p": {**PAIRED, "margin": 0.05},
    "confidence.paired.apply_holm": {"p_values": [0.5, 0.25]},
    "confidence.paired.apply_benjamini_yekutieli": {"p_values": [0.5, 0.25]},
    "confidence.paired.compute_equivalence_level": {"n_tests": 2, "alpha": 0.05},
    "confidence.proportion.compute_expanded_level": {"confidence_level": 0.9, "n_groups": 3},
    "confidence.paired.compute_detectable_difference": {"low": 0.0, "high": 0.5, "confidence_level": 0.9, "power": 0.8},
    "confidence.paired.enough": {"n": 5, "detectable_difference": 0.5, "target_difference": 0.25},
    "confidence.paired.choose_difference_interval": {
        "after": np.array(ONES), "before": np.array(ZEROS), "labels": np.arange(4), "n_resamples": 5, "seed": 1,
    },
    "confidence.place.measure_place_effect": {
        "doses": {100: EDITED}, "is_present": PRESENT, "margin": 0.05, "groups": GROUPS, "seed": 1,
    },
    "confidence.place.judge_place": {"effects_by_kind": [{"paint": EFFECT}], "uses_image": [True], "margin": 0.05},
    "confidence.place.is_contradictory": {"effects": {"paint": EFFECT}, "margin": 0.05},
    "confidence.proportion.compute_wilson_interval": {"mean": 0.5, "n": 4, "confidence_level": 0.9},
    "confidence.proportion.compute_effective_n": LABELLED,
    "confidence.proportion.is_near_bound": {**LABELLED, "bounds": (0, 1), "few": 2},
    "confidence.proportion.compute_bounded_interval": {**LABELLED, "bounds": (0, 1), "confidence_level": 0.9},
    "confidence.proportion.compute_few_groups_interval": {**LABELLED, "bounds": (0, 1), "confidence_level": 0.9},
    "confidence.proportion.sum_by_group": LABELLED,
    "confidence.proportion.quantise": {"values": np.array(ONES), "scale": 1.0},
    "confidence.proportion.compute_mean": {"values": np.array(ONES)},
    "confidence.proportion.keep_mean_inside": {"mean": 0.5, "low": 0.4, "high": 0.6, "scale": 1.0},
    "confidence.proportion.compute_normal_quantile": {"confidence_level": 0.9},
    "confidence.reliance.share": {"hits": ONES, "groups": GROUPS, "confidence_level": 0.9},
    "confidence.reliance.reliance": {
        "image": ONES, "blind": {"blank": ZEROS}, "margin": 0.05, "groups": GROUPS, "seed": 1,
    },
    "confidence.reliance.is_unchanged": {"after": ONES, "before": ZEROS},
    "confidence.reliance.compute_exceeding_p": {
        "after": ONES, "before": ZEROS, "margin": 0.05, "groups": GROUPS, "n_permutations": 5, "seed": 1,
        "alternative": "greater", "n_adverse": 1,
    },
    "confidence.reliance.verdicts": {"reliances": [reliance(ONES, {"blank": ZEROS}, margin=0.05)]},
    "confidence.resampling.compute_percentiles": {"means": np.array(ONES), "confidence_level": 0.9},
    "confidence.resampling.compute_sign_flipped_sums": {"differences": np.array(ONES), **DRAWS},
    "confidence.resampling.resample_means": {"sums": np.array(ONES), "sizes": np.ones(4), **DRAWS},
    "confidence.resampling.shuffle_differences": {"after": np.array(ONES), "before": np.array(ZEROS), **DRAWS},
    "confidence.score.bootstrap_mean": {"values": ONES, "groups": GROUPS, **BOOTSTRAP, "bounds": (0, 1), "few": 1},
    "confidence.score.permutation_test": {**PAIRED, "alternative": "less", "permutation": "paired"},
    "confidence.score.score_values": {
        "predictions": ONES, "groups": GROUPS, "baseline": ZEROS, **BOOTSTRAP, "n_permutations": 5,
        "alternative": "less", "permutation": "paired", "bounds": (0, 1),
    },
    "confidence.score.select_known_pairs": {"after": ONES, "before": ZEROS, "groups": GROUPS},
    "confidence.wilson_difference.compute_wilson_difference": {
        "after": np.array(ONES), "before": np.array(ZEROS), "labels": np.arange(4), "confidence_level": 0.9,
    },
    "confidence.wilson_difference.compute_few_differing_interval": {
        "after": np.array(ONES), "before": np.array(ZEROS), "labels": np.arange(4), "confidence_level": 0.9,
    },
    "ivt.score.instrument_scores": {
        "predicted": [{"hook"}], "gold": [{"hook"}], "classes": ["hook"], "outcomes": ["answered"], "groups": ["a"],
    },
    "ivt.score.triplet_coverage": {"predicted": [[17]], "gold": [[17]], "groups": ["a"]},
    "ivt.score.score_instruments": {
        "predictions": ["hook"], "references": [{"classes": ["hook"], "video": "v"}], "classes": ["hook"], **BOOTSTRAP,
        "per_sample": True,
    },
    "ivt.score.score_triplets": {
        "predictions": SCORES, "references": [{"triplets": ["grasper,retract,gallbladder"], "video": "v"}] * 2, "k": 2,
        "ignore_null": True, **BOOTSTRAP, "per_sample": True,
    },
    "ivt.triplets.triplet_ap": {
        "scores": SCORES, "gold": GOLD, "videos": ["a", "b"], "ignore_null": True,
        "components": importlib.import_module("medfaith.evaluate_metrics.reading.surgical_names").COMPONENTS,
    },
    "ivt.triplets.average_precision": {"scores": np.array(ONES), "gold": np.array(ZEROS)},
    "ivt.triplets.top_k": {"scores": SCORES, "k": 2},
    "ivt.triplets.class_name": {"component": "i", "number": 0},
    "ivt.triplets.require_table": {"values": SCORES, "name": "scores", "width": 100},
    "localization.input_view.window": {"size": (9, 9)},
    "localization.input_view.mask": {"boxes": [[0, 0, 2, 2]], "size": (9, 9)},
    "localization.input_view.scores": {
        "grid": MAP, "size": (9, 9), "grid_window": [0, 0, 9, 9], "upsampling": "nearest",
    },
    "localization.pairs.summarise": {"rows": [ROW], "subset": "all", **BOOTSTRAP},
    "localization.pairs.deltas": {"rows": [ROW], **BOOTSTRAP},
    "localization.pairs.candidate_accuracy": {"rows": [ROW], "perturbation": "random_sentences", **BOOTSTRAP},
    "localization.pairs.correlations": {"rows": [ROW], "names": ["auroc", "entropy"]},
    "localization.pairs.pairs": {"rows": [ROW]},
    "localization.predictions.score_predictions": {
        "predictions": [ATTENTION], "references": [SENTENCE], "upsampling": "nearest", "precision_ties": "excluded",
        "kl_no_attn": True, **BOOTSTRAP, "per_sample": True,
    },
    "localization.ranking.names": {"tops": (5, 10)},
    "localization.ranking.localization": {
        "scores": np.array([[0.0, 1.0]]), "labels": np.array([[True, False]]), "tops": (50,),
        "precision_ties": "excluded",
    },
    "localization.score.score_row": {
        "grid": MAP, "window": [0, 0, 9, 9], "size": (9, 9), "boxes": [[0, 0, 4, 4]], "upsampling": "nearest",
        "precision_ties": "excluded", "name": "row 1",
    },
    "localization.score.distribution": {"grid": MAP},
    "localization.score.entropy": {"grid": MAP},
    "localization.score.no_attn": {"grid": MAP},
    "localization.score.compute_symmetric_kl": {"grid": MAP, "other_grid": MAP, "kl_no_attn": True},
    "mask_overlap.masks.decode_mask": {"mask": MASK, "size": (2, 2), "name": "row 1"},
    "mask_overlap.masks.require_mask": {"mask": MASK, "name": "row 1"},
    "mask_overlap.score.score_predictions": {
        "predictions": [MASK], "references": [MASK], "ids": ["row 1"], "per_sample": True,
    },
    "medvqa_f1.score.score_predictions": {
        "predictions": ["Yes", "Edema"], "references": [CLOSED, OPEN], "labels": [None, ["Edema"]],
        "questions": ["Is there edema?", "What is there?"], "vocabulary": ["Edema"], **BOOTSTRAP, "per_sample": True,
    },
    "medvqa_f1.score.closed_scores": {"outcomes": ["yes"], "answers": ["yes"], "groups": ["a"]},
    "medvqa_f1.score.open_scores": {
        "extractions": [Extraction(frozenset({"Edema"}), "answered")], "diseases": [["Edema"]], "groups": ["a"],
    },
    "polarity.errors.can_err": {"kind": "reversal", "polarity": ["presence"], "negated": [1], "answer": [0]},
    "polarity.errors.is_error": {
        "kind": "reversal", "choice": [1], "polarity": ["presence"], "negated": [1], "answer": [0],
    },
    "polarity.errors.chose_negated": {"choice": [1], "negated": [1]},
    "polarity.errors.is_from_prose": {"evidence": ["letter"]},
    "polarity.fallback.read_packet": {"text": "B", "options": ["Edema", "No edema"], "cut": True},
    "polarity.fallback.read_confidence": {"stated": 0.5},
    "polarity.fallback.fall_back": {"response": read_packet("B", ["Edema", "No edema"]), "below": 0.8, "margin": 0.03},
    "polarity.location.verify_location": {"question": "Which?", "options": ["Left", "Right"], "choice": 0},
    "polarity.option_scores.stack_options": {"ids": ["row 1"], "options": [0], "values": [1.0]},
    "polarity.option_scores.predicted": {"scores": [[1.0, 2.0]]},
    "polarity.option_scores.polarity_gap": PAIR,
    "polarity.option_scores.concept_difference": {"contexts": [[1.0, 2.0]], "continued": [[1.0, 2.0]]},
    "polarity.option_scores.subsets": {**PAIR, "answer": [0], "predictions": [1]},
    "polarity.option_scores.gap_summary": {**PAIR, "answer": [0], "predictions": [1]},
    "polarity.option_scores.state_similarity": {"states": [[[1.0], [2.0]]], "negated": [1], "counterpart": [0]},
    "polarity.score.score_predictions": {
        "predictions": ["B"], "references": [QUESTION], "trigger": "extended", "replacement": "slot0",
        "verify_prose": True, "per_sample": True,
    },
    "polarity.score.check_references": {"references": [QUESTION]},
    "polarity.score.polarity_scores": {"samples": SAMPLES},
    "polarity.score.scores_by_finding": {"samples": SAMPLES},
    "polarity.verifier.verify": {
        "question": "Which finding is present?", "options": ["Edema", "No edema"], "choice": 1, "trigger": "extended",
        "replacement": "slot0",
    },
    "polarity.verifier.verify_answer": {
        "question": "Which finding is present?", "options": ["Edema", "No edema"], "answer": Answer(1, "answered"),
        "trigger": "extended", "replacement": "slot0", "verify_prose": True,
    },
    "ras.levels.parsed": {"text": TRIPLET, "name": "row 1"},
    "ras.levels.is_null": {"triplet": ("a", "b", "c")},
    "ras.levels.match": {"gold": ("a", "b", "c"), "predictions": [("a", "b", "c")]},
    "ras.score.ras": {
        "maps": [MAP], "instrument_boxes": [[[0, 0, 2, 2]]], "all_boxes": [[[0, 0, 2, 2]]],
        "motion": np.ones((1, 2, 2), dtype=bool), "top_fraction": 0.5, "ids": ["row 1"],
    },
    "ras.score.score_frame": {
        "maps": [MAP], "predictions": [TRIPLET], "gold": [TRIPLET], "boxes": [BOX],
        "motion": np.ones((2, 2), dtype=bool), "video": "v", "top_k": 1, "top_fraction": 0.5, "name": "row 1",
    },
    "ras.score.summarise": {"records": [RAS_RECORD], "null_triplets": True, **BOOTSTRAP},
    "ras.score.score_predictions": {
        "predictions": [{"triplets": [TRIPLET], "maps": [MAP]}],
        "references": [FRAME | {"triplets": [TRIPLET], "motion": MASK}],
        "top_k": 1, "top_fraction": 0.5, "null_triplets": True, **BOOTSTRAP, "ids": ["row 1"], "per_sample": True,
    },
    "tpt.perturbation.score_sensitivity": {
        "name": "tpt", "kinds": ["anatomy"], "predictions": ["Yes"], "references": [ORIGINAL], "questions": ["Is it?"],
    },
    "tpt.perturbation.score_sensitivity_of_outcomes": {
        "name": "tpt", "kinds": ["anatomy"], "outcomes": ["yes"], "references": [ORIGINAL], **BOOTSTRAP,
        "per_sample": True,
    },
    "tpt.score.score_predictions": {"predictions": ["Yes"], "references": [ORIGINAL]},
    "tpt.score.score_outcomes": {"outcomes": ["yes"], "references": [ORIGINAL]},
    "vpt.score.score_predictions": {"predictions": ["Yes"], "references": [ORIGINAL]},
    "vpt.score.score_outcomes": {"outcomes": ["yes"], "references": [ORIGINAL]},
}  # fmt: skip


def iter_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Iterate over the public functions of all metrics, found by their files, with their names."""
    for path in sorted(ROOM.glob("*/*.py")):
        if path.parent.name in INNER or path.stem in {"__init__", path.parent.name}:
            continue
        module = importlib.import_module(f"medfaith.evaluate_metrics.{path.parent.name}.{path.stem}")
        for name, function in vars(module).items():
            if inspect.isfunction(function) and not name.startswith("_") and function.__module__ == module.__name__:
                yield f"{path.parent.name}.{path.stem}.{name}", function
