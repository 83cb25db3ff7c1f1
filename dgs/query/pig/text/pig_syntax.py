"""Statements and expressions of Pig Latin as values: the result of the grammar, before any name is resolved.

Every node has `at`, its offset in the text of the script, which does not count for equality.

>>> Name("a", at=3) == Name("a", at=70)
True
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of a script, and the offset where it begins."""

    at: int = field(default=0, compare=False, kw_only=True)


class Expression(Node):
    """A value for each tuple."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """A field, an alias, or the name of a function."""

    text: str


@dataclass(frozen=True, slots=True)
class Position(Expression):
    """`$2`: a field by its position, from 0."""

    number: int


@dataclass(frozen=True, slots=True)
class Parameter(Expression):
    """`$name`: a value given to the script or the macro."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant: int, float, str, bool or None."""

    value: float | str | bool | None


@dataclass(frozen=True, slots=True)
class Star(Expression):
    """`*`: all fields."""


@dataclass(frozen=True, slots=True)
class FieldRange(Expression):
    """`first .. last`: the fields between two."""

    first: Name | Position
    last: Name | Position


@dataclass(frozen=True, slots=True)
class Dot(Expression):
    """`base.field` or `base.(one, another)`: fields of a tuple, or of each tuple of a bag."""

    base: Expression
    fields: tuple[Name | Position, ...]


@dataclass(frozen=True, slots=True)
class Lookup(Expression):
    """`base#key`: an entry of a map."""

    base: Expression
    key: Expression


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """`function(arguments)`; the name may have dots."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Operation(Expression):
    """An operator and its operands: `+ - * / % == != < > <= >= and or not matches in`, `is null`, `negative`, `if`."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """`(type) operand`."""

    type: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Build(Expression):
    """A constructor: `kind` is tuple, bag or map. A map is keys and values in turn."""

    kind: str
    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class FieldType(Node):
    """A simple type by name, or `tuple`, `bag`, `map` with the fields inside; None: not said."""

    name: str
    inside: tuple[Field, ...] | None = None


@dataclass(frozen=True, slots=True)
class Field(Node):
    """A field of a schema."""

    name: str
    type: FieldType | None = None


class Statement(Node):
    """One statement of a script."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Storage(Node):
    """`USING name(arguments)`."""

    name: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Load(Statement):
    """`alias = LOAD 'path' USING ... AS (...)`; `socket`: SOCKET_READ, whose path is an address."""

    alias: str
    path: str
    storage: Storage | None = None
    fields: tuple[Field, ...] | None = None
    is_socket: bool = False


@dataclass(frozen=True, slots=True)
class Store(Statement):
    """`STORE alias INTO 'path' USING ...`; `socket`: SOCKET_WRITE."""

    source: str
    path: str
    storage: Storage | None = None
    is_socket: bool = False


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """`DUMP`, `DESCRIBE`, `EXPLAIN` or `ILLUSTRATE alias`: `what` is the verb in small letters."""

    what: str
    source: str


@dataclass(frozen=True, slots=True)
class Filter(Statement):
    """`alias = FILTER source BY condition`; in a nested block the source is an expression."""

    alias: str
    source: str | Expression
    condition: Expression


@dataclass(frozen=True, slots=True)
class Item(Node):
    """One expression of GENERATE, and the names it gets."""

    value: Expression
    fields: tuple[Field, ...] | None = None


@dataclass(frozen=True, slots=True)
class Assign(Statement):
    """`alias = expression` in a nested block."""

    alias: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Foreach(Statement):
    """`alias = FOREACH source { block GENERATE items }`; `block` is empty for the plain form."""

    alias: str
    source: str
    items: tuple[Item, ...]
    block: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Accumulate(Statement):
    """`alias = ACCUMULATE source GENERATE items`: aggregates over all tuples."""

    alias: str
    source: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Keyed(Node):
    """An input of GROUP, COGROUP or JOIN and its key; None: ALL. `how`: inner, outer, left, right, full or None."""

    source: str
    keys: tuple[Expression, ...] | None
    how: str | None = None


@dataclass(frozen=True, slots=True)
class Group(Statement):
    """`alias = GROUP a BY k` or `COGROUP a BY k, b BY k`."""

    alias: str
    inputs: tuple[Keyed, ...]


@dataclass(frozen=True, slots=True)
class Join(Statement):
    """`alias = JOIN a BY k [LEFT], b BY k`."""

    alias: str
    inputs: tuple[Keyed, ...]


@dataclass(frozen=True, slots=True)
class Cross(Statement):
    """`alias = CROSS a, b`."""

    alias: str
    sources: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Union(Statement):
    """`alias = UNION [ONSCHEMA] a, b`."""

    alias: str
    sources: tuple[Name, ...]
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class Distinct(Statement):
    """`alias = DISTINCT source`."""

    alias: str
    source: str | Expression


@dataclass(frozen=True, slots=True)
class OrderKey(Node):
    """One key of ORDER."""

    value: Expression
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class Order(Statement):
    """`alias = ORDER source BY keys`."""

    alias: str
    source: str | Expression
    keys: tuple[OrderKey, ...]


@dataclass(frozen=True, slots=True)
class Limit(Statement):
    """`alias = LIMIT source count`."""

    alias: str
    source: str | Expression
    count: Expression


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """`alias IF condition` of SPLIT; None: OTHERWISE."""

    alias: str
    condition: Expression | None


@dataclass(frozen=True, slots=True)
class Split(Statement):
    """`SPLIT source INTO a IF ..., b IF ...`."""

    source: str
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Sample(Statement):
    """`alias = SAMPLE source share`."""

    alias: str
    source: str
    share: Expression


@dataclass(frozen=True, slots=True)
class Extent(Node):
    """`RANGE 10 SECONDS` or `ROWS 10`: `unit` in small letters as written."""

    kind: str
    count: Expression
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Window(Statement):
    """`alias = WINDOW source RANGE 10 SECONDS SLIDE RANGE 5 SECONDS`."""

    alias: str
    source: str
    size: Extent
    slide: Extent | None = None


@dataclass(frozen=True, slots=True)
class Macro(Statement):
    """`DEFINE name(parameters) RETURNS results { body }`; `body` is its statements."""

    name: str
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    body: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class CallMacro(Statement):
    """`a, b = name(arguments)`."""

    aliases: tuple[str, ...]
    macro: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Import(Statement):
    """`IMPORT 'file.pig'`."""

    path: str


@dataclass(frozen=True, slots=True)
class Default(Statement):
    """`%default name value`: a parameter that is not given; `%declare`: one that cannot be."""

    name: str
    value: str
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Setting(Statement):
    """`SET name value`."""

    name: str
    value: float | str | bool | None = None


@dataclass(frozen=True, slots=True)
class Embedded(Statement):
    """`<% python %>`: code whose functions the script may call."""

    code: str


@dataclass(frozen=True, slots=True)
class Unsupported(Statement):
    """A statement that is Pig but not ours: `what` names it. Its aliases are known to be lost."""

    what: str
    aliases: tuple[str, ...] = ()
