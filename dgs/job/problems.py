"""Problems of a plan.yaml as sentences, from pydantic's errors: where it is, what is wrong, and what would be right.

For a value that may have several shapes, pydantic reports one error per shape. Only the shape that the user most likely meant
is reported: the one that the value has, else all of them in one sentence.

>>> from pydantic import ValidationError
>>> from dgs.job.schema import PlanFile
>>> data = {"version": 1, "name": "a", "program": {"reff": "p.py:P"}, "streams": []}
>>> try: PlanFile.model_validate(data)
... except ValidationError as error:
...     for problem in problems_in(error, data, PlanFile): print(problem.place, problem.text)
('program',) missing key 'ref'
('program', 'reff') unknown key 'reff'; did you mean 'ref'?
('streams',) must have at least 1 item, got 0
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from dgs.errors.nearest import did_you_mean
from dgs.model.user_code import shown

Place = tuple[str | int, ...]

_SHAPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "none_required": "nothing",
}
_PATTERNS = {
    "^[A-Za-z_][A-Za-z0-9_.-]*$": "must start with a letter or _ and go on with letters, digits, '_', '.' and '-'",
    "^[A-Za-z0-9_.-]+$": "must consist of letters, digits, '_', '.' and '-'",
}
_SHOWN_LENGTH = 60


@dataclass(frozen=True)
class Problem:
    """One problem in a plan.yaml: a sentence for a place. `is_key`: the key is wrong, and not the value."""

    place: Place
    text: str
    is_key: bool = False


@dataclass(frozen=True)
class _Complaint:
    """A problem as pydantic reports it: the rest of the path to the value, and the error."""

    way: tuple[str | int, ...]
    error: Any

    @property
    def is_about_shape(self) -> bool:
        return not self.way and (self.error["type"] in _SHAPES or self.error["type"] == "literal_error")


def problems_in(error: ValidationError, data: Any, model: type[BaseModel]) -> list[Problem]:
    """Return all problems of `data`, in the order of the file's schema."""
    complaints = [_Complaint(tuple(item["loc"]), item) for item in error.errors(include_url=False)]
    return list(_sort_out(complaints, data, (), [model]))


def _sort_out(
    complaints: Sequence[_Complaint], data: Any, place: Place, annotations: list[Any]
) -> Iterator[Problem]:
    """Follow the paths of the complaints into the data, or into the shapes of a union if the data has no such part."""
    parts: dict[str | int, list[_Complaint]] = {}
    for complaint in complaints:
        if complaint.way:
            rest = _Complaint(complaint.way[1:], complaint.error)
            parts.setdefault(complaint.way[0], []).append(rest)
        else:
            yield _problem(complaint.error, data, place, annotations)
    shapes: list[list[_Complaint]] = []
    for part, below in parts.items():
        if _has(data, part):
            yield from _below(below, data[part], (*place, part), annotations, part)
        elif not below[0].way and below[0].error["type"] == "missing":
            yield Problem(place, f"missing key {str(part)!r}")
        else:
            shapes.append(below)
    if shapes:
        yield from _likeliest(shapes, data, place, annotations)


def _below(
    complaints: list[_Complaint], data: Any, place: Place, annotations: list[Any], part: str | int
) -> Iterator[Problem]:
    if any(not c.way and c.error["type"] == "extra_forbidden" for c in complaints):
        yield Problem(place, _unknown_key(str(part), annotations), is_key=True)
    else:
        yield from _sort_out(complaints, data, place, _step(annotations, part))


def _likeliest(
    shapes: list[list[_Complaint]], data: Any, place: Place, annotations: list[Any]
) -> Iterator[Problem]:
    """Report on the shapes that the value has. If it has none of them, list the allowed shapes in one sentence."""
    fitting = [shape for shape in shapes if not any(c.is_about_shape for c in shape)]
    if fitting:
        for shape in fitting:
            yield from _sort_out(shape, data, place, annotations)
        return
    expected = dict.fromkeys(_expected(shape[0].error, annotations) for shape in shapes)
    hint = did_you_mean(data, _literals(annotations)) if isinstance(data, str) else ""
    yield Problem(place, f"expected {' or '.join(expected)}, got {show(data)}{hint}")


