"""The rows of one `select`: generators and conditions in any order, which become joins when all are known.

A block is filled while the select is read: `join`, `expand`, `attach` and `where` define its rows; `build` makes the relation. A column of
an enclosing select that the block lacks raises `NeedsRows`: the reader then begins the block with those columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dgs.query.aggregates import Aggregate
from dgs.query.functions import arguments_of, name_of
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_terms import Term, reads
from dgs.query.relation import Expand, Group, How, Join, Relation, Source, Where
from dgs.query.scalar import Scalar
from dgs.query.types import INT, Schema

UNIT = Source("$unit", Schema.of(**{"$unit": INT}), changes=False, rows=((0,),))
"""One row: the rows of an expression outside of every `select`."""


class NeedsRows(Exception):  # noqa: N818 - no error: the reader catches it and begins the block with these columns
    """A nested select needs columns of the rows around it."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = frozenset(columns)
        super().__init__(self.columns)


@dataclass
class Grouped:
    """`group by`: the rows before, the keys, and the aggregates, which are added while the rest of the select is read.

    `written`: the keys as in the text: the same text after `group by` is the key.
    """

    before: Block
    keys: list[tuple[str, Scalar]]
    written: list[tuple[t.Tree, Term]]
    aggregates: list[tuple[str, Aggregate]] = field(default_factory=list)
    after: Block | None = None

    def aggregate(self, aggregate: Aggregate, name: Callable[[], str]) -> str:
        """Return the column of an aggregate, which the later block also has; equal aggregates share it."""
        for known, one in self.aggregates:
            if one == aggregate:
                return known
        column = name()
        self.aggregates.append((column, aggregate))
        if self.after is not None:
            self.after.columns.add(column)
        return column


@dataclass(frozen=True)
class Joined:
    """A relation joined to the rows: `left` keeps rows without a partner; `pairs` are equalities (rows, relation)."""

    node: Relation
    columns: frozenset[str]
    how: How = "inner"
    pairs: tuple[tuple[Scalar, Scalar], ...] = ()

    def is_ready(self, have: frozenset[str]) -> bool:
        """Whether the columns that it needs are there."""
        return reads(*(mine for mine, _ in self.pairs)) <= have


@dataclass(frozen=True)
class Expanded:
    """One row for each element of a collection in a column."""

    of: Scalar
    column: str

    def is_ready(self, have: frozenset[str]) -> bool:
        """Whether the columns that it needs are there."""
        return reads(self.of) <= have


class Block:
    """Rows under construction."""

    def __init__(self, base: Relation | Grouped | None = None, columns: Iterable[str] = ()) -> None:
        self.base = base
        self.steps: list[Joined | Expanded] = []
        self.conditions: list[Scalar] = []
        self.columns = set(columns)
        self.ones: dict[int, Term] = {}

    def require(self, *exprs: Scalar) -> None:
        """Raise NeedsRows if scalars read columns that the block does not have."""
        if self.missing(*exprs):
            raise NeedsRows(self.missing(*exprs))

    def missing(self, *exprs: Scalar) -> frozenset[str]:
        """Return the columns that scalars read and the block does not have."""
        return reads(*exprs) - self.columns

    def join(self, node: Relation, columns: Iterable[str]) -> None:
        """Add a generator over a relation; conditions decide how it is joined."""
        self.steps.append(Joined(node, frozenset(columns)))
        self.columns |= set(columns)

    def attach(self, node: Relation, columns: Iterable[str], pairs: Iterable[tuple[Scalar, Scalar]]) -> None:
        """Add columns of a relation with at most one partner for each row; null if there is none."""
        pairs = tuple(pairs)
        self.require(*(mine for mine, _ in pairs))
        self.steps.append(Joined(node, frozenset(columns), "left", pairs))
        self.columns |= set(columns)

    def expand(self, of: Scalar, column: str) -> None:
        """Add a generator over a collection in a column."""
        self.require(of)
        self.steps.append(Expanded(of, column))
        self.columns.add(column)

    def where(self, condition: Scalar) -> None:
        """Keep the rows for which a condition is true. It may read columns of enclosing rows: `correlations` takes such conditions out."""
        self.conditions.append(condition)

    def correlations(self) -> list[tuple[Scalar, Scalar]]:
        """Take out the equalities between the enclosing rows and the block's: pairs of (enclosing, own).

        Raises NeedsRows if another condition reads columns of the enclosing rows.
        """
        pairs, kept = [], []
        for condition in self.conditions:
            if not self.missing(condition):
                kept.append(condition)
                continue
            sides = equal_sides(condition)
            around = [one for one in sides if not reads(one) & self.columns]
            own = [one for one in sides if not self.missing(one)]
            if len(around) != 1 or len(own) != 1:
                raise NeedsRows(self.missing(condition))
            pairs.append((around[0], own[0]))
        self.conditions = kept
        return pairs

    def build(self) -> Relation:
        """Return the relation of the rows."""
        return _Assembly(self).node or UNIT


