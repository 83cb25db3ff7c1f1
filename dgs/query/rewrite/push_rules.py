"""Phases push and windows: they move work down, so that fewer rows and columns go up. Phase push moves filters and projections.

Phase windows moves filters below windows, and removes unread windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from dgs.query.functions import arguments_of, name_of
from dgs.query.relation import Expand, Fields, Group, Join, Map, Relation, Union, Where, Window
from dgs.query.rewrite.rule_language import Rules, is_shared, scalars_of
from dgs.query.rewrite.scalar_questions import is_plain, never_fails
from dgs.query.scalar import Scalar, all_of, call, column, columns_of, conjuncts, substituted

PUSH = Rules("push", "push")


@PUSH.to_merge(Where, Map)
def filter_below_map(parent: Where, child: Map) -> Relation | None:
    """Filter before computing, if the columns that the filter reads cost nothing to compute twice."""
    given = dict(child.fields)
    if not all(is_plain(given[name]) for name in columns_of(parent.predicate)):
        return None
    return replace(
        child, input=replace(parent, input=child.input, predicate=substituted(parent.predicate, given))
    )


@PUSH.to_merge(Where, Union)
def filter_below_union(parent: Where, child: Union) -> Relation | None:
    """Filter each part, if no part's columns become floats in the union."""
    if any(part.schema.types != child.schema.types for part in child.parts):
        return None
    parts = [
        replace(parent, input=part, predicate=substituted(parent.predicate, _renamed(child, part)))
        for part in child.parts
    ]
    return replace(child, parts=tuple(parts))


def _renamed(union: Union, part: Relation) -> dict[str, Scalar]:
    return {name: column(own) for name, own in zip(union.schema.names, part.schema.names, strict=True)}


@PUSH.to_merge(Where, Join)
def filter_below_join(parent: Where, child: Join) -> Relation | None:
    """Filter the side of a join that a condition is about, unless its rows come out without a partner."""
    to_left = child.how in ("inner", "left", "semi", "anti")
    found = _to_sides(child, conjuncts(parent.predicate), to_left=to_left, to_right=child.how == "inner")
    return None if found is None else _filtered(found[0], found[1], parent)


@PUSH.to_replace(Join)
def condition_below_join(node: Join) -> Relation | None:
    """Filter the optional side of a join by the conditions of the join that are only about it."""
    to_right = node.how != "full"
    found = _to_sides(
        node, conjuncts(node.residual), to_left=node.how in ("inner", "semi"), to_right=to_right
    )
    if found is None:
        return None
    join, left = found
    return replace(join, residual=all_of(left) if left else None)


def _to_sides(
    join: Join, conditions: list[Scalar], *, to_left: bool, to_right: bool
) -> tuple[Join, list[Scalar]] | None:
    """Return the join with conditions moved to its sides, and the remaining conditions; None if all remain."""
    sides = {"left": (join.left, to_left), "right": (join.right, to_right)}
    moved: dict[str, list[Scalar]] = {name: [] for name in sides}
    stay: list[Scalar] = []
    for one in conditions:
        read = set(columns_of(one))
        fits = [
            name for name, (side, may) in sides.items() if may and read and read <= set(side.schema.names)
        ]
        (moved[fits[0]] if fits and never_fails(one) else stay).append(one)
    if not any(moved.values()):
        return None
    new = {name: _filtered(side, moved[name]) for name, (side, _) in sides.items()}
    return replace(join, left=new["left"], right=new["right"]), stay


def _filtered(node: Relation, conditions: list[Scalar], like: Where | None = None) -> Relation:
    if not conditions:
        return node
    return Where(node, all_of(conditions), span=node.span if like is None else like.span)


@PUSH.to_merge(Where, Join)
def pairs_from_filter(parent: Where, child: Join) -> Relation | None:
    """Turn a filter's equalities between the sides of an inner join into pairs of the join."""
    if child.how != "inner":
        return None
    found = [(one, _pair(one, child)) for one in conjuncts(parent.predicate)]
    pairs = [pair for _, pair in found if pair is not None]
    stay = [one for one, pair in found if pair is None]
    if not pairs:
        return None
    return _filtered(replace(child, pairs=(*child.pairs, *pairs)), stay, parent)


def _pair(one: Scalar, join: Join) -> tuple[Scalar, Scalar] | None:
    """Return the two sides of an equality, left before right; None for other conditions than equalities between the sides of the join."""
    if name_of(one) != "eq" or not never_fails(one):
        return None
    a, b = arguments_of(one)
    reads = [set(columns_of(side)) for side in (a, b)]
    for (x, y), (of_x, of_y) in (((a, b), reads), ((b, a), reads[::-1])):
        if of_x and of_y and of_x <= set(join.left.schema.names) and of_y <= set(join.right.schema.names):
            return x, y
    return None


