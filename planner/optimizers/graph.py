"""The dependence graph of atoms, in symbolic form: cliques and complete bipartite parts are hubs instead of edges.

Ten thousand mutually dependent tags would be fifty million edges. Here an atom *belongs to* a few hubs and *asks* a few;
its neighbours are all members of the hubs it asks. Only predicates are evaluated pair by pair.

>>> from dgs.model.tags import kind
>>> from dgs.model.dependence import ALWAYS
>>> VALUE, BARRIER = kind("value"), kind("barrier")
>>> vertices = [Atom("a", "value"), Atom("b", "value"), Atom("c", "barrier")]
>>> graph = DependenceGraph(vertices, Dependence((BARRIER, VALUE, ALWAYS)))
>>> graph.components([0, 1]), graph.components([0, 1, 2])
([[0], [1]], [[0, 1, 2]])
>>> graph.edges()
[(0, 2), (1, 2)]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from dgs.model.dependence import SAME_KEY, Dependence, Rule, When
from dgs.model.key_sets import key_class
from dgs.planner.optimizers.atoms import Atom

Hub = Hashable


class DependenceGraph:
    """The dependences between atoms, by position. It may have too many edges, never too few.

    (A predicate cannot be evaluated on all of an infinite set: then everything in the set counts as dependent.)
    """

    def __init__(self, vertices: Sequence[Atom], dependence: Dependence) -> None:
        self.atoms = vertices
        self.dependence = dependence
        self._numbers: dict[Hub, int] = {}
        self.belongs: list[list[int]] = [[] for _ in vertices]
        self.asks: list[list[int]] = [[] for _ in vertices]
        self.pairs: list[set[int]] = [set() for _ in vertices]
        self._by_kind: dict[str, list[int]] = {}
        self._rest = [i for i, atom in enumerate(vertices) if atom.kind is None]
        self._modulus = max((atom.modulus for atom in vertices), default=1)
        domains = {id(atom.domain): atom.domain for atom in vertices if atom.domain}
        self._domains = list(dict.fromkeys(domains.values()))  # the splits of a stream have equal domains
        for i, atom in enumerate(vertices):
            if atom.kind is not None:
                self._by_kind.setdefault(atom.kind, []).append(i)
        if dependence.is_total:
            for i in range(len(vertices)):
                self._connect([i], [i], "total")
        for rule in dependence.rules:
            self._add(rule)

    @property
    def hub_count(self) -> int:
        """Number of hubs."""
        return len(self._numbers)

    def neighbours(self, i: int) -> set[int]:
        """Return the positions of all atoms that depend on atom i, without i itself."""
        asked = set(self.asks[i])
        found = {j for j, hubs in enumerate(self.belongs) if not asked.isdisjoint(hubs)}
        return (found | self.pairs[i]) - {i}

    def degrees(self) -> list[int]:
        """Return the approximate number of neighbours of each atom (a neighbour by two rules counts twice)."""
        sizes = [0] * self.hub_count
        for hubs in self.belongs:
            for hub in hubs:
                sizes[hub] += 1
        return [
            sum(sizes[hub] for hub in asked) + len(pairs)
            for asked, pairs in zip(self.asks, self.pairs, strict=True)
        ]

    def components(self, subset: Iterable[int]) -> list[list[int]]:
        """Return the connected components of the subgraph induced by `subset`, in order of first members."""
        chosen = list(subset)
        parts = Components(self)
        for i in chosen:
            parts.add(i)
        groups: dict[int, list[int]] = {}
        for i in chosen:
            groups.setdefault(parts.find(i), []).append(i)
        return list(groups.values())

    def edges(self) -> list[tuple[int, int]]:
        """Return the explicit edges in order, for drawings and reference algorithms on small instances."""
        return [(i, j) for i in range(len(self.atoms)) for j in sorted(self.neighbours(i)) if i < j]

    def _hub(self, name: Hub) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def _connect(self, asking: Iterable[int], members: Iterable[int], name: Hub) -> None:
        hub = self._hub(name)
        for i in members:
            self.belongs[i].append(hub)
        for i in asking:
            self.asks[i].append(hub)

    def _add(self, rule: Rule) -> None:
        left, right = str(rule.left), str(rule.right)
        for asking, asked in dict.fromkeys([(left, right), (right, left)]):
            some, others = self._by_kind.get(asking, []), self._by_kind.get(asked, [])
            if rule.when is SAME_KEY:
                self._add_same_key(some, others, (id(rule), asking))
            elif isinstance(rule.when, When):
                self._connect(some, others, (id(rule), asking))
            # Events on a stream of unknown kinds may have any kind and key, so they depend on all of the other side.
            rest = [i for i in self._rest if asking in (self.atoms[i].rest or ())]
            met = [i for i in self._rest if asked in (self.atoms[i].rest or ())]
            self._connect(rest, others, (id(rule), asking, "rest asks"))
            self._connect([*some, *rest], met, (id(rule), asking, "asks rest"))
        if not isinstance(rule.when, When):
            self._add_pairs(rule, self._by_kind.get(left, []), self._by_kind.get(right, []))

    def _add_same_key(self, asking: list[int], members: list[int], name: Hub) -> None:
        """Connect equal keys, equal classes, and each key with its class."""
        for i in members:
            self.belongs[i] += [self._hub((name, hub)) for hub in self._key_hubs(i, mine=True)]
        for i in asking:
            self.asks[i] += [self._hub((name, hub)) for hub in self._key_hubs(i, mine=False)]

    def _key_hubs(self, i: int, *, mine: bool) -> Iterator[Hub]:
        atom = self.atoms[i]
        if not atom.is_single:
            yield "class", atom.hash_class
            if not mine:
                yield "key in", atom.hash_class
            return
        yield "key", atom.key
        if any(atom.key in domain for domain in self._domains):
            yield ("key in" if mine else "class"), key_class(atom.key) % self._modulus

    def _add_pairs(self, rule: Rule, left: list[int], right: list[int]) -> None:
        for i in left:
            for j in right:
                a, b = self.atoms[i], self.atoms[j]
                if i != j and (not (a.is_single and b.is_single) or rule.holds(a.tag, b.tag)):
                    self.pairs[i].add(j)
                    self.pairs[j].add(i)


class Components:
    """Connected components of a growing set of atoms: union-find, with one representative per component in each hub.

    An atom that asks a hub merges all components in it, and one representative then stands for all. So every member is visited
    once, and adding n atoms costs about n steps, whatever the number of edges behind the hubs.
    """

    def __init__(self, graph: DependenceGraph) -> None:
        self._graph = graph
        self._parent: dict[int, int] = {}
        self._members: list[list[int]] = [[] for _ in range(graph.hub_count)]
        self.steps = 0

    def find(self, i: int) -> int:
        """Return the representative of the component of i."""
        parent = self._parent
        root = i
        while parent[root] != root:
            root = parent[root]
        while parent[i] != root:
            parent[i], i = root, parent[i]
        return root

    def add(self, i: int) -> list[int]:
        """Add atom i as the representative of all components that it connects; return their former representatives."""
        self._parent[i] = i
        merged: list[int] = []
        for hub in self._graph.asks[i]:
            members = self._members[hub]
            self.steps += len(members) + 1
            merged.extend(self._merge(members, i))
            if members:
                members[:] = [i]
        self.steps += len(self._graph.pairs[i])
        merged.extend(self._merge(sorted(j for j in self._graph.pairs[i] if j in self._parent), i))
        for hub in self._graph.belongs[i]:
            self._members[hub].append(i)
        return merged

    def touched(self, i: int) -> set[int]:
        """Return the representatives of the components that atom i would connect; nothing changes."""
        around = [j for hub in self._graph.asks[i] for j in self._members[hub]]
        return {self.find(j) for j in (*around, *(j for j in self._graph.pairs[i] if j in self._parent))}

    def _merge(self, members: Iterable[int], i: int) -> Iterator[int]:
        for j in members:
            root = self.find(j)
            if root != i:
                self._parent[root] = i
                yield root
