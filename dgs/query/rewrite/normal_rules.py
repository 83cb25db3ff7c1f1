"""Phase normal: one node in place of several with the same meaning, and constants computed once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sqlglot import exp

from dgs.query.errors import QueryError
from dgs.query.functions import FUNCTIONS, name_of
from dgs.query.relation import Expand, Group, Join, Map, Order, Relation, Union, Where, Window
from dgs.query.rewrite.rule_language import Distinct, Rules, parts_of
from dgs.query.rewrite.scalar_questions import is_plain, scalars_changed
from dgs.query.scalar import Scalar, all_of, bound, columns_of, conjuncts, literal, substituted
from dgs.query.types import Schema

NORMAL = Rules("normal", "normal")


@NORMAL.to_merge(Where, Where)
def one_filter(parent: Where, child: Where) -> Relation:
    """Merge two filters. The child's comes first, so that it still guards the parent's."""
    return replace(child, predicate=all_of([*conjuncts(child.predicate), *conjuncts(parent.predicate)]))


@NORMAL.to_replace(Where)
def filter_of_true(node: Where) -> Relation | None:
    """Remove a filter that holds for all rows."""
    return None if conjuncts(node.predicate) or node.input.is_ordered else node.input


@NORMAL.to_replace(Map)
def map_of_nothing(node: Map) -> Relation | None:
    """Remove a Map that returns the columns of its input unchanged, unless it makes a bag of a list."""
    names = tuple(one.name if isinstance(one, exp.Column) else None for _, one in node.fields)
    is_same = names == node.schema.names == node.input.schema.names
    return node.input if is_same and not node.input.is_ordered else None


@NORMAL.to_merge(Map, Map)
def one_map(parent: Map, child: Map) -> Relation | None:
    """Merge two Maps, unless a scalar would be computed more often."""
    given = dict(child.fields)
    read = [one.name for _, scalar in parent.fields for one in scalar.find_all(exp.Column)]
    if any(read.count(name) > 1 and not is_plain(scalar) for name, scalar in given.items()):
        return None
    return replace(
        parent,
        input=child.input,
        fields=tuple((name, substituted(one, given)) for name, one in parent.fields),
    )


@NORMAL.to_replace(Union)
def union_of_one(node: Union) -> Relation | None:
    """Remove a union of one part."""
    return node.parts[0] if len(node.parts) == 1 and not node.parts[0].is_ordered else None


@NORMAL.to_merge(Union, Union)
def one_union(parent: Union, child: Union) -> Relation | None:
    """Merge two unions, unless columns become floats in the inner one."""
    kinds = {part.schema.types for part in (*parent.parts, *child.parts)}
    if len(kinds) > 1:
        return None
    parts = [part for one in parent.parts for part in (child.parts if one is child else (one,))]
    return replace(parent, parts=tuple(parts))


@NORMAL.to_merge(Distinct, Distinct)
def one_distinct(parent: Group, child: Group) -> Relation:
    """Merge two Groups that only keep different rows."""
    given = dict(child.keys)
    return replace(
        parent, input=child.input, keys=tuple((name, substituted(one, given)) for name, one in parent.keys)
    )


@NORMAL.to_merge((Expand, Group, Join, Order, Union, Where, Window), Order)
def unseen_order(parent: Relation, child: Order) -> Relation | None:
    """Remove an order that no reader sees: it takes a bag, or has an order of its own. A Map keeps its input's order."""
    if child.limit is not None or child.offset:
        return None
    return parent.with_inputs(tuple(child.input if one is child else one for one in parent.inputs))


@NORMAL.to_replace((Expand, Group, Join, Map, Order, Where))
def constants_folded(node: Relation) -> Relation | None:
    """Compute scalars that read no column, and `and`, `or` with a constant side."""
    found = scalars_changed(node, _folded)
    # `true and null` has type bool
    return None if found is None or found.schema != node.schema else found


def _folded(scalar: Scalar) -> Scalar:
    if not any(map(_may_fold, parts_of(scalar))):
        return scalar
    return scalar.transform(_folded_node)


def _may_fold(node: exp.Expression) -> bool:
    """Return whether all parts of a node are constants, or one decides an `and` or `or`."""
    parts = list(node.iter_expressions())
    if isinstance(node, exp.And | exp.Or):
        return any(isinstance(one, exp.Boolean) for one in parts)
    return bool(parts) and _is_call(node) and all(map(_is_constant, parts))


def _is_constant(node: exp.Expression) -> bool:
    inner = node.this if isinstance(node, exp.Neg) else node
    return isinstance(inner, (exp.Literal, exp.Boolean))


def _is_call(node: exp.Expression) -> bool:
    return name_of(node) in FUNCTIONS and not isinstance(node, exp.Neg)


def _folded_node(node: exp.Expression) -> exp.Expression:
    """Return the constant that a node equals, if it is a constant or a constant decides it."""
    if isinstance(node, exp.And | exp.Or):
        return _logic(node)
    if not _is_call(node) or columns_of(node) or not is_plain(node):
        return node
    try:
        value: Any = bound(node, Schema(()))(())
    except QueryError:
        return node  # if it is needed, it fails there
    is_simple = isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
    return literal(value) if is_simple else node


def _logic(node: exp.And | exp.Or) -> exp.Expression:
    left, right = _folded(node.this), _folded(node.expression)
    decisive = isinstance(node, exp.Or)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, exp.Boolean):
            return one if one.this is decisive else other
    return type(node)(this=left.copy(), expression=right.copy())
