"""Steps: the work of a node of a flow, as plain data. `denotation` defines what each means, `flow_checks` what it takes and gives.

Functions take (key, value), those of `Each` (key, value, at). They return values and keep the key; `KeyBy` and `Pairs` change it.
`columns`: a form of the function for columns. Law: for every item it gives the same as the function.

>>> Filter(lambda key, value: value > 0).name, KeyBy(("user", "city")).name
('filter', 'key_by')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from dgs.errors import UsageError
from dgs.flow.edge_types import takes
from dgs.flow.panes import CountWindow, TimeWindow
from dgs.flow.templates import KeyedOrdered, KeyedUnordered, Stateless

Function = Callable[..., Any]
Idle = Literal["all", "skip"]
Missing = Literal["error", "drop"]
Ties = Literal["arrival", "value"]


class Table(Mapping[Any, Any]):
    """Fixed data that a flow looks keys up in. It is read once in a process, and its digest is part of the flow's identity.

    >>> campaigns = Table({"ad1": "c1", "ad2": "c1"})
    >>> campaigns["ad1"], "ad9" in campaigns, len(campaigns), len(campaigns.digest)
    ('c1', False, 2, 16)
    """

    @takes("rows", "name")
    def __init__(self, rows: Mapping[Any, Any], *, name: str = "table") -> None:
        self._rows = dict(rows)
        self.name = name

    @classmethod
    @takes("path")
    def json(cls, path: str | Path) -> Table:
        """Return the table of a JSON file that holds one object. Raises UsageError if it cannot be read."""
        import json  # imported here, as below, because few flows need it

        try:
            rows = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or f"it is not JSON: {error}"
            raise UsageError(message=f"no table can be read from {str(path)!r}: {why}") from None
        return cls(rows, name=Path(path).name)

    @cached_property
    def digest(self) -> str:
        """BLAKE2b of the rows, 16 hexadecimal characters."""
        import hashlib

        from dgs import codec

        return hashlib.blake2b(codec.encode(self._rows), digest_size=8).hexdigest()

    def __getitem__(self, key: Any) -> Any:
        return self._rows[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows)"


@dataclass(frozen=True, slots=True)
class Step:
    """The base of the steps."""

    name: ClassVar[str] = "step"

    @property
    def label(self) -> str:
        """The step's label in reports: its name, or the class of its template."""
        return self.name


@dataclass(frozen=True, slots=True)
class Source(Step):
    """A stream that the flow reads: a parameter of its function, with the type of its values."""

    stream: str
    value: Any = Any
    name: ClassVar[str] = "source"

    @property
    def label(self) -> str:
        """The name of the stream."""
        return self.stream


@dataclass(frozen=True, slots=True)
class Map(Step):
    """Each value becomes `function(key, value)`."""

    function: Function
    gives: Any = None
    columns: Function | None = None
    name: ClassVar[str] = "map"


@dataclass(frozen=True, slots=True)
class Filter(Step):
    """Keeps the items for which `function(key, value)` holds."""

    function: Function
    columns: Function | None = None
    name: ClassVar[str] = "filter"


@dataclass(frozen=True, slots=True)
class FlatMap(Step):
    """Each value becomes the values of `function(key, value)`, in their order."""

    function: Function
    gives: Any = None
    columns: Function | None = None
    name: ClassVar[str] = "flat_map"


@dataclass(frozen=True, slots=True)
class Each(Step):
    """Each value becomes `function(key, value, at)`; `at`: the timestamp of an element, or after a marker the end of its block."""

    function: Function
    gives: Any = None
    columns: Function | None = None
    name: ClassVar[str] = "each"


@dataclass(frozen=True, slots=True)
class Lookup(Step):
    """Each record gets a field `into` with the table's entry for its field `key`."""

    table: Table | Mapping[Any, Any]
    key: Any
    into: Any
    missing: Missing = "error"
    name: ClassVar[str] = "lookup"


@dataclass(frozen=True, slots=True)
class FilterBy(Step):
    """Keeps the records whose field is one of `values`."""

    field: Any
    values: tuple[Any, ...]
    name: ClassVar[str] = "filter_by"


@dataclass(frozen=True, slots=True)
class Project(Step):
    """Keeps these fields of each record."""

    fields: tuple[str, ...]
    name: ClassVar[str] = "project"


@dataclass(frozen=True, slots=True)
class KeyBy(Step):
    """Gives items a key: a function of (key, value), or the names of fields.

    A single text is a constant key if values are not records.
    """

    by: Function | tuple[Any, ...]
    gives: Any = None
    columns: Function | None = None
    name: ClassVar[str] = "key_by"


@dataclass(frozen=True, slots=True)
class Pairs(Step):
    """Each item becomes the pair `function(key, value)` of a key and a value."""

    function: Function
    gives: Any = None
    name: ClassVar[str] = "pairs"


