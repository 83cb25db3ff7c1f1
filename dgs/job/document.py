r"""Reading and writing plan.yaml: strict YAML 1.2, with the place of every value.

`no`, `on`, `1:30` and dates are text, `7` is a number. Anchors, aliases, tags and duplicate keys are refused; size and depth
are bounded. `${env:NAME}` in a value is replaced by the environment variable; there is no other interpolation. `references` has the
replaced values, which are written back as references. No text shows such a value, unless it is a name.

>>> document = parse("runtime: {kind: local}\nname: ${env:JOB}", "plan.yaml", {"JOB": "no"})
>>> document.data, document.references
({'runtime': {'kind': 'local'}, 'name': 'no'}, {('name',): '${env:JOB}'})
>>> document.where(("runtime", "kind"))
'plan.yaml:1:17'
>>> print(dump({"plan": {"root": "w0", "keys": [1, "1"]}}), end="")
plan:
  root: w0
  keys:
  - 1
  - '1'
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from dgs.errors import PlanFileError
from dgs.errors.hidden_values import hide
from dgs.job.references import PATHS, REFS, Place, Reference, with_references

NAMES = (*PATHS, *REFS, "name", "id", "table", "column")
"""Keys whose values are names, which texts have to show."""

QUERY = "a query: answer it with `dgs query`, or name it in a plan file, `program: {query: {file: ...}}`"
OTHER_FILES = dict.fromkeys((".sql", ".pig", ".mrql"), QUERY) | {
    ".py": "Python: name its program in a plan file, `program: {ref: file.py:Name}`"
}
"""Files that are not plan files: what they are, by their extension, and what to do with them."""

MAX_BYTES = 4 * 2**20
REMEDIES = (
    ("unexpected end of stream", ": close this quotation mark", True),
    ("got '<stream end>'", ": close this bracket", True),
    ("character '\\t'", ": indent with blanks, not with tabs", False),
    ("that cannot start any token", ": put text that begins so in quotes", False),
    ("expected alphabetic or numeric character", ": put text that begins with * or & in quotes", False),
    (
        "mapping values are not allowed",
        ": put text with ': ' in it in quotes, and indent keys as those beside them",
        False,
    ),
    ("expected <block end>", ": indent the keys and items beside each other alike", False),
)
"""What to do about YAML that cannot be read: part of the parser's sentence, the remedy, and whether the place is where it opens."""

MAX_DEPTH = 200

