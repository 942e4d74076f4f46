"""Causal structure from correlations: an independence test, and the graph that causal-learn learns from it.

Variables are numbered in causal order: a variable can act only on later ones. Each edge starts with an arrowhead at its
later end; an arrowhead at the earlier end as well indicates a common cause that is not a variable.

Conditioning sets have at most `max_condition` variables. This bound is sound (Spirtes' anytime FCI): edges that only
larger sets would remove remain, and no edge is removed wrongly.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from collections.abc import Iterable
from itertools import combinations
from math import erfc, inf, log1p, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...loaders.errors import MedfaithError

CIRCLE, ARROW = "circle", "arrow"
BACKEND = "fci"  # the algorithm, as a saved graph names it
DETERMINED = 1e-10  # share of unexplained variance below which a variable counts as determined


class Edge(NamedTuple):
    """An edge between tokens, by position, the earlier one first.

    Attributes:
        source: Position of the earlier token.
        target: Position of the later token.
        source_mark: Mark at the earlier token: circle, arrow or tail.
        target_mark: Mark at the later token.
    """

    source: int
    target: int
    source_mark: str
    target_mark: str


class PartialCorrelation:
    """Fisher's z test of partial correlation, from a correlation matrix.

    A variable that the conditioning set determines is independent of all variables given this set.

    Args:
        correlation: Shape (k, k), with a unit diagonal.
        n_samples: Number of samples of the correlations.
        alpha: A higher p-value means independence.
    """

    def __init__(self, correlation: np.ndarray, n_samples: int = 128, alpha: float = 1e-5) -> None:
        self._correlation = np.asarray(correlation, np.float64).tolist()
        self.n_variables, self.n_samples, self.alpha = len(self._correlation), n_samples, alpha
        self._partial: dict[tuple[int, int, tuple[int, ...]], float] = {}

    def compute_correlation(self, x: int, y: int, conditions: Iterable[int] = ()) -> float:
        """Compute the partial correlation of two variables, recursively and with a cache.

        Args:
            x: The first variable.
            y: The second variable.
            conditions: The conditioning set.

        Returns:
            A number in [-1, 1].
        """
        condition_set = tuple(sorted(conditions))
        if not condition_set:
            return self._correlation[min(x, y)][max(x, y)]
        key = (min(x, y), max(x, y), condition_set)
        if key not in self._partial:
            *remaining, last = condition_set
            xy, x_last, y_last = (self.compute_correlation(a, b, remaining) for a, b in ((x, y), (x, last), (y, last)))
            residual_x, residual_y = 1 - x_last * x_last, 1 - y_last * y_last
            partial = 0.0
            if min(residual_x, residual_y) > DETERMINED:
                partial = (xy - x_last * y_last) / sqrt(residual_x * residual_y)
            self._partial[key] = min(max(partial, -1.0), 1.0)
        return self._partial[key]

    def p_value(self, x: int, y: int, conditions: Iterable[int] = ()) -> float:
        """Compute the two-sided p-value of independence.

        Args:
            x: The first variable.
            y: The second variable.
            conditions: The conditioning set.

        Returns:
            The p-value, from 0 to 1.

        Raises:
            ValueError: The conditioning set leaves no degree of freedom.
        """
        condition_set = tuple(conditions)
        freedom = self.n_samples - len(condition_set) - 3
        if freedom < 1:
            raise ValueError(f"{len(condition_set)} conditioning variables are too many for n_samples={self.n_samples}")
        r = abs(self.compute_correlation(x, y, condition_set))
        z = 0.5 * log1p(2 * r / (1 - r)) if r < 1 else inf
        return erfc(sqrt(freedom / 2) * z)

    def is_independent(self, x: int, y: int, conditions: Iterable[int] = ()) -> bool:
        """Check whether two variables are independent given others.

        Args:
            x: The first variable.
            y: The second variable.
            conditions: The conditioning set.

        Returns:
            True if the p-value is above alpha.
        """
        return self.p_value(x, y, conditions) > self.alpha


def require_causal_learn() -> None:
    """Raise an error before hours of work if causal-learn, which learns the graphs, is not installed.

    The papers' causality-lab is in no package index, so it cannot be a dependency.

    Raises:
        MedfaithError: causal-learn is not installed.
    """
    if importlib.util.find_spec("causallearn") is None:
        raise MedfaithError(
            "causal graphs need causal-learn, which is not installed\n  what to do: uv pip install 'medfaith[explain]'"
        )


def learn_edges(test: PartialCorrelation, max_condition: int = 3) -> list[Edge]:
    """Learn the edges among variables by causal-learn's FCI search and orientation rules.

    Args:
        test: The independence test; variables are numbered from 0 in causal order.
        max_condition: Maximum size of conditioning sets.

    Returns:
        Edges in ascending order.
    """
    if test.n_variables < 2:
        return []
    from causallearn.graph.Endpoint import Endpoint
    from causallearn.graph.GraphNode import GraphNode
    from causallearn.search.ConstraintBased import FCI
    from causallearn.utils.cit import CIT_Base
    from causallearn.utils.FAS import fas

    class Test(CIT_Base):
        def __init__(self) -> None:
            self.method = "partial correlation of attention rows"

        def __call__(self, X: int, Y: int, condition_set: Iterable[int] | None = None) -> float:  # noqa: N803
            conditions = [int(variable) for variable in condition_set or ()]
            if max(conditions, default=-1) > max(X, Y):  # a later variable acts on neither and separates nothing
                return 0.0
            return test.p_value(int(X), int(Y), conditions)

    n = test.n_variables
    nodes: list[Any] = [GraphNode(f"X{number}") for number in range(n)]
    no_data = np.empty((0, n))  # the search reads only the number of columns
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
        _remove_separated_edge(graph, edge, test, separators, max_condition)
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
    return sorted(edges)


def _remove_separated_edge(
    graph: Any, edge: Any, test: PartialCorrelation, separators: dict[Any, set[int]], largest: int
) -> None:
    """Remove an edge if a set of at most `largest` possible d-separators makes its ends independent."""
    from causallearn.search.ConstraintBased import FCI

    number = graph.get_node_map()
    ends = edge.get_node1(), edge.get_node2()
    x, y = (number[end] for end in ends)
    for root, opposite in (ends, ends[::-1]):
        candidates = (number[node] for node in FCI.getPossibleDsep(root, opposite, graph, largest))
        possible = sorted(variable for variable in candidates if variable < max(x, y))
        for size in range(1, min(largest, len(possible)) + 1):
            for conditions in combinations(possible, size):
                if test.is_independent(x, y, conditions):
                    graph.remove_edge(edge)
                    separators[x, y] = separators[y, x] = set(conditions)
                    return


def distances(edges: Iterable[Edge], target: int) -> dict[int, int]:
    """Compute the number of edges from the target to each connected token, ignoring marks.

    Args:
        edges: The edges.
        target: Position of the target.

    Returns:
        Token position -> number of edges.
    """
    neighbours: dict[int, set[int]] = {}
    for edge in edges:
        neighbours.setdefault(edge.source, set()).add(edge.target)
        neighbours.setdefault(edge.target, set()).add(edge.source)
    distance_by_token, queue = {target: 0}, deque([target])
    while queue:
        position = queue.popleft()
        for neighbour in sorted(neighbours.get(position, set()) - distance_by_token.keys()):
            distance_by_token[neighbour] = distance_by_token[position] + 1
            queue.append(neighbour)
    return distance_by_token
