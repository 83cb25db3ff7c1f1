"""Sums of floats without rounding: a float as four integers in a bin of exponents. Integers add up exactly, in any order, and deletions undo them.

A bin is 64 exponents wide; bin 0 has the magnitudes from 2^-32 up to 2^32. A float is `sum(limb[i] * 2^(29 * i)) * 2^(64 * bin - 84)`, with
limbs of 29 bits, so that 64 bits hold the sums of 2^34 of them. The state of a stream has the bin as a key and sums of the limbs as parts;
`float_total` makes one float of these, rounded once. NaN and the infinities have their own bins, in which limb 0 counts them.

>>> parts = [(bin_of(one), *(limb(one) for limb in LIMBS), 1) for one in (1e16, 0.1, -1e16)]
>>> AGGREGATES["float_total"].python([(one, 1) for one in parts])
0.1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dgs.query.aggregates import AGGREGATES, Aggregate, Reduction, Weighted
from dgs.query.functions import FUNCTIONS, Function
from dgs.query.relation import Group, Relation, rebuilt
from dgs.query.type_rules import always
from dgs.query.types import FLOAT, INT, one_float

BIN, LIMB = 64, 29
LOWEST = 84
"""A float of bin 0 is a multiple of 2^-84."""
NEGATIVE, INFINITE, NAN = 97, 98, 99
"""The bins of NaN and the infinities."""
_ROOM = 1200
"""The number of bits below 0 that hold the lowest bin."""

Ints = npt.NDArray[np.int64]


def bin_of(value: float) -> int:
    """Return the bin of a float."""
    if not math.isfinite(value):
        return NAN if math.isnan(value) else INFINITE if value > 0 else NEGATIVE
    return (math.frexp(value)[1] - 1 + BIN // 2) // BIN if value else 0


def _limb(number: int, value: float) -> int:
    if not math.isfinite(value):
        return int(number == 0)
    scaled = math.ldexp(value, -BIN * bin_of(value))
    shift = LOWEST - LIMB * number
    above = math.trunc(math.ldexp(scaled, shift - LIMB)) if number < len(LIMBS) - 1 else 0
    return math.trunc(math.ldexp(scaled, shift)) - (above << LIMB)


LIMBS: tuple[Callable[[float], int], ...] = tuple(partial(_limb, number) for number in range(4))
"""From a float to its limbs, the lowest first."""


def bins(values: npt.NDArray[np.float64]) -> Ints:
    """Return the bins of floats."""
    found = (np.frexp(values)[1].astype(np.int64) - 1 + BIN // 2) // BIN
    found[values == 0] = 0
    is_special = ~np.isfinite(values)
    if is_special.any():
        some = values[is_special]
        found[is_special] = np.where(np.isnan(some), NAN, np.where(some > 0, INFINITE, NEGATIVE))
    return found


def limbs(number: int, values: npt.NDArray[np.float64]) -> Ints:
    """Return one limb of each of many floats."""
    is_special = ~np.isfinite(values)
    finite = np.where(is_special, 0.0, values)
    scaled = np.ldexp(finite, -BIN * bins(finite))
    shift = LOWEST - LIMB * number
    found = np.trunc(np.ldexp(scaled, shift))
    if number < len(LIMBS) - 1:
        found -= np.ldexp(np.trunc(np.ldexp(scaled, shift - LIMB)), LIMB)
    found[is_special] = number == 0
    return found.astype(np.int64)


def total(rows: Sequence[Sequence[int]]) -> float:
    """Return the float of rows, each of a bin, four sums of limbs, and its multiplicity."""
    whole, special = 0, set()
    for place, *sums, times in rows:
        value = sum(one << (LIMB * number) for number, one in enumerate(sums)) * times
        if place < NEGATIVE:
            whole += value << (BIN * place + _ROOM - LOWEST) if value else 0
        elif value:
            special.add(place)
    if special:
        return (
            math.nan if len(special) > 1 or NAN in special else math.inf if INFINITE in special else -math.inf
        )
    try:
        return one_float(whole / (1 << _ROOM))
    except OverflowError:
        return math.inf if whole > 0 else -math.inf


def totals(place: int, sums: Sequence[Ints]) -> npt.NDArray[np.float64]:
    """Return the floats of many sums of limbs in one bin."""
    columns = [one.tolist() for one in sums]
    if abs(place) >= 13:  # noqa: PLR2004 - what is near the ends of the floats is rounded once there
        return np.array([total([(place, *row, 1)]) for row in zip(*columns, strict=True)])
    wholes = (
        (d << 3 * LIMB) + (c << 2 * LIMB) + (b << LIMB) + a for a, b, c, d in zip(*columns, strict=True)
    )
    return np.ldexp(np.fromiter(map(float, wholes), np.float64, len(columns[0])), BIN * place - LOWEST) + 0.0


def _of_parts(values: Weighted) -> float:
    return total([(*given[:-1], given[-1] * weight) for given, weight in values])


def exactly(relation: Relation) -> Relation:
    """Return a relation whose sums, means and variances of floats DuckDB rounds once, as the interpreter does."""
    return rebuilt(relation, _group)


def _group(node: Relation) -> Relation:
    if not isinstance(node, Group):
        return node
    schema = node.input.schema
    marked = tuple(
        (name, _marked(one) if one.type(schema).kind == "float64" else one) for name, one in node.aggregates
    )
    return node if marked == node.aggregates else replace(node, aggregates=marked)


def _marked(one: Aggregate) -> Aggregate:
    return replace(one, is_exact=True) if one.function in ("sum", "avg", *VARIANCES) else one


VARIANCES = frozenset({"var_pop", "var_samp", "stddev_pop", "stddev_samp"})
_THRESHOLDS = ", ".join(f"CAST('{2.0 ** (BIN * place - BIN // 2)!r}' AS DOUBLE)" for place in range(-16, 17))
_SCALED = f"x * power(2.0, float_bin(x) * -{BIN // 2}.0) * power(2.0, float_bin(x) * -{BIN // 2}.0)"
_IS_SPECIAL = "isnan(x) OR isinf(x)"


def _macros() -> list[str]:
    """Return the statements that make DuckDB know bins and limbs."""
    special = f"CASE WHEN isnan(x) THEN {NAN} WHEN x > 0 THEN {INFINITE} ELSE {NEGATIVE} END"
    near = f"abs(x) >= power(2.0, -{BIN // 2}) AND abs(x) < power(2.0, {BIN // 2})"
    found = f"len(list_filter([{_THRESHOLDS}], lambda t: t <= abs(x))) - 17"
    made = [
        f"float_bin(x) AS CASE WHEN x IS NULL THEN NULL WHEN {_IS_SPECIAL} THEN {special} WHEN x = 0 OR {near} THEN 0 ELSE {found} END"
    ]
    for number in range(len(LIMBS)):
        shift = LOWEST - LIMB * number
        above = (
            f"trunc({_SCALED} * power(2.0, {shift - LIMB})) * {2**LIMB}" if number < len(LIMBS) - 1 else "0"
        )
        finite = f"CAST(trunc({_SCALED} * power(2.0, {shift})) - {above} AS BIGINT)"
        made.append(
            f"float_limb{number}(x) AS CASE WHEN {_IS_SPECIAL} THEN {int(number == 0)} ELSE {finite} END"
        )
    return [f"CREATE OR REPLACE TEMP MACRO {one}" for one in made]


MACROS = _macros()
for _name, _python in (
    ("float_bin", bin_of),
    *((f"float_limb{number}", one) for number, one in enumerate(LIMBS)),
):
    FUNCTIONS[_name] = Function(
        _name, _python, always(INT, "float64"), f"CAST({_name}({{0}}) AS BIGINT)", "", 1, 1
    )
AGGREGATES["float_total"] = Reduction(
    _of_parts, lambda _: FLOAT, "CAST(exact_total(list([{0}, {1}, {2}, {3}, {4}, {5}])) AS DOUBLE)", "", 6, 6
)


def _called(function: Callable[[Any], float | None]) -> Callable[[Any], str | None]:
    return lambda items: None if (found := function(items)) is None else repr(found)


def _over(function: str) -> Callable[[Sequence[float | None]], float | None]:
    return lambda items: AGGREGATES[function].python([((one,), 1) for one in items])


CALLED_BACK: dict[str, tuple[Callable[..., Any], str]] = {
    "exact_total": (_called(total), "BIGINT[][]"),
    **{f"exact_{one}": (_called(_over(one)), "DOUBLE[]") for one in ("sum", "avg", *VARIANCES)},
}
"""Functions from lists to texts of floats that DuckDB calls back, each with the type of its argument."""