def _has(data: Any, part: str | int) -> bool:
    if isinstance(data, dict):
        return part in data
    return isinstance(data, list) and isinstance(part, int) and part < len(data)


def _problem(error: Any, data: Any, place: Place, annotations: list[Any]) -> Problem:
    kind, facts = error["type"], error.get("ctx", {})
    if kind == "contradiction":
        return Problem((*place, *facts["place"]), facts["problem"])
    if kind in _SHAPES or kind == "literal_error":
        return Problem(place, _wrong_shape(error, data, annotations))
    sentences = {
        "value_error": lambda: str(facts["error"]),
        "string_pattern_mismatch": lambda: f"{data!r} {_PATTERNS.get(facts['pattern'], 'is not allowed')}",
        "greater_than_equal": lambda: f"must be at least {facts['ge']}, got {show(data)}",
        "less_than_equal": lambda: f"must be at most {facts['le']}, got {show(data)}",
        "too_short": lambda: f"must have at least {facts['min_length']} item, got {facts['actual_length']}",
    }
    return Problem(place, sentences.get(kind, lambda: f"{error['msg']}, got {show(data)}")())


def _wrong_shape(error: Any, data: Any, annotations: list[Any]) -> str:
    sentence = f"expected {_expected(error, annotations)}, got {show(data)}"
    if error["type"] == "string_type" and isinstance(data, (int, float, bool)):
        return f"{sentence}: put it in quotes"
    if error["type"] == "literal_error" and isinstance(data, str):
        return sentence + did_you_mean(data, _literals(annotations))
    if error["type"] == "model_type":
        keys = ", ".join(_known_keys(annotations))
        return f"{sentence}; its keys are {keys}" if keys else sentence
    return sentence


def _expected(error: Any, annotations: list[Any]) -> str:
    """Return what a value should be; for a section with few required keys, these."""
    if error["type"] == "literal_error":
        return str(error["ctx"]["expected"])
    if error["type"] == "model_type":
        model = next((m for m in _models(annotations) if m.__name__ == error["ctx"]["class_name"]), BaseModel)
        required = [name for name, known in model.model_fields.items() if known.is_required()]
        if 0 < len(required) <= 2:  # noqa: PLR2004 - as many as fit into a sentence
            return "{" + ", ".join(f"{name}: ..." for name in required) + "}"
    return _SHAPES[error["type"]]


def show(data: Any) -> str:
    """Return a value as it is written in YAML, shortened."""
    if data is None:
        return "nothing"
    if isinstance(data, bool):
        return str(data).lower()
    if isinstance(data, dict):
        return "a mapping"
    if isinstance(data, list):
        return "a list"
    text = shown(data)
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 3] + "..."


def _unknown_key(key: str, annotations: list[Any]) -> str:
    known = _known_keys(annotations)
    hint = did_you_mean(key, known) or (f"; the keys here are {', '.join(known)}" if known else "")
    return f"unknown key {key!r}{hint}"


def _known_keys(annotations: list[Any]) -> list[str]:
    """Return the keys of the sections that an annotation allows."""
    return list(dict.fromkeys(name for model in _models(annotations) for name in model.model_fields))


def _models(annotations: list[Any]) -> list[type[BaseModel]]:
    return [a for a in _alternatives(annotations) if isinstance(a, type) and issubclass(a, BaseModel)]


def _literals(annotations: list[Any]) -> list[str]:
    return [word for a in _alternatives(annotations) for word in get_args(a) if isinstance(word, str)]


def _step(annotations: list[Any], part: str | int) -> list[Any]:
    """Return the annotations of a key or item of a value with these annotations."""
    found: list[Any] = []
    for annotation in _alternatives(annotations):
        if isinstance(part, int) and get_origin(annotation) is list:
            found.extend(get_args(annotation))
        elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
            known = annotation.model_fields.get(str(part))
            found.extend([known.annotation] if known else [])
    return found


def _alternatives(annotations: Sequence[Any]) -> Iterator[Any]:
    for annotation in annotations:
        if get_origin(annotation) is Annotated:
            yield from _alternatives(get_args(annotation)[:1])
        elif get_origin(annotation) in (Union, types.UnionType):
            yield from _alternatives(get_args(annotation))
        else:
            yield annotation
