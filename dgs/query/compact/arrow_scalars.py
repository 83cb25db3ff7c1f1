"""Scalars over columns of Arrow, if Arrow's functions agree with the interpreter; DuckDB computes all others.

Integers never wrap around, null is unknown, a float has no negative zero, and columns are refused if a NaN would be compared.

>>> from dgs.query.scalar import call, column, literal
>>> from dgs.query.types import INT
>>> revenue = call("mul", column("price"), call("sub", literal(100), column("disc")))
>>> form = in_arrow(revenue, Schema.of(price=INT, disc=INT))
>>> rows = Rows(2, {"price": pa.array([500, None]), "disc": pa.array([10, 0])}.__getitem__)
>>> form.values(rows).to_pylist()
[45000, None]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from dgs.query.compact.arrow_rows import arrow_type
from dgs.query.functions import FUNCTIONS, arguments_of, name_of
from dgs.query.meanings import number
from dgs.query.scalar import Scalar, kind_of, operands, spelled_out
from dgs.query.split.exact_sums import bins, limbs
from dgs.query.types import Schema, Type

FLAT = frozenset({"int64", "float64", "bool", "text", "time"})
"""The kinds of values that are columns of Arrow here."""

Values = Any
"""An array, or an Arrow scalar as the value of all rows."""


POOL = pa.system_memory_pool()
"""The pool for large columns of answers: Arrow's own pool returns memory within milliseconds, and the next answer pays for each page again."""


Names = tuple[str, ...]


class Rows:
    """Columns of `count` rows, each computed on first use."""

    __slots__ = ("_known", "_made", "_values", "count", "order")

    def __init__(self, count: int, values: Callable[[str], Values], order: Names = ()) -> None:
        self.count, self.order = count, order
        self._values, self._known = values, dict[str, Values]()
        self._made: dict[Any, Any] = {}

    def __getitem__(self, name: str) -> Values:
        """Return the values of a column."""
        if name not in self._known:
            self._known[name] = self._values(name)
        return self._known[name]

    def array(self, name: str) -> pa.Array:
        """Return a column as an array."""
        return array_of(self[name], self.count)

    def once(self, function: Callable[..., Values], *given: Values) -> Values:
        """Return the result of a function for these values, computed once: often several columns are the same, such as counts."""
        key = (function, *map(id, given))
        if key not in self._made:
            # the argument is kept, so that nothing else gets its id
            self._made[key] = (given, function(*given))
        return self._made[key][1]

    def taken(self, of: Callable[[pa.Array], pa.Array], count: int, order: Names) -> Rows:
        """Return other rows, with columns made from those here."""

        def values(name: str) -> Values:
            found = self[name]
            return found if isinstance(found, pa.Scalar) else self.once(of, found)

        return Rows(count, values, order)


class NotInArrow(Exception):  # noqa: N818 - a signal, not an error: DuckDB does it then
    """A scalar, or values in its columns, for which Arrow's functions differ from the interpreter."""


@dataclass(frozen=True, slots=True)
class Form:
    """A scalar over columns: the kind of its values, and the function that gives them. It raises NotInArrow or pa.ArrowException."""

    kind: str
    values: Callable[[Rows], Values]

    def as_kind(self, kind: str) -> Form:
        """Return the same values as another kind: integers as floats, or a null as any. Raises NotInArrow."""
        if kind == self.kind:
            return self
        if self.kind != "null" and (self.kind, kind) != ("int64", "float64"):
            raise NotInArrow
        wanted, values = arrow_type(Type(kind)), self.values
        return Form(kind, lambda columns: pc.cast(values(columns), wanted, safe=False))


def in_arrow(scalar: Scalar, schema: Schema) -> Form:
    """Return a scalar over the columns of a schema. Raises NotInArrow."""
    node = spelled_out(scalar)
    return _FORMS.get(type(node), _call)(node, schema)


def array_of(values: Values, count: int) -> pa.Array:
    """Return values as an array of `count` rows."""
    return pa.repeat(values, count) if isinstance(values, pa.Scalar) else values


def refuse_nan(values: Values) -> Values:
    """Return the values if none is NaN: in the interpreter NaN is greater than all numbers. Raises NotInArrow."""
    if pa.types.is_floating(values.type):
        is_nan = pc.is_nan(values)
        if (is_nan if isinstance(is_nan, pa.Scalar) else pc.any(is_nan)).as_py():
            raise NotInArrow
    return values


