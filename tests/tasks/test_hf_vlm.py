"""Image-conditioned option scores equal a plain forward pass of transformers, and each image is encoded once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers
from lm_eval.api.instance import Instance

from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench.questions import Wording
from medfaith.cli import main
from medfaith.evaluate_metrics.polarity.option_scores import concept_difference, gap_summary
from medfaith.loaders.errors import InputError
from medfaith.tasks.contrabench.option_scores import choices, concept_texts
from medfaith.tasks.lazy_images import LazyImages
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from tests.support.builders.files import root_words
from tests.support.reporting.report_logs import rows_of, write_report
from tests.support.tasks.asking import asked, noise, scored
from tests.support.tasks.evaluating import results_of, samples_of
from tests.support.tasks.tiny_models import PLACEHOLDER

OPTIONS = [" No edema", " Edema", " Consolidation of the left lower lobe", " A", " Pleural effusion,\nsmall"]
CONTEXTS = [  # (prompt, image sizes); white space at the end moves to the continuation
    ("<image>\nWhich of the following findings is present?\nANSWER:", [(60, 90)]),
    ("<image><image>\nWhich finding is absent? ", [(100, 40), (64, 64)]),
    ("First <image> then <image> and <image>, which one?\n", [(30, 30), (200, 57), (56, 112)]),
    ("<image>Edema?", [(84, 84)]),
    ("<image>\nWhich of the following findings is present?\nANSWER:", [(90, 60)]),  # same text, different image
]


NONE = LazyImages("r7", [], {})  # images of a row under the control `none`


def test_prompts_without_any_image_are_answered_as_transformers_does(vlms):
    lm: Any = HFVisionLM(str(vlms["llava"]), dtype="float32", device="cpu", batch_size=2)
    prompts = ["Which of the following findings is present?", "Edema?"]
    expected = []
    for prompt in prompts:
        encoded = lm.tokenizer(prompt, return_tensors="pt")
        tokens = lm.model.generate(**encoded, max_new_tokens=4, do_sample=False)[0, encoded["input_ids"].shape[1] :]
        expected.append(lm.tokenizer.decode(tokens, skip_special_tokens=True))
    assert lm.generate_until([asked(prompt, NONE, max_gen_toks=4) for prompt in prompts]) == expected


def apply_template(lm: Any, prompt: str) -> str:
    return lm.apply_chat_template([{"role": "user", "content": prompt}])


def build_requests(lm: Any | None = None) -> list[Instance]:
    """Build a request for every option after every context, in the chat template of `lm` if one is given."""
    requests = []
    for number, (prompt, sizes) in enumerate(CONTEXTS):
        images = [noise(size, seed) for seed, size in enumerate(sizes, start=10 * number)]
        context = apply_template(lm, prompt) if lm else prompt
        requests += [scored(context, option, images, number, i) for i, option in enumerate(OPTIONS)]
    return requests


# For the others, and Qwen2.5-VL in the regular run, see test_families.py.
@pytest.fixture(scope="module", params=["llava", pytest.param("qwen2_5_vl", marks=pytest.mark.full)])
def folder(request: pytest.FixtureRequest, vlms: dict[str, Path]) -> Path:
    return vlms[request.param]


def load(folder: Path, batch_size: int = 8, chat: bool = False, **arguments: Any) -> Any:
    if not chat:
        arguments["image_string"] = PLACEHOLDER[folder.name]
    return HFVisionLM(str(folder), dtype="float32", device="cpu", batch_size=batch_size, **arguments)


class Direct:
    """Reference implementation for one request: processor, forward pass and gather of transformers."""

    def __init__(self, folder: Path) -> None:
        self.processor = transformers.AutoProcessor.from_pretrained(folder)
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        self.image_token = PLACEHOLDER[folder.name]

    def __call__(self, request: Instance) -> tuple[float, bool, np.ndarray]:
        context, continuation, extra = cast(Any, request.args)
        context = context.replace("<image>", self.image_token)
        inputs = self.processor(text=context + continuation, images=extra["visual"], return_tensors="pt")
        prompt = self.processor(text=context.rstrip(), images=extra["visual"], return_tensors="pt")
        with torch.no_grad():
            output = self.model(**inputs, output_hidden_states=True)
        start = prompt["input_ids"].shape[1]
        tokens = inputs["input_ids"][0, start:]
        logits = output.logits[0, start - 1 : -1].double()
        score = torch.log_softmax(logits, -1)[range(len(tokens)), tokens].sum()
        return float(score), bool((logits.argmax(-1) == tokens).all()), output.hidden_states[-1][0, -1].numpy()


@pytest.fixture(scope="module")
def reference(folder: Path) -> Direct:
    return Direct(folder)


@pytest.fixture(scope="module")
def direct(folder: Path, reference: Direct) -> dict[bool, list[tuple[float, bool, np.ndarray]]]:
    """Reference results of every request, without and with a chat template."""
    return {
        chat: [reference(request) for request in build_requests(load(folder, chat=chat) if chat else None)]
        for chat in (False, True)
    }


@pytest.mark.parametrize(("batch_size", "chat"), [pytest.param(1, False, marks=pytest.mark.full), (3, True)])
def test_scores_and_states_are_those_of_a_forward_pass_of_each_text_alone(folder, direct, batch_size, chat):
    """The order of the requests does not matter."""
    lm = load(folder, batch_size, chat)
    requests = build_requests(lm if chat else None)
    order = random.Random(batch_size).sample(range(len(requests)), len(requests))
    expected = [direct[chat][number] for number in order]
    scores = lm.loglikelihood([requests[number] for number in order], disable_tqdm=True)
    np.testing.assert_allclose([s for s, _ in scores], [s for s, _, _ in expected], atol=1e-4)
    assert [greedy for _, greedy in scores] == [greedy for _, greedy, _ in expected]
    np.testing.assert_allclose(lm.compute_option_states(requests), [state for _, _, state in direct[chat]], atol=1e-4)
    assert len({round(s, 4) for s, _ in scores}) == len(scores)  # the image matters, even for equal texts


@pytest.mark.parametrize(
    ("prompt", "continuation"),
    [
        ("<image> Which of the fol", "lowing findings present"),
        ("<image> A", "nswer with the letter"),
        ("<image>", "No"),
    ],
)
def test_a_continuation_may_change_the_tokens_at_the_prompts_end(folder, reference, prompt, continuation):
    request = scored(prompt, continuation, [noise()])
    ((score, _),) = load(folder).loglikelihood([request], disable_tqdm=True)
    assert score == pytest.approx(reference(request)[0], abs=1e-4)


def test_scores_of_a_model_whose_probabilities_are_known(folder):
    lm = load(folder)
    (token,) = lm.tokenizer("?")["input_ids"]
    vocabulary = lm.model.lm_head.out_features
    lm.model.lm_head = head = torch.nn.Linear(lm.model.lm_head.in_features, vocabulary)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    head.bias.data[token] = 2.0  # "?" has probability e^2 / (e^2 + V - 1) everywhere, all else 1 / (e^2 + V - 1)
    requests = [scored("<image> Edema?", option, [noise()], index=i) for i, option in enumerate(("??", "?!", "!"))]
    scores = lm.loglikelihood(requests, disable_tqdm=True)
    total = np.log(np.exp(2.0) + vocabulary - 1)
    assert [score for score, _ in scores] == pytest.approx([4 - 2 * total, 2 - 2 * total, -total], abs=1e-5)
    assert [greedy for _, greedy in scores] == [True, False, False]


@pytest.mark.parametrize(
    ("options", "chat"),
    [(["Edema", "No edema"], False), (["No evidence of pleural effusion", "Pleural effusion"], True)],
    ids=["plain", "chat"],
)
def test_the_concept_difference_is_that_of_forward_passes_after_each_context(folder, reference, options, chat):
    """Four scores and the chain rule equal one forward pass per context that scores only the finding."""
    lm = load(folder, chat=chat)
    negated = 0 if options[0].startswith("No") else 1
    texts = concept_texts({"options": options, "negated": negated, "counterpart": 1 - negated})
    prompt, images = "<image>\nWhich finding is present?", [noise((60, 90))]
    context, delimiter = (apply_template(lm, prompt), "") if chat else (prompt, " ")
    requests = [scored(context, delimiter + text, images, index=i) for i, text in enumerate(texts)]
    scores = [score for score, _ in lm.loglikelihood(requests, disable_tqdm=True)]
    conditional = []
    for beginning, full_text in zip(texts[:2], texts[2:], strict=True):
        before, finding = context + delimiter + beginning, full_text.removeprefix(beginning)
        tokens = lm.tokenizer(before)["input_ids"]
        assert lm.tokenizer(before + finding)["input_ids"][: len(tokens)] == tokens
        conditional.append(reference(scored(before, finding, images))[0])
    assert concept_difference([scores[:2]], [scores[2:]])[0] == pytest.approx(conditional[1] - conditional[0], abs=1e-4)


@pytest.mark.parametrize("max_images", [0, 1, 2])
def test_a_generation_request_whose_images_would_be_cut_is_refused(vlms, max_images):
    """hf-multimodal would drop the last images, which belong to the question."""
    lm = load(vlms["llava"], max_images=max_images)
    images = [noise(seed=seed) for seed in range(2)]
    request = asked("<image>Edema?\nAnswer: A\n<image>Nodule?", images, max_gen_toks=2)
    if max_images == 2:
        assert len(lm.generate_until([request], disable_tqdm=True)) == 1
        return
    message = rf"task, row row 0: has 2 images.*max_images={max_images}(.|\n)*max_images=2 or more"
    with pytest.raises(InputError, match=message):
        lm.generate_until([request], disable_tqdm=True)


def test_a_prompt_that_leaves_no_room_for_its_answer_is_refused(vlms):
    """hf-multimodal would cut its beginning, such as the instruction, without a word."""
    lm = load(vlms["llava"], max_length=60)
    texts = "<image>Edema?", "Say A, B, C, D or E, and no more than that. <image>Edema?"
    short, long = (asked(text, [noise()], number, max_gen_toks=20) for number, text in enumerate(texts))
    assert len(lm.generate_until([short], disable_tqdm=True)) == 1
    with pytest.raises(InputError, match=r"task, row row 1: \d\d tokens .* and 20 of an answer do not fit into 60"):
        lm.generate_until([short, long], disable_tqdm=True)
    longest = asked("<image>Edema?", [noise()], max_gen_toks=61)  # lm-eval would cut the first token
    with pytest.raises(InputError, match="and 61 of an answer do not fit into 60"):
        lm.generate_until([longest], disable_tqdm=True)


def test_an_image_that_the_processor_refuses_is_named_by_its_row(vlms):
    request = asked("<image>Edema?", [noise((1000, 4))], number=3, max_gen_toks=2)
    with pytest.raises(InputError, match=r"task, row row 3: .* an image of 1000 x 4 pixels \(absolute aspect ratio"):
        load(vlms["qwen2_5_vl"]).generate_until([request], disable_tqdm=True)


@pytest.mark.parametrize("batch_size", [pytest.param(1, marks=pytest.mark.full), 8])
def test_an_image_is_encoded_once_or_else_pixels_are_given_and_the_scores_are_the_same(folder, direct, batch_size):
    expected = [score for score, _, _ in direct[False]]
    for takes_features in (True, False):
        lm, calls = load(folder, batch_size), []
        lm._takes_features = takes_features and lm._takes_features
        encoder = getattr(lm.model.base_model, "vision_tower", None) or lm.model.base_model.visual
        encoder.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        scores = [score for score, _ in lm.loglikelihood(build_requests(), disable_tqdm=True)]
        np.testing.assert_allclose(scores, expected, atol=1e-4)
        assert len(calls) == len(CONTEXTS) * (1 if takes_features or batch_size == 8 else len(OPTIONS))


def test_text_only_requests_among_others_are_scored_as_text(folder, reference):
    """lm-eval's own method scores text tasks; ours scores rows whose images a control has removed."""
    lm, model = load(folder), reference.model
    without = scored("Is edema present?", " No", NONE)
    text_only = Instance("loglikelihood", {}, ("Is edema present?", " No"), 0)
    tokens = torch.tensor([lm.tokenizer("Is edema present? No")["input_ids"]])
    start = len(lm.tokenizer("Is edema present?")["input_ids"])
    with torch.no_grad():
        logits = model(tokens).logits[0, start - 1 : -1].log_softmax(-1)
    expected = float(logits[range(logits.shape[0]), tokens[0, start:]].sum())
    before, after = build_requests()[:2]
    requests = [before, text_only, without, after]
    (score_before, _), (score_text, _), (score_without, _), (score_after, _) = lm.loglikelihood(
        requests, disable_tqdm=True
    )
    assert [score_text, score_without] == pytest.approx([expected] * 2, abs=1e-4)
    assert [score_before, score_after] == pytest.approx(
        [s for s, _ in lm.loglikelihood([before, after], disable_tqdm=True)], abs=1e-5
    )


