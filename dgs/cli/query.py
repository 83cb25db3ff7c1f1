"""`dgs query`: answers a query over files, here, on dgs or on Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dgs.cli.options import Tolerance
from dgs.cli.reporting import Ending, print_table, say, verb

if TYPE_CHECKING:
    from dgs.api.queries.asking import Answers, Asked
    from dgs.api.queries.query_tables import Table, TableFile
    from dgs.query.pig import PigProgram

BY_EMIT = "dgs query --emit"
FILES = (".sql", ".pig", ".mrql")
CLASSES: dict[str, Literal["A", "B", "C"]] = {"A": "A", "B": "B", "C": "C"}


class Place(StrEnum):
    """The places where a query can be answered."""

    LOCAL = "local"
    DGS = "dgs"
    SPARK = "spark"


class Form(StrEnum):
    """The forms in which a query can be written."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    DGS = "dgs"


# fmt: off
QueryText = Annotated[str | None, typer.Argument(metavar="FILE|TEXT",
    help="A file .sql, .pig or .mrql, or the query itself.", show_default=False)]
Lang = Annotated[str | None, typer.Option("--lang", metavar="NAME",
    help="sql, pig or mrql (default: the file's extension, else sql).")]
From = Annotated[list[str] | None, typer.Option("--from", metavar="NAME=PATH",
    help="A table: CSV, JSON lines or Parquet, .gz too, or a glob. NAME=PATH:ts=COLUMN: the times of its rows. Repeatable.")]
On = Annotated[Place, typer.Option("--on",
    help="Where it is answered: by DuckDB here, by a run of dgs, or by Spark.")]
Params = Annotated[list[str] | None, typer.Option("-p", "--param", metavar="NAME=VALUE",
    help="The value of a parameter. Repeatable.")]
Every = Annotated[str, typer.Option("--answer", metavar="WHEN",
    help="With --on dgs: `end`, or `every=N` of the times of the rows, by default their numbers.")]
Emit = Annotated[Form | None, typer.Option("--emit",
    help="Write the query in this form instead, to -o DIR or stdout.")]
Out = Annotated[Path | None, typer.Option("-o", "--output", metavar="PATH",
    help="Where the rows go: .jsonl, .csv or .parquet. For --emit: a directory.")]
Repl = Annotated[bool, typer.Option("--repl",
    help="Read statements one by one, from the keyboard or a pipe; :help says more.")]
Verify = Annotated[bool, typer.Option("--verify",
    help="Also ask the reference interpreter, and compare; exit 1 if the answers differ.")]
Require = Annotated[str | None, typer.Option("--require", metavar="CLASS",
    help="Refuse a query whose state is of a worse class than A, B or C.")]
Exact = Annotated[bool, typer.Option("--exact",
    help="Round sums of floats once, whatever the order of the rows.")]
UserRules = Annotated[list[str] | None, typer.Option("--rules", metavar="FILE:NAME",
    help="Rules of yours that rewrite the query. Repeatable.")]
# fmt: on


@dataclass(frozen=True, kw_only=True)
class QueryFlags:
    """The flags of `dgs query` and `dgs explain --query` that describe the query."""

    lang: Lang = None
    tables: From = None
    params: Params = None
    require: Require = None
    exact: Exact = False

    def asked(self, text: str) -> Asked:
        """Return the query over the tables that are given and the files that it names.

        Raises UsageError, QueryError, and what reading the files raises.
        """
        from dgs.api.queries.asking import Asked
        from dgs.errors import UsageError
        from dgs.query.fronts import language_of, text_in

        file = _file(text)
        values, sources = values_of(self.params), _table_files(self.tables)
        if self.require is not None and self.require not in CLASSES:
            raise UsageError(message=f"--require {self.require}: there are the classes A, B and C")
        return Asked(
            text if file is None else text_in(file),
            tuple(sources),
            lang=language_of(None if file is None else file.name, self.lang),
            name=None if file is None else str(file),
            params=values,
            require=None if self.require is None else CLASSES[self.require],
            exact=self.exact,
        )


@verb
def query(
    ending: Ending,
    text: QueryText = None,
    *,
    flags: QueryFlags,
    on: On = Place.LOCAL,
    answer: Every = "end",
    emit: Emit = None,
    output: Out = None,
    verify: Verify = False,
    tolerance: Tolerance = None,
    rules: UserRules = None,
    repl: Repl = False,
) -> None:
    """Answer a query over files. To keep an answer up to date, put the query into a plan file: program: {query: ...}."""
    if repl or text is None:
        _converse(text, flags, is_asked=repl)
        return
    asked = replace(flags.asked(text), rules=tuple(rules or ()))
    if emit is not None:
        _emit(asked, emit, output)
        return
    for error in asked.script.refused:
        say(f"dgs: a statement is left out: {error}")
    stores = _storing(asked, output, as_json=ending.as_json)
    rows = _answers(asked, on, answer, verify=verify)
    if stores is not None:
        _put_out(stores, rows, is_timed=answer != "end")
    else:
        _show(asked, rows, output, is_timed=answer != "end", as_json=ending.as_json)
    if verify:
        _compare(asked, rows, tolerance)


