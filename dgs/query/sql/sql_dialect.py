"""A check of SQL by DuckDB's own parser and list of functions, since sqlglot accepts texts that DuckDB does not.

>>> stopped("select a,, b from t")
(9, ',')
>>> unknown_function("select iif(a, 1, 2) from t")
'iif'
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dgs.errors.nearest import did_you_mean
from dgs.query import duck
from dgs.query.aggregates import AGGREGATES
from dgs.query.functions import FUNCTIONS
from dgs.query.sql.sql_refusals import INSTEAD

OWN = frozenset({"tumble", "hop"})
"""Our functions that DuckDB does not have."""
_NAMES = (
    "abs arg_max arg_min array_extract avg ceil concat contains count count_if count_star date_diff date_part date_trunc day exp floor greatest"
    " hour if least left len length list list_extract list_value ln lower ltrim max median min minute month nullif power range replace right"
    " round rtrim second split_part sqrt starts_with stddev strpos struct_pack substr substring sum trim unnest upper year"
)
FREQUENT = frozenset(_NAMES.split())
"""Functions that DuckDB has: listing all of them takes longer than reading a query."""


def stopped(text: str) -> tuple[int, str] | None:
    """Return the offset and the token at which DuckDB stops reading; None if it reads the whole text, or is not installed."""
    found = duck.parsed(text)
    if not found.get("error") or found.get("error_type") != "parser":
        return None
    at = len(text.encode()[: int(found.get("position", 0))].decode(errors="ignore"))
    _, _, token = found["error_message"].partition('near "')
    return at, token.removesuffix('"') or text[at : at + 1]


def unknown_function(text: str) -> str | None:
    """Return the first function in a text that is neither DuckDB's nor ours; None if there is none."""
    names = [one for one in _functions(duck.parsed(text)) if one.lower() not in OWN | FREQUENT]
    return next((one for one in names if one.lower() not in duck.function_names()), None)


def no_function(name: str) -> tuple[str, str]:
    """Return the problem with an unknown function, and what to write instead."""
    known = duck.function_names() | OWN
    is_known = name.lower() in known or name.lower() in INSTEAD
    near = "" if is_known else did_you_mean(name, sorted((FUNCTIONS.keys() | AGGREGATES.keys()) & known))
    return f"no function {name!r}{near}", INSTEAD.get(name.lower(), "")


def _functions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("class") == "FUNCTION" and not node.get("is_operator"):
            yield node["function_name"]
        for part in node.values():
            yield from _functions(part)
    elif isinstance(node, list):
        for part in node:
            yield from _functions(part)
