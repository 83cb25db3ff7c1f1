"""FOREACH and ACCUMULATE: the rows that GENERATE makes of each row, with its nested block, FLATTEN and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dgs.query.pig.pig_casts import as_type, over_items
from dgs.query.pig.pig_functions import FUNCTIONS
from dgs.query.pig.pig_relations import grouped, kept_columns, rolling
from dgs.query.pig.pig_scalars import condition_of, value_of
from dgs.query.pig.pig_scope import ROW_NUMBER, PigRelation, Scope, Value
from dgs.query.pig.pig_types import BYTEARRAY, PigField, PigType, columns, declared_type
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.pig.text.pig_macros import aliases_of
from dgs.query.relation import Expand, Group, Key, Map, Order, Relation, Where
from dgs.query.scalar import Nested, column, field


@dataclass
class Generated:
    """The work of GENERATE so far: the node to read, and the fields with their values."""

    node: Relation
    fields: list[tuple[PigField, Value]]


def foreach(relation: PigRelation, statement: pig.Foreach, scope: Scope) -> PigRelation:
    """Return the relation of FOREACH ... GENERATE. The windows of rows end here. Raises QueryError."""
    values: dict[str, Value] = {}
    inner = replace(scope, fields=relation.fields, values=values)
    for step in statement.block:
        values[aliases_of(step)[0]] = _NESTED[type(step)](step, inner)
    made = Generated(relation.node, [])
    for item in statement.items:
        _generate(item, inner, made)
    return _made(relation, made)


def accumulate(relation: PigRelation, statement: pig.Accumulate, scope: Scope) -> PigRelation:
    """Return the relation of ACCUMULATE: aggregates of all rows; for a stream without windows, a row for each row that comes."""
    is_rolling = relation.is_unbounded and relation.window is None
    rows = rolling(relation, "rows", ()) if is_rolling else grouped(relation, "rows", None)
    items = tuple(replace(item, value=_of_bag(item.value, rows.fields[1].type)) for item in statement.items)
    return foreach(rows, pig.Foreach(statement.alias, statement.source, items, at=statement.at), scope)


def _of_bag(node: pig.Expression, bag: PigType) -> pig.Expression:
    """Return an expression over single fields as one over the bag of all rows: `sum(x)` is `sum(rows.x)`."""
    if isinstance(node, pig.Call) and _is_aggregate(node):
        name = pig.Name("rows", at=node.at)
        of = tuple(
            pig.Dot(name, (one,), at=one.at)
            if isinstance(one, pig.Name | pig.Position) and str(getattr(one, "text", "")) != "rows"
            else one
            for one in node.arguments
        )
        return replace(node, arguments=of)
    if isinstance(node, pig.Operation):
        return replace(node, operands=tuple(_of_bag(one, bag) for one in node.operands))
    return node


def _is_aggregate(node: pig.Call) -> bool:
    found = FUNCTIONS.get(node.function.upper())
    return found is not None and found.is_aggregate


def _made(relation: PigRelation, made: Generated) -> PigRelation:
    fields = tuple(one for one, _ in made.fields)
    kept = tuple(one for one in relation.hidden if one == ROW_NUMBER)
    scalars = tuple(
        (name, value.scalar) for name, (_, value) in zip(columns(fields), made.fields, strict=True)
    )
    node = Map(made.node, (*scalars, *kept_columns(kept)))
    return replace(relation, node=node, fields=fields, hidden=kept, window=None)


def _generate(item: pig.Item, scope: Scope, made: Generated) -> None:
    node = item.value
    if isinstance(node, pig.Star | pig.FieldRange):
        places = _places(node, scope)
        names = columns(scope.fields)
        new = [(scope.fields[one], Value(column(names[one]), scope.fields[one].type)) for one in places]
    elif isinstance(node, pig.Call) and node.function.upper() == "FLATTEN":
        new = _flattened(node, scope, made)
    else:
        value = value_of(node, scope)
        new = [(PigField(_name_of(node, scope), value.type), value)]
    made.fields += _named(new, item, scope)


def _named(new: list[tuple[PigField, Value]], item: pig.Item, scope: Scope) -> list[tuple[PigField, Value]]:
    if item.fields is None:
        return new
    if len(item.fields) != len(new):
        problem = f"{len(item.fields)} names for {len(new)} field{'' if len(new) == 1 else 's'}"
        raise scope.error(
            "Q206", problem, "Name each of them.", item.fields[0].at if item.fields else item.at
        )
    return [_as(value, given) for (_, value), given in zip(new, item.fields, strict=True)]


def _as(value: Value, given: pig.Field) -> tuple[PigField, Value]:
    if given.type is None:
        return PigField(given.name, value.type), value
    wanted = declared_type(given.type)
    changed = value if wanted.stored == value.type.stored else as_type(value, wanted, is_asked=True)
    return PigField(given.name, wanted), Value(changed.scalar, wanted)


def _places(node: pig.Star | pig.FieldRange, scope: Scope) -> Sequence[int]:
    if isinstance(node, pig.Star):
        return range(len(scope.fields))
    return range(scope.place(node.first), scope.place(node.last) + 1)


def _name_of(node: pig.Expression, scope: Scope) -> str | None:
    if isinstance(node, pig.Name | pig.Position):
        if isinstance(node, pig.Name) and node.text in scope.values:
            return node.text
        return scope.fields[scope.place(node)].name
    if isinstance(node, pig.Cast):
        return _name_of(node.operand, scope)
    if isinstance(node, pig.Dot) and len(node.fields) == 1 and isinstance(node.fields[0], pig.Name):
        return node.fields[0].text
    return None


def _flattened(node: pig.Call, scope: Scope, made: Generated) -> list[tuple[PigField, Value]]:
    if len(node.arguments) != 1:
        raise scope.error("Q206", f"FLATTEN takes 1 argument, not {len(node.arguments)}", "", node.at)
    value = value_of(node.arguments[0], scope)
    prefix = _name_of(node.arguments[0], scope)
    inside = [_prefixed(one, prefix) for one in value.type.inside]
    names = columns(value.type.inside)
    if value.type.name == "tuple":
        return [
            (one, Value(field(value.scalar, name), one.type)) for one, name in zip(inside, names, strict=True)
        ]
    if value.type.name != "bag":
        kind = "bytearray: give it a type where it is loaded" if value.type == BYTEARRAY else str(value.type)
        raise scope.error("Q204", f"FLATTEN of {kind}", "It takes a bag or a tuple.", node.at)
    item = f"item {len(made.fields)}"
    made.node = Expand(made.node, value.scalar, item)
    if value.type.is_bare:
        return [(inside[0], Value(column(item), inside[0].type))]
    return [
        (one, Value(field(column(item), name), one.type)) for one, name in zip(inside, names, strict=True)
    ]


def _prefixed(one: PigField, prefix: str | None) -> PigField:
    return replace(one, name=f"{prefix}::{one.name}") if prefix and one.name else one


# The nested block


def _assigned(step: pig.Assign, scope: Scope) -> Value:
    return value_of(step.value, scope)


def _source(step: pig.Filter | pig.Distinct | pig.Order | pig.Limit) -> pig.Expression:
    return step.source if isinstance(step.source, pig.Expression) else pig.Name(step.source, at=step.at)


def _over(
    step: pig.Filter | pig.Distinct | pig.Order | pig.Limit,
    scope: Scope,
    query: Callable[[Relation, Scope], Relation],
) -> Value:
    """Return the bag of a query over the items of the step's source, under the names of their fields."""
    bag = value_of(_source(step), scope)
    if bag.type.name != "bag":
        raise scope.error("Q204", f"a bag is needed here, and this is {bag.type}", "", _source(step).at)
    fields = bag.type.inside
    inner = replace(scope, fields=fields, values={})

    def named(source: Relation, names: tuple[str, ...]) -> Relation:
        wanted = columns(fields)
        if names != wanted:
            source = Map(source, tuple((new, column(old)) for new, old in zip(wanted, names, strict=True)))
        return query(source, inner)

    return over_items(bag, fields, named)


