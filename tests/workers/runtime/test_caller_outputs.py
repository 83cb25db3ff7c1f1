"""Outputs at the caller: at once, or when their epoch is committed."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from dgs import codec
from dgs.job.schema import CheckpointConfig, RuntimeConfig, SinkConfig
from dgs.model.impl_tags import ImplTagSet
from dgs.model.outputs import OutputBatch
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.planner.plan import Plan, PlanNode
from dgs.workers.runtime.host_outputs import CallerOutputs
from dgs.workers.runtime.job import Job
from dgs.workers.sinks.kept_outputs import KeptOutputs, Room, StdoutSink
from tests.workers.sinks.test_stdout_sink import piped

JOB = Job(
    program=Program(),
    plan=Plan(PlanNode("w1", ImplTagSet.of({}))),
    streams=(),
    base_dir=Path(),
    output_dir=Path(),
    runtime=RuntimeConfig(),
    sinks=(SinkConfig.model_validate("stdout"),),
    collect=True,
)
CHECKPOINTED = replace(JOB, checkpoint=CheckpointConfig())


def batch(*values):
    rows = list(range(len(values)))
    return OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=rows, seq=rows, index=rows, values=list(values))


def collected(outputs):
    return [value for one in outputs.outputs for value in one.to_list()]


@pytest.mark.parametrize("job", [JOB, replace(CHECKPOINTED, delivery="at_least_once")])
def test_outputs_are_printed_as_they_come_where_nothing_is_committed_exactly_once(job, capsys):
    outputs = CallerOutputs(job)
    assert outputs.can_discard
    outputs.write([(1, batch("x")), (1, batch("y"))])
    assert (capsys.readouterr().out, collected(outputs)) == ('"x"\n"y"\n', [])
    assert outputs.can_discard == (job.delivery == "at_least_once")
    outputs.commit(1)
    outputs.close()
    assert (capsys.readouterr().out, collected(outputs)) == ("", ["x", "y"])


def test_outputs_of_a_checkpointed_run_wait_for_the_commit_of_their_epoch(capsys):
    outputs = CallerOutputs(CHECKPOINTED)
    outputs.write([(3, batch("later")), (2, batch("second"))])
    outputs.write([(1, batch("first", "too"))])
    assert (capsys.readouterr().out, collected(outputs)) == ("", [])
    outputs.commit(2)
    assert capsys.readouterr().out == '"first"\n"too"\n"second"\n'
    outputs.commit(3)
    assert capsys.readouterr().out == '"later"\n'
    assert collected(outputs) == ["first", "too", "second", "later"]


def test_discarded_outputs_are_never_seen(capsys):
    outputs = CallerOutputs(CHECKPOINTED)
    outputs.write([(1, batch("committed")), (2, batch("lost"))])
    outputs.commit(1)
    outputs.discard()
    outputs.write([(2, batch("made again"))])
    outputs.commit(2)
    outputs.write([(3, batch("uncommitted"))])
    outputs.close()
    assert capsys.readouterr().out == '"committed"\n"made again"\n'
    assert collected(outputs) == ["committed", "made again"]


def test_outputs_beyond_the_bound_wait_on_disk_and_come_in_order(capsys, tmp_path):
    job = replace(
        CHECKPOINTED, collect=False, output_dir=tmp_path, runtime=RuntimeConfig(buffer_bytes="20KiB")
    )
    outputs = CallerOutputs(job)
    expected = [f"{number:03d}{'x' * 1000}" for number in range(200)]
    for number, value in enumerate(expected):
        outputs.write([(1 + number // 120, batch(value))])
        assert outputs._room.taken <= 20 * 1024
    outputs.commit(1)
    assert capsys.readouterr().out.split() == [f'"{value}"' for value in expected[:120]]
    outputs.write([(2, batch("last"))])
    outputs.commit(2)
    assert capsys.readouterr().out.split() == [f'"{value}"' for value in [*expected[120:], "last"]]
    outputs.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("job", [JOB, CHECKPOINTED], ids=["once", "by_epoch"])
def test_collected_outputs_beyond_the_bound_are_on_disk_and_read_as_often_as_wanted(job, tmp_path, capsys):
    runtime = RuntimeConfig(buffer_bytes="20KiB")
    outputs = CallerOutputs(replace(job, sinks=(), output_dir=tmp_path, runtime=runtime))
    expected = [f"{number:03d}{'x' * 1000}" for number in range(200)]
    for number, value in enumerate(expected):
        outputs.write([(1 + number // 120, batch(value))])
        assert outputs._room.taken <= 20 * 1024
    outputs.commit(2)
    outputs.close()
    assert outputs._room.taken <= 20 * 1024
    assert [collected(outputs), collected(outputs)] == [expected, expected]
    assert list(tmp_path.iterdir()) == []


def test_collected_outputs_that_the_codec_does_not_carry_stay_in_memory(tmp_path):
    outputs = CallerOutputs(
        replace(JOB, sinks=(), output_dir=tmp_path / "none", runtime=RuntimeConfig(buffer_bytes="1B"))
    )
    odd = object()  # a run without a directory has none
    outputs.write([(1, batch(odd)), (1, batch("even"))])
    outputs.commit(1)
    assert collected(outputs) == [odd, "even"]


@pytest.mark.parametrize("ends", [CallerOutputs.discard, CallerOutputs.close])
def test_discarded_outputs_leave_no_file(capsys, tmp_path, ends):
    outputs = CallerOutputs(
        replace(CHECKPOINTED, collect=False, output_dir=tmp_path, runtime=RuntimeConfig(buffer_bytes="1B"))
    )
    outputs.write([(1, batch("lost"))])
    ends(outputs)
    outputs.write([(1, batch("kept"))])
    outputs.commit(1)
    assert capsys.readouterr().out == '"kept"\n'


def test_the_memory_sink_of_a_caller_that_collects_nothing_needs_no_outputs():
    assert not CallerOutputs.is_needed(
        replace(JOB, collect=False, sinks=(SinkConfig.model_validate("memory"),))
    )


@pytest.mark.parametrize(
    "value",
    [{"id": 1, "text": "x" * 1000}, ["x" * 100] * 50, {"a": {"b": [("y" * 200, 1.5)] * 9}}, "z" * 2000, {}],
    ids=["record", "list", "nested", "text", "empty"],
)
@pytest.mark.parametrize("is_record", [False, True])
def test_bound_counts_what_outputs_consist_of(value, is_record, tmp_path):
    """What is inside a record or a list takes memory, too: without it the bound was passed ten times over."""
    one = batch(*[value] * 100)
    if is_record:
        one = replace(one, values={"n": one.values})
    kept = KeptOutputs(Room(10**9), tmp_path)
    kept.append(one)
    size = len(codec.encode(one))
    assert size * 0.8 <= kept.bytes <= 4 * size + 400 * len(one)


@pytest.mark.parametrize("collects", [False, True])
@pytest.mark.parametrize("job", [JOB, CHECKPOINTED], ids=["at_once", "by_epoch"])
def test_all_that_waits_at_the_caller_shares_one_bound(job, collects, tmp_path):
    """Each epoch and each queue for stdout had a bound of its own, and a batch was encoded whole."""
    bound, runtime = 2**20, RuntimeConfig(buffer_bytes="1MiB")
    outputs = CallerOutputs(replace(job, collect=collects, output_dir=tmp_path, runtime=runtime))
    with piped():
        tracemalloc.start()
        for epoch in range(1, 9):
            for _ in range(4):
                outputs.write([(epoch, batch(*["x" * 1000 for _ in range(200)]))])
            outputs.commit(epoch)
        outputs.write([(9, batch(*["y" * 1000] * 20_000))])  # one object, 20 MB once encoded
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        outputs.discard()
    assert held < 2.5 * bound
    assert peak < 10 * bound


def test_lines_of_a_megabyte_wait_one_at_a_time_for_their_reader():
    made = StdoutSink()
    made.put("x" * 2**20 + "\n" for _ in range(64))
    with piped():
        tracemalloc.start()
        made.show()
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
        tracemalloc.stop()
