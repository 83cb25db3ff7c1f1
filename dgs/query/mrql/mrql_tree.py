"""The parse tree of MRQL: statements, expressions, patterns and types, each with its place (line and column, from 1).

The place does not count for equality, so two texts that differ only in layout have equal trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

Place = tuple[int, int]


@dataclass(frozen=True)
class Tree:
    """A part of the text with its place."""

    at: Place = field(compare=False, kw_only=True)

    def parts(self) -> Iterator[Tree]:
        """Return the trees directly below this one."""
        for one in fields(self):
            yield from _trees_in(getattr(self, one.name))


def _trees_in(value: object) -> Iterator[Tree]:
    if isinstance(value, Tree):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _trees_in(one)


# -- patterns ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NamePattern(Tree):
    """Binds the whole element; `_` binds nothing."""

    name: str


@dataclass(frozen=True)
class TuplePattern(Tree):
    """Binds the items of a tuple."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True)
class RecordPattern(Tree):
    """Binds fields of a record."""

    items: tuple[tuple[str, Pattern], ...]


Pattern = NamePattern | TuplePattern | RecordPattern


# -- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name(Tree):
    """A variable, a parameter or the name of an earlier statement."""

    name: str


@dataclass(frozen=True)
class Constant(Tree):
    """A number, text or truth value."""

    value: int | float | str | bool


@dataclass(frozen=True)
class TupleOf(Tree):
    """`(a, b)`."""

    items: tuple[Tree, ...]


@dataclass(frozen=True)
class RecordOf(Tree):
    """`<A: a, B: b>`."""

    items: tuple[tuple[str, Tree], ...]


@dataclass(frozen=True)
class BagOf(Tree):
    """`{a, b}`."""

    items: tuple[Tree, ...]


@dataclass(frozen=True)
class ListOf(Tree):
    """`[a, b]`."""

    items: tuple[Tree, ...]


@dataclass(frozen=True)
class Call(Tree):
    """A function, macro or aggregate with its arguments."""

    name: str
    arguments: tuple[Tree, ...]


@dataclass(frozen=True)
class FieldOf(Tree):
    """`e.name`: of a record, or of each record of a bag."""

    of: Tree
    name: str


@dataclass(frozen=True)
class ItemOf(Tree):
    """`e#i`: item i of a tuple, from 0."""

    of: Tree
    index: int


@dataclass(frozen=True)
class ElementAt(Tree):
    """`e[i]`: element i of a list, from 0; of a bag of pairs, the second item of the pair whose first is i."""

    of: Tree
    index: Tree


@dataclass(frozen=True)
class Unary(Tree):
    """`not e` or `-e`."""

    sign: str
    of: Tree


@dataclass(frozen=True)
class Binary(Tree):
    """`left sign right`."""

    sign: str
    left: Tree
    right: Tree


@dataclass(frozen=True)
class IfThen(Tree):
    """`if condition then yes else no`."""

    condition: Tree
    yes: Tree
    no: Tree


@dataclass(frozen=True)
class Let(Tree):
    """`let p = e in body`."""

    pattern: Pattern
    value: Tree
    body: Tree


@dataclass(frozen=True)
class Same(Tree):
    """`p = e` between generators: one value, under a name."""

    value: Tree


@dataclass(frozen=True)
class Quantified(Tree):
    """`some p in e: condition`, or `all`."""

    is_some: bool
    pattern: Pattern
    source: Tree
    condition: Tree


@dataclass(frozen=True)
class ArgumentOf(Tree):
    """`argmin(p in e: value)`: the ordinal (from 0) of the element with the least value, ties to the smaller ordinal."""

    is_least: bool
    pattern: Pattern
    source: Tree
    value: Tree


@dataclass(frozen=True)
class Select(Tree):
    """`select head from generators where .. group by key: of having .. order by ..`."""

    is_distinct: bool
    head: Tree
    generators: tuple[tuple[Pattern, Tree], ...]
    where: Tree | None
    group: tuple[Pattern | None, Tree] | None
    having: Tree | None
    order: tuple[tuple[Tree, bool], ...]


@dataclass(frozen=True)
class RepeatOf(Tree):
    """`repeat p = start step body until .. limit n`; `warm` starts from the last fixpoint."""

    pattern: Pattern
    start: Tree
    body: Tree
    until: Tree | None
    limit: int | None
    is_warm: bool


@dataclass(frozen=True)
class ReaderOf(Tree):
    """`source(format, path, ..)`, which does not change, or `stream(..)`, which does."""

    changes: bool
    format: str
    arguments: tuple[Tree, ...]
    row: TypeTree | None


# -- types ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypeTree(Tree):
    """A type as written: `kind` is name, record, tuple, bag or list."""

    kind: str
    names: tuple[str, ...]
    of: tuple[TypeTree, ...] = ()


# -- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assign(Tree):
    """`name = e`."""

    name: str
    value: Tree


@dataclass(frozen=True)
class Output(Tree):
    """An expression as a statement, or `store "file" from e`: an output of the script."""

    value: Tree
    store: str | None = None


@dataclass(frozen=True)
class Function(Tree):
    """`function name(parameters) { body }`, or a macro, whose arguments are put in unread."""

    name: str
    parameters: tuple[str, ...]
    body: Tree


@dataclass(frozen=True)
class Aggregation(Tree):
    r"""`aggregation name(plus, zero)`: plus is an operator, the name of a function, or `\(a, b) -> e`."""

    name: str
    plus: str | tuple[str, str, Tree]
    zero: Tree


Statement = Assign | Output | Function | Aggregation
