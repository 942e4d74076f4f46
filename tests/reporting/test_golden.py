"""Whole reports equal golden files: one set of logs for each benchmark, one for the sections that combine benchmarks.

The golden files are no oracle. Tests next to this one derive values by hand, from the papers or from other libraries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medfaith.annotate.answers import ErrorJudgement, open_answers
from medfaith.extractor import Extractor
from medfaith.reporting.benchmark import ReportSources
from medfaith.tasks.wrong_lung.adapter import packed
from tests.support.annotate.annotator_answers import judgement, write
from tests.support.declined import CANNOT_TELL
from tests.support.reporting.golden import compare_with_golden
from tests.support.reporting.heal_logs import CLOSED, OPEN, TPT_PAIRS, VPT_PAIRS, as_mimic, write_heal
from tests.support.reporting.option_score_logs import SCORES, write_scores, write_states
from tests.support.reporting.own_logs import CHOICES, OPENED, write_own
from tests.support.reporting.own_logs import CLOSED as OWN_CLOSED
from tests.support.reporting.report_logs import answered, change_lines, question, write_log
from tests.support.reporting.surgx_logs import ACTIONS, FRAMES, add_boxes, instruments, look, triplets, write_surgx
from tests.support.reporting.wrong_lung_logs import NAMES, changed, original, write_wrong_lung

pytest.importorskip("matplotlib")  # without it no figure is listed, and a note says so
pytestmark = pytest.mark.usefixtures("tables_only")

OLD = "2026-01-01T00-00-00"
GPU = "NVIDIA A100"


def answer_findings(protocol: str, *counts: int, **columns: Any) -> list[tuple[dict[str, Any], str]]:
    """Build answers about edema, as many about a pneumothorax, a declined one and one read from sentences."""
    return [
        *answered(protocol, *counts, unread=1, **columns),
        *answered(protocol, *counts, finding="pneumothorax", **columns),
        (question(protocol, 90, **columns), CANNOT_TELL),
        (question(protocol, 91, **columns), "There is no edema."),
    ]


def hide_images(samples: Sequence[tuple[dict[str, Any], Any]]) -> list[tuple[dict[str, Any], Any]]:
    """Name the control of answers without an image, as tasks do."""
    return [(doc | {"prompt": "b0, blank", "control": "blank"}, answer) for doc, answer in samples]


def write_contrabench(folder: Path) -> ReportSources:
    """Every protocol, prompt, layout and wording, an adapter, a control, slices, packets and option scores."""
    cued = {"cue": "no evidence of"}
    for model, counts in (("org/a", (8, 3, 3)), ("MedGemma", (8, 1, 5))):
        run = folder / model
        for protocol in ("chexpert_presence", "chexpert_absence", "openi_report_absence"):
            write_log(run, model, answer_findings(protocol, *counts, drift=1, shared=1, **cued))
        for prompt in ("cot", "instruct", "3shot"):
            for protocol in ("chexpert_presence", "chexpert_absence"):
                fewer = answered(protocol, 8, 2, 2 + len(prompt) % 3, prompt=prompt)
                write_log(run, model, fewer, task=f"{protocol}_{prompt}")
    run = folder / "a"
    form = {"options": ["Edema", "Fracture", "Pneumonia"], "negated": -1, "negation_form": "none"}
    controls = [(question("chexpert_positive_only", n, **form), "AB"[n % 2]) for n in range(6)]
    write_log(run, "org/a", controls)
    write_log(run, "org/a", answered("chexpert_absence", 9, 2, 5, drift=2, split="train"), task="train")
    for side in ("presence", "absence"):
        write_log(run, "org/a", answer_findings(f"openi_chexstruct_{side}", 7, 2, 3, shared=2))
        for column, form in (("layout", "original"), ("negation_form", "absence_of"), ("question_form", "p1")):
            answers = answered(f"chexpert_{side}", 6, 2, 3, **{column: form})
            write_log(run, "org/a", answers, task=f"{side}_{form}")
            write_log(folder / "b", "MedGemma", answers[:5], task=f"{side}_{form}", n_data=9)
    tuned = {"pretrained": "org/a", "peft": "lora-r16"}
    for protocol in ("chexpert_presence", "chexpert_absence"):
        write_log(folder / "tuned", "", answered(protocol, 6, 4, 1), model_args=tuned)
    for name, n in (("1k", 6), ("5k", 7), ("10k_s1", 5), ("10k_s2", 4)):
        columns: dict[str, Any] = {"question": "Which is absent?", "polarity": "absence", "layout": "source"}
        answers = answered(f"rexvqa_{name}", n, 1, 2, cue="absent", **columns)
        answers += [(doc | {"id": f"{doc['id']}/plain", "cue": ""}, text) for doc, text in answers[:3]]
        filters = ("b0", "m1", "m2") if name == "5k" else ("b0", "m1")
        write_log(run, "org/a", answers, task=f"rexvqa_{name}", filters=filters)
    packets = [
        (question("chexpert_presence", n, prompt="packet"), json.dumps({"answer": letter, "confidence": sure}))
        for n, (letter, sure) in enumerate([("A", 0.95), ("B", "45%"), ("C", None), ("A", 0.5), ("A", 1)])
    ]
    write_log(run, "org/a", packets, task="packet", filters=("packet_b0", "packet_m1", "y0"))
    write_log(folder / "old", "org/a", answered("chexpert_presence", 4, 1, 1), date=OLD)
    blind = hide_images(answered("chexpert_presence", 5, 5, 0))
    write_log(folder / "blind", "org/a", blind, filters=("b0",), control="blank")
    write_log(folder / "few", "few", answered("chexpert_absence", 5, 2, 1), n_data=9)
    write_log(folder / "first", "few", answered("chexpert_absence", 4, 2, 1, images_shown="first"), task="first")
    wordings = answered("chexpert_absence", 4, 1, 1, prompt="b0, wording 1, other")
    write_log(folder / "wording", "few", wordings, task="wording")
    for reading in ({"outcome": "parsed", "choice": 1}, {"outcome": "ambiguous", "choice": None}):
        early = {"verifier": "not_applied", "before": reading["choice"], **reading}
        one = [(question("chexpert_absence", 0), "B")]
        model = f"early, {reading['outcome']}"
        write_log(folder / model, model, one, filters=(), readings_by_filter={"b0": [early], "m1": [early]})
    write_states(folder / "scores" / "states.npz", SCORES)
    write_scores(folder / "scores", SCORES, model_args={"pretrained": "org/a", "states_path": "states.npz"}, n_data=6)
    write_scores(folder / "unpaired", [row[:3] for row in SCORES], columns={"layout": "original", "counterpart": -1})
    kinds = [("reversal", "rule"), ("reversal", "image"), ("distractor", "image"), ("unread", "nothing")]
    with open_answers(folder / "errors.jsonl") as (answers_file, _):
        for n, (category, fix) in enumerate(kinds):
            answers_file.judge_error(ErrorJudgement("ann", "task", f"row{n}", "org/a", category, fix, 1.0, "0"))
    return ReportSources([folder / "errors.jsonl"])


def write_heal_medvqa(folder: Path) -> ReportSources:
    """Both sources and all kinds of questions, regions, another prompt, a limit and a control."""
    for ask, answers in (("closed", CLOSED), ("open", OPEN), ("tpt", TPT_PAIRS), ("vpt", VPT_PAIRS)):
        write_heal(folder / "a", ask, answers, model="org/a", n_data=12 if ask == "closed" else None)
        write_heal(folder / "a", ask, as_mimic(answers[:3]), model="org/a")
    declining = [(doc, CANNOT_TELL if text == "No" else text) for doc, text in CLOSED]
    write_heal(folder / "b", "closed", declining, model="b | c")
    dice = [0.1, 1.0, 0.2, float("nan"), 0.8, 0.81, None, 0.19, 0.0, 0.05]
    lungs = [(doc | {"anatomy": "left lung" if n % 2 else "heart"}, text) for n, (doc, text) in enumerate(CLOSED)]
    write_heal(folder / "located", "closed", lungs, dice=dice, model="located")
    write_heal(folder / "located", "open", OPEN, dice=[0.5, None, 0.5, None], model="located")
    relevancy = {
        "image": 0.25,
        "text": 0.75,
        "image_peak": 0.2,
        "text_peak": 0.5,
        "tokens": [[" lung", 0.5], ["?", 0.25]],
    }
    replies = [json.dumps({"text": text, "heatmaps": "0/0", "relevancy": relevancy}) for _, text in CLOSED[:5]]
    with_relevancy = [(doc, reply) for (doc, _), reply in zip(CLOSED, replies, strict=False)]
    write_heal(folder / "relevant", "closed", with_relevancy, model="relevant")
    write_heal(folder / "cot", "closed", [(doc | {"prompt": "cot"}, text) for doc, text in CLOSED], model="b | c")
    write_heal(folder / "blank", "vpt", hide_images(VPT_PAIRS), model="org/a", control="blank")
    write_heal(folder / "old", "closed", CLOSED, model="org/a", date=OLD)
    return ReportSources()


def write_surgxbench(folder: Path) -> ReportSources:
    """Frames, and triplets of two sources, with boxes, ties, ranks and occlusions."""
    boxed = [add_boxes(FRAMES[0], ("grasper", 0.5)), add_boxes(FRAMES[1], ("grasper", 1), ("hook", 0.25))]
    more = [instruments(9, ["hook"], [look("hook", "tp", 0.5, 1.0), look("clipper", "fp", 0.0, 0.375)], video=43)]
    write_surgx(folder / "a", [*boxed, *FRAMES[2:], *more], model="org/a", n_data=9)
    write_surgx(folder / "a", ACTIONS, model="org/a")
    tied, *others = FRAMES
    declined = [(doc, row | {"outcome": "declined"} if row["predicted"] is None else row) for doc, row in others]
    write_surgx(folder / "b", [(tied[0], tied[1] | {"outcome": "tied"}), *declined], model="b | c")
    ranked = [triplets(n, row["predicted"], row["seen"], source="cholect50", scores=np.eye(100)[n + 5].tolist())
              for n, (_, row) in enumerate(ACTIONS)]  # fmt: skip
    write_surgx(folder / "b", ranked, model="b | c")
    occluded = [(doc | {"occlude": True}, row) for doc, row in ACTIONS]
    write_surgx(folder / "a", occluded, model="org/a", row_field="lost", task="medfaith_surgx_occlusion")
    write_surgx(folder / "blank", hide_images(FRAMES[:2]), model="org/a", control="blank")
    write_surgx(folder / "old", FRAMES[:2], model="org/a", date=OLD)
    return ReportSources()


def write_wrong_lung_logs(folder: Path) -> ReportSources:
    """Gold and all kinds of changed sentences, two scorings, undefined values, attention and people's judgements."""
    random = np.random.default_rng(7)
    flags = ("abnormal one_lung", "mdrb", "abnormal", "", "abnormal mdrb")
    gold = []
    for number in range(10):
        values = {name: round(float(random.uniform()), 3) for name in (*NAMES[:-1], "overall")}
        values |= {"precision_5": None} if number % 3 else {}
        state = {3: "without_map", 6: "degenerate"}.get(number, "scored")
        known = values if state == "scored" else {name: values[name] for name in ("local", "overall")}
        gold.append(original(number, f"p{number // 3}", flags[number % 5], state=state, **known))
    gold = [row | {"attention": packed(random.dirichlet(np.ones(12)).reshape(3, 4))} for row in gold]
    reply = {"heatmaps": "a/{id}", "relevancy": {"image": 0.5, "text": 0.5, "image_peak": 0.1, "text_peak": 0.2}}
    write_wrong_lung(folder / "a", "gold", gold, model="org/a", n_data=12, reply=json.dumps(reply))
    configs = ("swap_left_right", "shuffle_in_report", "random_sentences", "random_boxes",
               "synthetic_swapped_conditions", "synthetic", "trimmed")  # fmt: skip
    for place, config in enumerate(configs):
        pairs = []
        for row in gold[: 9 - place]:
            kept = {name: value for name, value in row["values"].items() if value is not None}
            new = {name: round(value * (0.3 + place / 10), 3) for name, value in kept.items()}
            attention = {"attention": packed(random.dirichlet(np.ones(12)).reshape(3, 4))}
            pairs += [row, changed(row, config, state=row["state"], **new) | attention]
        write_wrong_lung(folder / "a", config, pairs, model="org/a", n_rows_skipped=place)
        if place % 2:
            write_wrong_lung(folder / "b", config, pairs[:6], model="b | c", upsampling="nearest")
    write_wrong_lung(folder / "held-out", "gold", gold[:4], model="org/a", n_rows_left_out=6)
    log = write_wrong_lung(folder / "early", "gold", gold[:4], model="early")
    change_lines(log, lambda lines: [line.replace(', "precision_ties": "included"', "") for line in lines])
    write_wrong_lung(folder / "c", "gold", gold[:3], model="b | c", upsampling="nearest", precision_ties="excluded")
    write_wrong_lung(folder / "old", "gold", gold[:2], model="org/a", date=OLD)
    records = [
        judgement(n, annotator=annotator, row_id=gold[n]["id"], patient_id=gold[n]["cluster"], model="org/a",
                  heatmaps=f"a/{gold[n]['id']}", recall=1 + n % 5, precision=1 + (n + shift) % 4)
        for shift, annotator in enumerate(("ann", "other")) for n in range(8 - shift)
    ]  # fmt: skip
    custom = judgement(20, annotator="other", row_id=None, custom=True, model="org/a")
    for annotator in ("ann", "other"):
        write(folder / f"{annotator}.jsonl", *(r for r in [*records, custom] if r.annotator == annotator))
    return ReportSources([folder / "ann.jsonl", folder / "other.jsonl"])


