"""The settings of a run and their origin: flags over `DGS_*` environment over the file over defaults.

Flags and variables are written into the file's data before it is validated. So every value is checked once, in the same way, and an error
names the flag, the variable or the line with the bad value.

>>> from dgs.job.document import parse
>>> text = "{version: 1, name: a, program: {ref: 'p.py:P'}, streams: [{id: s, tags: [x], source: {memory: s}}]}"
>>> settings = resolve(parse(text, "plan.yaml", {}), {"streams.s.rate": Given("3/h", "--set")}, {"DGS_RUNTIME": "local"})
>>> settings.config.runtime.kind, settings.origin(("runtime", "kind")), settings.origin(("runtime", "hosts"))
('local', 'environment variable DGS_RUNTIME', 'default')
>>> settings.origin(("streams", 0, "rate")), settings.origin(("name",))
('--set', 'plan.yaml:1:20')
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from dgs.errors import PlanFileError, UsageError
from dgs.errors.nearest import did_you_mean
from dgs.job.document import Document, parsed_value
from dgs.job.problems import Problem, problems_in
from dgs.job.references import Place, Reference, with_references
from dgs.job.schema import PlanFile

VARIABLES = {"DGS_RUNTIME": "runtime.kind", "DGS_HOSTS": "runtime.hosts", "DGS_OPTIMIZER": "optimizer.name"}
"""Variables with short names. Any other value is set by its path: DGS_RUNTIME__BUFFER_BYTES=64MiB."""


@dataclass(frozen=True)
class Given:
    """A value given outside the file, with its origin: `--runtime`, `--set optimizer.seed`, ...."""

    value: Any = field(repr=False)
    by: str
    references: Mapping[Place, Reference] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """A validated plan.yaml, with the origin of every value in it. `declared`: as given; `bound`: see `dgs.job.flow_streams`."""

    declared: PlanFile
    document: Document
    given: Mapping[Place, str]
    references: Mapping[Place, Reference] = field(default_factory=dict)
    bound: PlanFile | None = None

    @property
    def config(self) -> PlanFile:
        """The plan file to run: that with the streams of its flow, if it has one."""
        return self.bound or self.declared

    def origin(self, place: Place) -> str:
        """Return the origin of a value: file:line:column, a flag, an environment variable, or `default`."""
        return _origin(place, self.document, self.given) or "default"

    def named_at(self, stream: str, text: str) -> str:
        """Return where the section of a stream has a text, as a value or a key; else where the section is."""
        numbers = {config.id: number for number, config in enumerate(self.declared.streams)}
        section: Place = ("streams", numbers[stream])
        for place in self.document.values:
            is_inside = place[:2] == section and place[2:] not in ((), ("id",))
            if is_inside and text in (place[-1], _value_at(self.document.data, place)):
                return self.origin(place)
        return self.origin(section)

    def values(self) -> Iterator[tuple[Place, Any, str]]:
        """Yield every single value of the resolved configuration, with its place and origin."""
        for place, value in _leaves(self.written(exclude={"plan"}), ()):
            yield place, value, self.origin(place)

    def written(self, **options: Any) -> dict[str, Any]:
        """Return the configuration as plain data, to be shown or saved: with references, not their values."""
        found: dict[str, Any] = with_references(self.declared.model_dump(**options), self.references)
        return found


def resolve(document: Document, given: Mapping[str, Given], environ: Mapping[str, str]) -> Settings:
    """Validate a document with values given outside it, by their paths (`runtime.kind`, `streams.clicks.rate`).

    Raises PlanFileError with all problems and their places, UsageError for a path that does not exist.
    """
    data = copy.deepcopy(document.data)
    origins: dict[Place, str] = {}
    references = dict(document.references)
    outside = {**_from_environment(environ), **given} if isinstance(data, dict) else {}
    for path, item in outside.items():
        place = _assign(data, path, item)
        origins[place] = item.by
        references = {known: text for known, text in references.items() if known[: len(place)] != place}
        references |= {(*place, *inside): text for inside, text in item.references.items()}
    try:
        config = PlanFile.model_validate(data)
    except ValidationError as error:
        raise _as_one_error(problems_in(error, data, PlanFile), document, origins) from None
    return Settings(config, document, origins, references)


def set_flag(text: str) -> tuple[str, Given]:
    """Return path and value of `--set path=value`. Raises UsageError."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UsageError(message=f"--set {text}: write --set PATH=VALUE, such as --set runtime.linger=10ms")
    return path, _given(value, f"--set {path}")


