"""The table of scalar functions: for each its types, its treatment of nulls, its meaning in Python, and its text for DuckDB and Spark.

A scalar is a tree of sqlglot expressions. `name_of` gives the function of a node: by its class's name, through `ALIASES`, or by the name of
an `exp.Anonymous`. To add a function, add a line to the table.

>>> from sqlglot import exp
>>> name_of(exp.Add(this=exp.Literal.number(1), expression=exp.Literal.number(2)))
'add'
>>> FUNCTIONS["add"].duckdb
'({0} + {1})'
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from dgs.query import meanings as m
from dgs.query.errors import QueryError
from dgs.query.meanings import time_meanings as times
from dgs.query.type_rules import (
    NUMBER,
    TypeRule,
    always,
    both_lists,
    compared,
    item_at,
    item_of,
    mean_of_items,
    member,
    numeric,
    rounded,
    sum_of_items,
    text_of_items,
)
from dgs.query.types import BOOL, FLOAT, INT, TEXT, TIME, Type, bag, list_of, unified


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    `duckdb` and `spark` are texts with `{0}`, `{1}` for arguments, `{all}` for all of them with commas, and `{digits}` for all but the
    first as small integers. `least` and `most`: the number of arguments. `sees_nulls`: it is also called with nulls; otherwise the result
    is null if an argument is. `unifies`: integers become floats if another argument is a float. `called_back`: the types of the arguments
    of a user's function, which DuckDB calls back by its name.
    """

    name: str
    python: Callable[..., Any]
    type: TypeRule
    duckdb: str
    spark: str
    least: int
    most: int
    sees_nulls: bool = False
    unifies: bool = False
    called_back: tuple[Type, ...] | None = None


FUNCTIONS: dict[str, Function] = {}
USER_FUNCTION = re.compile(r"\b(python_[0-9a-f]+_\w+)\(")
"""A call of a user's function in a statement."""
MANY = 1000

ALIASES = {
    "paren": "same",
    "dpipe": "concat_strict",
    "nullsafeeq": "same_value",
    "nullsafeneq": "not_same_value",
    "pow": "power",
    "ceiling": "ceil",
    "arraylength": "array_size",
    "arraysize": "array_size",
    "arraycontains": "list_contains",
    "arrayconcat": "list_concat",
    "strposition": "position_of",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "splitpart": "split_part",
    "arraymin": "list_min",
    "arraymax": "list_max",
    "arraydistinct": "list_distinct",
    "arrayposition": "list_position",
    "list_size": "array_size",
    "len": "array_size",
    "tstodatetime": "to_time",
    "weekofyear": "week",
    "dayofweekiso": "isodow",
    "dow": "dayofweek",
    "doy": "dayofyear",
    "concatws": "concat_ws",
    "timetounix": "epoch",
    "weekday": "dayofweek",
    "prefix": "starts_with",
    "suffix": "ends_with",
}
"""Other names of functions, of sqlglot's classes and of anonymous functions."""


def name_of(node: exp.Expression) -> str:
    """Return the name of the function of a node."""
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
    return ALIASES.get(name, name)


def arguments_of(node: exp.Expression) -> list[exp.Expression]:
    """Return the arguments of a node, in order."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    found: list[exp.Expression] = []
    for name in node.arg_types:
        part = node.args.get(name)
        found += [
            one for one in (part if isinstance(part, list) else [part]) if isinstance(one, exp.Expression)
        ]
    return found


def null_of_null(python: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns null if an argument is null."""
    return lambda *given: None if any(one is None for one in given) else python(*given)


def function_of(node: exp.Expression) -> Function:
    """Return the function of a node. Raises QueryError Q205 for an unknown one, Q206 for a wrong number of arguments."""
    name = name_of(node)
    found = FUNCTIONS.get(name)
    if found is None:
        from dgs.errors.nearest import did_you_mean

        raise QueryError.of("Q205", f"no function {name!r}{did_you_mean(name, FUNCTIONS)}", name=name)
    count = len(arguments_of(node))
    if not found.least <= count <= found.most:
        wanted = str(found.least) if found.least == found.most else f"{found.least} to {found.most}"
        raise QueryError.of("Q206", f"{name} takes {wanted} arguments, not {count}", name=name)
    return found