def write_own_questions(folder: Path) -> ReportSources:
    """All kinds of questions of two data sets, another prompt, a limit, patients with two questions and a control."""
    shared = [(doc | {"patient_id": f"p{n // 2}"}, text) for n, (doc, text) in enumerate(OWN_CLOSED)]
    other = [(doc | {"id": doc["id"].replace("own/test", "other/train")}, text) for doc, text in CHOICES[:3]]
    skipped = [(doc | {"n_rows_skipped": 2}, text) for doc, text in OPENED]
    for answers, n_data in ((shared, 12), (CHOICES, None), (other, None), (skipped, None)):
        task = f"own_{answers[0][0]['id'].replace('/', '_')}"
        write_own(folder / "a", answers, model="org/a", task=task, n_data=n_data)
    write_own(folder / "a", [(doc | {"prompt": "cot"}, text) for doc, text in OWN_CLOSED], model="org/a", task="cot")
    write_own(folder / "b", OWN_CLOSED, model="b | c")
    write_own(folder / "blank", hide_images(CHOICES), model="org/a", control="blank")
    write_own(folder / "old", CHOICES[:4], model="org/a", date=OLD)
    return ReportSources()


def read_again(messages: Sequence[Any]) -> Sequence[str]:
    """Reply for a language model: the answer's first letter or word, and the same diseases to all open questions."""
    texts = [message[-1]["content"] for message in messages]
    answers = [text.split("Answer: ")[1].removesuffix("\nReply:") for text in texts]
    return [
        answer.split(".")[0] if text.startswith("Question: ") else '["Edema"]'
        for text, answer in zip(texts, answers, strict=True)
    ]