_NUMBER_OR_WORD: tuple[tuple[str, Callable[[str], Any]], ...] = (
    (r"|~|null|Null|NULL", lambda _: None),
    (r"true|True|TRUE", lambda _: True),
    (r"false|False|FALSE", lambda _: False),
    (r"[-+]?[0-9]{1,400}", int),
    (r"0o[0-7]+", lambda text: int(text, 0)),
    (r"0x[0-9a-fA-F]+", lambda text: int(text, 0)),
    (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", lambda text: float(text.replace(".", ""))),
)


def plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar in the core schema of YAML 1.2."""
    for pattern, convert in _NUMBER_OR_WORD:
        if re.fullmatch(pattern, text):
            return convert(text)
    return text


@dataclass(frozen=True)
class Document:
    """The data of a YAML file, and the (line, column), from 1, of each key and value."""

    name: str
    data: Any = field(repr=False)
    keys: Mapping[Place, tuple[int, int]] = field(repr=False)
    values: Mapping[Place, tuple[int, int]] = field(repr=False)
    references: Mapping[Place, Reference] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A digest of the data: it does not change with comments, the layout, the order of keys, or environment variables."""
        data = with_references(self.data, self.references)
        return sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()

    def where(self, place: Place, *, at_key: bool = False) -> str:
        """Return file:line:column of a value (or of its key), or of the nearest enclosing one in the file."""
        if not self.values:
            return self.name
        marks = self.keys if at_key and place in self.keys else self.values
        while place and place not in marks:
            place, marks = place[:-1], self.values
        line, column = marks.get(place, (1, 1))
        return f"{self.name}:{line}:{column}"


def read(path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> Document:
    """Read a YAML file. Raises PlanFileError if it cannot be read, is too large, or is not YAML that we accept."""
    name = os.fspath(path)
    if (other := OTHER_FILES.get(Path(path).suffix)) is not None:
        raise PlanFileError(where=name, problem=f"a plan file is YAML, and this is {other}")
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise PlanFileError(where=name, problem="no such file") from None
    except IsADirectoryError:
        raise PlanFileError(where=name, problem=_of_directory(Path(path))) from None
    except OSError as error:
        raise PlanFileError(where=name, problem=f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PlanFileError(where=f"{name}:{line}", problem="is not UTF-8 text") from None
    if len(content) > MAX_BYTES:
        raise PlanFileError(where=name, problem=f"is larger than {MAX_BYTES // 2**20} MiB")
    return parse(text, name, os.environ if environ is None else environ)


def _of_directory(path: Path) -> str:
    """Return what to say of a directory in the place of a plan file."""
    plan = path / "plan.yaml"
    if (path / "run.json").is_file():
        return f"is the directory of a run: `dgs resume {path}` goes on with it; a new run takes {plan}"
    return f"is a directory; its plan file is {plan}" if plan.is_file() else "is a directory, not a plan file"


def parse(text: str, name: str, environ: Mapping[str, str]) -> Document:
    """Parse YAML text. `name`: the name of the file in errors. Raises PlanFileError."""
    builder = _Builder(name, environ)
    try:
        events = iter(YAML(typ="safe", pure=True).parse(StringIO(text)))
        data = builder.document(events)
    except YAMLError as error:
        raise _not_yaml(error, text, name) from None
    return Document(name, data, builder.keys, builder.values, builder.references)


def _not_yaml(error: YAMLError, text: str, name: str) -> PlanFileError:
    """Return the error to raise for text that is not YAML, with a remedy for the usual mistakes."""
    if isinstance(error, ReaderError):
        before = text[: error.position]
        line, column = before.count("\n"), len(before) - before.rfind("\n") - 1
        problem = (
            f"the character {text[error.position]!r} may stand there only as an escape, in double quotes"
        )
        return PlanFileError(where=f"{name}:{line + 1}:{column + 1}", problem=f"not valid YAML: {problem}")
    problem = getattr(error, "problem", None) or str(error)
    remedy, is_open = next((found for part, *found in REMEDIES if part in problem), ("", False))
    marks = [getattr(error, one, None) for one in ("problem_mark", "context_mark")]
    mark = next(filter(None, reversed(marks) if is_open else marks), None)
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    return PlanFileError(where=where, problem=f"not valid YAML: {problem}{remedy}")


def read_plan_section(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the plan in a file with a `plan:` section, such as a whole plan.yaml. Raises PlanFileError."""
    document = read(path)
    plan = document.data.get("plan") if isinstance(document.data, dict) else None
    if not isinstance(plan, dict):
        raise PlanFileError(
            where=document.name, problem="has no `plan:` section, as `dgs plan --save` writes one"
        )
    return plan


def parsed_value(text: str, name: str = "value") -> Document:
    """Return a piece of YAML, as it comes from a flag (`3`, `local`, `[stdout]`, `{path: out}`), with its references."""
    return parse(text, name, os.environ)


def dump(data: Any) -> str:
    """Return data as YAML that `parse` reads back as equal, in block style, with keys in their order."""
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False
    yaml.width = 120
    yaml.allow_unicode = True
    yaml.representer.ignore_aliases = lambda *_: True
    yaml.representer.add_representer(str, _represent_text)
    yaml.representer.add_representer(Reference, _represent_reference)
    stream = StringIO()
    yaml.dump(data, stream)
    return stream.getvalue().removesuffix("...\n")


def _represent_reference(representer: Any, reference: Reference) -> Any:
    style = "'" if reference.is_text else None
    return representer.represent_scalar("tag:yaml.org,2002:str", str(reference), style=style)


def _represent_text(representer: Any, text: str) -> Any:
    """Quote texts that YAML would read as another type, and escape characters that are not printable, such as line ends."""
    style = None if isinstance(plain_value(text), str) else "'"
    style = style if text.isprintable() or text.isascii() else '"'
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


class _Builder:
    """Builds data from parser events. It notes positions, and refuses YAML that plan.yaml does not use."""

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self.name = name
        self.environ = environ
        self.keys: dict[Place, tuple[int, int]] = {}
        self.values: dict[Place, tuple[int, int]] = {}
        self.references: dict[Place, Reference] = {}

    def document(self, events: Iterator[Any]) -> Any:
        """Return the only document of a stream of events, None if it is empty."""
        data: Any = None
        documents = 0
        for event in events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.refuse(event, "a second document: there must be only one")
                data = self.node(next(events), events, ())
            elif isinstance(event, DocumentEndEvent):
                continue
        return data

    def node(self, event: Any, events: Iterator[Any], place: Place) -> Any:
        """Return the value that starts with `event`."""
        self.values[place] = (event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, AliasEvent) or event.anchor:
            raise self.refuse(
                event,
                "anchors and aliases are not allowed: write the value out, and put text that begins with * or & in quotes",
            )
        if event.tag is not None:
            raise self.refuse(event, f"tags such as {event.tag} are not allowed: quote what should be text")
        if len(place) > MAX_DEPTH:
            raise self.refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, ScalarEvent):
            return self.scalar(event, place)
        if isinstance(event, SequenceStartEvent):
            return self.sequence(events, place)
        if isinstance(event, MappingStartEvent):
            return self.mapping(events, place)
        raise self.refuse(event, f"unexpected {type(event).__name__}")

    def scalar(self, event: Any, place: Place) -> Any:
        if any("\ud800" <= letter <= "\udfff" for letter in event.value):
            raise self.refuse(event, "half of a surrogate pair: write the character itself")
        text = re.sub(r"\$\{env:([^}]*)\}", lambda match: self.variable(event, match[1], place), event.value)
        if text != event.value:
            self.references[place] = Reference.of(event.value, is_text=not event.implicit[0])
        return plain_value(text) if event.implicit[0] else text

    def variable(self, event: Any, name: str, place: Place) -> str:
        if name not in self.environ:
            raise self.refuse(event, f"the environment variable {name!r} is not set")
        value = self.environ[name]
        is_a_name = bool(place) and place[-1] in NAMES and "://" not in f"{event.value}{value}"
        if not is_a_name:
            hide(name, value)
        return value

    def sequence(self, events: Iterator[Any], place: Place) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(events), SequenceEndEvent):
            items.append(self.node(event, events, (*place, len(items))))
        return items

    def mapping(self, events: Iterator[Any], place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(events), MappingEndEvent):
            if not isinstance(event, ScalarEvent) or event.anchor or event.tag is not None:
                raise self.refuse(event, "a key must be plain text")
            key = plain_value(event.value) if event.implicit[0] else event.value
            if not isinstance(key, str):
                raise self.refuse(event, f'keys are text: write "{event.value}" in quotes')
            if key in found:
                line, _ = self.keys[(*place, key)]
                raise self.refuse(event, f"duplicate key {key!r}, first given in line {line}")
            self.keys[(*place, key)] = (event.start_mark.line + 1, event.start_mark.column + 1)
            found[key] = self.node(next(events), events, (*place, key))
        return found

    def refuse(self, event: Any, problem: str) -> PlanFileError:
        mark = event.start_mark
        return PlanFileError(where=f"{self.name}:{mark.line + 1}:{mark.column + 1}", problem=problem)
