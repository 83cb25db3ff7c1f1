"""The nearest known word to a user's word, as a suggestion for a misspelt name.

>>> did_you_mean("valeu", ["barrier", "value"]), did_you_mean("x", ["barrier"])
("; did you mean 'value'?", '')
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is closest to a word, ignoring case; None if none is close."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` if one of the known words is close, else nothing."""
    found = nearest(word, known)
    return f"; did you mean {found!r}?" if found else ""
