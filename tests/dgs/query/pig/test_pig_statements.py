"""Statements that are not in the checks of Piglet: their answers on the interpreter and on DuckDB."""

from pathlib import Path

import pytest

from dgs.query import duck
from dgs.query.compact.arrow_rows import from_arrow, to_arrow
from dgs.query.evaluate import answers, zbag
from dgs.query.pig import program_of
from dgs.query.pig.pig_storage import dumped
from dgs.query.sql_text import text_of

A = "a = LOAD 'a.csv' USING PigStorage(',') AS (k: int, v: chararray);"
B = "b = LOAD 'b.csv' USING PigStorage(',') AS (k: int, w: int);"

MEANINGS = {
    "c = COGROUP a BY k, b BY k; DUMP c;": [
        "(1,{(1,x),(1,y)},{(1,10)})",
        "(2,{(2,z)},{})",
        "(3,{},{(3,30)})",
        "(,{(,n)},{})",
    ],
    "c = COGROUP a BY k INNER, b BY k; DUMP c;": [
        "(1,{(1,x),(1,y)},{(1,10)})",
        "(2,{(2,z)},{})",
        "(,{(,n)},{})",
    ],
    "c = JOIN a BY k LEFT, b BY k; DUMP c;": ["(1,x,1,10)", "(1,y,1,10)", "(2,z,,)", "(,n,,)"],
    "c = JOIN a BY k RIGHT OUTER, b BY k; DUMP c;": ["(1,x,1,10)", "(1,y,1,10)", "(,,3,30)"],
    "c = JOIN a BY k FULL, b BY k; DUMP c;": [
        "(1,x,1,10)",
        "(1,y,1,10)",
        "(2,z,,)",
        "(,,3,30)",
        "(,n,,)",
    ],
    "c = JOIN a BY k, b BY k, a BY k; DUMP c;": [
        f"(1,{one},1,10,1,{other})" for one in "xy" for other in "xy"
    ],
    "c = JOIN a BY k, b BY k; d = JOIN c BY b::k, b BY k + 0, a BY (v == 'z' ? 1 : 3); DUMP d;": [
        "(1,x,1,10,1,10,2,z)",
        "(1,y,1,10,1,10,2,z)",
    ],
    "c = JOIN a BY k, b BY k; d = JOIN b BY k LEFT, c BY a::k; DUMP d;": [
        "(1,10,1,x,1,10)",
        "(1,10,1,y,1,10)",
        "(3,30,,,,)",
    ],
    "c = JOIN a BY k, b BY k; d = JOIN c BY a::k RIGHT, b BY k; DUMP d;": [
        "(1,x,1,10,1,10)",
        "(1,y,1,10,1,10)",
        "(,,,,3,30)",
    ],
    "c = UNION ONSCHEMA a, b; DUMP c;": ["(1,,10)", "(1,x,)", "(1,y,)", "(2,z,)", "(3,,30)", "(,n,)"],
    "SPLIT a INTO p IF k == 1, q OTHERWISE; DUMP q;": ["(2,z)"],
    "c = GROUP a BY k; d = FOREACH c { o = ORDER a BY v DESC; l = LIMIT o 1; GENERATE group, FLATTEN(l.v); }; DUMP d;": [
        "(1,y)",
        "(2,z)",
        "(,n)",
    ],
    "c = GROUP a BY k; d = FOREACH c { f = FILTER a BY v != 'x'; GENERATE group, COUNT(f), COUNT_STAR(a); }; DUMP d;": [
        "(1,1,2)",
        "(2,1,1)",
        "(,0,1)",  # COUNT leaves out tuples whose first field is null
    ],
    "w = WINDOW a ROWS 2; g = GROUP w ALL; c = FOREACH g GENERATE COUNT_STAR(w); DUMP c;": ["(2)", "(2)"],
    "w = WINDOW a ROWS 2; o = ORDER w BY v DESC; l = LIMIT o 1; c = FOREACH l GENERATE v; DUMP c;": [
        "(y)",
        "(z)",
    ],
    "c = FOREACH a GENERATE (k > 1 ? 'big' : 'small'), ROUND(-2.5), ROUND(k / 2.0);DUMP c;": [
        "(small,-2,1)",
        "(small,-2,1)",
        "(big,-2,1)",
        "(,-2,)",  # a null condition selects nothing
    ],
    "c = FOREACH a GENERATE (k IS NULL ? -1 : k) AS k, UPPER(v), 7 / k, -7 % 3; DUMP c;": [
        "(1,X,7,-1)",
        "(1,Y,7,-1)",
        "(2,Z,3,-1)",
        "(-1,N,,-1)",
    ],
    "%default least 2\nc = FILTER a BY k >= $least; DUMP c;": ["(2,z)"],
    "IMPORT 'macros.pig'; c = firsts(a, 1); DUMP c;": ["(1,x)"],
    "c = SAMPLE a 0.0; DUMP c;": [],
    "<% def f(k: int) -> float: return float('nan') if k == 1 else 0.1 * k %> c = FOREACH b GENERATE f(k), f(w); DUMP c;": [
        "(0.30000000000000004,3.0)",
        "(NaN,1.0)",  # only DuckDB returns null
    ],
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("1,x\n1,y\n2,z\n,n\n")
    (tmp_path / "b.csv").write_text("1,10\n3,30\n")
    (tmp_path / "macros.pig").write_text(
        "DEFINE firsts(of, n) RETURNS out { tmp = ORDER $of BY v; f = FILTER tmp BY v != 'n'; $out = LIMIT f $n; };"
    )
    return tmp_path


@pytest.mark.parametrize("text", MEANINGS)
def test_a_statement_means_its_rows_everywhere(files: Path, text: str) -> None:
    program = program_of(A + B + text, base_dir=files)
    assert not program.problems, [str(one) for one in program.problems]
    (output,) = program.outputs
    rows = {name: list(load.table(files)) for name, load in program.loads.items()}
    interpreted = answers(program.script, {name: zbag(some) for name, some in rows.items()})[output.name]
    tables = {name: to_arrow(some, program.loads[name].source(name).columns) for name, some in rows.items()}
    found = duck.run(text_of(output.relation), tables, output.relation.schema)
    wanted = sorted(MEANINGS[text])
    assert sorted(dumped(output.fields, interpreted)) == wanted
    assert sorted(dumped(output.fields, from_arrow(found, output.relation.schema))) == wanted
