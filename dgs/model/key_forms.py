"""Forms of a key: equal keys of different types, such as 1, 1.0 and True, are one key, and outputs show one of its forms.

The choice depends on the forms alone, not on their order of arrival: a form that is not plain is preferred to a plain one, and of
two forms that are not plain the one with the greater codec bytes. So a float is preferred to a bool, and a bool to an integer.

>>> shown_form(1, 1.0), shown_form(True, 1), shown_form(True, 1.0), shown_form((1, "a"), (True, "a"))
(1.0, True, 1.0, (True, 'a'))
"""

from __future__ import annotations

from functools import reduce
from math import isnan
from typing import Any

from dgs import codec
from dgs.errors import CodecError
from dgs.model.tags import refused_in
from dgs.model.user_code import shown

PLAIN = frozenset([str, int, bytes, type(None)])
"""Types whose keys are plain: equal ones look the same."""


def is_plain(key: Any) -> bool:
    """Return whether a key is plain: no other plain key equals it. NaN is not, because it does not equal itself.

    >>> is_plain("a"), is_plain((1, 0.5)), is_plain(True), is_plain((1, 2.0))
    (True, True, False, False)
    """
    kind = type(key)
    if kind in PLAIN:
        return True
    if kind is float:
        return not (isnan(key) or key.is_integer())
    return kind is tuple and (PLAIN.issuperset(map(type, key)) or all(map(is_plain, key)))


def plain_form(key: Any) -> Any:
    """Return the plain key that equals a key, if there is one.

    >>> plain_form(1.0), plain_form((True, "a")), plain_form("a"), plain_form(0.5)
    (1, (1, 'a'), 'a', 0.5)
    """
    if isinstance(key, tuple) and type(key) is tuple:
        return tuple(map(plain_form, key))
    is_whole = isinstance(key, (int, float)) and type(key) is not int and key == key // 1
    return int(key) if is_whole else key


def shown_form(*forms: Any) -> Any:
    """Return which of equal keys is shown."""
    return reduce(_shown_of_two, forms)


def _shown_of_two(one: Any, other: Any) -> Any:
    if one is other or is_plain(other):
        return one
    if is_plain(one):
        return other
    return max(one, other, key=codec.encode)


class BadKeyError(TypeError):
    r"""A step of a flow gives an item an invalid key. It is raised as an error of the user's code, so `on_error: skip` leaves the row out.

    >>> print(BadKeyError([1]), BadKeyError((1, float("nan"))), sep="\n")
    R02 [1], of type list, cannot be a key: take numbers, texts, bytes, tuples of these, or values registered with dgs.codec.register
    R02 (1, nan), of type tuple, cannot be a key: NaN (or NaT, NA) does not equal itself; take None or a text in its place
    """

    def __init__(self, key: Any) -> None:
        why = "take numbers, texts, bytes, tuples of these, or values registered with dgs.codec.register"
        if not _equals_itself(key):
            why = "NaN (or NaT, NA) does not equal itself; take None or a text in its place"
        elif (problem := next(refused_in(key), None)) is not None and problem.__hash__ is not None:
            why = f"a {problem.__name__} has no hash in common with equal integers; take str(...) of it, or count whole units"
        super().__init__(f"R02 {shown(key)}, of type {type(key).__name__}, cannot be a key: {why}")


def check_key(key: Any) -> None:
    """Check that a key can be hashed and encoded, and that it equals itself. Raises BadKeyError."""
    try:
        hash(key)
        codec.encode(key)
    except (TypeError, CodecError):
        raise BadKeyError(key) from None
    if not _equals_itself(key) or next(refused_in(key), None) is not None:
        raise BadKeyError(key)


def blamed(error: BaseException, key: Any) -> BaseException:
    """Return the error to raise for one that occurred in a step with a key: BadKeyError if the key is invalid."""
    if isinstance(error, TypeError):
        try:
            check_key(key)
        except BadKeyError as bad:
            return bad.with_traceback(error.__traceback__)
    return error


def _equals_itself(key: Any) -> bool:
    """Return whether a key has no NaN in it, nor NaT or NA."""
    if isinstance(key, (tuple, frozenset)):
        return all(map(_equals_itself, key))
    try:
        return bool(key == key)  # noqa: PLR0124 - only such values differ from themselves
    except TypeError:  # NA
        return False
