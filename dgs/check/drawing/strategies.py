"""Hypothesis strategies for the values of a type: small and simple values, as programs meet in real life.

Hypothesis's own strategies also draw extreme values: NaN, the year 1, a signalling Decimal. A program that refuses these is still
consistent, so the strategies here leave them out. A user who wants extreme values gives a strategy.

>>> from typing import NamedTuple
>>> class Bid(NamedTuple):
...     price: float
...     bidder: str | None = None
>>> def is_tame(bid): return bid.price == bid.price and (bid.bidder is None or len(bid.bidder) <= 3)
>>> from hypothesis import find, settings
>>> find(strategy_for(Bid), is_tame, settings=settings(database=None))
Bid(price=0.0, bidder=None)
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import types
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, Any, Union

from hypothesis import find, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.strategies import SearchStrategy

from dgs.check.drawing.constants import NONE, Constants
from dgs.errors import UsageError

INTS = st.integers(0, 9)
TEXTS = st.text("abc", max_size=3)
FLOATS = st.sampled_from([0.0, 1.0, 0.1, 0.2, 0.3, 0.7, -1.5, 2.5, 1e16])
"""Floats whose sums show rounding."""

_DAY = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - a program that wants a time zone says so with a strategy
_LATER = [dt.timedelta(0), dt.timedelta(seconds=1), dt.timedelta(hours=12), dt.timedelta(days=1, minutes=30)]

SIMPLE: dict[Any, SearchStrategy[Any]] = {
    int: st.integers(-9, 9).map(abs) | st.integers(-9, 9),
    str: TEXTS,
    float: FLOATS,
    bool: st.booleans(),
    bytes: st.sampled_from([b"", b"a", b"b", b"ab"]),
    Any: INTS,
    object: INTS,
    None: st.none(),
    type(None): st.none(),
    Decimal: st.sampled_from([Decimal(text) for text in ("0", "1", "0.1", "2.50", "-1.5", "100")]),
    Fraction: st.builds(Fraction, st.integers(-3, 3), st.integers(1, 3)),
    dt.timedelta: st.sampled_from(_LATER),
    dt.datetime: st.sampled_from([_DAY + later for later in _LATER]),
    dt.date: st.sampled_from([dt.date(2024, month, 1) for month in (1, 2, 3)]),
    dt.time: st.sampled_from([(_DAY + later).time() for later in _LATER]),
    list: st.lists(INTS, max_size=3),
    set: st.sets(INTS, max_size=3),
    dict: st.dictionaries(TEXTS, INTS, max_size=2),
}
"""Types without parts."""


def strategy_for(wanted: Any, named: Constants = NONE) -> SearchStrategy[Any]:
    """Return the strategy for a strategy (itself), for samples, or for a type: small values of it, simple ones first.

    `named`: further numbers and texts to draw for types with numbers and texts. Raises UsageError for anything else, and for
    types whose values cannot be made.
    """
    if isinstance(wanted, SearchStrategy):
        return wanted
    if isinstance(wanted, (list, tuple, range, AbstractSet)):
        return _of_samples(wanted)
    if isinstance(wanted, Hashable) and wanted in SIMPLE:
        return with_named(SIMPLE[wanted], wanted, named)
    if (supertype := getattr(wanted, "__supertype__", None)) is not None:  # a NewType
        return strategy_for(supertype, named)
    if isinstance(wanted, type) and _fields(wanted):
        return _of_record(wanted, named)
    return _of_generic(wanted, named)


def with_named(simple: SearchStrategy[Any], wanted: Any, named: Constants) -> SearchStrategy[Any]:
    """Return the strategy of a simple type. Numbers and texts include the named ones."""
    more: list[Any] = []
    if wanted is int:
        more = [one for one in named.numbers if isinstance(one, int)]
    elif wanted is float:
        more = [float(one) for one in named.numbers]
    elif wanted is str:
        more = list(named.texts)
    return simple | st.sampled_from(more) if more else simple


def simplest(strategy: SearchStrategy[Any]) -> Any:
    """Return the simplest value of a strategy."""
    try:
        return find(strategy, lambda _: True, settings=settings(database=None))
    except HypothesisException as error:
        message = f"no payload can be made as a type hint or `strategies=` says ({strategy!r}): {error}"
        raise UsageError(message=message) from error


def _of_samples(samples: Any) -> SearchStrategy[Any]:
    if not samples:
        raise UsageError(message="there is nothing in a list of samples of payloads: give some, or a type")
    return st.sampled_from(sorted(samples, key=repr) if isinstance(samples, AbstractSet) else samples)


def _of_generic(wanted: Any, named: Constants) -> SearchStrategy[Any]:  # noqa: PLR0911 - one for each kind of type
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    inner = partial(strategy_for, named=named)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(inner, sorted(arguments, key=lambda one: one is not type(None))))
    if origin is Annotated:
        return _of_hypothesis(wanted) if _has_bounds(arguments[1:]) else inner(arguments[0])
    if origin in (list, Sequence, collections.deque):
        items = st.lists(inner(arguments[0]), max_size=3)
        return items.map(collections.deque) if origin is collections.deque else items
    if origin in (set, frozenset, AbstractSet):
        make = st.frozensets if origin is frozenset else st.sets
        return make(inner(arguments[0]), max_size=3)
    if origin in (dict, Mapping):
        return st.dictionaries(*map(inner, arguments), max_size=2)
    if origin is tuple:
        if Ellipsis in arguments:
            return st.lists(inner(arguments[0]), max_size=3).map(tuple)
        return st.tuples(*map(inner, arguments))
    if typing.is_typeddict(wanted):
        hints = {name: inner(hint) for name, hint in _hints(wanted).items()}
        optional = {name: hints.pop(name) for name in wanted.__optional_keys__}
        return st.fixed_dictionaries(hints, optional=optional)
    return _of_hypothesis(wanted)


@lru_cache(maxsize=64)
def _of_record(cls: type, named: Constants) -> SearchStrategy[Any]:
    """Return the strategy of a class with fields. It is made lazily, since a tree has fields of its own type."""

    def made(**fields: Any) -> Any:
        try:
            return cls(**fields)
        except ValueError:  # a class that checks its fields refuses these
            reject()

    return st.deferred(
        lambda: st.builds(made, **{name: strategy_for(hint, named) for name, hint in _fields(cls).items()})
    )


def _fields(cls: type) -> dict[str, Any]:
    """Return the fields of a dataclass, NamedTuple, pydantic model or attrs class, with their types."""
    if dataclasses.is_dataclass(cls):
        return {one.name: _hints(cls).get(one.name, Any) for one in dataclasses.fields(cls) if one.init}
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return {name: _hints(cls).get(name, Any) for name in cls._fields}
    models = getattr(cls, "model_fields", None)
    if isinstance(models, Mapping):
        return {
            one.alias or name: Annotated[(one.annotation, *one.metadata)] if one.metadata else one.annotation
            for name, one in models.items()
        }
    attributes = [one for one in getattr(cls, "__attrs_attrs__", ()) if one.init]
    return {one.alias: _hints(cls).get(one.name, Any) for one in attributes}


def _hints(cls: Any) -> dict[str, Any]:
    found = typing.get_type_hints(cls, include_extras=True)
    return {name: _without_qualifier(hint) for name, hint in found.items()}


def _without_qualifier(hint: Any) -> Any:
    required = (typing.Required, typing.NotRequired)
    return typing.get_args(hint)[0] if typing.get_origin(hint) in required else hint


def _has_bounds(metadata: Sequence[Any]) -> bool:
    """Return whether metadata restrict the values in a way that Hypothesis supports."""
    return any(
        isinstance(one, SearchStrategy) or type(one).__module__.partition(".")[0] == "annotated_types"
        for one in metadata
    )


def _of_hypothesis(wanted: Any) -> SearchStrategy[Any]:
    """Return Hypothesis's strategy for a type, without NaN and infinity. Raises UsageError."""
    is_type: Callable[[Any], bool] = lambda one: isinstance(one, type) or typing.get_origin(one) is not None  # noqa: E731
    message = f"nothing says how to make a payload of type {_named(wanted)}: give `strategies={{kind: ...}}`"
    if not is_type(wanted) and not isinstance(wanted, typing.TypeVar):
        raise UsageError(
            message=f"{wanted!r} says nothing of payloads: give a type, a list of samples, or a Hypothesis strategy"
        )
    try:
        found = st.from_type(wanted)
        found.validate()
    except (HypothesisException, TypeError) as error:
        raise UsageError(message=f"{message}, a Hypothesis strategy or a list of samples") from error
    return found.filter(_is_finite)


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or abs(value) < float("inf")


def _named(wanted: Any) -> str:
    return wanted.__qualname__ if isinstance(wanted, type) else repr(wanted)
