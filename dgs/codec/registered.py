"""Users' own types: registered under a name, encoded by their fields, by member name, or by functions that the user gives.

Data never names a class to import: it names an entry of this registry, and an unknown name is an error.

>>> from enum import Enum
>>> from dgs import codec
>>> class Colour(Enum):
...     RED = 1
>>> register(Colour, name="registry-example.Colour")
<enum 'Colour'>
>>> codec.decode(codec.encode([Colour.RED]))
[<Colour.RED: 1>]
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from enum import Enum, Flag
from typing import Any, NamedTuple, TypeVar, overload

from dgs.codec.forms import Form, set_form
from dgs.errors import CodecError
from dgs.errors.raised import RAISED, is_ours
from dgs.errors.shortened import shown_module

Cls = TypeVar("Cls", bound=type)

OBJECT = 70


class _Entry(NamedTuple):
    cls: type
    name: str
    to: Callable[[Any], Any]
    from_: Callable[[Any], Any]


_BY_NAME: dict[str, _Entry] = {}


@overload
def register(
    cls: Cls, *, to: Any = None, from_: Any = None, name: str | None = None, formerly: str | None = None
) -> Cls: ...
@overload
def register(
    *, to: Any = None, from_: Any = None, name: str | None = None, formerly: str | None = None
) -> Callable[[Cls], Cls]: ...
def register(
    cls: Any = None,
    *,
    to: Callable[[Any], Any] | None = None,
    from_: Callable[[Any], Any] | None = None,
    name: str | None = None,
    formerly: str | None = None,
) -> Any:
    """Let the codec encode values of exactly the class `cls`; usable as a decorator. Returns the class.

    A dataclass or NamedTuple is encoded by its fields and an Enum by its members' names; for any other class give `to`, which
    returns a value the codec carries, and `from_`, its inverse. `name` is the class's name in the data (default: its qualified
    name), and must be the same everywhere the data is read. Values saved under the name `formerly` can also be read.
    Raises CodecError if another class has one of the names. The names of dgs's own classes begin with `dgs.`.
    """
    if cls is None:
        return lambda decorated: register(decorated, to=to, from_=from_, name=name, formerly=formerly)
    if (to is None) != (from_ is None):
        raise CodecError(
            problem=f"cannot register {cls.__qualname__}: give both `to` and `from_`, or neither"
        )
    if to is None or from_ is None:
        to, from_ = _by_kind(cls)
    entry = _Entry(cls, name or cls.__qualname__, to, from_)
    for read in (entry.name,) if formerly is None else (entry.name, formerly):
        present = _BY_NAME.get(read)
        if present is not None and _origin(present.cls) != _origin(cls):
            raise CodecError(
                problem=f"the name {read!r} is registered for another class, of {shown_module(present.cls.__module__)}; give `name=`"
            )
        _BY_NAME[read] = entry
    set_form(cls, Form(OBJECT, (cls,), lambda value: [entry.name, _sent(entry, value)], _received))
    return cls


def _by_kind(cls: type) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if dataclasses.is_dataclass(cls):
        return _dataclass_forms(cls)
    if issubclass(cls, Flag):
        return (lambda member: member.value), cls
    if issubclass(cls, Enum):
        return (lambda member: member.name), cls.__getitem__
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return (lambda value: value._asdict()), lambda fields: cls(**fields)
    raise CodecError(
        problem=f"cannot register {cls.__qualname__}: it is no dataclass, NamedTuple or Enum, so give `to` and `from_`"
    )


def _dataclass_forms(cls: type) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the functions from instances to their fields and back, which skip `__init__` and `__post_init__`."""
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)
    names = [field.name for field in fields]

    def to(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in names}

    def from_(content: Any) -> Any:
        if unknown := sorted(content.keys() - set(names)):
            raise CodecError(problem=f"{cls.__qualname__} has no field {', '.join(unknown)}")
        value: Any = object.__new__(cls)
        for field in fields:
            object.__setattr__(
                value, field.name, content[field.name] if field.name in content else _default(cls, field)
            )
        return value

    return to, from_


def _default(cls: type, field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise CodecError(problem=f"field {field.name!r} of {cls.__qualname__} is missing")


def _origin(cls: type) -> tuple[str, str]:
    """Return the file and name of a class: a program file that is loaded twice registers the same classes again."""
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or cls.__module__, cls.__qualname__


def _sent(entry: _Entry, value: Any) -> Any:
    try:
        return entry.to(value)
    except CodecError:
        raise
    except RAISED as error:
        if is_ours(error):
            raise
        problem = f"cannot encode a value of type {entry.name}: its `to` raised {error!r}"
        raise CodecError(problem=problem) from error


def _received(content: Any) -> Any:
    name, fields = content
    entry = _BY_NAME.get(name)
    if entry is None:
        raise CodecError(problem=f"type {name!r} is not registered here: import the module that registers it")
    return entry.from_(fields)


FORMS = (Form(OBJECT, (), _received, _received),)
