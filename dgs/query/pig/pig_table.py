"""Functions of the algebra that only Pig needs: texts as numbers, words of a text, and values of a map. Importing it adds them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dgs.query.errors import failed
from dgs.query.functions import FUNCTIONS, Function
from dgs.query.type_rules import TypeRule, always
from dgs.query.types import BOOL, FLOAT, GREATEST_INT, INT, NULL, TEXT, Type, list_of, one_float

WHOLE = r"[+-]?[0-9]+"
NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


def text_to_float(text: str) -> float | None:
    """Return the number in a text, null if it is not one.

    >>> text_to_float(" 1.5 "), text_to_float("x")
    (1.5, None)
    """
    return one_float(float(text.strip(" "))) if re.fullmatch(NUMBER, text.strip(" ")) else None


def text_to_int(text: str) -> int | None:
    """Return the number in a text without its fraction; null if it is not one, or is beyond 64 bits."""
    if re.fullmatch(WHOLE, text.strip(" ")):
        found = int(text)
        return found if -GREATEST_INT - 1 <= found <= GREATEST_INT else None
    number = text_to_float(text)
    return None if number is None else truncate(number)


def text_to_bool(text: str) -> bool | None:
    """Return the truth value in a text, null if it is not one."""
    return {"true": True, "false": False}.get(text.strip(" ").lower())


def truncate(value: float) -> int | None:
    """Return a number without its fraction; null beyond 64 bits."""
    if isinstance(value, int):
        return value
    return int(value) if math.isfinite(value) and abs(value) < GREATEST_INT else None


def words(text: str) -> tuple[str, ...]:
    """Return the parts of a text between white space, in order."""
    return tuple(one for one in re.split(r"[ \t\n\r\f\v]+", text) if one)


def words_between(text: str, delimiters: str) -> tuple[str, ...]:
    """Return the parts of a text between any of the delimiters, without empty ones, in order."""
    if not delimiters:
        return (text,) if text else ()
    return tuple(one for one in re.split(f"[{re.escape(delimiters)}]+", text) if one)


def matches(text: str, pattern: str) -> bool:
    """Return whether a whole text matches a regular expression. Raises QueryError Q704 for an invalid one."""
    try:
        return re.fullmatch(pattern, text) is not None
    except re.error as error:
        raise failed("matches", f"{pattern!r} is no regular expression: {error}") from None


def map_value(pairs: Sequence[tuple[str, Any]], key: str) -> Any:
    """Return the value of a key, null if it is not there."""
    return next((value for known, value in pairs if known == key), None)


def _value_type(types: Sequence[Type]) -> Type:
    return types[0].of.fields[1][1] if types[0].of is not None and types[0].of.fields else NULL


def _added(name: str, python: Any, type_: TypeRule, texts: tuple[str, str], count: int = 1) -> None:
    FUNCTIONS[name] = Function(name, python, type_, texts[0], texts[1], count, count)


def _case(test: str, then: str) -> str:
    return f"(CASE WHEN {test} THEN {then} END)"


_FLOAT = _case("regexp_full_match(trim({0}), '" + NUMBER + "')", "TRY_CAST(trim({0}) AS DOUBLE)")
_SPARK_NUMBER = NUMBER.replace("\\", "\\\\")
_SPARK_FLOAT = _case("trim({0}) RLIKE '^(" + _SPARK_NUMBER + ")$'", "TRY_CAST(trim({0}) AS DOUBLE)")
_INT = (
    "(CASE WHEN regexp_full_match(trim({0}), '" + WHOLE + "') THEN TRY_CAST(trim({0}) AS BIGINT) "
    "ELSE TRY_CAST(trunc(" + _FLOAT + ") AS BIGINT) END)"
)
_SPARK_INT = (
    "(CASE WHEN trim({0}) RLIKE '^" + WHOLE + "$' THEN TRY_CAST(trim({0}) AS BIGINT) "
    "ELSE TRY_CAST(" + _SPARK_FLOAT + " AS BIGINT) END)"
)
_BOOL = "(CASE lower(trim({0})) WHEN 'true' THEN true WHEN 'false' THEN false END)"
_WORDS = "list_filter(string_split_regex({0}, '[ \\t\\n\\r\\f\\v]+'), lambda x: x <> '')"
_SPARK_WORDS = "filter(split({0}, '[ \\\\t\\\\n\\\\r\\\\f\\\\x0B]+'), x -> x <> '')"
_ANY_OF = "CASE {1} WHEN '' THEN '[^\\s\\S]' ELSE '[' || regexp_escape({1}) || ']+' END"
_SPARK_ANY_OF = "CASE {1} WHEN '' THEN '[^\\\\s\\\\S]' ELSE concat('[\\\\Q', {1}, '\\\\E]+') END"
_BETWEEN = "list_filter(string_split_regex({0}, " + _ANY_OF + "), lambda x: x <> '')"
_SPARK_BETWEEN = "filter(split({0}, " + _SPARK_ANY_OF + "), x -> x <> '')"
_VALUE = 'list_filter({0}, lambda x: x."key" = {1})[1]."value"'
_SPARK_VALUE = "get(filter({0}, x -> x.key = {1}), 0).value"

_added("text_to_float", text_to_float, always(FLOAT, "text"), (_FLOAT, _SPARK_FLOAT))
_added("text_to_int", text_to_int, always(INT, "text"), (_INT, _SPARK_INT))
_added("text_to_bool", text_to_bool, always(BOOL, "text"), (_BOOL, _BOOL))
_TRUNCATED = ("TRY_CAST(trunc({0}) AS BIGINT)", "TRY_CAST({0} AS BIGINT)")
_added("truncate", truncate, always(INT, "int64|float64"), _TRUNCATED)
_added("words", words, always(list_of(TEXT), "text"), (_WORDS, _SPARK_WORDS))
_added("words_between", words_between, always(list_of(TEXT), "text"), (_BETWEEN, _SPARK_BETWEEN), 2)
_added("map_value", map_value, _value_type, (_VALUE, _SPARK_VALUE), 2)
_MATCHES = ("regexp_full_match({0}, {1})", "({0} RLIKE concat('^(?:', {1}, ')$'))")
_added("matches", matches, always(BOOL, "text"), _MATCHES, 2)
_added(
    "bag_or_empty", lambda a: a or (), lambda types: types[0], ("coalesce({0}, [])", "coalesce({0}, array())")
)
FUNCTIONS["bag_or_empty"] = replace(FUNCTIONS["bag_or_empty"], sees_nulls=True)