def _nested_filter(step: pig.Filter, scope: Scope) -> Value:
    return _over(step, scope, lambda source, inner: Where(source, condition_of(step.condition, inner).scalar))


def _nested_distinct(step: pig.Distinct, scope: Scope) -> Value:
    return _over(step, scope, lambda source, inner: Group(source, kept_columns(columns(inner.fields))))


def _nested_order(step: pig.Order, scope: Scope) -> Value:
    def query(source: Relation, inner: Scope) -> Relation:
        by = [
            Key(value_of(key.value, inner).scalar, key.is_descending, nulls_first=not key.is_descending)
            for key in step.keys
        ]
        return Order(source, tuple(by))

    return _over(step, scope, query)


def _nested_limit(step: pig.Limit, scope: Scope) -> Value:
    count = whole_number(step.count, scope)
    bag = value_of(_source(step), scope)
    query = bag.scalar.args.get("query")
    if isinstance(query, Order):  # the first in that order
        limit = count if query.limit is None else min(count, query.limit)
        return Value(Nested(this=bag.scalar.this, query=replace(query, limit=limit)), bag.type)
    return _over(step, scope, lambda source, _: Order(source, (), count))


def whole_number(node: pig.Expression, scope: Scope) -> int:
    """Return a constant that is a whole number from 0. Raises QueryError Q204, Q120."""
    found = constant(node, scope)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise scope.error("Q204", f"a whole number from 0 is needed here, not {found!r}", "", node.at)
    return found


def constant(node: pig.Expression, scope: Scope) -> object:
    """Return the value of a literal or a parameter. Raises QueryError Q204, Q120."""
    if isinstance(node, pig.Parameter):
        value_of(node, scope)
        text = scope.parameters[node.name]
        for read in (int, float):
            try:
                return read(text)
            except ValueError:
                continue
        return text
    if isinstance(node, pig.Literal):
        return node.value
    raise scope.error("Q204", "a constant is needed here", "", node.at)


_NESTED: dict[type, Callable[..., Value]] = {
    pig.Assign: _assigned,
    pig.Filter: _nested_filter,
    pig.Distinct: _nested_distinct,
    pig.Order: _nested_order,
    pig.Limit: _nested_limit,
}
