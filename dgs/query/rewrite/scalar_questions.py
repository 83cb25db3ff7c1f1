"""Questions of rules about scalars, and changes to those of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp

from dgs.query.aggregates import Aggregate
from dgs.query.functions import name_of
from dgs.query.relation import Key, Relation, walk
from dgs.query.rewrite.rule_language import parts_of, scalars_of
from dgs.query.scalar import Nested, Scalar

FAIL = frozenset(
    [
        "intdiv",
        "mod",
        "cast",
        "to_time",
        "sqrt",
        "ln",
        "log2",
        "log10",
        "repeat",
        "lpad",
        "rpad",
        "generate_series",
        "exp",
        "power",
        "range",
        "split_part",
        "substring",
        "matches",
    ]
)
"""Functions that fail on some values. A rule must not apply them to more rows than before."""

HEAVY = frozenset(
    ["tokenize", "split", "range", "generate_series", "list_distinct", "matches", "replace", "repeat"]
)


def is_plain(scalar: Scalar) -> bool:
    """Return whether a scalar has no query over a bag and no slow function."""
    return not any(isinstance(one, Nested) or name_of(one) in HEAVY for one in parts_of(scalar))


def never_fails(scalar: Scalar) -> bool:
    """Return whether a scalar has a value for every row."""
    return not any(isinstance(one, (Nested, exp.Cast)) or name_of(one) in FAIL for one in parts_of(scalar))


def constants_of(scalar: Scalar) -> Iterator[int | float | str]:
    """Yield the numbers and texts that a scalar has, those of queries over bags too."""
    for one in parts_of(scalar):
        if isinstance(one, exp.Literal):
            is_whole = not one.is_string and one.this.isdigit()
            yield one.this if one.is_string else int(one.this) if is_whole else float(one.this)
        if isinstance(one, Nested):
            for node in walk(one.args["query"]):
                for part in scalars_of(node):
                    yield from constants_of(part)


def scalars_changed(node: Relation, change: Callable[[Scalar], Scalar]) -> Relation | None:
    """Return a node with `change` applied to its scalars, or None if it changes none."""
    found: dict[str, Any] = {}
    for one in fields(node):
        value = getattr(node, one.name)
        new = _part_changed(value, change)
        if new is not value:
            found[one.name] = new
    return replace(node, **found) if found else None


def _part_changed(value: Any, change: Callable[[Scalar], Scalar]) -> Any:
    if isinstance(value, Scalar):
        new = change(value)
        return value if new == value else new
    if isinstance(value, tuple):
        parts = tuple(_part_changed(one, change) for one in value)
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    if isinstance(value, (Aggregate, Key)):
        found = {one.name: _part_changed(getattr(value, one.name), change) for one in fields(value)}
        is_same = all(part is getattr(value, name) for name, part in found.items())
        return value if is_same else replace(value, **found)
    return value
