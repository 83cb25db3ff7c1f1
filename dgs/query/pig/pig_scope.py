"""Relations and values of a script on their way to the algebra, and the fields that names in expressions mean.

A field is found by its name, by the part of its name after `::` if only one field has it, or by `$n`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dgs.errors.nearest import nearest
from dgs.query.errors import QueryError
from dgs.query.pig.pig_types import PigField, PigType, columns
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.pig.text.pig_reading import SourceText
from dgs.query.relation import Map, Relation
from dgs.query.scalar import Scalar, column

WINDOW_END, ROW_NUMBER = "window end", "row number"
"""Columns beside the fields of a relation: names that no field can have. Row numbers count from 0 in each source."""


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar, and the Pig type of its values."""

    scalar: Scalar
    type: PigType


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The windows that rows are in; `at` is the place of the WINDOW statement. Two specs are equal if their windows are."""

    kind: str
    size: int
    slide: int
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class PigRelation:
    """The relation of an alias: a node whose columns are those of `fields`, followed by `hidden` ones.

    `is_unbounded`: its rows never end.
    """

    node: Relation
    fields: tuple[PigField, ...]
    hidden: tuple[str, ...] = ()
    window: WindowSpec | None = None
    is_unbounded: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the fields."""
        return columns(self.fields)

    @property
    def shown(self) -> Relation:
        """The node without its hidden columns."""
        if not self.hidden:
            return self.node
        return Map(self.node, tuple((name, column(name)) for name in self.columns))


@dataclass(frozen=True)
class Scope:
    """The names that an expression may read: fields, values of a nested block by name, functions of the script, and parameters."""

    source: SourceText
    fields: Sequence[PigField]
    values: Mapping[str, Value] = field(default_factory=dict)
    functions: Mapping[str, Callable[[Sequence[Value]], Value]] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)

    def error(self, code: str, problem: str, remedy: str, at: int) -> QueryError:
        """Return the error at an offset of the script."""
        return QueryError.of(code, problem, remedy, span=self.source.span(at))

    def place(self, name: pig.Name | pig.Position, fields: Sequence[PigField] | None = None) -> int:
        """Return the index of a field. Raises QueryError Q201, Q202, Q203."""
        fields = self.fields if fields is None else fields
        if isinstance(name, pig.Position):
            if name.number < len(fields):
                return name.number
            problem = f"${name.number}, where there are {len(fields)} fields"
            raise self.error("Q203", problem, f"The last one is ${len(fields) - 1}.", name.at)
        exact = [place for place, one in enumerate(fields) if one.name == name.text]
        found = exact or [place for place, one in enumerate(fields) if _ends(one.name, name.text)]
        if len(found) == 1:
            return found[0]
        if found:
            known = " or ".join(str(fields[place].name) for place in found)
            raise self.error("Q202", f"{name.text!r} is more than one field", f"Write {known}.", name.at)
        raise self.unknown("field", name.text, [one.name for one in fields if one.name], name.at)

    def unknown(self, what: str, name: str, known: Sequence[str], at: int) -> QueryError:
        """Return the error of an unknown name, with the nearest known one."""
        close = nearest(name, [*known, *(one.rpartition("::")[2] for one in known)])
        none = "The fields have no names: use $0." if what == "field" else f"There is no {what} yet."
        listed = f"There are {', '.join(known)}." if known else none
        return self.error("Q201", f"no {what} {name!r}", f"Did you mean {close}?" if close else listed, at)

    def field(self, name: pig.Name | pig.Position) -> Value:
        """Return a value of the block, or a field."""
        if isinstance(name, pig.Name) and name.text in self.values:
            return self.values[name.text]
        place = self.place(name)
        return Value(column(columns(self.fields)[place]), self.fields[place].type)


def _ends(name: str | None, wanted: str) -> bool:
    return name is not None and (name.endswith("::" + wanted) or wanted.endswith("::" + name))
