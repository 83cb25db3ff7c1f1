"""Flows from Python: functions that take a program take a flow, and exceptions of user code are explained."""

import re
from pathlib import Path

import pytest

import dgs
from dgs.errors import UsageError, UserCodeError
from dgs.flow import KeyedOrdered, KeyedUnordered, every, flow, on
from dgs.monoids import COUNT, SUM
from dgs.pico import from_stream, new
from dgs.pico import map as pico_map
from dgs.testing import run_plans, simulate

BROKEN: set[int] = set()
ROWS = {"numbers": [(ts, ts % 7) for ts in range(40)]}


def checked(number):
    if number in BROKEN:
        raise ValueError(f"{number} is broken")
    return number


@flow(clock=every(10))
def sums(numbers: int):
    return numbers.map(lambda _, v: checked(v)).key_by(lambda _, v: v % 2).aggregate(SUM)


@flow(clock=every(10))
def folds(numbers: int):
    keyed = numbers.key_by(lambda _, v: v % 2)
    return keyed.fold(lambda total, v: checked(total) + v, 0, over="history")


def started(made, directory: Path, number: int, **more):
    BROKEN.add(number)
    try:
        with pytest.raises(UserCodeError):
            dgs.run(
                made,
                streams=ROWS,
                run_dir=directory,
                settings={"checkpoint.every": "1ms", "runtime.batch_rows": 3},
                **more,
            )
    finally:
        BROKEN.clear()


@pytest.mark.parametrize(("made", "number"), [(sums, 6), (folds, 40)], ids=["sum", "mixed"])
def test_a_run_of_a_flow_is_resumed_with_the_flow(tmp_path: Path, made, number: int) -> None:
    started(made, tmp_path / "run", number)
    run = dgs.resume(tmp_path / "run", program=made, streams=ROWS, optimizer={"name": "random", "seed": 1})
    assert run.report["status"] == "done"
    assert run.state == dgs.run(made, streams=ROWS).state


def test_a_run_of_a_flow_is_resumed_by_run(tmp_path: Path) -> None:
    started(folds, tmp_path / "run", 40)
    assert dgs.run(folds, streams=ROWS, run_dir=tmp_path / "run", resume=True).report["status"] == "done"


def test_other_values_than_programs_and_flows_are_refused(tmp_path: Path) -> None:
    started(sums, tmp_path / "run", 6)
    with pytest.raises(UsageError, match=r"dgs.resume\(program=\) takes a program or a flow, and not a str"):
        dgs.resume(tmp_path / "run", program="sums", streams=ROWS)  # type: ignore[arg-type]


def test_a_flow_is_run_under_random_plans_and_faults() -> None:
    assert "2 runs" in str(run_plans(folds, ROWS, 2))
    assert "2 runs" in str(simulate(sums, ROWS, seeds=2))


class Broken(KeyedOrdered):
    def initial_state(self):
        return 0

    def on_item(self, state, key, value, emit):
        return state + value

    def on_marker(self, state, key, at, emit):
        return state // (at - 20)


class Unordered(KeyedUnordered):
    monoid = COUNT

    def update_state(self, state, found):
        return 1 // (found - 5)


def parsed(_, value):
    return 1 // (value - 6)


def keyed(numbers):
    return numbers.key_by(lambda _, v: v % 2)


def len_or_odd(_, value):
    return 0 if value == "x" else value % 2


def joined(n):
    return keyed(n).join(keyed(n.map(lambda _, v: v + 1)), lambda k, a, b: 1 // (a - 3) + b)


RAISING = {
    "step 1 'map'": lambda n: n.map(parsed),
    "step 2 'filter'": lambda n: keyed(n).filter(parsed),
    "step 2 'each'": lambda n: keyed(n).each(lambda k, v, at: v // (at - 3)),
    "step 2 'Broken'": lambda n: keyed(n).apply(Broken()),
    "step 2 'Unordered'": lambda n: keyed(n).apply(Unordered()),
    "step 3 'map'": lambda n: keyed(n).aggregate(COUNT).map(parsed),
    "step 2 'block'": lambda n: keyed(n).block(lambda k, items, at: [1 // (at - 20) * k]),
    "step 2 'sort'": lambda n: keyed(n).sort(by=parsed),
    "step 4 'join'": joined,
    "step 2 'fold'": lambda n: keyed(n).fold(lambda s, v: 1 // (v - 6), 0),
    "step 3 'aggregate'": lambda n: (
        n.map(lambda _, v: "x" if v == 6 else v).key_by(len_or_odd).aggregate(SUM)
    ),
    "step 1 'pairs'": lambda n: n.pairs(lambda _, v: (parsed(_, v), v)),
}


def note(text: str) -> str:
    return re.search(r"\(step .* at \S+, .*?(, at -?\d+)?\)", text)[0]


@pytest.mark.parametrize("step", RAISING)
def test_the_definition_names_the_failing_step_as_the_run_does(step: str) -> None:
    made = flow(clock=every(10))(RAISING[step])
    with pytest.raises(UserCodeError) as run:
        dgs.run(made, streams={"n": ROWS["numbers"]})
    with pytest.raises(UserCodeError) as meaning:
        made.denote({"n": ROWS["numbers"]})
    assert note(str(meaning.value)) == note(str(run.value))
    assert step in note(str(run.value))
    assert str(meaning.value).splitlines()[-1].startswith("denote of program ")


def test_the_meaning_of_a_pipeline_names_the_operator_that_raises() -> None:
    pipeline = new(from_stream("numbers", structure="list")) | new(pico_map(lambda v: 1 // (v - 6)))
    with pytest.raises(UserCodeError, match=r"\(map at test_runs_from_python.py:\d+, function .*<lambda>\)"):
        pipeline.denote(ROWS)


def counted_ticks(ticks, ticks_):
    return ticks.merge(ticks_).key_by(lambda _, v: v % 2).aggregate(COUNT)


def last_ticks(ticks, ticks_):
    return ticks.merge(ticks_).key_by(lambda _, v: v % 2).fold(lambda _, v: v, 0)


def counted_between(ticks, ticks_):
    return ticks_.key_by(lambda _, v: v % 2).aggregate(COUNT)


@pytest.mark.parametrize(
    ("build", "clock"),
    [(counted_ticks, every(10)), (last_ticks, every(10)), (counted_between, on("ticks"))],
)
def test_streams_of_a_flow_may_have_the_name_of_the_ticks(build, clock) -> None:
    made = flow(clock=clock)(build)
    rows = {"ticks": [(ts, ts % 3) for ts in range(0, 40, 5)], "ticks_": [(ts, ts % 5) for ts in range(30)]}
    expected = sorted(made.denote(rows))
    for optimizer in ({"name": "greedy"}, {"name": "random", "seed": 2}):
        assert sorted(dgs.run(made, streams=rows, optimizer=optimizer, verify=True).outputs) == expected
    run_plans(made, rows, 3)
