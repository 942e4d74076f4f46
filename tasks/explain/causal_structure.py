"""Causal structure from correlations: independence tests, and the libraries that learn a graph from them.

Variables are numbered in causal order: one can act on later ones only. Edges carry an arrowhead at their later end from
the start; an arrowhead at the earlier end, too, tells of a common cause that is no variable.

Conditioning sets have at most `max_condition` variables. Stopping there is sound (Spirtes' anytime FCI): an edge that
only larger sets would remove is kept, and none is removed wrongly.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from collections.abc import Iterable
from itertools import combinations
from math import erfc, inf, log1p, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...loaders.errors import InputError, MedfaithError

BACKENDS = ("ordered_icd", "fci")
CIRCLE, ARROW, TAIL = "circle", "arrow", "tail"
DETERMINED = 1e-10  # the share of a variable's variance below which nothing is left of it


class Edge(NamedTuple):
    """Tokens by position, the earlier one first, with the mark (circle, arrow or tail) at either end."""

    source: int
    target: int
    source_mark: str
    target_mark: str


class PartialCorrelation:
    """Fisher's z test of partial correlation, from a correlation matrix.

    A variable of which the conditioning set leaves nothing is independent of all given it.

    Args:
        correlation: shape (k, k), a unit diagonal.
        n_samples: that the correlations stand for.
        alpha: a p-value above it is independence.
    """

    def __init__(self, correlation: np.ndarray, n_samples: int = 128, alpha: float = 1e-5) -> None:
        self._correlation = np.asarray(correlation, np.float64).tolist()
        self.n_variables, self.n_samples, self.alpha = len(self._correlation), n_samples, alpha
        self._partial: dict[tuple[int, int, tuple[int, ...]], float] = {}

    def compute_correlation(self, x: int, y: int, given: Iterable[int] = ()) -> float:
        """The partial correlation of x and y given others, in [-1, 1]: from those of one variable fewer, all kept."""
        others = tuple(sorted(given))
        if not others:
            return self._correlation[min(x, y)][max(x, y)]
        key = (min(x, y), max(x, y), others)
        if key not in self._partial:
            *rest, last = others
            xy, x_last, y_last = (self.compute_correlation(a, b, rest) for a, b in ((x, y), (x, last), (y, last)))
            left_of_x, left_of_y = 1 - x_last * x_last, 1 - y_last * y_last
            partial = 0.0
            if min(left_of_x, left_of_y) > DETERMINED:
                partial = (xy - x_last * y_last) / sqrt(left_of_x * left_of_y)
            self._partial[key] = min(max(partial, -1.0), 1.0)
        return self._partial[key]

    def p_value(self, x: int, y: int, given: Iterable[int] = ()) -> float:
        """Two-sided p-value of independence.

        Raises:
            ValueError: the conditioning set leaves no degree of freedom.
        """
        others = tuple(given)
        freedom = self.n_samples - len(others) - 3
        if freedom < 1:
            raise ValueError(f"{len(others)} conditioning variables are too many for n_samples={self.n_samples}")
        r = abs(self.compute_correlation(x, y, others))
        z = 0.5 * log1p(2 * r / (1 - r)) if r < 1 else inf
        return erfc(sqrt(freedom / 2) * z)

    def cond_indep(self, x: int, y: int, given: Iterable[int] = ()) -> bool:
        """Whether x and y are independent given others (the name that causality-lab's learners call)."""
        return self.p_value(x, y, given) > self.alpha


def choose_backend(backend: str = "auto") -> str:
    """The backend to use. Raises MedfaithError, saying what to install, where it is not there."""
    modules = {"ordered_icd": "causal_discovery_algs", "fci": "causallearn"}
    if backend not in (*BACKENDS, "auto"):
        raise InputError("backend", repr(backend), expected=", ".join((*BACKENDS, "auto")))
    wanted = BACKENDS if backend == "auto" else (backend,)
    for name in wanted:
        if importlib.util.find_spec(modules[name]):
            return name
    raise MedfaithError(
        f"causal graphs need {' or '.join(modules[name] for name in wanted)}, which is not installed\n"
        "  what to do: uv pip install 'medfaith[explain]' for FCI; for causality-lab's ICD, which is in no package\n"
        "  index, clone https://github.com/IntelLabs/causality-lab and put its folder on PYTHONPATH"
    )


def learn_edges(test: PartialCorrelation, backend: str, max_condition: int = 3) -> list[Edge]:
    """The edges among the variables of a test, numbered from 0 in causal order, in ascending order."""
    if test.n_variables < 2:
        return []
    return sorted((_ordered_icd if backend == "ordered_icd" else _fci)(test, max_condition))


def _ordered_icd(test: PartialCorrelation, max_condition: int) -> list[Edge]:
    """causality-lab's ICD for a known causal order, which LVLM-Interpret uses; no selection bias.

    Written against its sources; it is in no package index, and no test here runs it.
    """
    from causal_discovery_algs import LearnStructOrderedICD  # pyright: ignore[reportMissingImports]
    from graphical_models import arrow_head_types as mark  # pyright: ignore[reportMissingImports]

    n = test.n_variables
    learner = LearnStructOrderedICD(
        set(range(n)), list(range(n)), test, is_selection_bias=False, max_cond_size=min(max_condition, n - 2)
    )
    learner.learn_structure()
    names = {mark.Circle: CIRCLE, mark.Directed: ARROW, mark.Tail: TAIL}
    graph = learner.graph  # get_edge_mark(a, b) is the mark at b
    return [
        Edge(a, b, names[graph.get_edge_mark(b, a)], names[graph.get_edge_mark(a, b)])
        for a, b in combinations(range(n), 2)
        if graph.is_connected(a, b)
    ]


def _fci(test: PartialCorrelation, max_condition: int) -> list[Edge]:
    """FCI with causal-learn's search and orientation rules, conditioning sets up to `max_condition`."""
    from causallearn.graph.Endpoint import Endpoint
    from causallearn.graph.GraphNode import GraphNode
    from causallearn.search.ConstraintBased import FCI
    from causallearn.utils.cit import CIT_Base
    from causallearn.utils.FAS import fas

    class Test(CIT_Base):
        def __init__(self) -> None:
            self.method = "partial correlation of attention rows"

        def __call__(self, X: int, Y: int, condition_set: Iterable[int] | None = None) -> float:  # noqa: N803
            given = [int(variable) for variable in condition_set or ()]
            if max(given, default=-1) > max(X, Y):  # what is later than both acts on neither, and separates nothing
                return 0.0
            return test.p_value(int(X), int(Y), given)

    n = test.n_variables
    nodes: list[Any] = [GraphNode(f"X{number}") for number in range(n)]
    no_data = np.empty((0, n))  # the search reads the number of columns; the test has the correlations
    graph, separators, _ = fas(no_data, nodes, Test(), test.alpha, depth=max_condition, show_progress=False)
    number = graph.get_node_map()

    def orient_colliders() -> None:
        FCI.rule0(graph, nodes, separators, None, False)
        for edge in graph.get_graph_edges():
            graph.remove_edge(edge)
            first_is_later = number[edge.get_node1()] > number[edge.get_node2()]
            (edge.set_endpoint1 if first_is_later else edge.set_endpoint2)(Endpoint.ARROW)
            graph.add_edge(edge)

    orient_colliders()
    for edge in graph.get_graph_edges():
        _separate(graph, edge, test, separators, max_condition)
    orient_colliders()
    changed = True
    while changed:
        changed = FCI.rulesR1R2cycle(graph, None, False)
        changed = FCI.ruleR3(graph, separators, None, changed)
        changed = FCI.ruleR4B(graph, -1, no_data, Test(), test.alpha, separators, changed, None)
        changed = FCI.rule8(graph, nodes, changed)
        changed = FCI.rule9(graph, nodes, changed)
        changed = FCI.rule10(graph, changed)
    edges = []
    for edge in graph.get_graph_edges():
        ends = (number[edge.get_node1()], edge.get_endpoint1()), (number[edge.get_node2()], edge.get_endpoint2())
        (early, early_mark), (late, late_mark) = sorted(ends, key=lambda end: end[0])
        edges.append(Edge(early, late, early_mark.name.lower(), late_mark.name.lower()))
    return edges


def _separate(graph: Any, edge: Any, test: PartialCorrelation, separators: dict[Any, set[int]], largest: int) -> None:
    """Removes an edge whose ends some set of possible d-separators, of up to `largest` tokens, makes independent."""
    from causallearn.search.ConstraintBased import FCI

    number = graph.get_node_map()
    ends = edge.get_node1(), edge.get_node2()
    x, y = (number[end] for end in ends)
    for root, other in (ends, ends[::-1]):
        near = (number[node] for node in FCI.getPossibleDsep(root, other, graph, largest))
        possible = sorted(variable for variable in near if variable < max(x, y))
        for size in range(1, min(largest, len(possible)) + 1):
            for given in combinations(possible, size):
                if test.cond_indep(x, y, given):
                    graph.remove_edge(edge)
                    separators[x, y] = separators[y, x] = set(given)
                    return


def distances(edges: Iterable[Edge], target: int) -> dict[int, int]:
    """The number of edges, whatever their marks, from the target to each token that is connected to it."""
    beside: dict[int, set[int]] = {}
    for edge in edges:
        beside.setdefault(edge.source, set()).add(edge.target)
        beside.setdefault(edge.target, set()).add(edge.source)
    found, queue = {target: 0}, deque([target])
    while queue:
        position = queue.popleft()
        for other in sorted(beside.get(position, set()) - found.keys()):
            found[other] = found[position] + 1
            queue.append(other)
    return found
