"""The closed table of forms: a form says how values of some types are encoded.

A form has a code, its types, and two functions. Types are looked up exactly; only the form of a *family* also applies to
subclasses (the many array classes of Arrow). Data can name a code of this table and nothing else.

>>> from dgs import codec
>>> form = form_of(complex)
>>> form.code, form.to(1 + 2j), form.from_([1.0, 2.0])
(16, [1.0, 2.0], (1+2j))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any

from dgs.errors import CodecError
from dgs.errors.shortened import shown_module


@dataclass(frozen=True, slots=True)
class Form:
    """The encoding of values of some types. Law: `from_(to(value))` equals `value` and has its type.

    `to` returns the content: any value that the codec carries, or, if `is_raw`, a finished tree for the packer. `from_` gets
    the decoded content, which may be anything, and may raise any exception.
    """

    code: int
    types: tuple[type, ...]
    to: Callable[[Any], Any]
    from_: Callable[[Any], Any]
    is_raw: bool = False


_BY_TYPE: dict[type, Form] = {}
_FROM: dict[int, Callable[[Any], Any]] = {}
_FAMILIES: dict[type, Form] = {}
_NAMED: dict[tuple[str, str], Form] = {}


def add_forms(forms: Iterable[Form]) -> None:
    """Put forms into the closed table. They do not apply to subclasses."""
    for form in forms:
        if form.code in _FROM:
            raise ValueError(f"code {form.code} is taken")
        _FROM[form.code] = form.from_
        for one in form.types:
            set_form(one, form)


def set_form(one: type, form: Form) -> None:
    """Encode values of exactly this type in `form`."""
    _BY_TYPE[one] = form


def add_families(forms: Iterable[Form]) -> None:
    """Put forms into the table that also apply to all subclasses of their types (the many array classes of Arrow)."""
    for form in forms:
        add_forms([form])
        _FAMILIES.update(dict.fromkeys(form.types, form))


def add_named(package: str, forms: Mapping[str, Form]) -> None:
    """Put forms into the table for the types of these names in a package, which is not imported."""
    for name, form in forms.items():
        add_forms([form])
        _NAMED[package, name] = form


def form_of(one: type) -> Form:
    """Return the form of a type: its own, that of its name, or its family's. Raises CodecError if there is none."""
    form = _BY_TYPE.get(one)
    if form is None:
        named = _NAMED.get((one.__module__.partition(".")[0], one.__qualname__))
        form = named or next((_FAMILIES[base] for base in one.__mro__ if base in _FAMILIES), None)
        if form is None:
            raise unknown(one)
        set_form(one, form)
    return form


def value_of(code: int, content: Any) -> Any:
    """Return the value that the data writes as `{code: content}`. May raise anything for invalid data."""
    return _FROM[code](content)


def require(content: Any, one: type) -> Any:
    """Return decoded content of the given type. Raises CodecError for any other: `bytes(n)` of a number would allocate n bytes."""
    if type(content) is not one:
        raise CodecError(problem=f"expected {one.__name__} in the data, found {type(content).__name__}")
    return content


def unknown(one: type) -> CodecError:
    """Return the error for a type without a form."""
    name = f"{shown_module(one.__module__)}.{one.__qualname__}"
    by_itself = is_dataclass(one) or issubclass(one, Enum) or hasattr(one, "_fields")
    how = one.__qualname__ if by_itself else f"{one.__qualname__}, to=..., from_=..."
    advice = f"use a type that it carries, or register this one: `dgs.codec.register({how})`"
    return CodecError(problem=f"the codec does not carry values of type {name}; {advice}", type=name)
