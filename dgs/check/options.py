"""Options of a check: the user's payloads, keys and equality.

>>> made_options(strategies={"inc": int}, keys={"inc": range(2)}).keys
{'inc': [0, 1]}
>>> made_options(keys={"inc": []})
Traceback (most recent call last):
    ...
dgs.errors.UsageError: keys of kind 'inc': give a list of keys, not []
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dgs.check.scenarios.equality import Equal
from dgs.errors import UsageError


@dataclass(frozen=True)
class Options:
    """Options of a check: payloads, keys and streams by kind, equality, the number of examples, and the seed."""

    strategies: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, Iterable[Any]] = field(default_factory=dict)
    streams: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states_equal: Equal | None = None
    outputs_equal: Equal | None = None
    tolerance: float | None = None
    max_examples: int = 200
    seed: int = 0


def made_options(
    *,
    strategies: Any = None,
    keys: Any = None,
    states_equal: Any = None,
    outputs_equal: Any = None,
    **others: Any,
) -> Options:
    """Return the options from a user's arguments. Raises UsageError, which says what to give instead."""
    for name, equal in (("states_equal", states_equal), ("outputs_equal", outputs_equal)):
        if equal is not None and not isinstance(equal, Callable):  # type: ignore[arg-type]
            raise UsageError(message=f"{name} is a function of two values that returns a bool, not {equal!r}")
    return Options(
        strategies=_by_kind("strategies", strategies),
        keys={kind: _listed(kind, wanted) for kind, wanted in _by_kind("keys", keys).items()},
        states_equal=states_equal,
        outputs_equal=outputs_equal,
        **others,
    )


def _by_kind(name: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping | None):
        raise UsageError(message=f"{name} is a dict by kind, such as {{'inc': ...}}, not {given!r}")
    return {str(kind): wanted for kind, wanted in (given or {}).items()}


def _listed(kind: str, wanted: Any) -> list[Any]:
    is_list = isinstance(wanted, Iterable) and not isinstance(wanted, (str, bytes))
    found = list(wanted) if is_list else []
    if not found:
        raise UsageError(message=f"keys of kind {kind!r}: give a list of keys, not {wanted!r}")
    return found
