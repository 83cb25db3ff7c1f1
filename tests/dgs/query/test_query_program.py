"""Queries as programs: three tables with deletions under several plans, outputs as changes, resets, and faults of the data."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb")

from hypothesis import strategies as st

import dgs
from dgs.errors import ProgramError
from dgs.query.build import INT, TEXT, average, col, count, greatest, stream, table, total
from dgs.query.compact.payloads import Weight
from dgs.query.errors import QueryError
from dgs.query.program import QueryProgram
from tests.dgs.query import three_tables

A, B, ANSWER, GONE = map(dgs.kind, ("a", "b", "answer", "gone"))


def sums(**options):
    return (
        stream("a", deletes=True, k=TEXT, x=INT).group("k", s=total(col("x")), n=count()).program(**options)
    )


def rows(kind, *given):
    return [(kind(), ts, payload) for ts, payload in given]


def asked(*times):
    return [(ANSWER(), ts, None) for ts in times]


def test_three_tables_are_what_was_expected():
    given = three_tables.rows()
    answers = [three_tables.expected(*given, at) for at in three_tables.AT]
    assert [sum(row["n"] for row in one) for one in answers] == [229, 2053, 6897]
    assert [sum(row["rev"] for row in one) for one in answers] == [
        1_054_336_319,
        9_730_581_855,
        32_881_720_290,
    ]
    run = dgs.run(three_tables.program(), streams=three_tables.streams(*given), runtime="local")
    assert run.outputs == [row for one in answers for row in one]


@pytest.mark.parametrize("seed", range(5))
def test_three_tables_are_the_same_under_any_plan(seed):
    given = three_tables.rows(scale=12)
    answers = [row for at in three_tables.AT for row in three_tables.expected(*given, at)]
    plan = {"name": "random", "seed": seed}
    streams = three_tables.streams(*given)
    assert (
        dgs.run(three_tables.program(), streams=streams, runtime="local", optimizer=plan).outputs == answers
    )


def test_the_state_of_three_tables_is_that_of_the_design():
    given = three_tables.rows()
    program = three_tables.program()
    assert program.split.klass == "B"
    state = program.init()
    for name, listed in zip(("customer", "orders", "lineitem"), given, strict=True):
        from dgs.model.events import EventBatch

        payload = {key: [one[key] for _, one in listed] for key in listed[0][1]}
        ts = [at for at, _ in listed]
        batch = EventBatch.of(name, rank=0, tags=[dgs.Tag(name)], ts=ts, payload=payload)
        state = program.join(state, program.fold(batch))
    assert [len(one.table()) for one in state] == [296, 11264, 15997]


def test_changes_are_rows_against_the_answer_before():
    streams = {
        "a": rows(A, (1, {"k": "u", "x": 1}), (2, {"k": "v", "x": 2}), (6, {"k": "v", "x": 3})),
        "ask": asked(5, 9, 12),
    }
    outputs = dgs.run(sums(output="changes"), streams=streams, runtime="local").outputs
    assert outputs == [
        {"k": "u", "s": 1, "n": 1, "w": 1},
        {"k": "v", "s": 2, "n": 1, "w": 1},
        {"k": "v", "s": 2, "n": 1, "w": -1},
        {"k": "v", "s": 5, "n": 2, "w": 1},
    ]


def test_a_program_that_resets_answers_over_the_rows_since():
    streams = {"a": rows(A, (1, {"k": "u", "x": 1}), (6, {"k": "u", "x": 3})), "ask": asked(5, 9)}
    assert [row["s"] for row in dgs.run(sums(resets=True), streams=streams, runtime="local").outputs] == [
        1,
        3,
    ]


def test_a_kind_may_delete_the_rows_of_a_stream():
    streams = {
        "a": rows(A, (1, {"k": "u", "x": 1}), (2, {"k": "v", "x": 2})),
        "gone": rows(GONE, (3, {"k": "v", "x": 2})),
        "ask": asked(5),
    }
    assert dgs.run(sums(deletes={"gone": "a"}), streams=streams, runtime="local").outputs == [
        {"k": "u", "s": 1, "n": 1}
    ]


def test_a_deletion_of_another_row_than_came_is_named_at_the_answer():
    """The key has as many rows as deletions, but their sum is not 0."""
    program = sums(weights={"a": Weight("w")})
    came = rows(A, (1, {"k": "u", "x": 1, "w": 1}), (2, {"k": "u", "x": 5, "w": -1}))
    with pytest.raises(dgs.DgsError, match=r"Q702.*deletions that are of no insertion.*'u'"):
        dgs.run(program, streams={"a": came, "ask": asked(5)}, runtime="local")


def test_a_row_that_was_deleted_and_never_came_is_named_at_the_answer():
    program = sums(weights={"a": Weight("w")})
    streams = {"a": rows(A, (1, {"k": "u", "x": 1, "w": -1})), "ask": asked(5)}
    with pytest.raises(dgs.DgsError, match=r"Q702.*'u'"):
        dgs.run(program, streams=streams, runtime="local")
    dropping = sums(weights={"a": Weight("w")}, on_negative="drop")
    assert dgs.run(dropping, streams=streams, runtime="local").outputs == []


def test_a_table_that_does_not_change_is_read_once():
    names = table("names", key=TEXT, name=TEXT)
    query = stream("a", k=TEXT, x=INT).join(names, ("k", "key")).group("name", m=average(col("x")))
    read = []
    program = query.program(tables={"names": lambda: read.append(1) or [("u", "Ulm")]})
    streams = {
        "a": rows(A, (1, {"k": "u", "x": 1}), (2, {"k": "v", "x": 5}), (3, {"k": "u", "x": 2})),
        "ask": asked(2, 5),
    }
    outputs = dgs.run(program, streams=streams, runtime="local", optimizer="sequential").outputs
    assert outputs == [{"name": "Ulm", "m": 1.0}, {"name": "Ulm", "m": 1.5}]
    assert read == [1]


def test_several_outputs_name_themselves():
    source = stream("a", k=TEXT, x=INT)
    program = QueryProgram(
        {"all": source.group(n=count()).relation, "big": source.where(col("x") > 1).relation}
    )
    streams = {"a": rows(A, (1, {"k": "u", "x": 1}), (2, {"k": "v", "x": 2})), "ask": asked(5)}
    assert dgs.run(program, streams=streams, runtime="local").outputs == [
        {"output": "all", "n": 2},
        {"output": "big", "k": "v", "x": 2},
    ]


def test_a_row_that_does_not_fit_says_its_column():
    streams = {"a": rows(A, (1, {"k": "u", "x": "one"})), "ask": asked(5)}
    with pytest.raises(dgs.DgsError, match=r"Q703.*'x'"):
        dgs.run(sums(), streams=streams, runtime="local")


def test_another_having_is_the_same_program_and_another_key_is_not():
    source = stream("a", k=TEXT, x=INT)
    by = source.group("k", n=count())
    one, other = (by.where(col("n") > least).program() for least in (1, 5))
    assert one.identity_parts() == other.identity_parts()
    assert one.identity_parts() != source.group("x", n=count()).program().identity_parts()


def test_a_class_worse_than_required_names_the_clause():
    query = stream("a", k=TEXT, x=INT)
    with pytest.raises(QueryError, match=r"Q301.*rows that go out"):
        query.program(require="B")
    assert query.group("k", n=count()).program(require="A").split.klass == "A"


def test_names_that_no_stream_has_are_refused():
    with pytest.raises(ProgramError, match="'b' is no stream"):
        sums(weights={"b": Weight("w")})
    with pytest.raises(QueryError, match=r"Q201"):
        stream("a", k=TEXT).join(table("names", key=TEXT), ("k", "key")).program()


def test_no_law_is_left_out_when_a_query_is_checked():
    query = (
        stream("a", deletes=True, k=TEXT, x=INT).where(col("x") > 0).group("k", s=total(col("x")), n=count())
    )
    program = query.program(weights={"a": Weight("op", "I", "D")}, on_negative="drop")
    values = st.fixed_dictionaries(
        {"k": st.sampled_from("uv"), "x": st.integers(-3, 3), "op": st.sampled_from("ID")}
    )
    report = dgs.check(program, strategies={"a": values, "answer": st.none()}, max_examples=5, seed=1)
    assert {law.law: law.status for law in report.laws if law.status in ("BROKEN", "skipped")} == {}
    assert next(law.status for law in report.laws if law.law == "elsewhere") == "holds"


def test_a_program_is_made_again_elsewhere():
    from dgs import codec
    from dgs.query.program import made_again

    program = three_tables.program(output="changes")
    _, arguments = program.made_by
    again = made_again(**codec.decode(codec.encode(arguments)))
    assert again.script == program.script
    assert again.identity_parts() == program.identity_parts()
    assert again.weights == program.weights


def test_deletions_of_a_stream_that_does_not_say_so_are_refused_where_they_cannot_be_undone():
    largest = stream("a", k=TEXT, x=INT).group("k", m=greatest(col("x")))
    with pytest.raises(ProgramError, match="rows of 'a' are deleted, which its source does not say"):
        largest.program(deletes={"gone": "a"})
    largest.program()
    stream("a", deletes=True, k=TEXT, x=INT).group("k", m=greatest(col("x"))).program(deletes={"gone": "a"})
