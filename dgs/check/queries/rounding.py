"""Equality of what queries keep and answer: floats may differ by the rounding of their sums, since plans add them in different orders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dgs.check.options import Options
from dgs.check.scenarios.equality import ROUNDING, close, same


def with_rounding(options: Options) -> Options:
    """Return options whose states and outputs are equal up to rounding, unless the user's options say otherwise."""
    tolerance = ROUNDING if options.tolerance is None else options.tolerance
    are_close = close(tolerance)

    def states_equal(left: Any, right: Any) -> bool:
        return same(left, right) or are_close(_as_rows(left), _as_rows(right))

    return replace(options, tolerance=tolerance, states_equal=options.states_equal or states_equal)


def _as_rows(state: Any) -> Any:
    """Return a state of a query with each compaction as its rows, in order."""
    from dgs.query.compact import Compact
    from dgs.query.types import order_key

    if isinstance(state, Compact):
        return sorted(((*key, *parts) for key, parts in state.parts()), key=order_key)
    if isinstance(state, tuple):
        return tuple(map(_as_rows, state))
    return {key: _as_rows(one) for key, one in state.items()} if isinstance(state, dict) else state
