"""Frames as bytes: they read back unchanged, and other bytes are refused."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs import Tag, codec
from dgs.errors import CodecError
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN, END, OrderKey
from dgs.workers.protocol.messages import (
    Events,
    ForkedState,
    Frame,
    Frontiers,
    JoinAnswer,
    JoinRequest,
    Message,
    Prepare,
    Prepared,
)
from dgs.workers.transport.frames import decoded, encoded, encoded_with_sizes

INTS = st.integers(0, 2**40)
KEYS = st.one_of(
    st.sampled_from([BEGIN, END]),
    st.builds(OrderKey, st.integers(-(2**63), 2**63 - 1), INTS, INTS, st.lists(INTS, max_size=2).map(tuple)),
)
STATES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.tuples(inner, inner) | st.lists(inner, max_size=10) | st.frozensets(st.integers()),
    max_leaves=5,
)
BATCHES = st.lists(st.integers(0, 99), min_size=1, max_size=4).map(
    lambda ts: EventBatch.of("s", rank=1, tags=[Tag("a", 1)], ts=sorted(ts))
)
MESSAGES = st.one_of(
    st.builds(Events, INTS, BATCHES),
    st.builds(Frontiers, st.lists(st.tuples(INTS, KEYS), max_size=3).map(tuple)),
    st.builds(JoinRequest, INTS, INTS, BATCHES),
    st.builds(JoinRequest, INTS, st.none(), st.none(), st.booleans(), INTS),
    st.builds(JoinAnswer, st.text(), INTS, st.lists(STATES, max_size=9), st.dictionaries(INTS, KEYS)),
    st.builds(ForkedState, STATES),
    st.builds(Prepare, st.none() | INTS, KEYS),
    st.builds(Prepared, st.text(), st.none() | INTS, KEYS),
)
FRAMES = st.builds(
    Frame,
    INTS,
    INTS,
    INTS,
    st.lists(st.tuples(st.text(max_size=4), MESSAGES), max_size=3).map(tuple),
    KEYS,
    INTS,
)


@given(FRAMES)
def test_a_frame_comes_back_as_it_was(frame):
    back = decoded(encoded(frame), frame.sender)
    assert encoded(back) == encoded(frame)
    assert parts(back) == parts(frame)


def parts(value):
    """Return a value with its dataclasses and arrays taken apart, with their types."""
    if isinstance(value, (*get_args(Message), Frame)):
        return [type(value), *(parts(getattr(value, field.name)) for field in fields(value))]
    if isinstance(value, EventBatch):
        return [value.stream, value.rank, value.tags, value.ts.tolist(), list(value.seq)]
    return [type(value), *map(parts, value)] if isinstance(value, tuple) else (type(value), value)


@given(FRAMES, st.data())
def test_bytes_that_were_changed_are_a_frame_or_an_error(frame, data):
    sent = bytearray(encoded(frame))
    where = data.draw(st.integers(0, len(sent) - 1))
    sent[where] = data.draw(st.integers(0, 255))
    try:
        decoded(bytes(sent), frame.sender)
    except CodecError:
        return


GOOD = [1, 0, 7, [["w", 4, None]], [1, 2, 3], 5]


def changed(*path, to):
    """Return a good frame's content with one part replaced."""
    content = [*GOOD[:3], [list(GOOD[3][0])], list(GOOD[4]), GOOD[5]]
    part = content
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = to
    return content


def test_the_content_that_the_bad_ones_are_made_of_is_good():
    assert decoded(codec.encode(GOOD), 1) == Frame(1, 0, 7, (("w", ForkedState(None)),), OrderKey(1, 2, 3), 5)


@pytest.mark.parametrize(
    "content",
    [
        None,
        7,
        {},
        GOOD[:-1],
        [*GOOD, 1],
        changed(0, to=True),
        changed(1, to=None),
        changed(2, to=7.0),
        changed(3, to=5),
        changed(3, 0, to=5),
        changed(3, 0, to=["w"]),
        changed(3, 0, 0, to=5),
        changed(3, 0, 1, to=99),
        changed(3, 0, 1, to=[]),
        changed(3, 0, to=["w", 4]),
        changed(3, 0, to=["w", 4, 1, 2]),
        changed(3, 0, to=["w", 0, 1, "no batch"]),
        changed(3, 0, to=["w", 1, 5]),
        changed(3, 0, to=["w", 1, [[5]]]),
        changed(3, 0, to=["w", 2, 1, 1, None, False, 0]),
        changed(3, 0, to=["w", 2, 1, None, None, 1, 0]),
        changed(3, 0, to=["w", 3, "c", 1, None, []]),
        changed(3, 0, to=["w", 3, "c", 1, [], ["1", [1, 2, 3]]]),
        changed(3, 0, to=["w", 3, "c", 1, [], [1, [1, 2, 3], 2]]),
        changed(3, 0, to=["w", 3, "c", 1, [], [1, [1, True, 3]]]),
        changed(3, 0, to=["w", 3, "c", 1, [], [[1], [1, 2, 3]]]),
        changed(4, to=[1, 2]),
        changed(4, to=[1, 2, "3"]),
        changed(4, to=[1, 2, 3, None]),
        changed(5, to="5"),
    ],
)
def test_other_values_than_frames_are_errors(content):
    with pytest.raises(CodecError):
        decoded(codec.encode(content), 1)


def test_a_frame_of_another_sender_is_an_error():
    with pytest.raises(CodecError, match="from host 2"):
        decoded(codec.encode(GOOD), 2)


def test_the_error_of_a_state_that_the_codec_does_not_carry_names_its_type():
    with pytest.raises(CodecError, match=r"builtins\.object"):
        encoded(Frame(0, 0, 1, (("w", ForkedState(object())),), BEGIN, 0))


@given(FRAMES)
def test_sizes_of_messages_add_up_to_the_bytes_of_their_frame(frame):
    data, sizes = encoded_with_sizes(frame)
    assert data == encoded(frame)
    assert sum(sizes) == len(data)
    assert len(sizes) == max(1, len(frame.messages))


@given(st.lists(st.binary(max_size=300), min_size=2, max_size=4))
def test_a_longer_message_has_more_of_the_bytes_of_its_frame(states):
    frame = Frame(0, 0, 1, tuple(("w", ForkedState(state)) for state in states), BEGIN, 0)
    _, (_, *sizes) = encoded_with_sizes(frame)
    assert sizes == [len(codec.encode(["w", 4, state])) for state in states[1:]]
