"""JOIN, COGROUP, CROSS and WINDOW: relations joined side by side, in windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dgs.query.pig.pig_casts import met
from dgs.query.pig.pig_foreach import whole_number
from dgs.query.pig.pig_relations import join_of, joined_fields, kept_columns, moved
from dgs.query.pig.pig_scope import ROW_NUMBER, WINDOW_END, PigRelation, Scope, Value, WindowSpec
from dgs.query.pig.pig_types import PigField, columns
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.relation import How, Map, Where, Window
from dgs.query.scalar import Scalar, call, column, literal, when

Side = tuple[pig.Keyed, PigRelation, list[Value] | None]
"""An input of JOIN: its syntax, its relation, and its key."""

MILLISECONDS = {
    "ms": 1, "millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000,
}  # fmt: skip
LEFT_KEY, RIGHT_KEY = "left group", "right group"

TIME = "ts"
"""The field with the times of rows in milliseconds. Without it, the time of row n is n milliseconds."""


def joined(sides: Sequence[Side], scope: Scope) -> PigRelation:
    """JOIN: from left to right, each side by its key. Raises QueryError Q206, Q402, Q110."""
    if len(sides) == 1:
        raise scope.error("Q206", "JOIN takes two inputs or more, not 1", "", sides[0][0].at)
    how = sides[0][0].how or "inner"
    if how != "inner" and len(sides) != 1 + 1:
        raise scope.error(
            "Q110", f"a {how} JOIN of more than two inputs", "Join two, then the third.", sides[0][0].at
        )
    names = _different([one.source for one, _, _ in sides])
    for one, _, keys in sides[1:]:
        if len(keys or ()) != len(sides[0][2] or ()):
            problem = f"a key of {len(keys or ())} fields, where the first has {len(sides[0][2] or ())}"
            raise scope.error("Q206", problem, "", one.at)
    same_windows([relation for _, relation, _ in sides], scope)
    fields = joined_fields(names, [relation for _, relation, _ in sides])
    parts = [replace(relation, fields=own) for (_, relation, _), own in zip(sides, fields, strict=True)]
    parts = [_recolumned(part, relation) for part, (_, relation, _) in zip(parts, sides, strict=True)]
    result, first = parts[0], _over(parts[0].columns, sides[0][1].columns, sides[0][2] or ())
    for (_, relation, keys), part in zip(sides[1:], parts[1:], strict=True):
        before = result.columns[: len(parts[0].fields)]
        own = _over(part.columns, relation.columns, keys or ())
        pairs = [met(pair) for pair in zip(first, own, strict=True)]
        if how == "right":
            swapped = join_of(part, result, [(b.scalar, a.scalar) for a, b in pairs], "left")
            result = _reordered(swapped, len(part.fields))
        else:
            result = join_of(result, part, [(a.scalar, b.scalar) for a, b in pairs], _how(how))
        first = _over(result.columns, before, first)
    return replace(result, window=None, node=result.shown, hidden=())


def _how(how: str) -> How:
    return "left" if how == "left" else "full" if how in ("full", "outer") else "inner"


def _over(now: Sequence[str], before: Sequence[str], keys: Sequence[Value]) -> list[Value]:
    """Return keys over the first columns of a relation, which had other names before."""
    names = dict(zip(before, now, strict=False))
    return [replace(one, scalar=moved(one.scalar, names)) for one in keys]


def _different(names: Sequence[str]) -> list[str]:
    """Return names that differ: a second `a` is `a_2`."""
    return [name if name not in names[:place] else f"{name}_{place + 1}" for place, name in enumerate(names)]


def _recolumned(part: PigRelation, before: PigRelation) -> PigRelation:
    """Return a relation whose columns are those of its new fields."""
    if part.columns == before.columns:
        return part
    made = tuple((new, column(old)) for new, old in zip(part.columns, before.columns, strict=True))
    return replace(part, node=Map(part.node, made + kept_columns(part.hidden)))


def _reordered(swapped: PigRelation, count: int) -> PigRelation:
    """Return a join with its first `count` fields after the others."""
    fields = (*swapped.fields[count:], *swapped.fields[:count])
    names = (*swapped.columns[count:], *swapped.columns[:count])
    made = tuple((new, column(old)) for new, old in zip(columns(fields), names, strict=True))
    return replace(swapped, node=Map(swapped.node, made + kept_columns(swapped.hidden)), fields=fields)


def crossed(
    statement: pig.Cross, sides: Sequence[PigRelation], scope: Scope, *, are_files: bool
) -> PigRelation:
    """CROSS: all pairs, in each window. The product of files is bounded by them. Raises QueryError Q401, Q402."""
    for name, side in zip(statement.sources, sides, strict=True):
        if side.is_unbounded and side.window is None:
            problem = f"CROSS waits for the end of {name.text!r}, a stream that has none"
            remedy = f"Give it windows first: w = WINDOW {name.text} RANGE 10 SECONDS;"
            raise scope.error("Q401", problem, remedy, name.at)
    same_windows(sides, scope)
    names = _different([one.text for one in statement.sources])
    fields = joined_fields(names, sides)
    parts = [_recolumned(replace(one, fields=own), one) for one, own in zip(sides, fields, strict=True)]
    result = parts[0]
    for part in parts[1:]:
        result = join_of(result, part, [(_zero(result), _zero(part))] if are_files else [])
    return replace(result, window=None, node=result.shown, hidden=())


def _zero(relation: PigRelation) -> Scalar:
    """Return 0 for each row: an equality of these asks for a product of streams, which is refused otherwise."""
    return when(call("isnull", column(relation.columns[0])), literal(0), literal(0))


def cogrouped(statement: pig.Group, groups: Sequence[PigRelation], scope: Scope) -> PigRelation:
    """COGROUP: a row for each key with a bag for each input; a null key of one input is apart from that of another."""
    same_windows(groups, scope)
    result = groups[0]
    for group in groups[1:]:
        sides = ((LEFT_KEY, result), (RIGHT_KEY, group))
        keys = met([Value(column(name), one.fields[0].type) for name, one in sides])
        pair = [(keys[0].scalar, keys[1].scalar)]
        left = (PigField(LEFT_KEY, result.fields[0].type), *result.fields[1:])
        right = (PigField(RIGHT_KEY, group.fields[0].type), *group.fields[1:])
        both = join_of(
            _recolumned(replace(result, fields=left), result),
            _recolumned(replace(group, fields=right), group),
            pair,
            "full",
        )
        result = _one_key(both, len(result.fields))
    for one, name in zip(statement.inputs, result.columns[1:], strict=True):
        if one.how == "inner":
            filled = call("gt", call("array_size", column(name)), call("array_size", call("array")))
            result = replace(result, node=Where(result.node, filled))
    return result


def _one_key(both: PigRelation, place: int) -> PigRelation:
    """Return a join of groups with one key for the two at 0 and `place`, and empty bags for null."""
    names = both.columns
    fields = (replace(both.fields[0], name="group"), *both.fields[1:place], *both.fields[place + 1 :])
    bags = (*names[1:place], *names[place + 1 :])
    key = call("coalesce", column(names[0]), column(names[place]))
    made: list[tuple[str, Scalar]] = [(columns(fields)[0], key)]
    made += [
        (new, call("bag_or_empty", column(old))) for new, old in zip(columns(fields)[1:], bags, strict=True)
    ]
    return replace(both, node=Map(both.node, (*made, *kept_columns(both.hidden))), fields=fields)


def same_windows(sides: Sequence[PigRelation], scope: Scope) -> None:
    """Check that relations that meet are in equal windows, or in none. Raises QueryError Q402."""
    specs = [one.window for one in sides]
    if len(set(specs)) <= 1:
        return
    known = [one for one in specs if one is not None]
    first = known[0]
    other = next((one for one in known if one != first), None)
    if other is not None:
        there = scope.source.span(other.at)
        problem = f"two windows that differ: {_said(first)} here, {_said(other)} in line {there.line}"
        error = scope.error("Q402", problem, "Make them equal.", first.at)
        error.facts["other"] = there
        raise error
    raise scope.error(
        "Q402", "rows in windows meet rows that are in none", "Give both the same windows.", first.at
    )


def _said(spec: WindowSpec) -> str:
    unit = "" if spec.kind == "rows" else " ms"
    return f"{spec.kind.upper()} {spec.size}{unit} SLIDE {spec.slide}{unit}"


def windowed(relation: PigRelation, statement: pig.Window, scope: Scope) -> PigRelation:
    """WINDOW: a row for each window that a row is in. Raises QueryError Q204, Q402."""
    size = _extent(statement.size, scope)
    slide = size if statement.slide is None else _extent(statement.slide, scope)
    if statement.slide is not None and statement.slide.kind != statement.size.kind:
        raise scope.error(
            "Q402", "RANGE and ROWS in one window", "Slide by what the size counts.", statement.slide.at
        )
    names = {one.name: name for one, name in zip(relation.fields, relation.columns, strict=True)}
    by_time = statement.size.kind == "range" and has_times(relation)
    at = names[TIME] if by_time else ROW_NUMBER
    unit = "range" if statement.size.kind == "range" else "rows"
    node = Window(relation.node, size, slide, unit, at, WINDOW_END, span=scope.source.span(statement.at))  # type: ignore[arg-type]
    spec = WindowSpec(unit, size, slide, statement.at)
    hidden = (*(one for one in relation.hidden if one != WINDOW_END), WINDOW_END)
    return replace(relation, node=node, window=spec, hidden=hidden)


def has_times(relation: PigRelation) -> bool:
    """Whether rows have a field with their time in milliseconds."""
    return any(one.name == TIME and one.type.name in ("int", "long") for one in relation.fields)


def _extent(extent: pig.Extent, scope: Scope) -> int:
    count = whole_number(extent.count, scope)
    if count < 1:
        raise scope.error("Q204", "a window needs 1 or more", "", extent.at)
    if extent.kind == "rows":
        if extent.unit is not None:
            raise scope.error("Q204", f"ROWS {count} has no unit, not {extent.unit!r}", "", extent.at)
        return count
    unit = (extent.unit or "second").lower()
    factor = MILLISECONDS.get(unit, MILLISECONDS.get(unit.removesuffix("s")))
    if factor is None:
        known = ", ".join(f"{one}s" for one in MILLISECONDS if one != "ms")
        raise scope.error("Q204", f"no unit {extent.unit!r}", f"There are {known}.", extent.at)
    return count * factor