def _define(
    name: str,
    python: Callable[..., Any],
    type_: TypeRule,
    duckdb: str,
    *count: int,
    spark: str | None = None,
    sees_nulls: bool = False,
    unifies: bool = False,
) -> None:
    FUNCTIONS[name] = Function(
        name, python, type_, duckdb, spark or duckdb, count[0], count[-1], sees_nulls, unifies
    )


# fmt: off
# A table: one or two lines a function.
def _arithmetic() -> None:
    _define("add", lambda a, b: m.number(a + b), numeric, "({0} + {1})", 2, unifies=True)
    _define("sub", lambda a, b: m.number(a - b), numeric, "({0} - {1})", 2, unifies=True)
    _define("mul", lambda a, b: m.number(a * b), numeric, "({0} * {1})", 2, unifies=True)
    divided = "(CAST({0} AS DOUBLE) / (CAST({1} AS DOUBLE) + 0.0))"  # 0.0 makes a negative zero positive
    _define("div", lambda a, b: m.divided(float(a), float(b)), always(FLOAT, NUMBER), divided, 2)
    _define("intdiv", m.truncated, always(INT, "int64"), "({0} // {1})", 2, spark="({0} DIV {1})")
    _define("mod", m.remainder, numeric, "({0} % {1})", 2, unifies=True)
    _define("neg", lambda a: m.number(-a), numeric, "(-{0})", 1)
    _define("abs", lambda a: m.number(abs(a)), numeric, "abs({0})", 1)
    _define("sign", m.sign, always(INT, NUMBER), "CAST(sign({0}) AS BIGINT)", 1, spark="CAST(nanvl(sign({0}), 0) AS BIGINT)")
    _define("round", m.rounded, rounded, "round({0}{digits})", 1, 2)
    digits = "(CASE WHEN abs({0}) < 1e15 THEN round({0} * power(10e0, {1})) / power(10e0, {1}) ELSE {0} + 0 * {1} END)"
    _define("as_decimal", m.as_decimal, always(FLOAT, NUMBER, "int64"), digits, 2)
    near = {"floor": "floor({0})", "ceil": "ceil({0})", "trunc": "(CASE WHEN {0} < 0 THEN ceil({0}) ELSE floor({0}) END)"}
    for name, spark in near.items():  # Spark's function returns integers, which cannot hold large floats
        _define(name, m.whole(getattr(math, name)), numeric, name + "({0})", 1,
            spark=f"(CASE WHEN {{0}} BETWEEN -1e15 AND 1e15 THEN {spark} ELSE {{0}} END)")
    for name, asked in (("isnan", math.isnan), ("isinf", math.isinf), ("isfinite", math.isfinite)):
        kept = {"isnan": "({0} = double('nan'))", "isinf": "(abs({0}) = double('inf'))", "isfinite": "(abs({0}) < double('inf'))"}
        _define(name, asked, always(BOOL, "float64"), name + "({0})", 1, spark=kept[name])
    of_one = {"sqrt": m.root, "ln": m.logarithm, "log2": m.logarithm_2, "log10": m.logarithm_10, "exp": m.exponential, "cbrt": math.cbrt}
    of_angle = {name: m.angular(getattr(math, name)) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "degrees", "radians")}
    for name, python in (of_one | of_angle).items():
        spark = f"{name}(CAST({{0}} AS DOUBLE))"
        if name in ("ln", "log2", "log10"):  # Spark returns null for numbers that are not positive
            spark = f"(CASE WHEN {{0}} > 0 THEN {spark} WHEN {{0}} = 0 THEN double('-inf') WHEN {{0}} < 0 THEN double('nan') END)"
        _define(name, python, always(FLOAT, NUMBER), name + "(CAST({0} AS DOUBLE))", 1, spark=spark)
    _define("atan2", m.angular(math.atan2), always(FLOAT, NUMBER), "atan2(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE))", 2)
    _define("pi", lambda: math.pi, always(FLOAT), "pi()", 0)
    for name, sign, python in (("bitwiseand", "&", operator.and_), ("bitwiseor", "|", operator.or_)):
        _define(name, python, always(INT, "int64"), f"({{0}} {sign} {{1}})", 2)
    _define("bitwisexor", operator.xor, always(INT, "int64"), "xor({0}, {1})", 2, spark="({0} ^ {1})")
    powered = "power(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE))"
    is_one = "{1} IS NOT NULL AND ({0} = 1 OR {0} = -1 AND abs({1}) = double('inf'))"  # Spark returns NaN
    _define("power", m.power, always(FLOAT, NUMBER), powered, 2, spark=f"(CASE WHEN {is_one} THEN 1.0D ELSE {powered} END)")


