"""High-water marks: every output is accepted once, despite repeats and other dealings of its stream."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.workers.sinks.marks import Marks

BLOCK = 2
TAGS = (Tag("a"), Tag("b", 1), Tag("b", 2), Tag("b", "1"), Tag("b", True))


def batch(rows, stream):
    """Return outputs, given as (seq, code, index). The ts moves every third row, so there are ties."""
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return OutputBatch.of(
        stream, rank=4, tags=TAGS, ts=np.array(columns[0], dtype=int) // 3, seq=columns[0], codes=columns[1],
        index=columns[2], values=list(rows),
    )  # fmt: skip


@st.composite
def runs(draw):
    """Draw all outputs of a stream, and generations: the number of splits and how far each tag and split gets."""
    tags = draw(st.lists(st.integers(0, len(TAGS) - 1), max_size=14))
    outputs = [
        (seq, code, index) for seq, code in enumerate(tags) for index in range(draw(st.integers(0, 2)))
    ]
    generations = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2**16)), max_size=4))
    return outputs, generations


@given(runs())
def test_every_output_is_accepted_once_under_any_dealing(run):
    outputs, generations = run
    marks, accepted = Marks(block=BLOCK), []

    def send(splits, is_sent):
        """Send the outputs of every tag and split in order, as far as that lane gets, in batches of one lane or of many."""
        for split in range(splits):
            stream = "s" if splits == 1 else f"s/{split}"
            mine = [one for one in outputs if one[0] // BLOCK % splits == split]
            rows = [one for one in mine if is_sent(one, mine, splits)]
            for some in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                accepted.extend(marks.accept(batch(some, stream), splits).to_list())

    for splits, chance in generations:

        def gets_there(one, mine, splits, chance=chance):
            lane = [other for other in mine if other[1] == one[1]]
            far = (chance >> (one[1] * 3 + one[0] // BLOCK % splits)) % (len(lane) + 1)
            return lane.index(one) < far

        send(splits, gets_there)
        assert len(set(accepted)) == len(accepted)
    send(2, lambda *_: True)
    assert sorted(accepted) == outputs


def test_keys_that_only_equal_each_other_have_marks_of_their_own():
    marks = Marks()
    for code in range(1, len(TAGS)):
        assert marks.accept(batch([(5, code, 0)], "s"), 1).to_list() == [(5, code, 0)]


def test_streams_have_marks_of_their_own():
    marks = Marks()
    for stream in ("s", "t"):
        assert len(marks.accept(batch([(5, 0, 0)], stream), 1)) == 1


def test_repeat_of_some_outputs_of_an_event_is_recognised_by_index():
    marks = Marks()
    marks.accept(batch([(5, 0, 0), (5, 0, 1)], "s"), 1)
    assert marks.accept(batch([(5, 0, 1), (5, 0, 2)], "s"), 1).to_list() == [(5, 0, 2)]