@dataclass(frozen=True, slots=True)
class Sort(Step):
    """Puts the items of a key in a block in order of a field or of a function of (key, value).

    `ties`: "arrival" keeps the order that an ordered edge has; "value" takes the codec bytes of the value. None: the first of these that
    the edge allows.
    """

    by: Any
    ties: Ties | None = None
    name: ClassVar[str] = "sort"


@dataclass(frozen=True, slots=True)
class Aggregate(Step):
    """Joins the items of a key with a monoid: of the block, of a window, or of all history (`over="history"`).

    `idle="skip"` gives a value for keys with items there, `idle="all"` for every key seen so far. `accept_parts`: items older than
    their block make two values.
    """

    monoid: Any
    over: TimeWindow | Literal["history"] | None = None
    idle: Idle = "skip"
    accept_parts: bool = False
    name: ClassVar[str] = "aggregate"


@dataclass(frozen=True, slots=True)
class Fold(Step):
    """Folds the items of a key in their order with `function(state, value)` from `start`: of a block, of all history, or of windows by count."""

    function: Function
    start: Any
    over: CountWindow | Literal["history"] | None = None
    gives: Any = None
    name: ClassVar[str] = "fold"


@dataclass(frozen=True, slots=True)
class Block(Step):
    """The items of a key in a block become the values of `function(key, items, at)`; of an unordered edge, in order of codec bytes."""

    function: Function
    gives: Any = None
    accept_parts: bool = False
    name: ClassVar[str] = "block"


@dataclass(frozen=True, slots=True)
class Join(Step):
    """Pairs of items of one key and block, one from each side, become `function(key, left, right)`."""

    function: Function | None = None
    gives: Any = None
    accept_parts: bool = False
    name: ClassVar[str] = "join"


@dataclass(frozen=True, slots=True)
class Merge(Step):
    """The items of several edges."""

    name: ClassVar[str] = "merge"


@dataclass(frozen=True, slots=True)
class Apply(Step):
    """A template of the user's. `keeps`: it emits nothing that is older than its block, in the order of its input."""

    template: Stateless | KeyedOrdered | KeyedUnordered
    keeps: bool = False
    name: ClassVar[str] = "apply"

    @property
    def label(self) -> str:
        """The name of the template's class."""
        return _class_name(self.template)


@dataclass(frozen=True, slots=True)
class Into(Step):
    """Items become events of a DGS program, whose outputs are those of the flow. `tag` and `payload`: functions of (key, value)."""

    program: Any
    tag: Function
    payload: Function | None = None
    name: ClassVar[str] = "into"

    @property
    def label(self) -> str:
        """The name of the program's class."""
        return _class_name(self.program)


@dataclass(frozen=True, slots=True)
class Wrong(Step):
    """A call that is not a step, with its mistake: so the flow's other mistakes are also found. `label`: the user's words."""

    called: str
    problem: str
    expected: str
    found: str
    fix: str
    name: ClassVar[str] = "wrong"

    @property
    def label(self) -> str:
        """The name of the step in messages: the call as the user wrote it."""
        return self.called


def _class_name(made: Any) -> str:
    """Return the name of the class of an object, also if the class itself is given by mistake."""
    return (made if isinstance(made, type) else type(made)).__name__


def field_of(value: Any, name: Any) -> Any:
    """Return a field of a record: an entry of a mapping or a tuple, or an attribute.

    >>> field_of({"ad": 7}, "ad"), field_of(("a", 5), 1)
    (7, 5)
    """
    try:
        return value[name] if isinstance(value, Mapping) or isinstance(name, int) else getattr(value, name)
    except (LookupError, TypeError, AttributeError):
        if hasattr(type(value), str(name)):  # a user's property raised
            raise
        from dgs.model.user_code import shown  # which imports NumPy

        raise LookupError(f"no field {name!r} in {shown(value)}") from None


def key_of(step: KeyBy, key: Any, value: Any) -> Any:
    """Return the key that an item gets.

    >>> key_of(KeyBy(("ad",)), (), {"ad": 7}), key_of(KeyBy(("FE",)), (), 5), key_of(KeyBy((0, 1)), (), "xy")
    (7, 'FE', ('x', 'y'))
    """
    if not isinstance(step.by, tuple):
        return step.by(key, value)
    if len(step.by) > 1:
        return tuple(field_of(value, name) for name in step.by)
    (name,) = step.by
    is_constant = isinstance(name, str) and not is_record(value)
    return name if is_constant else field_of(value, name)


def is_record(value: Any) -> bool:
    """Return whether a value has named fields."""
    return isinstance(value, Mapping) or hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__")


def sort_key(by: Any) -> Function:
    """Return the function of (key, value) that a sort compares."""
    return by if callable(by) else lambda _, value: field_of(value, by)
