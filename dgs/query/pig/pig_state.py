"""The state of a Pig script while it is read: its aliases, outputs, parameters and mistakes."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from dgs.query.errors import QueryError
from dgs.query.pig.pig_loading import Load
from dgs.query.pig.pig_scope import ROW_NUMBER, PigRelation, Scope, Value
from dgs.query.pig.pig_types import PigField
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.pig.text.pig_reading import SourceText
from dgs.query.relation import Key, Order, Relation, Script, Source
from dgs.query.scalar import column


@dataclass(frozen=True)
class PigOutput:
    """An output: its name, its relation, and its target. `path` is None for DUMP. The relation may have more columns than fields."""

    name: str
    relation: Relation
    fields: tuple[PigField, ...]
    path: str | None = None
    delimiter: str = ","


@dataclass(frozen=True)
class PigRequest:
    """DESCRIBE, EXPLAIN or ILLUSTRATE of a relation."""

    what: str
    alias: str
    relation: PigRelation


@dataclass
class PigProgram:
    """The outputs, requests and loads of a script so far. More text may be read: see `Translator`."""

    outputs: list[PigOutput] = field(default_factory=list)
    requests: list[PigRequest] = field(default_factory=list)
    loads: dict[str, Load] = field(default_factory=dict)
    problems: list[QueryError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def script(self) -> Script:
        """The outputs as a script of the algebra, with the mistakes."""
        return Script(tuple((one.name, one.relation) for one in self.outputs), tuple(self.problems))


class LostError(Exception):
    """A statement reads an alias whose own statement is wrong: it is left out without another message."""


@dataclass
class Environment:
    """The aliases that a sequence of statements sees; `lost`: those whose statements are wrong."""

    aliases: dict[str, PigRelation] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)


class PigState:
    """The state that the statements of a script share. `base_dir` and `sources`: see `Translator`."""

    def __init__(
        self,
        base_dir: Path,
        parameters: Mapping[str, str] | None = None,
        sources: Mapping[str, Source] | None = None,
    ) -> None:
        self.base_dir, self.sources = base_dir, sources
        self.given = parameters or {}
        self.declared: dict[str, str] = {}
        self.parameters: Mapping[str, str] = ChainMap(self.declared, cast("Any", self.given))
        self.program = PigProgram()
        self.environment = Environment()
        self.functions: dict[str, Callable[[Sequence[Value]], Value]] = {}
        self.macros: dict[str, tuple[pig.Macro, SourceText]] = {}
        self.source = SourceText("", "")
        self._imported: set[Path] = set()
        self._depth = 0

    @property
    def reads_files(self) -> bool:
        """Whether LOAD reads whole files, and not the streams of a plan file."""
        return self.sources is None or any(ROW_NUMBER in one.columns for one in self.sources.values())

    def scope(self, fields: Sequence[PigField] = ()) -> Scope:
        """Return the scope of an expression over these fields."""
        return Scope(self.source, fields, {}, self.functions, self.parameters)

    def relation(self, alias: str, at: int) -> PigRelation:
        """Return the relation of an alias. Raises QueryError Q201."""
        known = self.environment
        if alias in known.aliases:
            return known.aliases[alias]
        if alias in known.lost:
            raise LostError
        raise self.scope().unknown("alias", alias, list(known.aliases), self.place(alias, at))

    def place(self, alias: str, at: int) -> int:
        """Return the offset of an alias after the beginning of its statement."""
        text = self.source.text
        stop = text.find(";", at)
        behind = text.find("=", at, stop) if re.match(r"\w+\s*=", text[at:]) else at
        found = re.compile(rf"\b{re.escape(alias)}\b").search(text, behind if behind > 0 else at)
        return found.start() if found else at

    def set(self, alias: str, relation: PigRelation) -> None:
        """Give an alias a meaning."""
        self.environment.aliases[alias] = relation
        self.environment.lost.discard(alias)

    def output_name(self, alias: str) -> str:
        """Return a unique name for an output."""
        known = {one.name for one in self.program.outputs}
        name, count = alias, 1
        while name in known:
            count += 1
            name = f"{alias}_{count}"
        return name

    def output(self, alias: str, relation: PigRelation) -> PigOutput:
        """Return an output of a relation, with its rows in the order of the file if they still have their numbers."""
        node = relation.shown
        if isinstance(relation.node, Order):
            node = relation.node
        elif ROW_NUMBER in relation.hidden:
            node = Order(relation.node, (Key(column(ROW_NUMBER)),))
        return PigOutput(self.output_name(alias), node, relation.fields)