def _logic() -> None:
    comparisons: list[tuple[str, Callable[[Any, Any], bool], str]] = [
        ("eq", m.equal, "="),
        ("neq", lambda a, b: not m.equal(a, b), "<>"),
        ("lt", m.less, "<"),
        ("lte", lambda a, b: not m.less(b, a), "<="),
        ("gt", lambda a, b: m.less(b, a), ">"),
        ("gte", lambda a, b: not m.less(a, b), ">="),
    ]
    for name, python, sign in comparisons:
        _define(name, python, compared, f"({{0}} {sign} {{1}})", 2, unifies=True)
    same = "({0} IS NOT DISTINCT FROM {1})"
    _define("same_value", m.equal, compared, same, 2, spark="({0} <=> {1})", sees_nulls=True, unifies=True)
    differ = "({0} IS DISTINCT FROM {1})"
    _define("not_same_value", lambda a, b: not m.equal(a, b), compared, differ, 2,
        spark="(NOT ({0} <=> {1}))", sees_nulls=True, unifies=True)
    truth = always(BOOL, "bool")
    _define("not", lambda a: not a, truth, "(NOT {0})", 1)
    _define("same", lambda a: a, lambda types: types[0], "({0})", 1, sees_nulls=True)
    _define("coalesce", lambda *a: next((x for x in a if x is not None), None), unified, "coalesce({all})", 1,
        MANY, sees_nulls=True, unifies=True)
    nulled = lambda a, b: None if b is not None and a is not None and m.equal(a, b) else a  # noqa: E731
    _define("nullif", nulled, unified, "nullif({0}, {1})", 2, sees_nulls=True, unifies=True)
    _define("greatest", lambda *a: m.greatest_of(a), unified, "greatest({all})", 1, MANY, sees_nulls=True,
        unifies=True, spark="greatest({all}, {0})")
    _define("least", lambda *a: m.least_of(a), unified, "least({all})", 1, MANY, sees_nulls=True,
        unifies=True, spark="least({all}, {0})")


def _texts() -> None:
    text = always(TEXT, "text")
    for name, python in (("lower", m.lower), ("upper", m.upper)):
        _define(name, python, text, name + "({0})", 1)
    _define("trim", lambda a: a.strip(" "), text, "trim({0})", 1)
    _define("ltrim", lambda a: a.lstrip(" "), text, "ltrim({0})", 1)
    _define("rtrim", lambda a: a.rstrip(" "), text, "rtrim({0})", 1)
    for name, stripped, side in (("trim_of", str.strip, "BOTH"), ("ltrim_of", str.lstrip, "LEADING"), ("rtrim_of", str.rstrip, "TRAILING")):
        _define(name, stripped, text, name.replace("_of", "({all})"), 2, spark=f"trim({side} {{1}} FROM {{0}})")
    backwards = "array_to_string(list_reverse(list_transform(range(1, length({0}) + 1), lambda i: substring({0}, i, 1))), '')"
    _define("reverse", lambda a: a[::-1], text, backwards, 1, spark="reverse({0})")
    _define("length", len, always(INT, "text|list|bag"), "length({0})", 1, spark="size({0})")
    _define("substring", m.substring, always(TEXT, "text", "int64"), "substring({all})", 2, 3)
    kept = "(CASE WHEN {1} < 0 THEN greatest(length({0}) + {1}, 0) ELSE {1} END)"
    _define("left", lambda a, n: a[:n], always(TEXT, "text", "int64"), "left({0}, {1})", 2, spark=f"left({{0}}, {kept})")
    _define("right", lambda a, n: a[-n:] if n else "", always(TEXT, "text", "int64"), "right({0}, {1})", 2,
        spark=f"right({{0}}, {kept})")
    _define("repeat", m.repeated, always(TEXT, "text", "int64"), "repeat({0}, {1})", 2)
    missing = "(CASE WHEN {1} > length({0}) THEN {1} - length({0}) WHEN {1} <= length({0}) THEN 0 END)"
    for name, padder, order in (("lpad", m.padded_before, "{1} || {0}"), ("rpad", m.padded_behind, "{0} || {1}")):
        padding = f"left(repeat({{2}}, {missing}), {missing})"
        padded = f"({order.format('left({0}, greatest({1}, 0))', padding)})"
        _define(name, padder, always(TEXT, "text", "int64", "text"), padded, 3)
    _define("ascii", lambda a: ord(a[0]) if a else 0, always(INT, "text"), "CAST(ascii({0}) AS BIGINT)", 1)
    _define("replace", lambda a, b, c: a.replace(b, c) if b else a, text, "replace({all})", 3)
    _define("concat_strict", lambda a, b: a + b, text, "({0} || {1})", 2)
    _define("concat", lambda *a: "".join(m.present(a)), text, "concat({all})", 1, MANY, sees_nulls=True,
        spark="concat_ws('', {all})")
    _define("concat_ws", lambda by, *a: None if by is None else by.join(m.present(a)), text, "concat_ws({all})", 2, MANY, sees_nulls=True)


