"""Statements of Pig that make a relation of relations, one function each: GROUP, JOIN, CROSS, UNION and their like.

A relation whose rows are in windows has the window's end as a hidden column, which is a further key of every grouping, join or order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dgs.query.errors import QueryError
from dgs.query.pig.pig_casts import as_type, items_of, met, record_of
from dgs.query.pig.pig_scalars import condition_of, value_of
from dgs.query.pig.pig_scope import ROW_NUMBER, WINDOW_END, PigRelation, Scope, Value
from dgs.query.pig.pig_types import BYTEARRAY, CHARARRAY, NULL, PigField, PigType, columns
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.relation import Aggregate, Expand, Group, How, Join, Key, Map, Order, Relation, Union, Where
from dgs.query.scalar import Nested, Scalar, call, column, field, literal, struct, substituted

RIGHT_WINDOW = "right " + WINDOW_END


def filtered(relation: PigRelation, condition: pig.Expression, scope: Scope) -> PigRelation:
    """FILTER: the rows for which a condition is true."""
    return replace(relation, node=Where(relation.node, condition_of(condition, scope).scalar))


def kept_columns(names: Sequence[str]) -> tuple[tuple[str, Scalar], ...]:
    """Return unchanged columns, for a Map."""
    return tuple((name, column(name)) for name in names)


def in_windows(relation: PigRelation) -> tuple[str, ...]:
    """Return the hidden column of windows, if the rows are in windows."""
    return (WINDOW_END,) if relation.window is not None else ()


def distinct(relation: PigRelation) -> PigRelation:
    """DISTINCT: each row once, in each window."""
    kept = in_windows(relation)
    node = Group(relation.node, kept_columns((*relation.columns, *kept)))
    return replace(relation, node=node, hidden=kept)


def grouped(source: PigRelation, name: str, keys: Sequence[Value] | None) -> PigRelation:
    """GROUP: a row for each key with the bag of its rows, named like the input. No keys: ALL."""
    kept = in_windows(source)
    bag = PigType("bag", source.fields)
    row = struct(**{one: column(one) for one in source.columns})
    parts = [(f"key {place}", one.scalar) for place, one in enumerate(keys or ())]
    node: Relation = Group(
        source.node, (*parts, *kept_columns(kept)), (("rows", Aggregate("collect", (row,))),)
    )
    if keys is None and not kept:  # GROUP ALL of no rows has no rows
        node = Where(node, call("gt", call("array_size", column("rows")), literal(0)))
    of = _key_value(keys, parts)
    fields = (PigField("group", of.type), PigField(name, bag))
    group, rows = columns(fields)
    made = ((group, of.scalar), (rows, column("rows")), *kept_columns(kept))
    return replace(source, node=Map(node, made), fields=fields, hidden=kept)


def _key_value(keys: Sequence[Value] | None, parts: Sequence[tuple[str, Scalar]]) -> Value:
    if keys is None:
        return Value(literal("all"), CHARARRAY)
    values = [Value(column(name), one.type) for (name, _), one in zip(parts, keys, strict=True)]
    return values[0] if len(values) == 1 else record_of([(None, one) for one in values])


def named_key(keys: Sequence[pig.Expression], relation: PigRelation) -> PigRelation:
    """Give the fields of a composite key their names in the input."""
    if len(keys) == 1:
        return relation
    group = relation.fields[0]
    names = [one.text if isinstance(one, pig.Name) else None for one in keys]
    inside = tuple(PigField(name, one.type) for name, one in zip(names, group.type.inside, strict=True))
    old, new = columns(group.type.inside), columns(inside)
    if old == new:
        return relation
    first, *others = relation.columns
    made = struct(**{name: field(column(first), was) for name, was in zip(new, old, strict=True)})
    fields = (PigField("group", PigType("tuple", inside)), *relation.fields[1:])
    node = Map(relation.node, ((first, made), *kept_columns((*others, *relation.hidden))))
    return replace(relation, node=node, fields=fields)


def joined_fields(names: Sequence[str], sides: Sequence[PigRelation]) -> list[tuple[PigField, ...]]:
    """Return the fields of a join for each side: those without a `::` get the name of their side before them."""
    return [
        tuple(replace(one, name=one.name and f"{name}::{one.name}") for one in side.fields)
        for name, side in zip(names, sides, strict=True)
    ]


def join_of(
    left: PigRelation, right: PigRelation, pairs: Sequence[tuple[Scalar, Scalar]], how: How = "inner"
) -> PigRelation:
    """Join two relations whose fields are those of the result; in windows, rows of the same window only."""
    fields = (*left.fields, *right.fields)
    names = columns(fields)
    mine, theirs = names[: len(left.fields)], names[len(left.fields) :]
    both = in_windows(left) and in_windows(right)
    here = Map(left.node, _renamed(left, mine) + kept_columns(left.hidden))
    there = Map(right.node, _renamed(right, theirs) + tuple((RIGHT_WINDOW, column(one)) for one in both))
    renames_left, renames_right = (
        dict(zip(left.columns, mine, strict=True)),
        dict(zip(right.columns, theirs, strict=True)),
    )
    equal = [(moved(one, renames_left), moved(other, renames_right)) for one, other in pairs]
    equal += [(column(WINDOW_END), column(RIGHT_WINDOW)) for _ in both]
    node = Join(here, there, tuple(equal), None, how)
    kept = in_windows(left)
    return PigRelation(
        Map(node, kept_columns((*names, *kept))), fields, kept, left.window,
        is_unbounded=left.is_unbounded or right.is_unbounded,
    )  # fmt: skip


def _renamed(side: PigRelation, names: Sequence[str]) -> tuple[tuple[str, Scalar], ...]:
    return tuple((new, column(old)) for new, old in zip(names, side.columns, strict=True))


def moved(scalar: Scalar, names: dict[str, str]) -> Scalar:
    """Return a scalar over renamed columns."""
    return substituted(scalar, {old: column(new) for old, new in names.items()})


def united(parts: Sequence[PigRelation]) -> PigRelation:
    """UNION by position: the types that all fit; names of the first. Raises QueryError Q208, Q204."""
    first = parts[0]
    if any(len(one.fields) != len(first.fields) for one in parts):
        counts = " and ".join(str(len(one.fields)) for one in parts)
        raise QueryError.of("Q208", f"a union of relations with {counts} fields", "Use UNION ONSCHEMA.")
    merged = [
        met([Value(literal(None), one.type) for one in column_types])[0].type
        if len({one.type for one in column_types}) > 1
        else column_types[0].type
        for column_types in zip(*(one.fields for one in parts), strict=True)
    ]
    types = [
        _widest([one.fields[place].type for one in parts], merged[place]) for place in range(len(merged))
    ]
    fields = tuple(replace(one, type=of) for one, of in zip(first.fields, types, strict=True))
    kept = in_windows(first)
    nodes = tuple(_shaped(part, fields, kept) for part in parts)
    return replace(
        first, node=Union(nodes), fields=fields, hidden=kept, is_unbounded=any(p.is_unbounded for p in parts)
    )


def _widest(types: Sequence[PigType], merged: PigType) -> PigType:
    known = [one for one in types if one not in (NULL, BYTEARRAY)]
    return merged if known else types[0]


def _shaped(part: PigRelation, fields: Sequence[PigField], kept: Sequence[str]) -> Relation:
    names = columns(fields)
    made = tuple(
        (new, as_type(Value(column(old), one.type), field.type).scalar)
        for new, old, one, field in zip(names, part.columns, part.fields, fields, strict=True)
    )
    return Map(part.node, (*made, *kept_columns(kept)))


def by_name(parts: Sequence[PigRelation]) -> list[PigRelation]:
    """UNION ONSCHEMA: give each part all fields of all parts by name, null where it lacks one."""
    fields: dict[str, PigField] = {}
    for part in parts:
        for one in part.fields:
            if one.name is None:
                raise QueryError.of("Q208", "UNION ONSCHEMA of a relation with fields without names")
            known = fields.setdefault(one.name, one)
            if known.type == BYTEARRAY:
                fields[one.name] = one
    result = []
    for part in parts:
        own = {one.name: name for one, name in zip(part.fields, part.columns, strict=True)}
        kept = [replace(one, type=_type_in(part, one)) for one in fields.values()]
        made = tuple(
            (name, column(own[one.name]) if one.name in own else literal(None))
            for one, name in zip(kept, columns(kept), strict=True)
        )
        result.append(
            replace(part, node=Map(part.node, made + kept_columns(part.hidden)), fields=tuple(kept))
        )
    return result


def _type_in(part: PigRelation, wanted: PigField) -> PigType:
    return next((one.type for one in part.fields if one.name == wanted.name), wanted.type)


def ordered(relation: PigRelation, keys: Sequence[pig.OrderKey], scope: Scope) -> PigRelation:
    """ORDER: by keys, in each window; nulls come first, as the least."""
    by = [Key(column(one)) for one in in_windows(relation)]
    for key in keys:
        all_fields = isinstance(key.value, pig.Star)
        chosen = (
            [column(one) for one in relation.columns] if all_fields else [value_of(key.value, scope).scalar]
        )
        by += [Key(one, key.is_descending, nulls_first=not key.is_descending) for one in chosen]
    kept = in_windows(relation)
    node = (
        Map(relation.node, kept_columns((*relation.columns, *kept)))
        if relation.hidden != kept
        else relation.node
    )
    return replace(relation, node=Order(node, tuple(by)), hidden=kept)


def limited(relation: PigRelation, count: int) -> PigRelation:
    """LIMIT: the first rows, in their order if they have one; in each window."""
    if relation.window is not None:
        return _limited_in_windows(relation, count)
    if isinstance(relation.node, Order):
        known = relation.node.limit
        return replace(
            relation, node=replace(relation.node, limit=count if known is None else min(known, count))
        )
    return replace(relation, node=Order(relation.shown, (), count), hidden=())


def _limited_in_windows(relation: PigRelation, count: int) -> PigRelation:
    before = relation.node
    by = before.by[1:] if isinstance(before, Order) else ()
    names = relation.columns
    row = struct(**{one: column(one) for one in names})
    rows = Group(before, kept_columns((WINDOW_END,)), (("rows", Aggregate("collect", (row,))),))
    source, _ = items_of(Value(column("rows"), PigType("bag", relation.fields)))
    first = Nested(this=column("rows"), query=Order(source, by, count))
    made = tuple((name, field(column("row"), name)) for name in names)
    node: Relation = Map(Expand(rows, first, "row"), (*made, *kept_columns((WINDOW_END,))))
    if by:
        node = Order(node, (Key(column(WINDOW_END)), *by))
    return replace(relation, node=node, hidden=(WINDOW_END,))


def rolling(source: PigRelation, name: str, keys: Sequence[Value]) -> PigRelation:
    """GROUP on a stream without window: for each row that comes in, its key and the rows with that key up to it."""
    parts = tuple((f"key {place}", one.scalar) for place, one in enumerate(keys))
    left = Map(source.node, (("this row", column(ROW_NUMBER)), *parts))
    right = Map(
        source.node,
        (*kept_columns((*source.columns, ROW_NUMBER)), *((f"its {one}", scalar) for one, scalar in parts)),
    )
    pairs = tuple((column(one), column(f"its {one}")) for one, _ in parts)
    before = call("lte", column(ROW_NUMBER), column("this row"))
    row = struct(**{one: column(one) for one in source.columns})
    kept = ("this row", *(one for one, _ in parts))
    node = Group(
        Join(left, right, pairs, before), kept_columns(kept), (("rows", Aggregate("collect", (row,))),)
    )
    of = _key_value(keys or None, parts)
    fields = (PigField("group", of.type), PigField(name, PigType("bag", source.fields)))
    group, rows = columns(fields)
    made = ((group, of.scalar), (rows, column("rows")), (ROW_NUMBER, column("this row")))
    return replace(source, node=Map(node, made), fields=fields, hidden=(ROW_NUMBER,))