def values_of(params: list[str] | None) -> dict[str, Any]:
    """Return the values of parameters by name. Raises UsageError."""
    from dgs.errors import UsageError
    from dgs.job.document import parsed_value

    given = [one.partition("=") for one in params or ()]
    if wrong := next((one for one, equals, _ in given if not equals), None):
        raise UsageError(message=f"-p {wrong}: write -p NAME=VALUE")
    _check_names("-p", [name for name, _, _ in given])
    return {name: parsed_value(value, f"-p {name}").data for name, _, value in given}


def _table_files(tables: list[str] | None) -> list[Table | TableFile]:
    """Return the tables that are named. Raises UsageError for two of one name."""
    from dgs.api.queries.query_tables import TableFile

    found: list[Table | TableFile] = [TableFile.parsed(one) for one in tables or ()]
    _check_names("--from", [one.name for one in found])
    return found


def _check_names(flag: str, names: list[str]) -> None:
    from dgs.errors import UsageError

    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(message=f"{flag} {twice}: the name is given twice")


def _converse(text: str | None, flags: QueryFlags, *, is_asked: bool) -> None:
    """Read statements from the keyboard or a pipe. Raises UsageError for a query beside the prompt, or for neither."""
    from dgs.cli.query_prompt import converse
    from dgs.errors import UsageError

    if not is_asked:
        raise UsageError(message="dgs query: give a query, a file with one, or --repl")
    if text is not None:
        raise UsageError(message="dgs query: --repl reads the statements itself: leave the query out")
    converse(flags.lang, _table_files(flags.tables), values_of(flags.params))


def _file(text: str) -> Path | None:
    """Return the file that an argument names, None if it is the query itself. Raises UsageError for a file that is not there."""
    from dgs.errors import UsageError

    if "\n" in text or not text.endswith(FILES):
        return None
    if not Path(text).is_file():
        raise UsageError(message=f"{text}: no such file")
    return Path(text)


def _answers(asked: Asked, on: Place, when: str, *, verify: bool) -> Answers:
    from dgs.errors import UsageError

    if when != "end" and (on is not Place.DGS or verify):
        raise UsageError(
            message="--answer is for --on dgs, and --verify compares one answer: that at the end"
        )
    if on is Place.LOCAL:
        return asked.local()
    if on is Place.SPARK:
        return asked.on_spark()
    from dgs.api.queries.on_dgs import on_dgs

    return on_dgs(asked, when)


def _storing(asked: Asked, output: Path | None, *, as_json: bool) -> PigProgram | None:
    """Return the program of a script that says itself where its answers go, None if they go to `output` or are printed.

    Raises, before the answers are worked out, what writing them into their files certainly will.
    """
    from dgs.api.queries.query_tables import check_rows_file
    from dgs.api.queries.script_files import check_stored, pig_program

    if output is not None:
        for name, _ in asked.outputs:
            check_rows_file(_place(asked, output, name))
    elif asked.lang == "pig" and not as_json:
        program = pig_program(asked.text, asked.name, asked.params)
        check_stored(program)
        return program
    return None


def _put_out(program: PigProgram, answers: Answers, *, is_timed: bool) -> None:
    """Store and print the answers as the script says."""
    from dgs.api.queries.script_files import put_out

    for note in program.notes:
        say(note)
    for line in put_out(program, answers, is_timed=is_timed):
        print(line)


def _place(asked: Asked, output: Path, name: str) -> Path:
    """Return the file of an output: of several, each has its name before the extension."""
    return output.with_stem(f"{output.stem}.{name}") if len(asked.outputs) > 1 else output


def _show(asked: Asked, answers: Answers, output: Path | None, *, is_timed: bool, as_json: bool) -> None:
    """Print the answers, or write them."""
    from dgs.api.queries.query_tables import write_rows
    from dgs.query.types import INT, Schema, plain

    added = (("at", INT),) if is_timed else ()
    has_many = len(asked.outputs) > 1
    for name, relation in asked.outputs:
        schema = Schema(added + relation.schema.fields)
        rows = [tuple(map(plain, row, schema.types)) for row in answers[name]]
        if output is not None:
            place = _place(asked, output, name)
            write_rows(place, rows, schema)
            say(f"dgs: {len(rows)} rows are in {place}")
        elif as_json:
            label = {"output": name} if has_many else {}
            for row in rows:
                print(json.dumps(label | dict(zip(schema.names, row, strict=True)), default=str))
        else:
            if has_many:
                print(f"{name}:")
            print_table(schema.names, rows)


def _compare(asked: Asked, answers: Answers, tolerance: float | None) -> None:
    """Compare answers with the interpreter's; exit 1 if they differ."""
    from dgs.api.queries.asking import TOLERANCE
    from dgs.semantics.comparison import compare

    expected = asked.interpreted()
    lines: list[str] = []
    for name, rows in answers.items():
        found = compare(expected[name], rows, tolerance=TOLERANCE if tolerance is None else tolerance)
        lines += found.differences()
    for line in lines:
        say(line)
    if lines:
        say("dgs: the answer differs from the reference interpreter's")
        raise typer.Exit(1)
    say("dgs: verified: the answer is the reference interpreter's")


def _emit(asked: Asked, form: Form, output: Path | None) -> None:
    from dgs.api.queries.emitting import emitted
    from dgs.named_files import check_named, write_named

    found = emitted(asked, form.value)
    if output is None:
        for text in found.values():
            print(text)
        return
    for name in found:
        check_named(output / name, BY_EMIT)
    output.mkdir(parents=True, exist_ok=True)
    for name, text in found.items():
        write_named(output / name, text, BY_EMIT)
        say(f"dgs: wrote {output / name}")
