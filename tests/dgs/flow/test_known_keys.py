"""The cost of a tick depends on the keys with items, not on the known keys."""

import pytest

from dgs.flow import compiling, every, flow
from dgs.flow.flow_program import FINAL
from dgs.flow.templates import FoldOfBlocks
from dgs.model.tag_sets import TagSet
from dgs.monoids import Sum
from dgs.testing import run_plans, simulate
from tests.dgs.flow import flows

KNOWN, TOUCHED, BLOCKS = 500, 3, 4


def summed(over):
    return flow(clock=every(10))(
        lambda a: (
            a.key_by(lambda _, v: v).fold(lambda s, v: s + v, 1, over=over).each(lambda k, s, at: [at, k, s])
        )
    )


@pytest.fixture
def rows():
    later = [(10 * block + v, v) for block in range(1, BLOCKS) for v in range(TOUCHED)]
    return {"a": [*((0, v) for v in range(KNOWN)), *later]}


@pytest.fixture
def in_one_state(monkeypatch):
    """Compile flows to the shape mixed, whose state has all classes."""
    monkeypatch.setattr(compiling, "has_local_classes", lambda *_: False)


@pytest.mark.parametrize("over", [None, "history"])
@pytest.mark.parametrize("ticks", [range(10, 50, 10), ()], ids=["all ticks", "the last tick"])
def test_a_marker_comes_to_keys_with_items_only(monkeypatch, rows, over, ticks):
    marked, on_marker = [], FoldOfBlocks.on_marker

    def counted(self, state, key, at, emit):
        marked.append(key)
        return on_marker(self, state, key, at, emit)

    case = flows.Case(summed(over), rows, [*ticks, FINAL], 4)
    means = case.means()
    monkeypatch.setattr(FoldOfBlocks, "on_marker", counted)
    assert flows.counted(output.value for output in case.run().outputs) == means
    assert len(marked) == KNOWN + TOUCHED * (BLOCKS - 1)


@pytest.mark.usefixtures("in_one_state")
@pytest.mark.parametrize(("over", "kept"), [(None, 0), ("history", KNOWN)])
def test_a_fold_keeps_the_keys_of_its_history_and_no_others(rows, over, kept):
    state = flows.Case(summed(over), rows, [FINAL], 4).run().state
    assert sum(map(len, state["keyed"][2].values())) == 0
    assert sum(map(len, state.get("idle", {}).get(2, {}).values())) == kept


@pytest.mark.usefixtures("in_one_state")
def test_states_move_between_workers_class_by_class(rows):
    case = flows.Case(summed("history"), rows, [10, 20], 4)
    program, state = case.made.program, case.run().state
    before = {cls: keys for name in ("keyed", "idle") for cls, keys in state[name][2].items() if keys}
    one, other = program.fork(state, TagSet.of(program.item(0)), TagSet.of(*map(program.item, range(1, 4))))
    after = program.join(program.join(program.identity(), one), other)
    found = {cls: keys for name in ("keyed", "idle") for cls, keys in after[name][2].items() if keys}
    assert all(found[cls] is keys for cls, keys in before.items() if cls in state["idle"][2])
    assert found.keys() == before.keys()


@pytest.mark.usefixtures("in_one_state")
@pytest.mark.parametrize("over", [None, "history"])
def test_idle_keys_survive_plans_and_faults(rows, over):
    case = flows.Case(summed(over), {"a": rows["a"][KNOWN - 20 :]}, [10, 20, FINAL], 3)
    run_plans(case.made.program, case.streams(), 3, seed=1)
    simulate(case.made.program, case.streams(), seeds=range(2), faults="crash,disk,network,user")


def test_the_meaning_of_history_takes_each_item_once():
    taken = []

    class Noted(Sum):
        def lift(self, value):
            taken.append(value)
            return value

    made = flow(clock=every(10))(lambda a: a.key_by(lambda _, v: v % 3).aggregate(Noted(), over="history"))
    found = made.denote({"a": [(10 * v, v) for v in range(30)]})
    assert found == [sum(range(v % 3, v + 1, 3)) for v in range(30)]
    assert taken == list(range(30))
