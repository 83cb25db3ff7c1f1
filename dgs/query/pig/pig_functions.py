"""The functions of Pig: for each the number of its arguments, and its form in the algebra. Names are in any case.

>>> sorted(name for name in FUNCTIONS if name.startswith("CO"))
['CONCAT', 'COUNT', 'COUNT_STAR']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from dgs.query.errors import QueryError
from dgs.query.pig.pig_casts import aggregated, as_number, as_type, counted, items_of, met, record_of
from dgs.query.pig.pig_scope import Value
from dgs.query.pig.pig_types import BOOLEAN, BYTEARRAY, CHARARRAY, DOUBLE, INTEGER, LONG, PigField, PigType
from dgs.query.scalar import Scalar, call, literal, struct

MANY = 1000


@dataclass(frozen=True, slots=True)
class PigFunction:
    """A function: `make` gets the arguments. `is_aggregate`: it makes one value of a bag."""

    make: Callable[[Sequence[Value]], Value]
    least: int = 1
    most: int = 1
    is_aggregate: bool = False


def _reduced(function: str, given: Sequence[Value]) -> Value:
    """Return an aggregate of numbers, or of values for min and max. Raises QueryError Q204."""
    (bag,) = given
    items_of(bag)
    of = bag.type.inside[0].type
    number = of
    if function in ("sum", "avg") or of == BYTEARRAY:
        number = as_number(Value(literal(None), of)).type
    argument = None if of == number else lambda first: as_type(Value(first, of), number).scalar
    whole = LONG if number.name in ("int", "long") else DOUBLE
    result = DOUBLE if function == "avg" else whole if function == "sum" else number
    return Value(aggregated(bag, function, argument), result)


def _count(given: Sequence[Value]) -> Value:
    return Value(aggregated(given[0], "count"), LONG)


def _count_star(given: Sequence[Value]) -> Value:
    items_of(given[0])
    return Value(counted(given[0]), LONG)


def _size(given: Sequence[Value]) -> Value:
    (one,) = given
    if one.type.name == "tuple":
        return Value(literal(len(one.type.inside)), LONG)
    if one.type.name in ("bag", "map"):
        return Value(counted(one), LONG)
    return Value(call("length", as_type(one, CHARARRAY).scalar), LONG)


def _is_empty(given: Sequence[Value]) -> Value:
    return Value(call("eq", _size(given).scalar, literal(0)), BOOLEAN)


def _tokens(given: Sequence[Value]) -> Value:
    texts = [as_type(one, CHARARRAY).scalar for one in given]
    of = PigType("bag", (PigField("token", CHARARRAY),), is_bare=True)
    return Value(call("words" if len(texts) == 1 else "words_between", *texts), of)


def _concat(given: Sequence[Value]) -> Value:
    texts = [as_type(one, CHARARRAY, is_asked=True).scalar for one in given]
    return Value(reduce(partial(call, "concat_strict"), texts), CHARARRAY)


def _texts(name: str, result: PigType = CHARARRAY) -> Callable[[Sequence[Value]], Value]:
    return lambda given: Value(call(name, *(as_type(one, CHARARRAY).scalar for one in given)), result)


def _substring(given: Sequence[Value]) -> Value:
    text = as_type(given[0], CHARARRAY).scalar
    start, stop = (as_number(one).scalar for one in given[1:])
    return Value(call("substring", text, call("add", start, literal(1)), call("sub", stop, start)), CHARARRAY)


def _index_of(given: Sequence[Value]) -> Value:
    texts = [as_type(one, CHARARRAY).scalar for one in given]
    return Value(call("sub", call("position_of", *texts), literal(1)), INTEGER)


def _numbers(name: str, result: PigType | None = None) -> Callable[[Sequence[Value]], Value]:
    def make(given: Sequence[Value]) -> Value:
        (one,) = map(as_number, given)
        return Value(call(name, one.scalar), result or one.type)

    return make


def _round(given: Sequence[Value]) -> Value:
    (one,) = map(as_number, given)
    half_up = call("floor", call("add", one.scalar, literal(0.5)))  # -2.5 gives -2, as in Java
    return Value(call("truncate", half_up), LONG)


def _bag_of(given: Sequence[Value]) -> Value:
    if not given:
        raise QueryError.of("Q204", "the fields of an empty bag are not known", "Give it one element.")
    parts = met(given)
    of = PigType("bag", (PigField(None, parts[0].type),), is_bare=True)
    return Value(call("array", *(one.scalar for one in parts)), of)


def _map_of(given: Sequence[Value]) -> Value:
    if not given or len(given) % 2:
        raise QueryError.of("Q206", f"a map has keys and values in turn, and these are {len(given)}")
    keys = [as_type(one, CHARARRAY, is_asked=True).scalar for one in given[::2]]
    values = met(given[1::2])
    pairs: list[Scalar] = [struct(key=key, value=one.scalar) for key, one in zip(keys, values, strict=True)]
    return Value(call("array", *pairs), PigType("map", (PigField("value", values[0].type),)))


def _tuple_of(given: Sequence[Value]) -> Value:
    return record_of([(None, one) for one in given])


def _aggregate(make: Callable[[Sequence[Value]], Value]) -> PigFunction:
    return PigFunction(make, is_aggregate=True)


FUNCTIONS: dict[str, PigFunction] = {
    "COUNT": _aggregate(_count),
    "COUNT_STAR": _aggregate(_count_star),
    "SUM": _aggregate(partial(_reduced, "sum")),
    "AVG": _aggregate(partial(_reduced, "avg")),
    "MIN": _aggregate(partial(_reduced, "min")),
    "MAX": _aggregate(partial(_reduced, "max")),
    "SIZE": PigFunction(_size),
    "ISEMPTY": PigFunction(_is_empty),
    "TOKENIZE": PigFunction(_tokens, 1, 2),
    "CONCAT": PigFunction(_concat, 2, MANY),
    "LOWER": PigFunction(_texts("lower")),
    "UPPER": PigFunction(_texts("upper")),
    "TRIM": PigFunction(_texts("trim")),
    "LTRIM": PigFunction(_texts("ltrim")),
    "RTRIM": PigFunction(_texts("rtrim")),
    "SUBSTRING": PigFunction(_substring, 3, 3),
    "INDEXOF": PigFunction(_index_of, 2, 2),
    "STARTSWITH": PigFunction(_texts("starts_with", BOOLEAN), 2, 2),
    "ENDSWITH": PigFunction(_texts("ends_with", BOOLEAN), 2, 2),
    "ABS": PigFunction(_numbers("abs")),
    "ROUND": PigFunction(_round),
    "FLOOR": PigFunction(_numbers("floor")),
    "CEIL": PigFunction(_numbers("ceil")),
    "SQRT": PigFunction(_numbers("sqrt", DOUBLE)),
    "LOG": PigFunction(_numbers("ln", DOUBLE)),
    "EXP": PigFunction(_numbers("exp", DOUBLE)),
    "TOBAG": PigFunction(_bag_of, 0, MANY),
    "TOMAP": PigFunction(_map_of, 0, MANY),
    "TOTUPLE": PigFunction(_tuple_of, 1, MANY),
}
"""The functions by name. FLATTEN is not among them: it makes rows."""