@pytest.mark.parametrize(
    ("prompt", "n_images", "chat"),
    [
        ("<image><image> Edema?", 1, True),
        ("<image> Edema?", 2, False),
        ("Edema?", 1, True),
        ("<image> Edema?", 0, False),
    ],
)
def test_placeholders_and_images_differ(folder, prompt, n_images, chat):
    lm = load(folder, chat=chat)
    request = scored(
        apply_template(lm, prompt) if chat else prompt, " No", [noise(seed=seed) for seed in range(n_images)]
    )
    message = rf"task, row row 0: .*{prompt.count('<image>')} image placeholders for {n_images} images"
    with pytest.raises(InputError, match=message):
        lm.loglikelihood([request])


def test_a_text_that_does_not_fit_and_a_continuation_without_tokens_are_errors(vlms):
    with pytest.raises(InputError, match="do not fit into 20"):
        load(vlms["llava"], max_length=20).loglikelihood(build_requests(), disable_tqdm=True)
    with pytest.raises(InputError, match="adds no token"):
        load(vlms["llava"]).loglikelihood([scored("<image> Edema?", "", [noise()])], disable_tqdm=True)


def test_states_are_stored_by_task_row_and_option(vlms, tmp_path):
    path = tmp_path / "new" / "states.npz"
    lm = load(vlms["llava"], states_path=str(path))
    requests = build_requests()
    lm.loglikelihood(requests[:3], disable_tqdm=True)
    lm.loglikelihood(requests[3:], disable_tqdm=True)  # lm-eval may call several times: states accumulate
    with np.load(path) as stored:
        assert stored["id"].tolist() == [request.doc["id"] for request in requests]
        assert stored["option"].tolist() == [request.idx for request in requests]
        assert set(stored["task"].tolist()) == {"task"}
        assert stored["state"].dtype == np.float32
        np.testing.assert_allclose(stored["state"], lm.compute_option_states(requests), atol=1e-5)
    assert [file.name for file in path.parent.iterdir()] == ["states.npz"]


