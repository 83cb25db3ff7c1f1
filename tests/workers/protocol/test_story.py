"""Notes of a host, and the sentences made from them."""

import weakref

import pytest

from dgs.model.events import EventBatch
from dgs.model.impl_tags import ImplTagSet
from dgs.model.order import END, OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.plan import Plan, PlanNode
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.protocol.lanes import Lanes
from dgs.workers.protocol.messages import (
    EpochClosed,
    Events,
    ForkedState,
    Frame,
    Frontiers,
    JoinAnswer,
    JoinRequest,
    Prepare,
    Prepared,
    Skipped,
    Snapshot,
)
from dgs.workers.protocol.story import MOST_MESSAGES, MOST_NOTES, Story
from dgs.workers.protocol.story_words import MOST_NAMES, as_lines, entries_of
from tests.programs import BARRIER, VALUE, EventWindow

LEAVES = tuple(PlanNode(f"w{i}", ImplTagSet.of({f"v{i}": TagSet.of(VALUE(i))})) for i in (1, 2))
LANES = Lanes(
    Plan(PlanNode("w0", ImplTagSet.of(b=TagSet.of(BARRIER)), children=LEAVES)), EventWindow().dependence
)
LANE_OF = {lane.stream: lane.id for lane in LANES.all}


def events(stream, *ts):
    return EventBatch.of(stream, rank=0, tags=[Tag("n")], ts=ts, payload=[None] * len(ts))


@pytest.fixture
def story():
    return Story(0, LANES)


def texts(story):
    return [entry.text for entry in entries_of(story.log)]


def test_every_message_has_its_sentence(story):
    for worker, message in (
        ("w1", Events(LANE_OF["v1"], events("v1", 10, 12, 15))),
        ("w1", JoinRequest(3, LANE_OF["b"], events("b", 20))),
        ("w1", JoinRequest(4, LANE_OF["b"], events("b", 30, 40))),
        ("w1", JoinRequest(6, None, None, epoch=2)),
        ("w0", JoinAnswer("w1", 4, ["one", "another"], {})),
        ("w1", ForkedState("part")),
        ("w1", Frontiers(((0, END),))),
        ("w1", Prepare(LANE_OF["b"], OrderKey(50, 0, 0))),
        ("w0", Prepared("w1", None, END)),
    ):
        story.takes(worker, message)
    assert texts(story) == [
        "w1 takes 3 events of 'v1' from 10 to 15",
        "w1 takes request 3, for the state before 1 event of 'b' at 20",
        "w1 takes requests 4 to 5, for the state before 2 events of 'b' from 30 to 40",
        "w1 takes request 6, for the state at the end of epoch 2",
        "w0 takes the answer of w1 to requests 4 to 5",
        "w1 takes its part of the state",
        "w1 is asked to prepare the event of 'b' at 50",
        "w0 hears that w1 is prepared for the end of all streams",
    ]


def test_every_effect_has_its_sentence(story):
    made = OutputBatch.of("b", rank=0, tags=[Tag("n")], ts=[7, 7], seq=[0, 0], index=[0, 1], values=[1, 2])
    letter = DeadLetter("v1", 9, 0, "n", None, None, "ValueError", "update", "w1")
    for effect in (
        made,
        EpochClosed(3),
        Snapshot("state", {}, is_final=False, epoch=3),
        Skipped(events("v1", 9), letter),
    ):
        story.gives("w1", effect)
    assert texts(story) == [
        "w1 makes 2 outputs for events of 'b' at 7",
        "w1 closes epoch 3",
        "w1 shows the whole state at the end of epoch 3",
        "w1 leaves out the event of 'v1' at 9",
    ]