def _parts_of_texts() -> None:
    truth = always(BOOL, "text")
    without = "({0} LIKE {1} ESCAPE '\\u0001')"  # a backslash is the escape of Spark
    _define("like", m.like, truth, "({0} LIKE {1})", 2, spark=without)
    _define("like_escape", m.like, truth, "({0} LIKE {1} ESCAPE {2})", 3)
    _define("starts_with", str.startswith, truth, "starts_with({0}, {1})", 2, spark="startswith({0}, {1})")
    _define("ends_with", str.endswith, truth, "ends_with({0}, {1})", 2, spark="endswith({0}, {1})")
    _define("contains", lambda a, b: b in a, truth, "contains({0}, {1})", 2)
    place = "strpos({0}, {1})"
    _define("position_of", lambda a, b: a.find(b) + 1, always(INT, "text"), place, 2, spark="instr({0}, {1})")
    parts = always(list_of(TEXT), "text")
    spark_parts = (
        "(CASE WHEN {1} IS NULL AND {0} IS NOT NULL THEN array({0}) WHEN {1} = '' AND {0} <> '' THEN filter(split({0}, ''), x -> x <> '')"
        " ELSE split({0}, concat('\\\\Q', {1}, '\\\\E')) END)"
    )
    _define("split", m.split_text, parts, "CASE WHEN {0} = '' THEN [''] ELSE string_split({0}, {1}) END", 2,
        spark=spark_parts, sees_nulls=True)
    _define("split_part", m.split_part, always(TEXT, "text", "text", "int64"), "split_part({all})", 3,
        spark=f"(CASE WHEN {{2}} IS NOT NULL AND {{1}} IS NOT NULL AND {{0}} IS NOT NULL THEN coalesce(try_element_at({spark_parts}, CAST(nullif({{2}}, 0) AS INT)), '') END)")
    words = "list_filter(string_split_regex({0}, '[ \\t\\n\\r\\f\\v\",()*]+'), lambda x: x <> '')"
    spark_words = "filter(split({0}, '[ \\\\t\\\\n\\\\r\\\\f\\\\v\",()*]+'), x -> x <> '')"
    _define("tokenize", m.tokens, always(bag(TEXT), "text"), words, 1, spark=spark_words)


def _lists() -> None:
    some = always(INT, "list|bag|text")
    _define("array_size", len, some, "len({0})", 1, spark="size({0})")
    _define("array", lambda *a: a, lambda types: list_of(unified(types)), "[{all}]", 0, MANY,
        spark="array({all})", sees_nulls=True, unifies=True)
    _define("list_sum", m.total, sum_of_items, "list_sum({0})", 1)
    _define("list_avg", m.mean, mean_of_items, "list_avg({0})", 1)
    _define("list_min", m.least_of, item_of, "list_min({0})", 1, spark="array_min({0})")
    _define("list_max", m.greatest_of, item_of, "list_max({0})", 1, spark="array_max({0})")
    counted = "len(list_filter({0}, lambda x: x IS NOT NULL))"
    _define("list_count", lambda a: len(m.present(a)), always(INT, "list|bag"), counted, 1,
        spark="size(filter({0}, x -> x IS NOT NULL))")
    _define("list_distinct", m.distinct, lambda types: always(types[0], "list|bag")(types),
        "list_sort(list_distinct({0}))", 1,
        spark="array_sort(filter(array_distinct({0}), x -> x IS NOT NULL))")
    _define("list_contains", lambda a, b: m.position(a, b) is not None, member(BOOL),
        "CASE WHEN {1} IS NOT NULL THEN list_contains({0}, {1}) END", 2, spark="(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN coalesce(array_contains({0}, {1}), FALSE) END)")
    _define("list_position", m.position, member(INT), "list_position({0}, {1})", 2, sees_nulls=True,
        spark="nullif(if({1} IS NULL, array_position(transform({0}, x -> x IS NULL), TRUE), array_position({0}, {1})), 0)")
    _define("list_extract", m.item_at, item_at, "list_extract({0}, {1})", 2,
        spark="try_element_at({0}, try_cast(nullif({1}, 0) AS INT))")
    _define("list_concat", lambda a, b: (a or ()) + (b or ()), both_lists, "list_concat({0}, {1})", 2,
        spark="concat(coalesce({0}, array()), coalesce({1}, array()))", sees_nulls=True)
    _define("list_join", lambda a, by: by.join(m.present(a)) if m.present(a) else None, text_of_items,
        "substring(list_aggregate(list_transform({0}, lambda x: {1} || x), 'string_agg', ''), length({1}) + 1)", 2,
        spark="(CASE WHEN size(filter({0}, x -> x IS NOT NULL)) > 0 THEN array_join({0}, {1}) END)")
    counts = "range(CAST({0} AS BIGINT))"
    _define("range", lambda n: m.counted(0, n), always(list_of(INT), "int64"), counts, 1,
        spark="(CASE WHEN {0} > 0 THEN sequence(0, {0} - 1) WHEN {0} <= 0 THEN array() END)")
    _define("generate_series", lambda first, last: m.counted(first, last + 1), always(list_of(INT), "int64"), "generate_series({all})", 2,
        spark="(CASE WHEN {1} >= {0} THEN sequence({0}, {1}) WHEN {1} < {0} THEN array() END)")