def without_negative_zero(values: Values) -> Values:
    """Return floats with 0.0 in place of -0.0."""
    return pc.add(values, 0.0)


def _column(node: Scalar, schema: Schema) -> Form:
    name, kind = node.name, schema.type(node.name).kind
    if kind not in FLAT:
        raise NotInArrow
    return Form(kind, lambda columns: columns[name])


def _literal(node: Scalar, schema: Schema) -> Form:  # noqa: ARG001 - as all forms
    text = node.this
    if node.is_string:
        return _constant(text, "text")
    if not any(mark in text for mark in ".eEin"):
        return _constant(number(int(text)), "int64")
    if text == "nan":
        raise NotInArrow
    return _constant(float(text), "float64")


def _null(node: Scalar, schema: Schema) -> Form:  # noqa: ARG001
    made = pa.nulls(1)[0]
    return Form("null", lambda _: made)


def _boolean(node: Scalar, schema: Schema) -> Form:  # noqa: ARG001
    return _constant(bool(node.this), "bool")


def _constant(value: Any, kind: str) -> Form:
    made = _scalar(value, kind)
    return Form(kind, lambda _: made)


def _scalar(value: Any, kind: str) -> pa.Scalar:
    """Return a scalar of Arrow, made from its bytes: pa.scalar would import pandas, if installed, which is slow."""
    if kind == "text":
        data = value.encode()
        ends = np.array([0, len(data)], dtype=np.int32)
        return pa.StringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(data))[0]
    data = np.array([value], dtype={"int64": np.int64, "float64": np.float64, "bool": np.int8}[kind])
    return pa.Array.from_buffers(arrow_type(Type(kind)), 1, [None, pa.py_buffer(data)])[0]


def _both(connect: Callable[..., Values]) -> Callable[[Any, Schema], Form]:
    def form(node: Scalar, schema: Schema) -> Form:
        parts = [in_arrow(one, schema).as_kind("bool") for one in operands(node)]
        return Form("bool", lambda columns: reduce(connect, (part.values(columns) for part in parts)))

    return form


def _is(node: Scalar, schema: Schema) -> Form:
    part, wanted = in_arrow(node.this, schema), node.expression
    if isinstance(wanted, exp.Null):
        return Form("bool", lambda columns: _is_null(part.values(columns)))
    if not isinstance(wanted, exp.Boolean) or part.kind != "bool":
        raise NotInArrow
    value = _scalar(bool(wanted.this), "bool")
    return Form("bool", lambda columns: _is_true(pc.equal(part.values(columns), value)))


def _is_null(values: Values) -> Values:
    if isinstance(values, pa.Array) and not values.null_count:
        return pa.scalar(False)
    return pc.is_null(values)


def _is_true(values: Values) -> Values:
    """Return conditions with false where they are null."""
    return pc.fill_null(values, False) if values.type == pa.bool_() else values


def _case(node: Scalar, schema: Schema) -> Form:
    conditions = [in_arrow(one.this, schema).as_kind("bool") for one in node.args["ifs"]]
    results = [one.args["true"] for one in node.args["ifs"]]
    forms = [in_arrow(one, schema) for one in (*results, node.args.get("default") or exp.Null())]
    kind = _common({one.kind for one in forms})
    *thens, otherwise = [one.as_kind(kind) for one in forms]

    def chosen(columns: Rows) -> Values:
        found = otherwise.values(columns)
        for condition, then in zip(reversed(conditions), reversed(thens), strict=True):
            test = _is_true(condition.values(columns))
            if isinstance(test, pa.Scalar):
                found = then.values(columns) if test.as_py() else found
            else:
                found = pc.if_else(test, then.values(columns), found)
        return found

    return Form(kind, chosen)


def _common(kinds: Iterable[str]) -> str:
    """Return the common kind of values of these kinds. Raises NotInArrow if all are null."""
    found = set(kinds) - {"null"}
    if found == {"int64", "float64"}:
        return "float64"
    if len(found) != 1:
        raise NotInArrow
    return found.pop()


def _cast(node: Scalar, schema: Schema) -> Form:
    part = in_arrow(node.this, schema)
    if part.kind == "null":
        raise NotInArrow
    return part.as_kind(kind_of(node.args["to"]).kind)


