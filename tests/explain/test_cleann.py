"""Causal graphs of attention: independence test against scipy, graphs against known structures and networkx, selected
tokens and heads, and the picture.
"""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.stats
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.tasks.explain import causal_structure
from medfaith.tasks.explain.causal_plot import compute_node_places, draw_causal_graph
from medfaith.tasks.explain.causal_structure import (
    Edge,
    PartialCorrelation,
    distances,
    learn_edges,
    require_causal_learn,
)
from medfaith.tasks.explain.cleann import (
    Settings,
    causal_graphs,
    compute_head_importance,
    compute_layer_attention,
    compute_row_correlation,
    select_neighbourhood,
    select_relevant_tokens,
)
from medfaith.tasks.explain.geometry import Geometry, resize_and_crop
from tests.support.tasks import tiny_models
from tests.support.tiers import choose_size

MANY = 10**9  # samples: every dependence that there is shows


def compute_attention(influence: np.ndarray) -> np.ndarray:
    """Compute attention whose rows covary by the linear-Gaussian model x = B x + noise: (I - B)^-1, scaled by row."""
    attention = np.linalg.inv(np.eye(len(influence)) - influence)
    return attention / attention.sum(axis=1, keepdims=True)


def make_influences(n: int, edges: dict[tuple[int, int], float]) -> np.ndarray:
    matrix = np.zeros((n, n))
    for (cause, effect), strength in edges.items():
        matrix[effect, cause] = strength
    return matrix


def learn(influence: np.ndarray, positions: list[int] | None = None, max_condition: int = 3) -> list[Edge]:
    positions = list(range(len(influence))) if positions is None else positions
    correlation = compute_row_correlation(compute_attention(influence), positions)
    return learn_edges(PartialCorrelation(correlation, MANY), max_condition)


@pytest.mark.parametrize("conditioning", [(), (2,), (2, 3), (4, 2, 3)])
def test_partial_correlation_is_that_of_the_residuals(conditioning: tuple[int, ...]):
    data = np.random.default_rng(0).normal(size=(128, 5)) @ np.random.default_rng(1).normal(size=(5, 5))
    design = np.column_stack([np.ones(len(data)), data[:, conditioning]])
    residuals = [data[:, k] - design @ np.linalg.lstsq(design, data[:, k], rcond=None)[0] for k in (0, 1)]
    expected = scipy.stats.pearsonr(*residuals).statistic
    test = PartialCorrelation(np.corrcoef(data.T))
    assert test.compute_correlation(0, 1, conditioning) == pytest.approx(expected, abs=1e-12)
    assert test.compute_correlation(1, 0, conditioning[::-1]) == test.compute_correlation(0, 1, conditioning)
    z = np.arctanh(expected) * np.sqrt(len(data) - len(conditioning) - 3)
    assert test.p_value(0, 1, conditioning) == pytest.approx(2 * scipy.stats.norm.sf(abs(z)), rel=1e-9)


def test_alpha_and_the_number_of_samples_decide():
    correlation = np.array([[1.0, 0.38], [0.38, 1.0]])  # |r| > 0.3758 is dependent for n = 128, alpha = 1e-5
    assert not PartialCorrelation(correlation).is_independent(0, 1)
    assert PartialCorrelation(correlation - 0.01 * (1 - np.eye(2))).is_independent(0, 1)
    assert PartialCorrelation(correlation, n_samples=100).is_independent(0, 1)
    assert PartialCorrelation(correlation, alpha=1e-6).is_independent(0, 1)


def test_copies_of_a_token():
    """Equal rows depend on each other; given one of them, the other is independent of everything."""
    rows = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.6, 0.0, 0.8]])
    test = PartialCorrelation(rows @ rows.T)
    assert test.p_value(0, 1) == 0
    assert test.p_value(0, 2, (1,)) == 1
    assert test.p_value(2, 0, (3, 1)) == 1
    assert test.p_value(2, 3, (0, 1)) == test.p_value(2, 3, (0,))


