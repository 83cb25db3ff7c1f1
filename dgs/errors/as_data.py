"""Errors as plain data, for `--json`, results.json and programs: the sentence, the remedy, the place, and every single problem.

>>> from dgs.errors import PlanFileError
>>> lines = [("plan.yaml:3:5", "unknown key 'a'"), ("plan.yaml:9:1", "missing key 'b'")]
>>> data = as_data(PlanFileError(where="plan.yaml", problem="2 problems", problems=lines))
>>> data["code"], data["file"], data["line"]
('DGS301', 'plan.yaml', None)
>>> data["problems"][0]
{'message': "unknown key 'a'", 'fix': None, 'file': 'plan.yaml', 'line': 3, 'column': 5}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from dgs.errors.families import DgsError, told
from dgs.errors.hidden_values import masked, masked_data

PLACE = re.compile(r"(?P<file>\S.*?\.\w+)(?::(?P<line>\d+))?(?::(?P<column>\d+))?(?=$|: |\))")
"""A place such as `plan.yaml:3:5`, at the end of a text or before a colon or a parenthesis."""


def as_data(error: DgsError) -> dict[str, Any]:
    """Return an error as data for JSON: code, message, fix, file, line, column, problems, facts, and the user's traceback.

    `message` is the whole sentence, with the remedy; `fix` is the remedy alone, None if there is none. `problems` has an object for
    each problem, with `message`, `fix`, `file`, `line` and `column`; problems of a plan also have `rule`, `nodes` and `tags`.
    `column` is a number in a plan file, and a name in a row of the input.
    """
    trace = told(error.facts.get("trace") or "")
    message = str(error).removeprefix(trace).lstrip("\n")
    fix = masked(error.filled(error.fix)) or None
    place = _place(error.facts.get("where"))
    place |= {name: error.facts[name] for name in ("file", "line") if error.facts.get(name) is not None}
    if "field" in error.facts:
        place["column"] = error.facts["field"]
    facts = {name: _plain(value) for name, value in error.facts.items() if name not in ("trace", *LISTS)}
    return {
        "code": error.code,
        "message": message,
        "fix": fix,
        **place,
        "problems": _problems(error) or [{"message": message, "fix": fix, **place}],
        "facts": facts,
        **({"trace": trace} if trace else {}),
    }


LISTS = ("problems", "violations", "changes")
"""Facts that list problems: lines of a plan file with their places, rules that a plan breaks, code that has changed."""


def _problems(error: DgsError) -> list[dict[str, Any]]:
    listed = next((error.facts[name] for name in LISTS if name in error.facts), ())
    return [_problem(one) for one in listed]


def _problem(one: Any) -> dict[str, Any]:
    if is_dataclass(one) and not isinstance(one, type):
        return {**_place(None), **_plain(asdict(one))}
    where, text = one if isinstance(one, tuple) else (None, one)
    return {"message": told(str(text)), "fix": None, **_place(where)}


def _place(where: Any) -> dict[str, Any]:
    found = PLACE.match(str(where)) if where is not None else None
    if found is None:
        return {"file": None, "line": None, "column": None}
    line, column = (None if found[name] is None else int(found[name]) for name in ("line", "column"))
    return {"file": found["file"], "line": line, "column": column}


def _plain(value: Any) -> Any:
    """Return a value for JSON, with text in place of other objects."""
    if isinstance(value, (bool, int, float, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    return masked(
        value
        if isinstance(value, str)
        else str(value)
        if isinstance(value, Path)
        else str(masked_data(value))
    )
