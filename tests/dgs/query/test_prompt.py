"""The prompt: its output for each line, in each language. A mistake does not end it."""

from pathlib import Path

import pytest

from dgs.query.prompt import Known, Prompt
from dgs.query.relation import Source
from dgs.query.types import INT, TEXT, Schema


@pytest.fixture
def prompt(tmp_path: Path) -> Prompt:
    (tmp_path / "pairs.csv").write_text("1,a\n2,b\n1,c\n")
    numbers = Known(Source("numbers", Schema.of(n=INT)), [(1,), (2,)])
    made = Prompt("pig", tables={"numbers": numbers}, base_dir=tmp_path)
    assert made.fed("a = LOAD 'pairs.csv' USING PigStorage(',') AS (n: int, t: chararray);") == []
    return made


def test_a_statement_may_take_several_lines(prompt: Prompt) -> None:
    assert prompt.fed("b = FILTER a") == []
    assert prompt.is_waiting
    assert prompt.fed("BY n == 1; DUMP b;") == ["(1,a)", "(1,c)"]
    assert not prompt.is_waiting


def test_a_mistake_ends_nothing(prompt: Prompt) -> None:
    (said,) = prompt.fed("b = FILTER a BY m == 1;")
    assert said.startswith("Q201 prompt:1:17: no field 'm'")
    assert prompt.fed("b = LIMIT a 1; DUMP b;") == ["(1,a)"]


def test_readers_of_a_lost_alias_are_reported_too(prompt: Prompt) -> None:
    prompt.fed("b = FILTER a BY m == 1;")
    for line in ("DUMP b;", "DESCRIBE b;"):
        (said,) = prompt.fed(line)
        assert "no alias 'b'" in said


def test_an_alias_may_change(prompt: Prompt) -> None:
    prompt.fed("b = FILTER a BY n == 1; c = FOREACH b GENERATE t;")
    prompt.fed("b = FILTER a BY n == 2;")
    assert prompt.fed("DUMP b; DUMP c;") == ["(2,b)", "(a)", "(c)"]


def test_describe_and_illustrate(prompt: Prompt) -> None:
    prompt.fed("g = GROUP a BY n;")
    assert prompt.fed("DESCRIBE g;") == ["g: {group: int, a: bag{(n: int, t: chararray)}}"]
    assert prompt.fed("ILLUSTRATE g;") == ["(1,{(1,a),(1,c)})", "(2,{(2,b)})"]


def test_store_writes_a_file(prompt: Prompt, tmp_path: Path) -> None:
    assert prompt.fed("STORE a INTO 'out/pairs';") == [f"3 rows in {tmp_path}/out/pairs"]
    assert (tmp_path / "out" / "pairs").read_text() == "1,a\n2,b\n1,c\n"


def test_sql_reads_tables_and_the_aliases_of_pig(prompt: Prompt) -> None:
    assert prompt.fed(":lang sql") == ["The language is sql."]
    assert prompt.fed("select a.t from numbers join a") == []
    assert prompt.fed("on a.n = numbers.n where a.t > 'b';") == ['{"t": "c"}']
    (said,) = prompt.fed("select nme from a;")
    assert said.startswith("Q201 prompt:1:8")
    assert prompt.fed(":lang pig") == ["The language is pig."]
    assert prompt.fed("b = LIMIT a 1; DUMP b;") == ["(1,a)"]


def test_a_command_that_is_none(prompt: Prompt) -> None:
    assert prompt.fed(":lnag pig") == ["No command :lnag; did you mean 'lang'?"]
    assert prompt.fed(":lang cobol")[0].startswith("Q501: no language 'cobol'")
    assert prompt.fed(":quit") == []
    assert prompt.is_done


def test_the_end_of_the_input_within_a_statement_is_a_mistake(prompt: Prompt) -> None:
    prompt.fed("DUMP a")
    assert prompt.ended() == ["Q101 prompt: the input ends within a statement\n    DUMP a"]
    assert Prompt("pig").ended() == []


def test_tables_of_text(prompt: Prompt) -> None:
    assert prompt.fed(":tables") == ["numbers: n int64", "a: n int64, t text"]
    assert TEXT.kind == "text"


def test_the_rules_that_rewrite(prompt: Prompt) -> None:
    assert "combine: combine.aggregate_of_bag" in prompt.fed(":rules")


def test_explain_shows_the_graph(prompt: Prompt) -> None:
    said = "\n".join(prompt.fed("b = FILTER a BY n == 1; EXPLAIN b;"))
    assert "Where" in said
    assert "pairs" in said