def write_combined(folder: Path) -> ReportSources:
    """Two models on all benchmarks, decoders with their controls and costs, and answers that are read twice."""
    for model, shift in (("org/a", 0), ("org/b", 2)):
        run = folder / model[-1]
        write_log(run, model, answered("chexpert_presence", 12, 4 + shift, 5 - shift, unread=1))
        work = {"answers": 4, "seconds": 2.0 + shift, "peak_memory": 1000.0, "on": GPU}
        config = {"batch_size": 8, "work": work}
        replies = [(doc, "Yes" if shift and place % 3 else text) for place, (doc, text) in enumerate(CLOSED)]
        write_heal(run, "closed", replies, model=model, config=config)
        write_heal(run, "open", OPEN, model=model, config=config)
        write_heal(run, "tpt", TPT_PAIRS, model=model, config=config)
        write_surgx(run, FRAMES, model=model)
        rows = [original(n, f"p{n}", "abnormal", auroc=(n + 1 + shift) / 8) for n in range(4)]
        write_wrong_lung(run, "gold", rows, model=model)
    arguments: list[dict[str, Any]] = [
        {"decoding": "greedy", "regions": "/data/masks"}, {"decoding": "vcd", "alpha": 2}, {"decoding": "crg"},
        {"decoding": "yes_bias", "yes_share": 0.45}, {"decoding": "greedy", "regions": "loba:/x/loba"},
        {"decoding": "loba", "weight": 0.5}, {"decoding": "loba", "weight": 4},
    ]  # fmt: skip
    for n, argument in enumerate(arguments):
        answers = [(doc, "Yes" if (place * 7 + n) % 5 > 1 else "No") for place, (doc, _) in enumerate(CLOSED)]
        work = {"answers": 2, "seconds": 1.5 + n, "peak_memory": 1500.0 if n % 2 else None, "on": GPU}
        write_heal(
            folder / f"decoder{n}", "closed", answers, model_args={"pretrained": "org/a"} | argument,
            config={"batch_size": 8, "work": work},
        )  # fmt: skip
    return ReportSources(extractor=Extractor("llama", read_again))


SCENES: dict[str, Callable[[Path], ReportSources]] = {
    "contrabench": write_contrabench,
    "heal": write_heal_medvqa,
    "surgx": write_surgxbench,
    "wrong_lung": write_wrong_lung_logs,
    "own": write_own_questions,
    "combined": write_combined,
}


@pytest.mark.parametrize("name", SCENES)
def test_a_report_equals_its_golden_files(name, tmp_path, pytestconfig):
    sources = SCENES[name](tmp_path / "logs")
    paths = [tmp_path / "logs"]
    if name == "combined":  # each model is compared with the first
        paths = sorted((tmp_path / "logs").iterdir())
    compare_with_golden(
        name, paths, sources=sources, compared=name == "combined", out=tmp_path / "out",
        update=pytestconfig.getoption("--update-golden"),
    )  # fmt: skip
