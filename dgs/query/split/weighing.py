"""Aggregates over compacted inputs: each as sums over the joined rows, where a row counts as often as its weights say.

`Weighing` turns the aggregates of one group into aggregates of the answer's group, and scalars over those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from sqlglot import exp

from dgs.errors import InternalError
from dgs.query.aggregates import Aggregate
from dgs.query.errors import Span
from dgs.query.functions import arguments_of, name_of
from dgs.query.scalar import Scalar, call, column, literal, type_of, when
from dgs.query.split.compaction import OWN, Compacting, bin_and_limbs, deletes, of_row
from dgs.query.split.exact_sums import VARIANCES
from dgs.query.split.join_tree import Block, Leaf, leaves_used
from dgs.query.types import Schema

REPEATED = frozenset({"median", "collect", "user"})
"""Aggregates that count how often a value comes. Rows are repeated by their weight for these, and for variances without rounding."""

SUPPORTED = frozenset({"arg_min", "arg_max"})
"""Aggregates that only need to know whether a row is there."""


def needs_rows(aggregates: Sequence[tuple[str, Aggregate]], *, is_exact: bool) -> bool:
    """Return whether an aggregate needs every row, as often as it comes."""
    repeated = REPEATED | VARIANCES if is_exact else REPEATED
    return any(one.function in repeated and not one.distinct for _, one in aggregates)


class Reducing:
    """Replaces the parts of scalars over one compacted leaf by keys of that leaf."""

    def __init__(self, block: Block, *, is_exact: bool) -> None:
        self.block, self.is_exact = block, is_exact
        self.compacting = {leaf.number: Compacting(leaf) for leaf in block.streams}
        self._leaves = {leaf.number: leaf for leaf in block.leaves}

    def is_exact_sum(self, scalar: Scalar) -> bool:
        """Return whether the sum of a scalar is an exact sum of floats."""
        return self.is_exact and type_of(scalar, self._schema).kind == "float64"

    @cached_property
    def _schema(self) -> Schema:
        """The columns of all leaves, as the block names them."""
        fields = ((one.number, field) for one in self.block.leaves for field in one.relation.schema.fields)
        return Schema(tuple((f"{number}.{name}", of) for number, (name, of) in fields))

    def only(self, scalar: Scalar) -> Leaf | None:
        """Return the only leaf that a scalar is over, if it is a stream whose weight counts."""
        used = leaves_used(scalar)
        leaf = self._leaves[next(iter(used))] if len(used) == 1 else None
        return leaf if leaf is not None and leaf.is_stream and leaf.counts else None

    def reduced(self, scalar: Scalar, clause: str, span: Span | None) -> Scalar:
        """Return a scalar over keys: the largest parts over one leaf become its keys.

        Of a leaf that an outer join may leave out, only columns become keys: scalars over them must see their nulls.
        """
        used = leaves_used(scalar)
        own = {number: self.compacting[number] for number in used if number in self.compacting}
        if len(used) == 1 and own and scalar.key not in ("if", "propertyeq"):
            (compacting,) = own.values()
            if not compacting.leaf.is_nullable:
                return compacting.key(scalar, clause, span)
        if isinstance(scalar, exp.Column):
            return self._column(scalar, own, clause, span)
        made = scalar.copy()
        for name, part in list(made.args.items()):
            if _has_columns(part):
                made.set(name, self.reduced(part, clause, span))
            elif isinstance(part, list):
                made.set(
                    name, [self.reduced(one, clause, span) if _has_columns(one) else one for one in part]
                )
        return made

    def _column(self, scalar: Scalar, own: dict[int, Compacting], clause: str, span: Span | None) -> Scalar:
        if not own:
            return scalar
        (compacting,) = own.values()
        is_weight = scalar == compacting.leaf.weight
        return scalar if is_weight else compacting.key(scalar, clause, span)

    def multiplicity(self, without: Sequence[Leaf] = ()) -> Scalar:
        """Return the multiplicity of a joined row: the product of the weights, without some leaves."""
        found = literal(1)
        for leaf in self.block.streams:
            if leaf.counts and leaf not in without:
                weight = call("coalesce", leaf.weight, literal(1)) if leaf.is_nullable else leaf.weight
                found = weight if found == literal(1) else call("mul", found, weight)
        return found


class Weighing:
    """The aggregates of one group over compacted leaves. `sums`: the aggregates that the answer's group computes."""

    def __init__(self, reducing: Reducing) -> None:
        self._of = reducing
        self.sums: list[tuple[str, Aggregate]] = []

    def final(self, name: str, one: Aggregate) -> Scalar:
        """Return an aggregate as a scalar over `sums`."""
        if one.function in SUPPORTED or one.distinct or (one.function in ("min", "max") and self._keeps(one)):
            return self._as_written(name, one)
        argument = one.arguments[0] if one.arguments else None
        if one.where is not None:
            argument = when(one.where, literal(1) if argument is None else argument)
        if argument is None:
            return call("coalesce", self._sum(self._of.multiplicity()), literal(0))
        return self._KINDS[one.function](self, argument, f"{one.function} {name!r}", one)

    def _as_written(self, name: str, one: Aggregate) -> Scalar:
        return self._add(self.written(one, clause_of(name, one)))

    def written(self, one: Aggregate, clause: str) -> Aggregate:
        """Return an aggregate over keys, without weights."""
        arguments = tuple(self._of.reduced(each, clause, one.span) for each in one.arguments)
        where = None if one.where is None else self._of.reduced(one.where, clause, one.span)
        return Aggregate(one.function, arguments, one.distinct, where, one.empty, one.user, span=one.span)

    def _keeps(self, one: Aggregate) -> bool:
        """Return whether a minimum needs all values: it is over several inputs, or a deletion may remove the least."""
        leaf = self._of.only(
            one.arguments[0] if one.where is None else call("and", one.arguments[0], one.where)
        )
        return leaf is None or deletes(leaf.relation)

    def _add(self, aggregate: Aggregate) -> Scalar:
        for known, name in ((each, name) for name, each in self.sums):
            if known == aggregate:
                return column(name)
        self.sums.append((f"$a{len(self.sums)}", aggregate))
        return column(self.sums[-1][0])

    def _sum(self, scalar: Scalar) -> Scalar:
        return self._add(Aggregate("sum", (scalar,)))

    def _weighted(self, kind: str, argument: Scalar, clause: str, span: Span | None) -> Scalar:
        """Return the sum of the contribution of a row (see `Compacting.part`) times its multiplicity."""
        if kind == "s" and self._of.is_exact_sum(argument):
            return self._exact(argument, clause, span)
        is_whole = self._of.only(argument) is not None or kind not in ("s", "n")
        factors = [argument] if is_whole else _factors(argument)
        owners = [leaf for leaf in map(self._of.only, factors) if leaf is not None]
        if len({leaf.number for leaf in owners}) == len(factors):
            found = self._of.multiplicity(owners)
            for leaf, factor in zip(owners, factors, strict=True):
                found = _times(found, self._of.compacting[leaf.number].part(kind, factor))
            return self._sum(found)
        each = of_row(kind, self._of.reduced(argument, clause, span))
        return self._sum(_times(self._of.multiplicity(), each))

    def _exact(self, argument: Scalar, clause: str, span: Span | None) -> Scalar:
        """Return the sum of floats by their bins and limbs, which are kept, or computed from several inputs."""
        leaf = self._of.only(argument)
        if leaf is None:
            parts = bin_and_limbs(self._of.reduced(argument, clause, span))
            return self._add(Aggregate("float_total", (*parts, self._of.multiplicity())))
        parts = self._of.compacting[leaf.number].exact_parts(argument, span)
        return self._add(Aggregate("float_total", (*parts, self._of.multiplicity([leaf]))))

    def _count(self, argument: Scalar, clause: str, one: Aggregate) -> Scalar:
        return call("coalesce", self._weighted("n", argument, clause, one.span), literal(0))

    def _total(self, argument: Scalar, clause: str, one: Aggregate) -> Scalar:
        total, number = (self._weighted(kind, argument, clause, one.span) for kind in "sn")
        empty = literal(0) if one.empty == "zero" else None
        return when(call("gt", number, literal(0)), total, empty)

    def _mean(self, argument: Scalar, clause: str, one: Aggregate) -> Scalar:
        total, number = (self._weighted(kind, argument, clause, one.span) for kind in "sn")
        return when(call("gt", number, literal(0)), call("div", total, number))

    def _extreme(self, argument: Scalar, clause: str, one: Aggregate) -> Scalar:
        leaf = self._of.only(argument)
        if leaf is None:
            raise InternalError(problem=f"{clause} of several inputs has no part")
        return self._add(
            Aggregate(one.function, (self._of.compacting[leaf.number].part(one.function, argument),))
        )

    def _decided(self, argument: Scalar, clause: str, one: Aggregate) -> Scalar:
        is_true = call("gt", self._weighted("t", argument, clause, one.span), literal(0))
        is_false = call("gt", self._weighted("t", call("not", argument), clause, one.span), literal(0))
        first, second = (is_true, is_false) if one.function == "some" else (is_false, is_true)
        decisive = literal(one.function == "some")
        nothing = literal(one.function == "all") if one.empty == "zero" else literal(None)
        return when(first, decisive, when(second, literal(one.function != "some"), nothing))

    def _variance(self, argument: Scalar, clause: str, one: Aggregate) -> Scalar:
        squares, total, number = (self._weighted(kind, argument, clause, one.span) for kind in "qsn")
        spread = call("sub", squares, call("div", call("mul", _as_float(total), _as_float(total)), number))
        less = 1 if one.function.endswith("samp") else 0
        found = call("div", call("greatest", spread, literal(0.0)), call("sub", number, literal(less)))
        if one.function.startswith("stddev"):
            found = call("sqrt", found)
        return when(call("gt", number, literal(less)), found)

    _KINDS: dict[str, Callable[[Weighing, Scalar, str, Aggregate], Scalar]] = {  # noqa: RUF012
        "count": _count,
        "sum": _total,
        "avg": _mean,
        "min": _extreme,
        "max": _extreme,
        "some": _decided,
        "all": _decided,
        "var_pop": _variance,
        "var_samp": _variance,
        "stddev_pop": _variance,
        "stddev_samp": _variance,
    }


def _has_columns(part: Any) -> bool:
    return isinstance(part, exp.Expression) and part.find(exp.Column) is not None


def _as_float(scalar: Scalar) -> Scalar:
    return exp.Cast(this=scalar.copy(), to=exp.DataType.build("double"))


def _times(left: Scalar, right: Scalar) -> Scalar:
    return right if left == literal(1) else call("mul", left, right)


def _factors(scalar: Scalar) -> list[Scalar]:
    if isinstance(scalar, exp.Paren):
        return _factors(scalar.this)
    if name_of(scalar) == "mul":
        return [factor for part in arguments_of(scalar) for factor in _factors(part)]
    return [scalar]


def clause_of(name: str, one: Aggregate) -> str:
    """Return the name of an aggregate as a reason to keep columns."""
    of = one.function if one.user is None else f"{OWN} {one.user.name!r} of"
    return f"{'distinct ' if one.distinct else ''}{of} {name!r}"