def _times() -> None:
    for name in ("year", "month", "day", "hour", "minute", "second"):
        _define(name, lambda a, part=name: getattr(a, part), always(INT, "time"),
            f"CAST({name}({{0}}) AS BIGINT)", 1)
    spark = {"week": "weekofyear({0})", "dayofweek": "(dayofweek({0}) - 1)", "isodow": "(weekday({0}) + 1)",
        "isoyear": "extract(YEAROFWEEK FROM {0})", "yearweek": "(extract(YEAROFWEEK FROM {0}) * 100 + weekofyear({0}))",
        "millisecond": "CAST(floor(extract(SECOND FROM {0}) * 1000) AS BIGINT)", "microsecond": "CAST(extract(SECOND FROM {0}) * 1000000 AS BIGINT)"}
    for name, part_of in times.PARTS_OF_TIME.items():
        _define(name, part_of, always(INT, "time"), f"CAST({name}({{0}}) AS BIGINT)", 1, spark=spark.get(name, f"{name}({{0}})"))
    both = always(INT, "time")
    for unit in (*times.TIME_UNITS, *times.MONTHS, "week"):
        start = f"CAST(date_trunc('{unit}', {{0}}) AS TIMESTAMP)"
        _define(f"trunc_{unit}", lambda a, of=unit: times.truncated_time(a, of), always(TIME, "time"), start, 1)
        if unit == "week":
            continue
        begins = [f"date_trunc('{unit}', {{{place}}})" for place in range(2)]
        _define(f"diff_{unit}", lambda a, b, of=unit: times.units_between(a, b, of), both, f"date_diff('{unit}', {{0}}, {{1}})", 2,
            spark=f"timestampdiff({unit.upper()}, {', '.join(begins)})")
    since = "timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', {0})"
    _define("epoch", times.seconds_since_1970, always(FLOAT, "time"), "epoch({0})", 1, spark=f"(CAST({since} AS DOUBLE) / 1000000.0D)")
    _define("epoch_us", times.micros_since_1970, always(INT, "time"), "epoch_us({0})", 1, spark=since)
    _define("epoch_ms", times.millis_since_1970, always(INT, "time"), "epoch_ms({0})", 1,
        spark=f"CAST(round({since} / 1000.0D) AS BIGINT)")
    moved = always(TIME, "time", "int64")
    _define("add_months", times.months_later, moved, "({0} + to_months(CAST({1} AS INTEGER)))", 2,
        spark="timestampadd(MONTH, {1}, {0})")
    _define("add_micros", times.micros_later, moved, "({0} + to_microseconds({1}))", 2,
        spark="timestampadd(MICROSECOND, {1}, {0})")
    _define("to_time", times.time_of, always(TIME, "text"), "CAST({0} AS TIMESTAMP)", 1)


# fmt: on
for _part in (_arithmetic, _logic, _texts, _parts_of_texts, _lists, _times):
    _part()
