"""A Pig script as a graph of the algebra: each alias is a relation, each STORE and DUMP an output.

Mistakes are collected: a wrong statement affects only statements that read its alias.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dgs.query.errors import QueryError
from dgs.query.pig import pig_table  # noqa: F401 - adds functions to the algebra
from dgs.query.pig.pig_python import functions_of
from dgs.query.pig.pig_state import Environment, LostError, PigProgram, PigState
from dgs.query.pig.pig_statements import MEANINGS
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.pig.text.pig_macros import aliases_of, expanded, with_values
from dgs.query.pig.text.pig_reading import PigScript, read_script, refusal

DEPTH = 50
"""The most nested macros of a script."""


class Translator(PigState):
    """Reads statements one after another, from a file or a prompt.

    `base_dir`: the directory of the project, in which files must be. `sources`: the streams that LOAD reads, None for its files.
    """

    def read(self, script: PigScript) -> PigProgram:
        """Read the statements of a text; mistakes go to `problems` of the program."""
        before, self.source = self.source, script.source
        self.program.problems += script.problems
        for statement in script.statements:
            self.one(statement)
        self.source = before
        return self.program

    def one(self, statement: pig.Statement) -> None:
        """Give a statement its meaning, or note what is wrong with it."""
        try:
            meaning = MEANINGS.get(type(statement))
            if meaning is not None:
                meaning(self, statement)
            else:
                self._about[type(statement)](statement)
        except LostError:
            self.environment.lost.update(aliases_of(statement))
        except QueryError as error:
            self.environment.lost.update(aliases_of(statement))
            if error.facts["span"] is None:
                span = self.source.span(statement.at)
                error = QueryError(**(error.facts | {"span": span, "where": str(span)}))
            self.program.problems.append(error)

    def _macro(self, statement: pig.Macro) -> None:
        self.macros[statement.name] = (statement, self.source)

    def _call_macro(self, statement: pig.CallMacro) -> None:
        """Translate the expanded body of a macro in an environment of its own, which has only the arguments; keep its results."""
        scope = self.scope()
        if statement.macro not in self.macros:
            raise scope.unknown(
                "macro", statement.macro, list(self.macros), self.place(statement.macro, statement.at)
            )
        macro, source = self.macros[statement.macro]
        self._check_call(statement, macro)
        arguments = dict(zip(macro.parameters, statement.arguments, strict=True))
        results = {
            one: pig.Name(f"{alias}", at=statement.at)
            for one, alias in zip(macro.results, statement.aliases, strict=True)
        }
        body = expanded(macro.body, arguments | results, source)
        outer, mine = self.environment, Environment()
        for one in statement.arguments:
            if isinstance(one, pig.Name) and one.text in outer.aliases | dict.fromkeys(outer.lost):
                mine.aliases[one.text] = self.relation(one.text, statement.at)
        before, self.source, self.environment = self.source, source, mine
        self._depth += 1
        try:
            for step in body:
                self.one(step)
        finally:
            self.source, self.environment = before, outer
            self._depth -= 1
        for alias in statement.aliases:
            if alias in mine.aliases:
                self.set(alias, mine.aliases[alias])
            elif alias in mine.lost:
                outer.lost.add(alias)
            else:
                raise scope.error("Q201", f"{macro.name} makes no ${macro.results[0]}", "", statement.at)

    def _check_call(self, statement: pig.CallMacro, macro: pig.Macro) -> None:
        scope = self.scope()
        if self._depth >= DEPTH:
            raise scope.error("Q110", f"a macro that calls itself: {macro.name}", "", statement.at)
        for given, wanted, what in (
            (statement.arguments, macro.parameters, "argument"),
            (statement.aliases, macro.results, "result"),
        ):
            if len(given) != len(wanted):
                s = "" if len(wanted) == 1 else "s"
                problem = f"{macro.name} has {len(wanted)} {what}{s}, not {len(given)}"
                raise scope.error("Q206", problem, "", statement.at)

    def _import(self, statement: pig.Import) -> None:
        scope = self.scope()
        name = with_values(statement.path, self.parameters, statement.at, self.source)
        roots = [one.resolve() for one in (Path(self.source.file).parent, self.base_dir)]
        inside = [(root / name).resolve() for root in roots if (root / name).resolve().is_relative_to(root)]
        if not inside:
            remedy = f"Put the file under {roots[-1]}."
            raise scope.error("Q110", f"IMPORT of {name!r}, outside of the project", remedy, statement.at)
        path = next((one for one in inside if one.is_file()), None)
        if path is None:
            raise scope.error("Q201", f"no file {name!r} to import", "", statement.at)
        if path not in self._imported:
            self._imported.add(path)
            self.read(read_script(path.read_text("utf-8"), str(path)))

    def _default(self, statement: pig.Default) -> None:
        if statement.is_fixed or statement.name not in self.given:
            self.declared[statement.name] = statement.value

    def _setting(self, statement: pig.Setting) -> None:
        self.program.notes.append(f"SET {statement.name} has no meaning here, and is left out")

    def _embedded(self, statement: pig.Embedded) -> None:
        self.functions.update(functions_of(statement.code))

    def _unsupported(self, statement: pig.Unsupported) -> None:
        raise refusal(statement, self.source)

    @property
    def _about(self) -> dict[type, Callable[..., None]]:
        """Handle the statements about the script itself."""
        return {
            pig.Macro: self._macro,
            pig.CallMacro: self._call_macro,
            pig.Import: self._import,
            pig.Default: self._default,
            pig.Setting: self._setting,
            pig.Embedded: self._embedded,
            pig.Unsupported: self._unsupported,
        }