def _given(text: str, by: str) -> Given:
    value = parsed_value(text, by)
    return Given(value.data, by, value.references)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    found = {}
    for name, value in sorted(environ.items()):
        path = VARIABLES.get(name)
        if path is None and name.startswith("DGS_") and "__" in name:
            path = name.removeprefix("DGS_").lower().replace("__", ".")
        if path is not None:
            by = f"environment variable {name}"
            found[path] = _given(value, by)
    return found


def _assign(data: Any, path: str, item: Given) -> Place:
    """Write a value into the data at a path. Missing sections on the way are made; elements of lists must exist."""
    place: Place = ()
    rest = path
    here = data
    while True:
        part, rest = _next_part(here, rest, item.by)
        place = (*place, part)
        if not rest:
            try:
                here[part] = copy.deepcopy(item.value)
            except TypeError:  # for example a module or an open file
                message = f"{item.by}: {item.value!r} is no value of a plan file"
                raise UsageError(message=message) from None
            return place
        if isinstance(here, dict) and not isinstance(here.get(str(part)), (dict, list)):
            here[part] = {}
        here = here[part]


def _next_part(here: Any, path: str, by: str) -> tuple[Any, str]:
    """Return the first part of a path as a key of `here`, and the rest. Ids of streams and nodes may contain dots."""
    if isinstance(here, dict):
        part, _, rest = path.partition(".")
        return part, rest
    items = here if isinstance(here, list) else []
    names = {str(x["id"]): i for i, x in enumerate(items) if isinstance(x, dict) and "id" in x}
    names |= {str(i): i for i in range(len(items))}
    for name in sorted(names, key=len, reverse=True):
        if path == name or path.startswith(name + "."):
            return names[name], path[len(name) + 1 :]
    wanted = path.partition(".")[0]
    hint = did_you_mean(wanted, list(names)) or (f"; there are {', '.join(names)}" if names else "")
    raise UsageError(message=f"{by}: there is no {wanted!r} here{hint}")


def _as_one_error(problems: list[Problem], document: Document, given: Mapping[Place, str]) -> PlanFileError:
    """Return one error that lists all problems with their places."""
    lines = []
    for problem in problems:
        by = _given_by(problem.place, given)
        where = by or document.where(problem.place, at_key=problem.is_key)
        inside = problem.place[:-1] if problem.is_key else problem.place
        lines.append((where, f"{path_text(inside)}: {problem.text}" if inside else problem.text))
    if len(lines) == 1:
        return PlanFileError(where=lines[0][0], problem=lines[0][1], problems=lines)
    listing = "".join(f"\n  {where}: {text}" for where, text in lines)
    return PlanFileError(where=document.name, problem=f"{len(lines)} problems{listing}", problems=lines)


def path_text(place: Place) -> str:
    """Return a place as text: `streams[0].source`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def _given_by(place: Place, given: Mapping[Place, str]) -> str | None:
    return next((given[place[:n]] for n in range(len(place), 0, -1) if place[:n] in given), None)


def _origin(place: Place, document: Document, given: Mapping[Place, str]) -> str | None:
    by = _given_by(place, given)
    return by or (document.where(place) if place in document.values else None)


def _value_at(data: Any, place: Place) -> Any:
    for part in place:
        data = data[part]
    return data


def _leaves(data: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _leaves(value, (*place, key))
    elif isinstance(data, list) and data:
        for number, value in enumerate(data):
            yield from _leaves(value, (*place, number))
    else:
        yield place, data
