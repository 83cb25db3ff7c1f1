"""Reading a script: statements, their places, and errors of wrong statements."""

import pytest

from dgs.query.pig.text import pig_syntax as pig
from dgs.query.pig.text.pig_reading import read_script


def statement(text: str) -> pig.Statement:
    script = read_script(text, "t.pig")
    assert not script.problems, [str(one) for one in script.problems]
    (one,) = script.statements
    return one


def test_words_of_the_language_are_names_where_no_keyword_can_stand() -> None:
    read = statement("group = GROUP input BY group;")
    assert read == pig.Group("group", (pig.Keyed("input", (pig.Name("group"),)),))


def test_a_semicolon_in_a_text_or_a_comment_ends_nothing() -> None:
    script = read_script("a = load 'x;y'; -- not; here\n/* nor; here */ dump a;", "t.pig")
    assert [type(one) for one in script.statements] == [pig.Load, pig.Show]
    assert script.statements[0] == pig.Load("a", "x;y")


def test_operators_bind_as_in_pig() -> None:
    read = statement("b = FILTER a BY NOT x == 1 + 2 * -3 OR y IS NOT NULL AND z MATCHES 'q.*';")
    assert isinstance(read, pig.Filter)
    sum_ = pig.Operation("+", (pig.Literal(1), pig.Operation("*", (pig.Literal(2), pig.Literal(-3)))))
    is_not = pig.Operation("not", (pig.Operation("==", (pig.Name("x"), sum_)),))
    there = pig.Operation("not", (pig.Operation("is null", (pig.Name("y"),)),))
    fits = pig.Operation("matches", (pig.Name("z"), pig.Literal("q.*")))
    assert read.condition == pig.Operation("or", (is_not, pig.Operation("and", (there, fits))))


def test_a_schema_may_nest() -> None:
    read = statement("a = load 'x' as (n: int, m: map[chararray], t: tuple(u: double), b: {t: (v: long)});")
    assert isinstance(read, pig.Load)
    assert [(one.name, one.type and one.type.name) for one in read.fields or ()] == [
        ("n", "int"),
        ("m", "map"),
        ("t", "tuple"),
        ("b", "bag"),
    ]


def test_an_open_text_leaves_the_unended_statement_for_later() -> None:
    script = read_script("dump a; b = foreach a { c = distinct x;", "t.pig", is_open=True)
    assert len(script.statements) == 1
    assert script.rest == "b = foreach a { c = distinct x;"
    assert not script.problems


WRONG = {
    "a = fliter b by x;": """Q101 t.pig:1:5: 'fliter' is no statement
    a = fliter b by x;
        ^
    Did you mean FILTER?""",
    "a = load 'x'\nb = filter a by n > 1;": """Q101 t.pig:2:1: 'b' cannot stand here
    b = filter a by n > 1;
    ^
    Does the statement before end with ;?""",
    "a = load 'x;\ndump a;": """Q101 t.pig:1:10: a text in quotes that does not end on its line
    a = load 'x;
             ^""",
    "a = load 'x' as (n: itn);": """Q101 t.pig:1:21: 'itn' cannot stand here
    a = load 'x' as (n: itn);
                        ^
    Did you mean int?""",
    "a = filter b by;": """Q101 t.pig:1:16: the statement ends too early
    a = filter b by;
                   ^
    Compare the statement with the examples in the part on Pig Latin of docs/queries.md.""",
    "a = filter b by n = 3;": """Q101 t.pig:1:19: '=' cannot stand here
    a = filter b by n = 3;
                      ^
    Values are compared with ==; a name of a relation stands at the beginning of its statement.""",
    "a = foreach b generate n dump a;": """Q101 t.pig:1:26: 'dump' cannot stand here
    a = foreach b generate n dump a;
                             ^
    Does the statement before end with ;?""",
    "store a in 'x';": """Q101 t.pig:1:9: 'in' cannot stand here
    store a in 'x';
            ^
    Did you mean INTO?""",
    "dump a": """Q101 t.pig:1:7: the text ends within a statement
    dump a
          ^
    A statement ends with ;""",
    "a = order b by x decs;": """Q101 t.pig:1:18: 'decs' cannot stand here
    a = order b by x decs;
                     ^
    Did you mean DESC?""",
    "<% def f(: %>": """Q101 t.pig:1:4: the embedded Python is wrong: invalid syntax
    <% def f(: %>
       ^
    Embedded code is Python.""",
}


@pytest.mark.parametrize("text", WRONG)
def test_the_text_of_a_mistake_in_the_syntax(text: str) -> None:
    (error,) = read_script(text, "t.pig").problems
    assert str(error) == WRONG[text]


def test_a_mistake_leaves_the_other_statements_readable() -> None:
    script = read_script("a = load 'x'; b = fliter a; c = distinct a; d = ; dump c;", "t.pig")
    assert [error.facts["span"].column for error in script.problems] == [19, 48]
    assert [type(one).__name__ for one in script.statements] == ["Load", "Distinct", "Show"]
