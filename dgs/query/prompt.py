"""The prompt of queries: statements are read one by one, each sees the earlier ones, and a mistake does not end the prompt.

>>> prompt = Prompt("sql")
>>> prompt.fed("select 1 + 1 as two")
[]
>>> prompt.is_waiting
True
>>> prompt.fed(";")
['{"two": 2}']
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.errors import DgsError
from dgs.errors.nearest import did_you_mean
from dgs.query.evaluate import answer, zbag
from dgs.query.fronts import language_of, needed, read
from dgs.query.parameters import Parameters
from dgs.query.relation import Relation, Script, Source, rebuilt
from dgs.query.types import plain

if TYPE_CHECKING:
    from dgs.query.pig.pig_state import PigOutput, PigRequest

Rows = list[tuple[Any, ...]]

NAME = "prompt"
ILLUSTRATED = 10
"""The rows of each file that ILLUSTRATE reads."""

HELP = """\
A statement ends with ; and may take several lines. In Pig, DUMP a; shows rows, DESCRIBE a; fields, EXPLAIN a; the query,
ILLUSTRATE a; the first rows of the files through it. SQL reads tables and the aliases of Pig.
:lang pig|sql|mrql   change the language
:tables              what queries can read
:rules               the rules that rewrite queries
:quit                leave"""


@dataclass(frozen=True)
class Known:
    """A table that queries may read: its source, and its rows."""

    source: Source
    rows: Rows


class Prompt:
    """A growing script. `tables`: the tables of SQL beside the aliases of Pig. `base_dir`: the directory of files.

    `store`: writes a file of STORE; by default only one that is not there yet.
    """

    def __init__(
        self,
        lang: str = "pig",
        *,
        tables: Mapping[str, Known] | None = None,
        params: Mapping[str, Any] | None = None,
        base_dir: Path | None = None,
        store: Callable[[Path, str], None] | None = None,
    ) -> None:
        self.lang = language_of(None, lang)
        self.is_done = False
        self._tables = dict(tables or {})
        self._params = Parameters(params or {})
        self._base_dir = base_dir or Path()
        self._store = store
        self._rest = ""
        self._files: dict[str, Known] = {}
        self._pig: Any = None

    @property
    def is_waiting(self) -> bool:
        """Whether a statement is not at its end."""
        return bool(self._rest.strip())

    def fed(self, line: str) -> list[str]:
        """Return the lines to show for a line of input."""
        try:
            if not self.is_waiting and line.lstrip().startswith(":"):
                return list(self._command(line.strip()[1:]))
            self._rest += line.rstrip("\n") + "\n"
            return list(self._pig_read() if self.lang == "pig" else self._read())
        except DgsError as error:
            self._rest = ""
            return [str(error)]

    def ended(self) -> list[str]:
        """Return the lines to show at the end of the input, where an unended statement and an unread parameter are mistakes."""
        text, self._rest = self._rest, ""
        unended = f"Q101 {NAME}: the input ends within a statement\n    {text.strip()}"
        return [unended] * bool(text.strip()) + list(map(str, self._params.unread(text)))

    def _command(self, text: str) -> Iterator[str]:
        word, _, rest = text.partition(" ")
        if word == "lang":
            self.lang = language_of(None, rest.strip() or "sql")
            yield f"The language is {self.lang}."
        elif word == "tables":
            yield from (f"{name}: {one.columns}" for name, one in self._sources().items())
        elif word == "rules":
            yield from self._rules()
        elif word in ("quit", "q", "exit"):
            self.is_done = True
        elif word == "help":
            yield HELP
        else:
            known = ("lang", "tables", "rules", "quit", "help")
            hint = did_you_mean(word, known) or "; there are " + ", ".join(f":{one}" for one in known)
            yield f"No command :{word}{hint}"

    def _rules(self) -> Iterator[str]:
        from dgs.query.rewrite import BUNDLED

        for rules in BUNDLED:
            for rule in rules:
                yield f"{rules.phase}: {rule.title}"

    # SQL and MRQL

    def _read(self) -> Iterator[str]:
        text, end, more = self._rest.rpartition(";")
        if not end:
            return
        self._rest = more.lstrip()
        script = read(text, self._sources(), lang=self.lang, name=NAME, params=self._params)
        for _, output in script.outputs:
            schema = output.schema
            for row in self._answered(output):
                values = (plain(value, of) for value, of in zip(row, schema.types, strict=True))
                yield json.dumps(dict(zip(schema.names, values, strict=True)), default=str)

    def _sources(self) -> dict[str, Source]:
        found = {name: one.source for name, one in self._tables.items()}
        if self._pig is not None:
            for alias, relation in self._pig.environment.aliases.items():
                found[alias] = Source(alias, relation.shown.schema)
        return found

    def _answered(self, output: Relation) -> Rows:
        """Return the rows of a relation over tables, files, and aliases, which are put in place of their names."""

        def meant(node: Relation) -> Relation:
            if (
                isinstance(node, Source)
                and self._pig is not None
                and node.name in self._pig.environment.aliases
            ):
                shown: Relation = self._pig.environment.aliases[node.name].shown
                return shown
            return node

        whole = output if self.lang == "pig" else rebuilt(output, meant)
        return self._rows(whole)

    def _rows(self, relation: Relation, most: int | None = None) -> Rows:
        tables = {}
        for name, source in Script.of(relation).sources().items():
            rows = self._known(name).rows if source.rows is None else []
            tables[name] = zbag(rows if most is None else rows[:most])
        return answer(relation, tables)

    def _known(self, name: str) -> Known:
        """Return a table, or a file that a script of Pig loads, which is read once."""
        if name in self._tables:
            return self._tables[name]
        if name not in self._files:
            load = self._pig.program.loads[name]
            self._files[name] = Known(load.source(name), list(load.table(self._base_dir)))
        return self._files[name]

    # Pig

    def _pig_read(self) -> Iterator[str]:
        needed("lark", "a query in pig")
        from dgs.query.pig.pig_translation import Translator
        from dgs.query.pig.text.pig_reading import read_script

        if self._pig is None:
            self._pig = Translator(self._base_dir, self._params.made(str))
        # their mistakes have been shown; from now on these names are unknown
        self._pig.environment.lost.clear()
        script = read_script(self._rest, NAME, is_open=True)
        self._rest = script.rest.lstrip()
        before = replace(self._pig.program, problems=[], notes=[], outputs=[], requests=[])
        self._pig.program = before
        program = self._pig.read(script)
        yield from map(str, program.problems)
        yield from program.notes
        for request in program.requests:
            yield from self._requested(request)
        for output in program.outputs:
            yield from self._put_out(output)

    def _put_out(self, output: PigOutput) -> Iterator[str]:
        from dgs.query.pig.pig_storage import dumped, new_file, stored

        rows = self._rows(output.relation)
        if output.path is None:
            yield from dumped(output.fields, rows)
        else:
            place = self._base_dir / output.path
            yield stored(place, output.fields, rows, output.delimiter, self._store or new_file)

    def _requested(self, request: PigRequest) -> Iterator[str]:
        relation = request.relation
        if request.what == "describe":
            yield f"{request.alias}: {{{', '.join(map(str, relation.fields))}}}"
        elif request.what == "explain":
            from dgs.query.rewrite.graph_text import text_of

            yield text_of(relation.shown)
        else:
            from dgs.query.pig.pig_storage import dumped

            yield from dumped(relation.fields, self._rows(relation.shown, ILLUSTRATED))


__all__ = ["Known", "Prompt"]