def test_too_large_a_conditioning_set():
    with pytest.raises(ValueError, match="3 conditioning variables are too many for n_samples=6"):
        PartialCorrelation(np.eye(5), n_samples=6).p_value(0, 1, (2, 3, 4))


@st.composite
def draw_sparse_influences(draw: st.DrawFn) -> np.ndarray:
    """Draw influences between up to eight tokens, each with at most two earlier causes."""
    n = draw(st.integers(2, 8))
    edges = {}
    for effect in range(1, n):
        for cause in draw(st.sets(st.integers(0, effect - 1), max_size=2)):
            edges[cause, effect] = draw(st.floats(0.3, 0.9))
    return make_influences(n, edges)


@settings(max_examples=choose_size(8, 25), deadline=None)
@given(draw_sparse_influences())
def test_the_skeleton_of_a_known_graph_is_recovered(influence: np.ndarray):
    edges = learn(influence)
    assert {(edge.source, edge.target) for edge in edges} == {(int(c), int(e)) for e, c in np.argwhere(influence)}
    assert all(edge.target_mark == "arrow" for edge in edges)  # no token acts on an earlier one
    assert not any(edge.source_mark == "arrow" for edge in edges)  # and there is no hidden common cause


@pytest.mark.parametrize(
    ("n", "edges", "positions", "expected"),
    [
        # A chain: 0 and 1 may share a hidden cause; 1 acts on 2, because it is no collider.
        (3, {(0, 1): 0.7, (1, 2): 0.7}, [0, 1, 2], {(0, 1): "o->", (1, 2): "-->"}),
        (3, {(0, 2): 0.7, (1, 2): 0.7}, [0, 1, 2], {(0, 2): "o->", (1, 2): "o->"}),  # a collider
        (3, {(0, 1): 0.7, (0, 2): 0.7}, [0, 1, 2], {(0, 1): "o->", (0, 2): "o->"}),  # a common cause that is seen
        # A child of a collider: the effect is direct.
        (4, {(0, 2): 0.7, (1, 2): 0.7, (2, 3): 0.7}, [0, 1, 2, 3], {(0, 2): "o->", (1, 2): "o->", (2, 3): "-->"}),
        # 2 is a common cause of 3 and 4 but no node: their rows still share its part.
        (
            5,
            {(0, 3): 0.7, (1, 4): 0.7, (2, 3): 0.7, (2, 4): 0.7},
            [0, 1, 3, 4],
            {(0, 2): "o->", (1, 3): "o->", (2, 3): "<->"},
        ),
        (3, {}, [0, 1, 2], {}),
        (2, {(0, 1): 0.5}, [1], {}),
    ],
)
def test_marks(n: int, edges: dict[Any, float], positions: list[int], expected: dict[tuple[int, int], str]):
    marks_by_ends = {
        (e.source, e.target): (e.source_mark, e.target_mark) for e in learn(make_influences(n, edges), positions)
    }
    marks = {"-->": ("tail", "arrow"), "o->": ("circle", "arrow"), "<->": ("arrow", "arrow")}
    assert marks_by_ends == {ends: marks[mark] for ends, mark in expected.items()}


@pytest.mark.parametrize("seed", range(8))
def test_with_hidden_tokens_the_skeleton_is_what_d_separation_says(seed: int):
    """Six of nine tokens are observed: there is an edge if no observed set d-separates its ends (networkx)."""
    generator = np.random.default_rng(seed)
    influence = np.tril(generator.random((9, 9)) < 0.35, -1) * generator.uniform(0.3, 0.9, (9, 9))
    observed = sorted(generator.choice(9, 6, replace=False).tolist())
    graph = nx.DiGraph((int(cause), int(effect)) for effect, cause in np.argwhere(influence))
    graph.add_nodes_from(range(9))

    def is_separable(x: int, y: int) -> bool:
        candidates = [z for z in observed if z not in (x, y)]
        return any(nx.is_d_separator(graph, {x}, {y}, set(s)) for r in range(5) for s in combinations(candidates, r))

    expected = {(i, j) for i, j in combinations(range(6), 2) if not is_separable(observed[i], observed[j])}
    assert {(edge.source, edge.target) for edge in learn(influence, observed, max_condition=4)} == expected