def test_readings_and_frames_have_their_sentences(story):
    messages = (
        ("w1", ForkedState("part")),
        ("w2", JoinAnswer("w3", 1, ["state"], {})),
        ("w1", Frontiers(((0, END),))),
    )
    frame = Frame(1, 1, 8, messages, END, 0)
    story.reads("values", 5, OrderKey(12, 0, 0))
    story.reads("values", 0, END)
    story.receives(frame)
    story.sends(2, frame)
    assert texts(story) == [
        "reads 5 events of source 'values', which has come to 12",
        "reads 0 events of source 'values', which has ended",
        "receives frame 8 of host 1, with 3 messages",
        "sends frame 8 to host 2: for w1, its part of the state; for w2, the answer of w3 to request 1; for w1, how far 1 lane is",
    ]
    assert entries_of(story.log)[-1].workers == ("w1", "w2", "w3")


def test_long_frame_is_cut_short(story):
    story.sends(1, Frame(0, 1, 1, (("w1", ForkedState("part")),) * (MOST_MESSAGES + 2), END, 0))
    assert texts(story)[0].endswith("for w1, its part of the state; and 2 more")


def test_round_of_messages_is_one_note(story):
    request = JoinRequest(3, None, None, epoch=1)
    for child in ("w1", "w2"):
        story.takes(child, request)
    for child in ("w2", "w1"):
        story.takes("w0", JoinAnswer(child, 3, ["state"], {}))
    for child in ("w1", "w2"):
        story.takes(child, ForkedState("part"))
    assert texts(story) == [
        "w1 and w2 take request 3, for the state at the end of epoch 1",
        "w0 takes the answers of w2 and w1 to request 3",
        "w1 and w2 take their parts of the state",
    ]
    assert [entry.workers for entry in entries_of(story.log)] == [
        ("w1", "w2"),
        ("w2", "w1", "w0"),
        ("w1", "w2"),
    ]


@pytest.mark.parametrize("between", ["note", "time"])
def test_round_ends_with_another_note_and_with_the_step(story, between):
    story.takes("w0", JoinAnswer("w1", 3, ["state"], {}))
    if between == "note":
        story.gives("w2", EpochClosed(1))
    else:
        story.tick(1.0)
    story.takes("w0", JoinAnswer("w2", 3, ["state"], {}))
    assert texts(story)[-1] == "w0 takes the answer of w2 to request 3"


def test_answers_to_another_request_or_parent_are_another_round(story):
    for parent, child, number in (("w0", "w1", 3), ("w0", "w1", 4), ("w9", "w5", 4)):
        story.takes(parent, JoinAnswer(child, number, ["state"], {}))
    assert len(texts(story)) == 3


def test_many_workers_are_named_up_to_a_bound_and_kept_in_the_entry(story):
    for number in range(MOST_NAMES + 3):
        story.takes(f"w{number}", ForkedState("part"))
    (entry,) = entries_of(story.log)
    assert entry.text.startswith("w0, w1, ")
    assert "and 3 more take" in entry.text
    assert len(entry.workers) == MOST_NAMES + 3


def test_story_is_bounded(story):
    for number in range(MOST_NOTES + 5):
        story.gives("w1", EpochClosed(number))
    assert len(story.log) == MOST_NOTES
    assert texts(story)[0] == "w1 closes epoch 5"


def test_story_holds_on_to_no_state_and_no_events(story):
    class State:
        pass

    state, batch = State(), events("v1", 1, 2)
    held = [weakref.ref(state), weakref.ref(batch.ts)]
    for message in (
        ForkedState(state),
        JoinAnswer("w1", 1, [state], {}),
        Events(0, batch),
        ForkedState(None),
    ):
        story.takes("w1", message)
    story.sends(1, Frame(0, 1, 1, (("w1", ForkedState(state)), ("w1", Events(0, batch))), END, 0))
    del state, batch, message
    assert [ref() for ref in held] == [None, None]


def test_lines_say_when_where_and_which_generation():
    log = Story(None).log
    driver, host = Story(None, generation=1, log=log), Story(0, LANES, generation=2, log=log)
    driver.says("commits epoch 1")
    host.tick(4.0)
    host.says("fails", "w1")
    assert list(as_lines(entries_of(log), when=lambda time: f"{time:g}")) == [
        "0  driver  commits epoch 1",
        "generation 2:",
        "4  host 0  fails",
    ]
    assert entries_of(log)[1].workers == ("w1",)
