"""The split of a query into compactions, which add up from batch to batch, and an answer over them (design: `answer(h(S))`).

A block is a group over joins over inputs, with predicates. Each input that is linear in streams is compacted by the columns that the rest
of the block reads, with its weights summed. The answer is the same query over the compactions, aggregates weighted. Distributing the
product of a join over the sum of its rows shows that they are equal, for any weights. Everything above a block stays in the answer.

- `join_tree`: a block's inputs and predicates; `compaction`: what is kept of an input; `weighing`: aggregates over compacted rows.

>>> from dgs.query.relation import Aggregate, Group, Source, column
>>> from dgs.query.types import INT, TEXT, Schema
>>> flights = Source("flights", Schema.of(carrier=TEXT, delay=INT))
>>> found = split(Group(flights, (("carrier", column("carrier")),), (("s", Aggregate("sum", (column("delay"),))),)))
>>> found.klass, found.compactions[0].keys, [name for name, _ in found.compactions[0].parts]
('A', ('carrier',), ['$w', '$s0', '$n1'])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dgs.query.errors import QueryError
from dgs.query.relation import Aggregate, Expand, Fields, Group, Join, Map, Relation, Script, Source, Where
from dgs.query.scalar import Scalar, all_of, call, column, columns_of, literal, substituted
from dgs.query.split.compaction import EXACT, OWN, Class, Compaction, Forced
from dgs.query.split.exact_sums import exactly
from dgs.query.split.join_tree import WEIGHT, Block, Leaf, Tree, check_bounded, is_linear, reads_streams
from dgs.query.split.weighing import Reducing, Weighing, clause_of, needs_rows

__all__ = ["WEIGHT", "Compaction", "Forced", "Split", "split"]


@dataclass(frozen=True, slots=True)
class Split:
    """A query as compactions and an answer: `answer` reads `Source(compaction.name)` and the tables that do not change."""

    compactions: tuple[Compaction, ...]
    answer: Script

    @property
    def klass(self) -> Class:
        """The worst class of the compactions; A if there are none."""
        return max((one.klass for one in self.compactions), default="A")

    @property
    def tables(self) -> dict[str, Source]:
        """The tables that do not change, by name."""
        names = {one.name for one in self.compactions}
        return {
            name: one for name, one in self.answer.sources().items() if name not in names and one.rows is None
        }


def split(
    query: Script | Relation | Mapping[str, Relation], *, require: Class | None = None, exact: bool = False
) -> Split:
    """Split a query. `require`: the worst class that is accepted. `exact`: sums of floats are rounded once, at an answer.

    Raises QueryError Q302 for a product of two streams, Q301 for a class worse than required, with the clause that forces it, and Q304 if
    that clause is a user's aggregation.
    """
    script = Script.of(query)
    script.sources()
    splitting = _Splitting(is_exact=exact)
    outputs = tuple((name, splitting.of(output)) for name, output in script.outputs)
    if exact:
        outputs = tuple((name, exactly(output)) for name, output in outputs)
    found = Split(tuple(splitting.compactions), Script(outputs))
    if require is not None:
        _check_class(found, require)
    return found


def _check_class(found: Split, require: Class) -> None:
    for one in found.compactions:
        if one.klass > require:
            reason = next(
                (each for each in reversed(one.forced) if each.clause not in ("group by", EXACT)), None
            )
            clause = "its joins" if reason is None else f"{reason.clause}, which keeps {reason.key!r}"
            problem = (
                f"class {one.klass}, where {require} is required: {clause} of {' and '.join(one.streams)}"
            )
            span = one.query.span if reason is None or reason.span is None else reason.span
            code, remedy = "Q301", "Aggregate first, or leave that clause out."
            if reason is not None and OWN in reason.clause:
                code, remedy = "Q304", f"Allow class {one.klass}: deletions are right then."
                problem += ", for it has no inverse to undo a deletion with"
            raise QueryError.of(code, problem, remedy, span, klass=one.klass)


class _Splitting:
    """Splits one script: every node once, equal compactions once."""

    def __init__(self, *, is_exact: bool) -> None:
        self._is_exact = is_exact
        self.compactions: list[Compaction] = []
        self._done: dict[int, tuple[Relation, Relation]] = {}

    def of(self, relation: Relation) -> Relation:
        """Return a relation in the answer."""
        known = self._done.get(id(relation))
        if known is None:
            known = self._done[id(relation)] = (relation, self._made(relation))
        return known[1]

    def _made(self, relation: Relation) -> Relation:
        if not reads_streams(relation):
            return relation
        if isinstance(relation, Group):
            return self._group(relation)
        if is_linear(relation) or isinstance(relation, (Map, Where, Join)):
            return self._rows(relation)
        return relation.with_inputs(tuple(map(self.of, relation.inputs)))

    def _group(self, node: Group) -> Relation:
        """Split a Group: compact its rows by key, and compute aggregates from compacted sums, or from rows if they need rows."""
        block = Block(node.input)
        if not block.streams:
            return node.with_inputs((self.of(node.input),))
        check_bounded(block)
        over = block.columns
        aggregates = [(name, _over(one, over)) for name, one in node.aggregates]
        reducing = Reducing(block, is_exact=self._is_exact)
        weighing = Weighing(reducing)
        keys = tuple(
            (name, reducing.reduced(substituted(one, over), "group by", node.span)) for name, one in node.keys
        )
        if needs_rows(aggregates, is_exact=self._is_exact):
            written = tuple((name, weighing.written(one, clause_of(name, one))) for name, one in aggregates)
            used = [scalar for _, scalar in keys] + [each for _, one in written for each in _scalars(one)]
            return Group(self._repeated(self._tree(reducing, "C"), reducing, used), keys, written)
        finals = [(name, weighing.final(name, one)) for name, one in aggregates]
        is_alone = len(block.leaves) == 1 and all(
            one.clause in ("group by", EXACT) for each in reducing.compacting.values() for one in each.forced
        )
        rows = self._tree(reducing, "A" if is_alone else "B")
        sums = tuple(weighing.sums)
        named = tuple((name, column(name)) for name, _ in keys)
        if is_alone and keys and _is_grouped(reducing, keys, sums):
            return Map(
                Map(rows, (*keys, *((name, one.arguments[0]) for name, one in sums))), (*named, *finals)
            )
        return Map(Group(rows, keys, sums), (*named, *finals))

    def _rows(self, relation: Relation) -> Relation:
        """Return the rows to put out, each as often as its weight says."""
        block = Block(relation)
        if not block.streams:
            return relation.with_inputs(tuple(map(self.of, relation.inputs)))
        check_bounded(block)
        reducing = Reducing(block, is_exact=self._is_exact)
        fields = tuple(
            (name, reducing.reduced(scalar, "rows that go out", relation.span))
            for name, scalar in block.columns.items()
        )
        rows = self._tree(reducing, "C")
        return Map(self._repeated(rows, reducing, [scalar for _, scalar in fields]), fields)

    def _repeated(self, rows: Relation, reducing: Reducing, used: list[Scalar]) -> Relation:
        times = reducing.multiplicity()
        if times == literal(1):
            return rows
        names = tuple(dict.fromkeys(name for scalar in used for name in columns_of(scalar)))
        kept = (*((name, column(name)) for name in names), ("$times", call("range", times)))
        return Expand(Map(rows, kept), column("$times"), "$number")

    def _tree(self, reducing: Reducing, klass: Class) -> Relation:
        """Return the joins of a block over its compactions. By now everything that the answer needs of them is known, except for the joins."""
        plan = self._joins(reducing.block.tree, reducing)
        compacted = {
            number: self._shared(one.finished(f"c{len(self.compactions)}", klass))
            for number, one in reducing.compacting.items()
        }
        return self._built(plan, reducing, compacted)

    def _joins(self, tree: Tree, reducing: Reducing) -> _Plan:
        if isinstance(tree, Leaf):
            own = [] if tree.is_stream else tree.filters
            return _Plan(tree, (), (), None, own)
        pairs, rest = tree.pairs()
        clause = f"{tree.how} join"
        both = tuple(
            (reducing.reduced(one, clause, tree.span), reducing.reduced(other, clause, tree.span))
            for one, other in pairs
        )
        kept = [reducing.reduced(one, clause, tree.span) for one in rest]
        filters = [reducing.reduced(one, "where", tree.span) for one in tree.filters]
        sides = (self._joins(tree.left, reducing), self._joins(tree.right, reducing))
        return _Plan(tree, sides, both, all_of(kept) if kept else None, filters)

    def _built(self, plan: _Plan, reducing: Reducing, compacted: Mapping[int, Compaction]) -> Relation:
        tree = plan.tree
        made: Relation
        if isinstance(tree, Leaf):
            made = self._leaf(tree, compacted.get(tree.number))
        else:
            left, right = (self._built(one, reducing, compacted) for one in plan.sides)
            made = Join(left, right, plan.pairs, plan.residual, tree.how, span=tree.span)
        return Where(made, all_of(plan.filters)) if plan.filters else made

    def _leaf(self, leaf: Leaf, compaction: Compaction | None) -> Relation:
        source = self.of(leaf.relation) if compaction is None else compaction.source
        fields: Fields = tuple((f"{leaf.number}.{name}", column(name)) for name in source.schema.names)
        if compaction is None:
            fields = (*fields, (f"{leaf.number}.{WEIGHT}", literal(1)))
        return Map(source, fields)

    def _shared(self, made: Compaction) -> Compaction:
        for place, known in enumerate(self.compactions):
            if known.query == made.query:
                worst = max(known.klass, made.klass)
                self.compactions[place] = replace(known, klass=worst, forced=known.forced + made.forced)
                return known
        self.compactions.append(made)
        return made


@dataclass(frozen=True, slots=True)
class _Plan:
    """A tree with its predicates over keys."""

    tree: Tree
    sides: tuple[_Plan, ...]
    pairs: tuple[tuple[Scalar, Scalar], ...]
    residual: Scalar | None
    filters: list[Scalar]


def _is_grouped(reducing: Reducing, keys: Fields, sums: Sequence[tuple[str, Aggregate]]) -> bool:
    """Return whether each group has one row in the block's only compaction, so that an aggregate equals its argument."""
    kept = {each.key for one in reducing.compacting.values() for each in one.forced}
    (leaf,) = reducing.block.leaves
    by = {one.name.removeprefix(f"{leaf.number}.") for _, one in keys if isinstance(one, exp.Column)}
    return kept <= by and all(
        one.function in ("sum", "min", "max") and one.where is None and not one.distinct for _, one in sums
    )


def _over(one: Aggregate, over: Mapping[str, Scalar]) -> Aggregate:
    where = None if one.where is None else substituted(one.where, over)
    return replace(one, arguments=tuple(substituted(each, over) for each in one.arguments), where=where)


def _scalars(one: Aggregate) -> list[Scalar]:
    return [*one.arguments, *(() if one.where is None else (one.where,))]