def test_what_the_first_search_leaves_is_separated_by_possible_d_separators(monkeypatch: pytest.MonkeyPatch):
    from causallearn.utils import FAS

    # 3 is a hidden cause of 4 and 5; conditioning on 0 reveals it.
    influence = make_influences(6, {(0, 1): 0.8, (0, 2): 0.5, (1, 4): 0.6, (2, 5): 0.9, (3, 4): 0.4, (3, 5): 0.7})
    observed = [0, 1, 2, 4, 5]
    expected = learn(influence, observed)
    assert len(expected) == 5
    assert expected[-1] == Edge(3, 4, "arrow", "arrow")
    fas = FAS.fas
    monkeypatch.setattr(FAS, "fas", lambda *args, depth, **kwargs: fas(*args, **{**kwargs, "depth": 0}))
    assert learn(influence, observed) == expected
    assert len(learn(influence, observed, max_condition=0)) > 5


def test_no_token_separates_earlier_ones():
    """0 acts on 1; conditioning on 2 cancels that exactly (0.36 = 0.6 x 0.6), but says nothing about 0 and 1."""
    influence = make_influences(3, {(0, 1): 0.36, (0, 2): 0.6, (1, 2): 0.6})
    test = PartialCorrelation(compute_row_correlation(compute_attention(influence), range(3)), MANY)
    assert test.is_independent(0, 1, (2,))
    assert [(edge.source, edge.target) for edge in learn(influence)] == [(0, 1), (0, 2), (1, 2)]


def test_a_small_bound_keeps_what_larger_sets_would_remove():
    influence = make_influences(5, {(0, 1): 0.8, (0, 2): 0.8, (0, 3): 0.8, (1, 4): 0.8, (2, 4): 0.8, (3, 4): 0.8})
    skeletons = [{(e.source, e.target) for e in learn(influence, max_condition=bound)} for bound in range(4)]
    assert skeletons[3] == {(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)}
    assert skeletons[2] - skeletons[3] == {(0, 4)}  # 0 and 4 are independent given 1, 2 and 3
    assert skeletons[0] >= skeletons[1] >= skeletons[2] > skeletons[3]


# Attention of one head, made by hand: token 0 precedes the image (1-4), 5-7 follow it; 7 is the target.
ROW = np.array([0.5, 0.009, 0.2, 0.03, 0.01, 0.011, 0.01, 0.23])
IMAGE = [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [2, 3, 5, 7]),  # more than 0.01, not equal; tokens before the image are in no graph
        ({"kappa": 0.0}, [1, 2, 3, 4, 5, 6, 7]),
        ({"kappa": 0.1}, [2, 7]),
        ({"kappa": 0.9}, [7]),  # the target itself always is
        ({"max_image_tokens": 1}, [2, 5, 7]),
        ({"max_image_tokens": 0}, [5, 7]),
    ],
)
def test_relevant_tokens(arguments: dict[str, Any], expected: list[int]):
    assert select_relevant_tokens(ROW, 7, IMAGE, **arguments) == expected


def test_of_equal_image_tokens_the_earlier_are_taken():
    assert select_relevant_tokens(np.array([0.2, 0.2, 0.2, 0.4]), 3, [0, 1, 2], max_image_tokens=2) == [0, 1, 3]


def draw_heads() -> np.ndarray:
    logits = np.random.default_rng(0).normal(size=(6, 12, 12)) * 2
    logits[:, ~np.tri(12, dtype=bool)] = -np.inf
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


TOKENS = ["<s>", *["<image>"] * 6, "What", "tool", "?", "A", "gras"]
PATCHES = list(range(1, 7))


def make_graphs(attention: np.ndarray | None = None, **arguments: Any) -> list[dict[str, Any]]:
    attention = draw_heads() if attention is None else attention
    return causal_graphs(attention, 11, TOKENS, PATCHES, (2, 3), target_text="per", **arguments)


