"""Values of an ONNX graph: which node makes them, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .graph import Graph, Initialiser, Node

_PLACES_ONLY = frozenset(("Shape", "Size", "ConstantOfShape"))
"""Operators whose result depends on the shape of their input alone, or on nothing but a shape."""

_MOST_STEPS = 100_000

MOST_HOPS = 32
"""Largest number of nodes between a stored matrix and its use."""


@dataclass(frozen=True, eq=False)
class Scope:
    """Names of a graph, and of the graphs around it.

    Attributes:
        graph: The graph.
        outer: The scope of the graph whose node holds it.
        steps: Count of values looked at, which all scopes of a file share.
    """

    graph: Graph
    outer: Scope | None = None
    steps: list[int] = field(default_factory=lambda: [_MOST_STEPS])
    makers: Mapping[str, Node] = field(init=False)
    users: Mapping[str, list[Node]] = field(init=False)

    def __post_init__(self) -> None:
        users: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            for name in node.inputs:
                users.setdefault(name, []).append(node)
        object.__setattr__(self, "makers", {name: node for node in self.graph.nodes for name in node.outputs if name})
        object.__setattr__(self, "users", users)

    def tensor(self, name: str) -> Initialiser | None:
        """Return the stored tensor of a name; ``None`` if it is computed or given."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.graph.tensors:
                return scope.graph.tensors[name]
            if name in scope.makers:
                return None
            scope = scope.outer
        return None

    def maker(self, name: str) -> tuple[Scope, Node] | None:
        """Return the node that makes a value, and its scope; ``None`` for tensors and inputs.

        ``None`` also once too many values were looked at, which no graph of a model needs.
        """
        self.steps[0] -= 1
        scope: Scope | None = self
        while scope is not None and self.steps[0] > 0:
            if name in scope.makers:
                return scope, scope.makers[name]
            if name in scope.graph.tensors:
                return None
            scope = scope.outer
        return None

    def inner(self, node: Node) -> Iterator[Scope]:
        """Yield the scopes of the graphs of a node."""
        for graph in node.graphs:
            yield Scope(graph, self, self.steps)

    def origins(self, name: str) -> tuple[frozenset[str], bool]:
        """Return the inputs of the model whose contents a value depends on, and whether it counts along them.

        Counting is a cumulative sum, by which positions are made from token ids or a mask.
        """
        found: set[str] = set()
        counts, seen, waiting = False, {(id(self.graph), name)}, [(self, name)]
        while waiting:
            scope, value = waiting.pop()
            made = scope.maker(value)
            if made is None:
                found |= {value} & set(scope.outermost.graph.inputs)
                continue
            holder, node = made
            counts |= node.op == "CumSum"
            for one in () if node.op in _PLACES_ONLY else node.inputs:
                if one and (id(holder.graph), one) not in seen:
                    seen.add((id(holder.graph), one))
                    waiting.append((holder, one))
        return frozenset(found), counts

    @property
    def outermost(self) -> Scope:
        """The scope of the model's own graph."""
        return self if self.outer is None else self.outer.outermost


def scopes(graph: Graph) -> Iterator[Scope]:
    """Yield the scope of a graph and those of all graphs nested in it."""
    waiting = [Scope(graph)]
    while waiting:
        scope = waiting.pop(0)
        yield scope
        waiting += [inner for node in scope.graph.nodes for inner in scope.inner(node)]
