"""GLoRIA's parts against independent implementations of its formulas."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.special import softmax
from torchvision.models.resnet import Bottleneck, ResNet

from medfaith.evaluate_metrics.localization.input_view import window
from medfaith.tasks.models.alignment import gloria_image, gloria_text
from medfaith.tasks.models.alignment.gloria import GloriaAligner, GloriaModel, load_gloria
from medfaith.tasks.models.alignment.gloria_text import Sentence
from tests.support.tasks import tiny_gloria
from tests.support.tasks.tiny_contrastive import frame
from tests.support.tasks.tiny_gloria import SENTENCES
from tests.support.tiers import choose_size, keep_quick


@pytest.fixture(scope="module")
def tokenizer(gloria) -> Any:
    return transformers.AutoTokenizer.from_pretrained(gloria[False][1])


picture = partial(frame, size=(320, 256))


@pytest.mark.parametrize(
    ("shape", "resized", "times"),  # image size; size in the view before padding; upsampling to whole blocks
    [
        ((512, 512), (256, 256), 1),
        ((768, 576), (256, 192), 1),
        ((192, 384), (128, 256), 2),
        ((640, 320), (256, 128), 2),
        ((128, 100), (256, 200), 4),
        ((513, 260), (256, 129), 256 * 129),
    ],
)
def test_the_view_is_the_image_resized_by_area_padded_and_cropped(shape, resized, times):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    expected = np.zeros((256, 256))
    y0, x0 = (256 - resized[0]) // 2, (256 - resized[1]) // 2
    inside = expected[y0 : y0 + resized[0], x0 : x0 + resized[1]]
    if times <= 4:
        large = Image.fromarray(np.kron(image, np.ones((times, times), np.uint8)))
        inside[:] = np.asarray(large.resize(resized[::-1], Image.Resampling.BOX))
    else:  # no common multiple: block means in floating point, one axis at a time
        tall = image.astype(float).repeat(256, axis=0).reshape(256, shape[0], -1).mean(axis=1)
        inside[:] = tall.repeat(resized[1], axis=1).reshape(256, resized[1], shape[1]).mean(axis=2)
    view = gloria_image.view(Image.fromarray(image))
    assert view.dtype == np.uint8
    assert np.abs(view - expected[16:240, 16:240]).max() <= 1


def test_pixels_are_between_minus_one_and_one_three_times_the_same():
    pixels = gloria_image.pixels([picture(0), Image.new("RGB", (300, 100), "white")])
    assert pixels.shape == (2, 3, 224, 224)
    assert torch.equal(pixels[:, 0], pixels[:, 1])
    assert set(pixels[1].unique().tolist()) == {-1.0, 1.0}  # padding is black
    expected = torch.from_numpy(gloria_image.view(picture(0)) / 255.0)
    torch.testing.assert_close(pixels[0, 2].double(), (expected - 0.5) / 0.5, atol=1e-6, rtol=0)


@pytest.mark.full  # a whole encoder
def test_image_embeddings_are_those_of_the_librarys_resnet(gloria):
    model = load_gloria(gloria[False][0]).eval()
    weights = tiny_gloria.weights()
    resnet = ResNet(Bottleneck, [1, 2, 1, 1], width_per_group=4)
    resnet.fc = torch.nn.Identity()  # pyrefly: ignore[bad-assignment] (torchvision declares its class)
    prefix = "gloria.img_encoder."
    resnet.load_state_dict({n.removeprefix(f"{prefix}model."): t for n, t in weights.items() if f"{prefix}model." in n})
    layer3_outputs = []
    resnet.layer3.register_forward_hook(lambda _module, _inputs, output: layer3_outputs.append(output))
    pixels = gloria_image.pixels([picture(0), picture(1)])
    with torch.no_grad():
        features = resnet.eval()(torch.nn.Upsample((299, 299), mode="bilinear", align_corners=True)(pixels))
        local, embeddings = model.encode_images(pixels)
    linear = weights[f"{prefix}global_embedder.weight"], weights[f"{prefix}global_embedder.bias"]
    torch.testing.assert_close(embeddings, features @ linear[0].T + linear[1])
    assert local.shape == (2, tiny_gloria.DIM, 19, 19)
    expected = torch.einsum("nchw,dc->ndhw", layer3_outputs[0], weights[f"{prefix}local_embedder.weight"][..., 0, 0])
    torch.testing.assert_close(local, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("text", "min_words", "expected"),
    [
        ("Small RIGHT pleural effusion.", 1, "small right pleural effusion"),
        ("1. Clear lungs. 2. Normal heart.", 1, "clear lungs normal heart"),
        ("Right-sided\nPICC, tip in SVC", 1, "right sided picc tip in svc"),
        ("Cardiomegaly.", 1, "cardiomegaly"),
        ("Cardiomegaly.", 2, ""),
        ("No change. Stable.", 2, "no change"),
        ("No change. Stable.", 1, "no change stable"),
        ("Sjögren's disease", 1, "sjgren s disease"),
        ("é left", 2, "left"),  # two words at the time of the count
        ("...", 1, ""),
    ],
)
def test_texts_are_cleaned_as_in_the_released_code(text, min_words, expected):
    assert gloria_text.clean(text, min_words) == expected


def test_words_are_the_sums_of_their_pieces_over_the_last_four_layers(gloria, tokenizer):
    model = load_gloria(gloria[False][0]).eval()
    tokens = gloria_text.tokenize(tokenizer, SENTENCES)
    with torch.no_grad():
        sentences, texts = model.encode_texts(tokens)
        for sentence, embedded, text in zip(SENTENCES, sentences, texts, strict=True):
            ids = tokenizer(sentence.lower().replace(".", ""), return_tensors="pt")
            states = model.text_encoder.model(**ids, output_hidden_states=True).hidden_states
            pieces = states[-1][0] + states[-2][0] + states[-3][0] + states[-4][0]
            word_vectors: list[torch.Tensor] = []
            for piece, vector in zip(tokenizer.convert_ids_to_tokens(ids["input_ids"][0]), pieces, strict=True):
                if piece.startswith("##"):
                    word_vectors[-1] = word_vectors[-1] + vector
                else:
                    word_vectors.append(vector)
            assert len(embedded.words) == len(sentence.split())
            vectors = torch.stack([embedded.start, *embedded.words, embedded.end])
            torch.testing.assert_close(vectors, torch.stack(word_vectors), atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(text, torch.stack(word_vectors).sum(0) / 97, atol=1e-5, rtol=1e-4)
            assert embedded.n_pieces == len(pieces) - 2


def test_a_long_sentence_is_cut_where_the_tokenizer_would_cut_it(tokenizer):
    text = " ".join(["left"] * 90 + ["pneumothorax"])  # 90 + 12 + 2 pieces
    tokens = gloria_text.tokenize(tokenizer, [text, "left lung"])
    assert tokens.cut == [True, False]
    expected = tokenizer(text, truncation=True, max_length=97)["input_ids"]
    assert tokens.ids[0].tolist() == expected
    assert tokens.n_words == [93, 4]
    assert tokens.mask.sum(dim=1).tolist() == [97, 4]


def compute_attention(queries: np.ndarray, regions: np.ndarray, kind: str, tau: float) -> np.ndarray:
    """Compute attention (queries, regions) by SciPy's softmax: equation 1, or the formula of the released code."""
    products = queries @ regions.T
    return softmax(products / tau if kind == "paper" else 4.0 * softmax(products, axis=0), axis=1)


