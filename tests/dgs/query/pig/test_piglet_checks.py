"""The checks of Piglet on each engine: the same lines as Piglet's, as lists or as multisets."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dgs
from dgs.query import duck
from dgs.query.compact.arrow_rows import from_arrow, to_arrow
from dgs.query.evaluate import answers, zbag
from dgs.query.pig import PigOutput, PigProgram, program_of
from dgs.query.pig.pig_storage import line_of
from dgs.query.program import QueryProgram
from dgs.query.rewrite import rewritten
from dgs.query.sql_text import text_of
from dgs.query.types import conform
from tests.dgs.query.pig.piglet_checks import CHECKS, Check

CASES = Path(__file__).parents[5] / "shared" / "cases" / "upstream" / "piglet"

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the cases are not beside the checkout (shared/cases)"
)

DIFFERENCE = {"grouping2.data": {"1": "{(1),(1)}", "4": "{(4),(4)}", "7": "{(7),(7)}", "8": "{(8),(8)}"}}
"""In Piglet `A.f1` is one value; in Apache Pig and here it is a bag."""


def expected(check: Check) -> list[str]:
    """Return the lines of the file, with the named difference."""
    lines = (CASES / "expected" / check.expected).read_text("utf-8").splitlines()
    bags = DIFFERENCE.get(check.expected)
    if bags is None:
        return lines
    return [f"{bags[line.split(',')[0]]},{line.split(',')[1]}" for line in lines]


def comparable(lines: list[str]) -> list[str]:
    """Return lines with the tuples of bags sorted: bags have no order."""
    return [re.sub(r"\{(\(.*?\))\}", _sorted_bag, line) for line in lines]


def _sorted_bag(found: re.Match[str]) -> str:
    return "{" + ",".join(sorted(re.findall(r"\([^()]*\)", found[1]))) + "}"


def only_output(check: Check) -> tuple[PigProgram, PigOutput]:
    """Return the text of a script, and its output."""
    program = program_of(check.script, base_dir=CASES / "input")
    assert not program.problems, [str(one) for one in program.problems]
    (output,) = program.outputs
    return program, output


def lines_of(output: PigOutput, rows: list[Any]) -> list[str]:
    return [line_of(row[: len(output.fields)], output.fields, output.delimiter) for row in rows]


def interpreted(check: Check) -> list[str]:
    """Return the answer of the interpreter as lines."""
    program, output = only_output(check)
    tables = {name: zbag(load.table(CASES / "input")) for name, load in program.loads.items()}
    return lines_of(output, answers(program.script, tables)[output.name])


def by_duckdb(check: Check) -> list[str]:
    """Return the answer of DuckDB to the rewritten script as lines."""
    program, output = only_output(check)
    relation = dict(rewritten(program.script).script.outputs)[output.name]
    tables = {
        name: to_arrow(list(load.table(CASES / "input")), load.source(name).columns)
        for name, load in program.loads.items()
    }
    rows = from_arrow(duck.run(text_of(relation), tables, relation.schema), relation.schema)
    return lines_of(output, rows)


def by_dgs(check: Check) -> list[str]:
    """Return the answer of a run of dgs under a random plan as lines."""
    program, output = only_output(check)
    query = QueryProgram({output.name: output.relation})
    streams: dict[str, Any] = {}
    for name, load in program.loads.items():
        names = load.source(name).columns.names
        rows = enumerate(load.table(CASES / "input"))
        streams[name] = [(dgs.kind(name)(), ts, dict(zip(names, row, strict=True))) for ts, row in rows]
    streams["answers"] = [(dgs.kind("answer")(), 1000, None)]
    run = dgs.run(query, streams=streams, runtime="local", optimizer={"name": "random", "seed": 5})
    types = output.relation.schema.types
    rows = [tuple(map(conform, row.values(), types)) for row in run.outputs]
    return lines_of(output, rows)


def by_spark(check: Check, place: Path) -> list[str]:
    """Return the answer of Spark as lines."""
    from dgs.job.schema import SparkConfig
    from dgs.spark_bridge.queries.query_batch import answered

    program, output = only_output(check)
    tables = {
        name: to_arrow(list(load.table(CASES / "input")), load.source(name).columns)
        for name, load in program.loads.items()
    }
    rows = answered(program.script, tables, config=SparkConfig(), work_dir=place)[output.name]
    return lines_of(output, rows)


def assert_same(lines: list[str], check: Check) -> None:
    got, wanted = comparable(lines), comparable(expected(check))
    if check.is_list:
        assert got == wanted
    else:
        assert Counter(got) == Counter(wanted)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_interpreter_answers_as_piglet(check: Check) -> None:
    assert_same(interpreted(check), check)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_duckdb_answers_as_piglet(check: Check) -> None:
    assert_same(by_duckdb(check), check)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_run_of_dgs_answers_as_piglet(check: Check) -> None:
    assert_same(by_dgs(check), check)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_spark_answers_as_piglet(check: Check, tmp_path: Path, spark: object) -> None:
    assert_same(by_spark(check, tmp_path), check)