class _Assembly:
    """Steps and conditions of a block, put together in an order that joins by equalities."""

    def __init__(self, block: Block) -> None:
        self.conditions = list(block.conditions)
        self.have: frozenset[str] = frozenset()
        self.node: Relation | None = None
        if isinstance(block.base, Grouped):
            keys, aggregates = tuple(block.base.keys), tuple(block.base.aggregates)
            self.node = Group(block.base.before.build(), keys, aggregates)
            self.have = frozenset(name for name, _ in (*keys, *aggregates))
        elif block.base is not None:
            self.node, self.have = block.base, frozenset(block.columns) - _made(block.steps)
        self._filter()
        steps = list(block.steps)
        while steps:
            step = self._next(steps)
            steps.remove(step)
            self._add(step)
            self._filter()
        if self.node is None and self.conditions:
            self.node = UNIT
            self._filter()

    def _next(self, steps: list[Joined | Expanded]) -> Joined | Expanded:
        ready = [one for one in steps if one.is_ready(self.have)]
        connected = (
            one for one in ready if isinstance(one, Joined) and (one.how == "left" or self._pairs(one))
        )
        return next(connected, ready[0]) if self.node is not None else ready[0]

    def _pairs(self, step: Joined) -> list[tuple[Scalar, tuple[Scalar, Scalar]]]:
        found = []
        for condition in self.conditions:
            for mine, other in _both_ways(equal_sides(condition)):
                if reads(mine) and reads(other) and reads(mine) <= self.have and reads(other) <= step.columns:
                    found.append((condition, (mine, other)))
                    break
        return found

    def _add(self, step: Joined | Expanded) -> None:
        if isinstance(step, Expanded):
            self.node = Expand(self.node or UNIT, step.of, step.column)
            self.have |= {step.column}
            return
        node, pairs = step.node, list(step.pairs)
        if step.how == "inner":
            for condition in [one for one in self.conditions if reads(one) <= step.columns]:
                node = Where(node, condition)
                self.conditions.remove(condition)
            for condition, pair in self._pairs(step):
                pairs.append(pair)
                self.conditions.remove(condition)
        if self.node is None and step.how == "inner":
            self.node = node
        else:
            self.node = Join(self.node or UNIT, node, tuple(pairs), None, step.how)
        self.have |= step.columns

    def _filter(self) -> None:
        if self.node is None:
            return
        for condition in [one for one in self.conditions if reads(one) <= self.have]:
            self.node = Where(self.node, condition)
            self.conditions.remove(condition)


def _made(steps: Iterable[Joined | Expanded]) -> frozenset[str]:
    found: set[str] = set()
    for step in steps:
        found |= step.columns if isinstance(step, Joined) else {step.column}
    return frozenset(found)


def equal_sides(condition: Scalar) -> tuple[Scalar, ...]:
    """Return both sides of an equality; nothing for another condition."""
    return tuple(arguments_of(condition)) if name_of(condition) == "eq" else ()


def _both_ways(sides: tuple[Scalar, ...]) -> list[tuple[Scalar, Scalar]]:
    return [(sides[0], sides[1]), (sides[1], sides[0])] if sides else []