def compute_cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-8))


@pytest.mark.parametrize("no_attn", [False, True])
@pytest.mark.parametrize(("kind", "tau"), [("paper", 0.25), ("paper", 2.0), ("code", 0.25)])
def test_attention_and_local_similarity_are_the_formulas(kind, tau, no_attn):
    torch.manual_seed(1)
    model = GloriaModel([1, 1, 1, 1], 4, tiny_gloria.bert_config(), no_attn, kind, tau).double()
    if model.no_attn_vec is not None:
        model.no_attn_vec.data = torch.randn(5, dtype=torch.double)
    vectors = torch.randn(5, 5, dtype=torch.double)
    sentence = Sentence(vectors[:3], vectors[3], vectors[4], n_pieces=5)
    local = torch.randn(2, 5, 3, 2, dtype=torch.double)
    attention = model.attention(sentence, local).detach().numpy()
    similar, overall = model.similarities((local, vectors[:2]), ([sentence, sentence], vectors[1:3]))
    word_vectors, start, end = vectors[:3].numpy(), vectors[3:4].numpy(), vectors[4:5].numpy()
    for n in range(2):
        regions = local[n].reshape(5, 6).T.numpy()
        if model.no_attn_vec is not None:
            regions = np.concatenate([regions, model.no_attn_vec.detach().numpy()[None]])
        queries = word_vectors if kind == "paper" else np.concatenate([start, word_vectors])
        np.testing.assert_allclose(attention[n], compute_attention(queries, regions, kind, tau), rtol=1e-9)
        compared = word_vectors if kind == "paper" else np.concatenate([word_vectors, end, np.zeros((2, 5))])
        context = compute_attention(compared, regions, kind, tau) @ regions
        cosines = [5 * compute_cosine(word, attended) for word, attended in zip(compared, context, strict=True)]
        expected = np.log(np.exp(cosines).sum()) if kind == "paper" else max(cosines)
        np.testing.assert_allclose(similar[n].detach().numpy(), [expected] * 2, rtol=1e-7)
        expected = [compute_cosine(vectors[n].numpy(), vectors[k].numpy()) for k in (1, 2)]
        np.testing.assert_allclose(overall[n].detach().numpy(), expected, rtol=1e-7)


