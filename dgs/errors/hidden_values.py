"""Values that no text of ours shows: those of the environment variables that a plan file refers to by `${env:NAME}`.

The reader of a plan file calls `hide`, and a job takes the values to other processes. Code that makes a text of arbitrary values calls
`masked`, which replaces a hidden value by its reference. Saved data goes through `masked_data`, and `revealed` restores it with the current
values.

>>> hide("DOCTEST_PASSWORD", "swordfish-7")
>>> masked("cannot log in as ann:swordfish-7@db")
'cannot log in as ann:${env:DOCTEST_PASSWORD}@db'
>>> masked_data({"user": "ann", "password": "swordfish-7"})
{'user': 'ann', 'password': '${env:DOCTEST_PASSWORD}'}
>>> revealed(masked_data(["swordfish-7"]))
['swordfish-7']
>>> forget("DOCTEST_PASSWORD")
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

SHORTEST = 4
"""The characters of the shortest value that is looked for inside texts: `no` is in too many words."""

WHOLE_WORD_BELOW = 8
"""Shorter values are found only if no letter or digit is before or after them."""

_REFERENCE = re.compile(r"\$\{env:([^}]*)\}")

_values: dict[str, str] = {}
_patterns: list[re.Pattern[str]] = []
_references: dict[str, str] = {}


def hide(name: str, value: str) -> None:
    """Hide the value of an environment variable in all texts from now on."""
    if _values.get(name) != value:
        _values[name] = value
        _learn()


def forget(name: str) -> None:
    """Stop hiding the value of an environment variable."""
    _values.pop(name, None)
    _learn()


def all_hidden() -> dict[str, str]:
    """Return the values by name, for another process to hide."""
    return dict(_values)


def masked(text: str) -> str:
    """Return a text with references in the place of values."""
    for pattern in _patterns:
        text = pattern.sub(lambda found: _references[found[0]], text)
    return text


def masked_data(data: Any) -> Any:
    """Return plain data with its texts masked; a text that is a whole value is masked however short it is."""
    whole = {value: f"${{env:{name}}}" for name, value in _values.items()}
    return _mapped(data, lambda text: whole.get(text) or masked(text)) if _values else data


def revealed(data: Any) -> Any:
    """Return the argument of `masked_data`, with the values that the variables have now."""
    return _mapped(data, lambda text: _REFERENCE.sub(lambda found: _values.get(found[1], found[0]), text))


def _mapped(data: Any, change: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, Mapping):
        return {key: _mapped(value, change) for key, value in data.items()}
    if type(data) in (list, tuple):
        return type(data)(_mapped(value, change) for value in data)
    return data


def _learn() -> None:
    _references.clear()
    for name, value in _values.items():
        for spelled in _spellings(value):
            _references.setdefault(spelled, f"${{env:{name}}}")
    found = sorted((s for s in _references if len(s) >= SHORTEST), key=len, reverse=True)
    _patterns[:] = [
        re.compile(
            "|".join(map(re.escape, some))
            if is_long
            else rf"(?<!\w)(?:{'|'.join(map(re.escape, some))})(?!\w)"
        )
        for is_long in (True, False)
        if (some := [text for text in found if (len(text) >= WHOLE_WORD_BELOW) is is_long])
    ]


def _spellings(value: str) -> set[str]:
    """Return a value and its lines as they may come in a text: plain or in SQL, there also inside of a repr or of JSON, or in an address."""
    lines = {value, *(line.strip() for line in value.splitlines())}
    parts = lines | {line.replace("'", "''") for line in lines}
    return {
        spelled
        for part in parts
        for spelled in (part, repr(part)[1:-1], json.dumps(part)[1:-1], quote(part), quote(part, safe=""))
        if part
    }