GROUP = "medfaith_contrabench_option_scores"
COLUMNS = ("answer", "negated", "counterpart")


@pytest.mark.full  # another run
def test_lm_eval_scores_options_with_images(vlms, phantom_roots, tmp_path):
    """The group's log, hidden states and Figure 5 of the report agree with the functions and with each other.

    In the original layout the options are X, No X and the distractor.
    """
    states, out, data = tmp_path / "states.npz", tmp_path / "results", tmp_path / "data"
    configs = ("chexpert_presence", "openi_report_absence")
    cxr_contrabench.build(phantom_roots, data, configs=configs, options=Wording(layout="original"))
    command = [
        *("eval", "--data", str(data), *root_words(phantom_roots), "--output_path", str(out), "--log_samples"),
        *("--model_args", f"pretrained={vlms['qwen2_5_vl']},dtype=float32,max_length=2048,states_path={states}"),
        *("--model", "medfaith-hf-vlm", "--device", "cpu", "--apply_chat_template"),
        *("--tasks", GROUP, "--batch_size", "6", "--limit", "12"),
    ]
    assert main(command) == 0
    scores = results_of(out)
    samples = {task: samples_of(out, task) for task in ("chexpert_presence", "openi_report_absence")}
    assert any(len(sample["doc"]["images"].split()) > 1 for sample in samples["openi_report_absence"])
    scored_options = [
        (s["doc"]["id"], i) for task in samples.values() for s in task for i, _ in enumerate(choices(s["doc"]))
    ]
    with np.load(states) as stored:
        state_of = dict(zip(zip(stored["id"], stored["option"], strict=True), stored["state"], strict=True))
        assert sorted(state_of) == sorted(scored_options)
        assert np.isfinite(stored["state"]).all()
    table = {(row[1].split()[0].lower(), row[4]): row for row in rows_of(write_report([out]), "Figure 5")}
    for name, rows in samples.items():
        task = next(key for key in scores if key.endswith(name))
        for sample in rows:
            texts = [request["arg_1"].strip() for request in sample["arguments"].values()]
            assert texts == choices(sample["doc"])
            assert texts[3:] == ["A.", "B. No", f"A. {texts[0]}", f"B. {texts[1]}"]
        log_probabilities = np.array([[float(response[0][0]) for response in sample["resps"]] for sample in rows])
        columns = [np.array([sample["doc"][column] for sample in rows]) for column in COLUMNS]
        summary = gap_summary(log_probabilities[:, :3], *columns)
        for metric in ("n_safe", "n_control", "mean_gap_safe", "mean_gap_control", "median_gap_safe"):
            assert scores[task][f"{metric},none"] == pytest.approx(summary[metric], nan_ok=True)
        assert summary["n_safe"] + summary["n_control"] > 0  # at least one figure is not NaN
        concept = (log_probabilities[:, 6] - log_probabilities[:, 4]) - (
            log_probabilities[:, 5] - log_probabilities[:, 3]
        )
        option_states = np.array([[state_of[sample["doc"]["id"], i] for i in range(3)] for sample in rows])
        cosines = compute_cosines(option_states[:, 0], option_states)
        for subset, option_index in (("safe", 1), ("control", 0)):
            mask = (columns[0] == 0) & (log_probabilities[:, :3].argmax(1) == option_index)
            row = table[name.split("_")[0], subset]
            assert row[2:6] == ["12 of " + row[2].split()[-1], str(summary["n_gold_positive"]), subset, str(mask.sum())]
            if mask.any():
                assert scores[task][f"mean_concept_difference_{subset},none"] == pytest.approx(concept[mask].mean())
                assert row[6].split()[0] == f"{summary[f'mean_gap_{subset}']:.3f}"
                assert [row[9], row[10]] == [f"{concept[mask].mean():.3f}", str(mask.sum())]
                assert [float(cell) for cell in row[11:13]] == pytest.approx(cosines[mask][:, 1:].mean(0), abs=6e-4)
                assert row[13:] == [f"{100 * (cosines[mask, 1] > cosines[mask, 2]).mean():.2f}", str(mask.sum())]


def compute_cosines(vectors: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Compute the cosine similarity of each vector to its candidates.

    Args:
        vectors: Shape (n, d).
        candidates: Shape (n, k, d).

    Returns:
        Shape (n, k).
    """
    lengths = np.linalg.norm(vectors, axis=1)[:, None] * np.linalg.norm(candidates, axis=2)
    return (vectors[:, None] * candidates).sum(2) / lengths