@settings(max_examples=choose_size(8, 25), deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 100), st.sampled_from(["paper", "code"]))
def test_attention_sums_to_one_and_the_codes_stays_close_to_uniform(seed, scale, kind):
    generator = torch.Generator().manual_seed(seed)
    model = GloriaModel.__new__(GloriaModel)
    torch.nn.Module.__init__(model)
    model.kind, model.tau, model.no_attn_vec = kind, 0.25, None
    vectors = torch.randn(6, 8, generator=generator) * scale
    sentence = Sentence(vectors[:4], vectors[4], vectors[5], 4)
    attention = model.attention(sentence, torch.randn(1, 8, 3, 3, generator=generator))
    torch.testing.assert_close(attention.sum(dim=-1), torch.ones(1, attention.shape[1]))
    if kind == "code":
        assert (attention.amax(-1) / attention.amin(-1)).max() <= np.exp(4) * 1.0001


@pytest.mark.parametrize(
    ("kind", "no_attn"),
    keep_quick(
        [(kind, no_attn) for kind in ("paper", "code") for no_attn in (False, True)],
        lambda case: case == ("code", True),
    ),
)
def test_alignments_are_those_of_each_image_and_sentence_alone(gloria, no_attn, kind):
    path, text_model = gloria[no_attn]
    aligner = GloriaAligner(path, "cpu", text_model=text_model, attention=kind, tau=20.0)
    first_image, second_image = picture(0), frame(1, (200, 300))
    images = [first_image, second_image, first_image]
    together = aligner.align(images, SENTENCES)
    for image, sentence, aligned in zip(images, SENTENCES, together, strict=True):
        (single,) = aligner.align([image], [sentence])
        np.testing.assert_allclose(aligned.attention, single.attention, rtol=1e-3)
        assert aligned.geometry == single.geometry
        assert (aligned.local, aligned.overall) == pytest.approx((single.local, single.overall), abs=1e-4)
        assert aligned.geometry.size == (image.height, image.width)
        assert aligned.geometry.window == window((image.height, image.width))
        assert aligned.attention.dtype == np.float32
        assert aligned.attention.shape == (19, 19)
        assert not aligned.cut
        assert (aligned.attention.sum() < 0.9999) == no_attn
        assert aligned.attention.sum() == pytest.approx(1.0, abs=1e-5) or no_attn
    assert np.abs(together[0].attention - together[2].attention).max() > 1e-7  # the text matters


def test_an_alignment_is_put_together_from_the_models_parts(gloria, tokenizer):
    path, text_model = gloria[True]
    image, model = picture(0), load_gloria(path).eval()
    (aligned,) = GloriaAligner(path, "cpu", text_model=text_model).align([image], SENTENCES[:1])
    with torch.no_grad():
        embedded = model(gloria_image.pixels([image]), gloria_text.tokenize(tokenizer, SENTENCES[:1]))
        local, overall = model.similarities((embedded.local, embedded.overall), (embedded.sentences, embedded.text))
    assert embedded.attention[0].shape == (6, 362)
    expected = embedded.attention[0].mean(dim=0)
    np.testing.assert_allclose(aligned.attention, expected[:361].reshape(19, 19), rtol=1e-5)
    assert 1 - aligned.attention.sum() == pytest.approx(float(expected[361]), abs=1e-5)
    assert (aligned.local, aligned.overall) == pytest.approx((float(local), float(overall)), rel=1e-5)


def test_a_sentence_without_a_word_attends_to_nothing(gloria):
    path, text_model = gloria[False]
    (aligned,) = GloriaAligner(path, "cpu", text_model=text_model).align([picture(0)], ["..."])
    assert aligned.attention.sum() == 0
    assert aligned.local is None
    assert np.isfinite(aligned.overall)
    (by_code,) = GloriaAligner(path, "cpu", text_model=text_model, attention="code").align([picture(0)], ["Clear."])
    assert by_code.attention.sum() == pytest.approx(1, abs=1e-5)  # [CLS] is left


@pytest.mark.full  # a whole encoder
def test_gradients_reach_every_part():
    torch.manual_seed(0)
    model = GloriaModel([1, 1, 1, 1], 4, tiny_gloria.bert_config(), no_attn=True)
    ids = torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]])
    tokens = gloria_text.Tokens(ids, (ids > 0).long(), torch.tensor([[0, 1, 2, 3], [0, 1, 2, -1]]), [4, 3], [False] * 2)
    embedded = model(torch.randn(2, 3, 64, 64), tokens)
    local, overall = model.similarities((embedded.local, embedded.overall), (embedded.sentences, embedded.text))
    (local.sum() + overall.sum() + sum(attention[:, :3].sum() for attention in embedded.attention)).backward()
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert all("pooler" in name for name in without)