@PUSH.to_merge(Where, Group)
def filter_below_group(parent: Where, child: Group) -> Relation | None:
    """Filter the rows of a Group by conditions on its keys. Without keys there is always a row, so nothing moves."""
    return below(parent, child, dict(child.keys)) if child.keys else None


@PUSH.to_merge(Where, Expand)
def filter_below_expand(parent: Where, child: Expand) -> Relation | None:
    """Filter before expanding by conditions that do not read the item."""
    return below(parent, child, {name: column(name) for name in child.input.schema.names})


def below(parent: Where, child: Group | Expand | Window, given: dict[str, Scalar]) -> Relation | None:
    """Return the filter below a node, as far as it reads only columns `given` there."""
    down, stay = split_by(
        parent.predicate, lambda one: never_fails(one) and {*columns_of(one)} <= given.keys()
    )
    if not down:
        return None
    lower = Where(child.input, all_of([substituted(one, given) for one in down]), span=parent.span)
    return _filtered(replace(child, input=lower), stay, parent)


def split_by(predicate: Scalar, wanted: Callable[[Scalar], bool]) -> tuple[list[Scalar], list[Scalar]]:
    """Return the conditions that are wanted and read a column, and the others."""
    parts = [(one, bool(columns_of(one)) and wanted(one)) for one in conjuncts(predicate)]
    return [one for one, is_wanted in parts if is_wanted], [one for one, is_wanted in parts if not is_wanted]


@PUSH.to_merge(Map, Union)
def map_below_union(parent: Map, child: Union) -> Relation | None:
    """Compute in each part, if no part's columns become floats in the union."""
    if any(part.schema.types != child.schema.types for part in child.parts):
        return None
    parts = []
    for part in child.parts:
        given = _renamed(child, part)
        fields = tuple((name, substituted(one, given)) for name, one in parent.fields)
        parts.append(replace(parent, input=part, fields=fields))
    return replace(child, parts=tuple(parts))


@PUSH.to_merge((Map, Group), Join)
def columns_below_join(parent: Map | Group, child: Join) -> Relation | None:
    """Take only the read columns from the sides of a join, if a side has others."""
    read = {name for node in (parent, child) for one in scalars_of(node) for name in columns_of(one)}
    left = _narrowed(child.left, read)
    right = _narrowed(child.right, read)
    if left is child.left and right is child.right:
        return None
    return replace(parent, input=replace(child, left=left, right=right))


def _narrowed(node: Relation, read: Iterable[str]) -> Relation:
    """Return a node with only the read columns; the node itself if all columns are read, or none."""
    kept: Fields = tuple((name, column(name)) for name in node.schema.names if name in read)
    return Map(node, kept, span=node.span) if 0 < len(kept) < len(node.schema) else node


@PUSH.to_merge(Map, (Group, Where))
def unread_aggregates(parent: Map, child: Group | Where) -> Relation | None:
    """Remove aggregates that neither a Map nor a filter below it reads."""
    group = child.input if isinstance(child, Where) else child
    if not isinstance(group, Group) or is_shared(group):
        return None
    between = [parent] if child is group else [parent, child]
    read = {name for node in between for one in scalars_of(node) for name in columns_of(one)}
    kept = tuple((name, one) for name, one in group.aggregates if name in read)
    if len(kept) == len(group.aggregates):
        return None
    lower = replace(group, aggregates=kept)
    return replace(parent, input=replace(child, input=lower) if isinstance(child, Where) else lower)


WINDOWS = Rules("windows", "windows")


@WINDOWS.to_merge(Where, Window)
def filter_below_window(parent: Where, child: Window) -> Relation | None:
    """Filter before a row is put into windows, by conditions that do not read the window's end."""
    return below(parent, child, {name: column(name) for name in child.input.schema.names})


@WINDOWS.to_merge(Map, Window)
def unread_window(parent: Map, child: Window) -> Relation | None:
    """Remove windows whose end nothing reads, if each row is in exactly one of them. A row without a time is in none."""
    is_read = any(child.as_ in columns_of(one) for _, one in parent.fields)
    if is_read or child.size != child.slide:
        return None
    return parent.with_inputs(
        (Where(child.input, call("not", call("isnull", column(child.at))), span=child.span),)
    )