def _call(node: Scalar, schema: Schema) -> Form:
    """Return a call of a function for which there is a meaning in `_MEANINGS`, on arguments of one kind."""
    name = name_of(node)
    if name not in FUNCTIONS:
        raise NotInArrow  # a record, a field of one, or a nested query
    parts = [in_arrow(one, schema) for one in arguments_of(node)]
    kinds = {one.kind for one in parts}
    if "null" in kinds:
        raise NotInArrow
    kind = "float64" if name in ("div", "sqrt") and kinds <= {"int64", "float64"} else _common(kinds)
    meaning = _MEANINGS.get((name, kind))
    if meaning is None:
        raise NotInArrow
    same = [one.as_kind(kind) for one in parts]
    result = FUNCTIONS[name].type([Type(kind)] * len(parts)).kind
    return Form(result, lambda columns: columns.once(meaning, *[one.values(columns) for one in same]))


_FORMS: dict[type, Callable[[Any, Schema], Form]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.And: _both(pc.and_kleene),
    exp.Or: _both(pc.or_kleene),
    exp.Is: _is,
    exp.Case: _case,
    exp.Cast: _cast,
}


def product(left: Values, right: Values) -> Values:
    """Return a product of integers. A factor of 1 is left out, since most weights are 1."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, pa.Scalar) and one.as_py() == 1:
            return other
    return pc.multiply_checked(left, right, memory_pool=POOL)


def _remainder(left: Values, right: Values) -> Values:
    return pc.subtract_checked(left, pc.multiply_checked(right, pc.divide_checked(left, right)))


def _on_floats(function: Callable[..., Values], *given: Values) -> Values:
    return without_negative_zero(function(*given))


def _compared(function: Callable[..., Values], *given: Values) -> Values:
    return function(*map(refuse_nan, given))


def _numbers(function: Callable[..., Any], values: Values) -> Values:
    """Return integers made of floats by NumPy."""
    if isinstance(values, pa.Scalar):
        return array_of(_numbers(function, pa.array([values])), 1)[0]
    found = function(pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False))
    return pa.array(
        found, mask=pc.is_null(values).to_numpy(zero_copy_only=False) if values.null_count else None
    )


def _length(text: Values) -> Values:
    return pc.cast(pc.utf8_length(text), pa.int64())


_MEANINGS: dict[tuple[str, str], Callable[..., Values]] = {
    ("add", "int64"): pc.add_checked,
    ("sub", "int64"): pc.subtract_checked,
    ("mul", "int64"): product,
    ("neg", "int64"): pc.negate_checked,
    ("abs", "int64"): pc.abs_checked,
    ("intdiv", "int64"): pc.divide_checked,
    ("mod", "int64"): _remainder,
    ("add", "float64"): partial(_on_floats, pc.add),
    ("sub", "float64"): partial(_on_floats, pc.subtract),
    ("mul", "float64"): partial(_on_floats, pc.multiply),
    ("div", "float64"): partial(_on_floats, pc.divide),
    ("neg", "float64"): partial(_on_floats, pc.negate),
    ("abs", "float64"): pc.abs,
    ("sqrt", "float64"): pc.sqrt,
    ("float_bin", "float64"): partial(_numbers, bins),
    **{(f"float_limb{number}", "float64"): partial(_numbers, partial(limbs, number)) for number in range(4)},
    ("not", "bool"): pc.invert,
    ("length", "text"): _length,
    ("greatest", "int64"): pc.max_element_wise,
    ("least", "int64"): pc.min_element_wise,
    ("greatest", "float64"): partial(_compared, pc.max_element_wise),
    ("least", "float64"): partial(_compared, pc.min_element_wise),
}
"""The functions that Arrow computes: by name, and the kind of the arguments."""

_COMPARISONS = {
    "eq": pc.equal, "neq": pc.not_equal, "lt": pc.less, "lte": pc.less_equal,
    "gt": pc.greater, "gte": pc.greater_equal,
}  # fmt: skip

for _name, _function in _COMPARISONS.items():
    for _kind in ("int64", "text", "time"):
        _MEANINGS[_name, _kind] = _function
    _MEANINGS[_name, "float64"] = partial(_compared, _function)
for _name in ("eq", "neq"):
    _MEANINGS[_name, "bool"] = _COMPARISONS[_name]
for _kind in FLAT:
    _MEANINGS["coalesce", _kind] = pc.coalesce
    _MEANINGS["same", _kind] = lambda one: one
for _name in ("year", "month", "day", "hour", "minute"):
    _MEANINGS[_name, "time"] = getattr(pc, _name)