def test_heads_are_ranked_by_image_over_text_attention():
    attention = draw_heads()
    to_image, to_text = compute_head_importance(attention, 11, PATCHES)
    np.testing.assert_array_equal(to_image, attention[:, 11, 1:7].max(axis=1))
    np.testing.assert_array_equal(to_text, attention[:, 11, 7:12].max(axis=1))  # the question, the answer and itself
    ranked = make_graphs(attention)
    order = sorted(range(6), key=lambda head: -to_image[head] / to_text[head])
    assert [graph["head"] for graph in ranked] == order[:5]
    assert [graph["importance"] for graph in ranked] == [to_image[h] / to_text[h] for h in order[:5]]
    assert [graph["head"] for graph in make_graphs(attention, settings=Settings(n_heads=2))] == order[:2]


def test_a_head_without_text_comes_first_and_has_no_importance():
    attention = draw_heads()
    attention[4, 11, 7:] = 0
    graph = make_graphs(attention)[0]
    assert (graph["head"], graph["importance"], graph["text_attention"]) == (4, None, 0.0)


def test_a_graph_is_json_and_the_same_every_time():
    graph_list, repeated = make_graphs(), make_graphs()
    assert json.dumps(graph_list, allow_nan=False) == json.dumps(repeated, allow_nan=False)
    assert json.loads(json.dumps(graph_list)) == graph_list
    graph = graph_list[0]
    assert graph["settings"] == {
        "kappa": 0.01, "max_image_tokens": 50, "n_heads": 5, "n_samples": 128, "alpha": 1e-5, "radius": 3,
        "max_condition": 3, "layer": -1,
    }  # fmt: skip
    assert (graph["backend"], graph["grid"], graph["target"]) == ("fci", [2, 3], {"position": 11, "text": "per"})
    nodes = {node["position"]: node for node in graph["nodes"]}
    assert all(node["patch"] == [(p - 1) // 3, (p - 1) % 3] for p, node in nodes.items() if node["kind"] == "image")
    assert all(node["text"] == TOKENS[p] for p, node in nodes.items() if node["kind"] == "text")
    assert all(node["attention"] == draw_heads()[graph["head"], 11, p] for p, node in nodes.items())
    assert nodes[11]["distance"] == 0
    assert 0 not in nodes
    assert {end for edge in graph["edges"] for end in (edge["source"], edge["target"])} <= set(nodes)


def test_parameters_reach_the_search():
    many = {"n_samples": 10**6, "n_heads": choose_size(1, 5)}
    loose = sum(len(g["edges"]) for g in make_graphs(settings=Settings(**many)))
    strict = sum(len(g["edges"]) for g in make_graphs(settings=Settings(**many, alpha=1e-300)))
    few = sum(len(g["nodes"]) for g in make_graphs(settings=Settings(kappa=0.2)))
    assert loose > strict
    assert few < sum(len(g["nodes"]) for g in make_graphs())


def test_radius():
    chain = [Edge(k, k + 1, "circle", "arrow") for k in range(6)]
    assert distances(chain, 5) == {5: 0, 4: 1, 6: 1, 3: 2, 2: 3, 1: 4, 0: 5}
    graph = {
        "settings": {"radius": 3},
        "nodes": [{"position": k, "distance": distances(chain, 5).get(k)} for k in range(8)],
        "edges": [edge._asdict() for edge in chain],
    }
    near = select_neighbourhood(graph)
    assert [node["position"] for node in near["nodes"]] == [2, 3, 4, 5, 6]
    assert [(edge["source"], edge["target"]) for edge in near["edges"]] == [(2, 3), (3, 4), (4, 5), (5, 6)]
    assert [node["position"] for node in select_neighbourhood(graph, 0)["nodes"]] == [5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": np.full((2, 12, 12), np.nan)}, "attention: has NaN or infinity"),
        ({"attention": np.ones((12, 12))}, r"attention: shape \(12, 12\) for 12 tokens"),
        ({"attention": np.ones((2, 12, 13))}, r"shape \(2, 12, 13\)"),
        ({"tokens": TOKENS[:-1]}, "for 11 tokens"),
        ({"image": []}, "image tokens in ascending order, then the target"),
        ({"image": [3, 2, 1, 4, 5, 6]}, "image tokens in ascending order"),
        ({"target": 6}, "then the target"),
        ({"target": 12}, "target 12, 12 tokens"),
        ({"grid": (3, 3)}, "6 image tokens for a grid of 3 x 3"),
        ({"settings": Settings(n_samples=6)}, "max_condition=3 with n_samples=6"),
        ({"settings": Settings(max_condition=-1)}, "max_condition=-1"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str):
    good = {"attention": draw_heads(), "target": 11, "tokens": TOKENS, "image": PATCHES, "grid": (2, 3)}
    with pytest.raises(InputError, match=message):
        causal_graphs(**{**good, **change})


def test_missing_causal_learn_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(causal_structure.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MedfaithError, match=r"need causal-learn, which is not installed(.|\n)*'medfaith\[explain\]'"):
        require_causal_learn()


@pytest.mark.parametrize("save", [tiny_models.save_llava, tiny_models.save_qwen2_5_vl])
def test_attention_is_the_models_own(save: Any, tmp_path: Path):
    save(tmp_path)
    model: Any = transformers.AutoModelForImageTextToText.from_pretrained(tmp_path).eval()
    inputs = {"input_ids": torch.tensor([[5, 9, 30, 12, 7, 40]])}
    before = model.get_decoder().config._attn_implementation
    assert before == "sdpa"
    computed = [compute_layer_attention(model, inputs, layer) for layer in (0, -1)]
    assert model.get_decoder().config._attn_implementation == before
    assert not model.get_decoder().layers[-1].self_attn._forward_hooks
    model.set_attn_implementation("eager")
    theirs = model(**inputs, output_attentions=True).attentions
    for ours, layer in zip(computed, (0, -1), strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs[layer][0].detach().numpy(), atol=1e-7)
        np.testing.assert_allclose(ours.sum(axis=-1), 1, atol=1e-6)


def test_a_drawn_graph(tmp_path: Path):
    geometry = resize_and_crop((60, 120), 30, 30)  # the model saw the middle square
    (graph,) = make_graphs(settings=Settings(n_samples=10**6, n_heads=1))
    places = compute_node_places(graph, geometry)
    for node in graph["nodes"]:
        x, y = places[node["position"]]
        if node["kind"] == "image":
            assert (x, y) == (30 + 20 * (node["patch"][1] + 0.5), 30 * (node["patch"][0] + 0.5))
        else:
            assert x > 120
    path = draw_causal_graph(graph, np.zeros((60, 120, 3), np.uint8), geometry, tmp_path / "graph.png")
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    height, width = pixels.shape[:2]
    top = round(0.4 * 100)  # the title's part of the page
    for node in select_neighbourhood(graph)["nodes"]:
        if node["kind"] == "image":
            x, y = places[node["position"]]
            red, green, blue = pixels[top + round(y * (height - top) / 60), round(x * width / 210)]
            assert green > 150
            assert green > red + 80
            assert green > blue + 80
    with pytest.raises(InputError, match=r"frame: \(height, width\) is \(50, 120\)\n  expected: \(60, 120\)"):
        draw_causal_graph(graph, np.zeros((50, 120), np.uint8), geometry, path)


@pytest.mark.parametrize("text", ["$$", "$\\frac$", "\n", "\N{CJK UNIFIED IDEOGRAPH-80BA}"])
@pytest.mark.filterwarnings("ignore:Glyph")
def test_any_token_is_drawn(text: str, tmp_path: Path):
    graph = make_graphs()[0]
    graph["target"]["text"] = text
    draw_causal_graph(graph, np.zeros((2, 3), np.uint8), Geometry.whole((2, 3)), tmp_path / "graph.png")


def test_drawing_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MedfaithError, match=r"uv pip install 'medfaith\[explain\]'"):
        draw_causal_graph(make_graphs()[0], np.zeros((2, 3)), Geometry.whole((2, 3)), tmp_path / "graph.png")
