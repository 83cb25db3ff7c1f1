"""Rules of types: from the types of the arguments of a function to that of its result.

>>> numeric([INT, FLOAT])
Type(kind='float64', of=None, fields=(), nullable=True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dgs.query.errors import QueryError
from dgs.query.types import BOOL, FLOAT, INT, TEXT, Type, list_of, unified

TypeRule = Callable[[Sequence[Type]], Type]
"""From the types of the arguments to the type of the result. Raises QueryError Q204."""


def always(result: Type, *wanted: str) -> TypeRule:
    """Return the rule of a function with one type of result, and kinds of arguments separated by `|`."""

    def rule(types: Sequence[Type]) -> Type:
        for place, one in enumerate(types):
            kinds = wanted[min(place, len(wanted) - 1)].split("|") if wanted else ["any"]
            if one.kind not in (*kinds, "null") and "any" not in kinds:
                raise QueryError.of(
                    "Q204", f"argument {place + 1} is {one}, where {' or '.join(kinds)} is needed"
                )
        return result

    return rule


NUMBER = "int64|float64"


def numeric(types: Sequence[Type]) -> Type:
    """Return the type of arithmetic: integers give integers, else floats. Raises QueryError Q204."""
    if any(one.kind == "time" for one in types):
        remedy = "Add an interval to a time, or count what is between two: `date_diff('day', a, b)`."
        raise QueryError.of("Q204", "arithmetic with a time", remedy)
    always(FLOAT, NUMBER)(types)
    return unified([*types]) if any(one.kind != "null" for one in types) else INT


def compared(types: Sequence[Type]) -> Type:
    """Return bool for values that have a type in common. Raises QueryError Q204."""
    unified(types)
    return BOOL


def item_of(types: Sequence[Type]) -> Type:
    """Return the type of the items of the first argument. Raises QueryError Q204."""
    if types[0].of is None:
        raise QueryError.of("Q204", f"{types[0]} is no list or bag")
    return types[0].of


def item_at(types: Sequence[Type]) -> Type:
    """Return the type of the item of a list at an integer. Raises QueryError Q204."""
    always(INT, "any", "int64")(types)
    return item_of(types)


def sum_of_items(types: Sequence[Type]) -> Type:
    """Return the type of the sum of the numbers in a list. Raises QueryError Q204."""
    return numeric([item_of(types)])


def mean_of_items(types: Sequence[Type]) -> Type:
    """Return float64 for a list of numbers. Raises QueryError Q204."""
    numeric([item_of(types)])
    return FLOAT


def text_of_items(types: Sequence[Type]) -> Type:
    """Return text for a list of texts and a text. Raises QueryError Q204."""
    return always(TEXT, "text")([item_of(types), *types[1:]])


def both_lists(types: Sequence[Type]) -> Type:
    """Return the type of a list of the items of both arguments. Raises QueryError Q204."""
    return list_of(unified([item_of([one]) for one in types]))


def member(result: Type) -> TypeRule:
    """Return the rule of a function of a list and a possible item."""

    def rule(types: Sequence[Type]) -> Type:
        unified([item_of(types), types[1]])
        return result

    return rule


def rounded(types: Sequence[Type]) -> Type:
    """Return the type of a number rounded to a number of digits. Raises QueryError Q204."""
    always(INT, NUMBER, "int64")(types)
    return numeric(types[:1])
