"""Frames as bytes, by position: one is sent per synchronisation, so names of classes and fields would dominate.

The codec encodes the contents of messages (states, keys, events). The frame around them has its own short form, which is checked
as strictly: an unknown kind of message, a missing part or a part of a wrong type is a CodecError.

>>> from dgs.model.order import BEGIN
>>> from dgs.workers.protocol.messages import ForkedState
>>> data = encoded(Frame(0, 0, 1, (("w1", ForkedState((7, 40))),), lowest_frontier=BEGIN, load=0))
>>> len(data), decoded(data, 0).messages
(28, (('w1', ForkedState(state=(7, 40))),))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from dgs import codec
from dgs.codec.trees import in_order
from dgs.errors import CodecError
from dgs.model.events import EventBatch
from dgs.model.order import OrderKey
from dgs.workers.observing.figures import PairFigures, Way
from dgs.workers.protocol.lanes import Lanes
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

EVENTS, FRONTIERS, REQUEST, ANSWER, FORKED_STATE, PREPARE, PREPARED = range(7)

Packed = TypeVar("Packed")

MESSAGES = 3
"""The place of the messages in the list that is a frame."""

_INTS = {int}


def encoded(frame: Frame) -> bytes:
    """Return the bytes of a frame. Raises CodecError, which names the type that the codec does not carry."""
    return _named(frame, lambda: codec.encode_as(_to_frame, frame))


def encoded_with_sizes(frame: Frame) -> tuple[bytes, list[int]]:
    """Return the bytes of a frame, and how many of them are each message's: all of them if there is one, or none.

    The bytes around several messages are the first one's, so the sizes add up to the bytes of the frame. Raises CodecError.
    """
    if len(frame.messages) <= 1:  # nearly always
        data = encoded(frame)
        return data, [len(data)]
    data, sizes = _named(frame, lambda: codec.encode_with_sizes(_to_frame, frame, at=MESSAGES))
    sizes[0] += len(data) - sum(sizes)
    return data, sizes


def _named(frame: Frame, packing: Callable[[], Packed]) -> Packed:
    """Return the result of `packing`. Raises CodecError, which names the message that the codec does not carry and its worker."""
    try:
        return packing()
    except CodecError as error:
        for target, message in frame.messages:
            try:
                codec.encode_as(lambda one: _TO[type(one)]("", one), message)
            except CodecError:
                what = "a payload" if isinstance(message, Events) else "a state"
                problem = f"{what} cannot be sent to worker {target}, which is on another host: {error}"
                raise CodecError(problem=problem) from error
        raise


def decoded(data: bytes | memoryview, sender: int) -> Frame:
    """Return the frame in bytes from a host. Raises CodecError if they are not a frame of that host."""
    content = codec.decode(data)
    try:
        frame = _from_frame(content)
    except (TypeError, ValueError, KeyError) as error:
        raise CodecError(problem=f"{len(data)} bytes from host {sender} are not a frame: {error}") from error
    if frame.sender != sender:
        raise CodecError(problem=f"{len(data)} bytes from host {sender} are not a frame of that host")
    return frame


def _to_frame(frame: Frame) -> list[Any]:
    messages = [_TO[type(message)](target, message) for target, message in frame.messages]
    lowest = _to_key(frame.lowest_frontier)
    return [frame.sender, frame.generation, frame.sequence, messages, lowest, frame.load]


def _from_frame(content: Any) -> Frame:
    sender, generation, sequence, messages, lowest, load = _of(list, content)
    if {type(sender), type(generation), type(sequence), type(load)} != _INTS:
        raise TypeError("the numbers of a frame are integers")
    found = tuple([(_of(str, target), _FROM[code](*parts)) for target, code, *parts in _of(list, messages)])
    return Frame(sender, generation, sequence, found, _from_key(lowest), load)


def _of(kind: type, part: Any) -> Any:
    """Return a part of a frame if it has the right type, else raise TypeError."""
    if type(part) is not kind:
        raise TypeError(f"{type(part).__name__} where {kind.__name__} belongs")
    return part


def _to_key(key: OrderKey) -> list[int]:
    ts, rank, seq, path = key
    return [ts, rank, seq, *path] if path else [ts, rank, seq]


def _from_key(content: Any) -> OrderKey:
    if type(content) is not list or set(map(type, content)) != _INTS:
        raise TypeError("the parts of an order key are integers")
    if len(content) == 3:  # noqa: PLR2004 - the parts of a key without a path, as nearly all are
        return OrderKey(*content)
    ts, rank, seq, *path = content
    return OrderKey(ts, rank, seq, tuple(path))


def _to_keys(keys: Iterable[tuple[int, OrderKey]]) -> list[Any]:
    """Return lanes and keys as one flat list."""
    return [part for lane, key in keys for part in (lane, _to_key(key))]


def _from_keys(content: Any) -> Iterator[tuple[int, OrderKey]]:
    lanes = _of(list, content)[::2]
    if not set(map(type, lanes)) <= _INTS:
        raise TypeError("lanes are integers")
    return zip(lanes, map(_from_key, content[1::2]), strict=True)


def _from_lane(lane: Any) -> int | None:
    return None if lane is None else int(_of(int, lane))


def _from_events(lane: Any, batch: Any) -> Events:
    return Events(_of(int, lane), _of(EventBatch, batch))


def _to_frontiers(target: str, message: Frontiers) -> list[Any]:
    return [target, FRONTIERS, _to_keys(message.by_lane)]


def _from_frontiers(frontiers: Any) -> Frontiers:
    return Frontiers(tuple(_from_keys(frontiers)))


def _to_request(target: str, message: JoinRequest) -> list[Any]:
    keys = None if message.keys is None else in_order(message.keys)
    return [target, REQUEST, message.number, message.lane, keys, message.is_final, message.epoch]


def _from_request(number: Any, lane: Any, keys: Any, is_final: Any, epoch: Any) -> JoinRequest:
    if lane is not None or keys is not None:
        _of(int, lane)
        _of(EventBatch, keys)
    return JoinRequest(_of(int, number), lane, keys, _of(bool, is_final), _of(int, epoch))


def _to_answer(target: str, message: JoinAnswer) -> list[Any]:
    positions = _to_keys(message.positions.items())
    return [target, ANSWER, message.child, message.number, in_order(list(message.states)), positions]


def _from_answer(child: Any, number: Any, states: Any, positions: Any) -> JoinAnswer:
    found = dict(_from_keys(positions))
    return JoinAnswer(_of(str, child), _of(int, number), _of(list, states), found)


_TO: Mapping[type[Message], Callable[[str, Any], list[Any]]] = {
    Events: lambda target, message: [target, EVENTS, message.lane, in_order(message.batch)],
    Frontiers: _to_frontiers,
    JoinRequest: _to_request,
    JoinAnswer: _to_answer,
    ForkedState: lambda target, message: [target, FORKED_STATE, in_order(message.state)],
    Prepare: lambda target, message: [target, PREPARE, message.lane, _to_key(message.key)],
    Prepared: lambda target, message: [target, PREPARED, message.child, message.lane, _to_key(message.key)],
}

_FROM: Mapping[int, Callable[..., Message]] = {
    EVENTS: _from_events,
    FRONTIERS: _from_frontiers,
    REQUEST: _from_request,
    ANSWER: _from_answer,
    FORKED_STATE: ForkedState,
    PREPARE: lambda lane, key: Prepare(_from_lane(lane), _from_key(key)),
    PREPARED: lambda child, lane, key: Prepared(_of(str, child), _from_lane(lane), _from_key(key)),
}


class NetworkLoad:
    """Counts the frames that one host sends, and their bytes: those of the frames, without what sockets add.

    `pairs`: by the host that gets them. `sent`: by edge and direction. An edge is named by its child. `down` is what a parent sends, `up` what the
    child answers, and `input` the events and frontiers of the child's own lanes, from the host that reads their stream. Frames without
    messages, with news of a host for all others, are `news`.

    >>> from dgs.model.dependence import Dependence
    >>> from dgs.model.impl_tags import ImplTagSet
    >>> from dgs.model.order import BEGIN
    >>> from dgs.planner.plan import Plan, PlanNode
    >>> from dgs.workers.protocol.messages import ForkedState
    >>> load = NetworkLoad(Lanes(Plan(PlanNode("w0", ImplTagSet(), children=(PlanNode("w1", ImplTagSet()),))), Dependence()))
    >>> load.note(1, Frame(0, 0, 1, (("w1", ForkedState(7)),), BEGIN, 0), [21])
    >>> load.note(1, Frame(0, 0, 2, (), BEGIN, 0), [18])
    >>> load.pairs, load.sent
    ({1: PairFigures(frames=2, bytes=39)}, {('w1', 'down'): 21, ('', 'news'): 18})
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.pairs: dict[int, PairFigures] = {}
        self.sent: dict[tuple[str, Way], int] = {}

    def note(self, target: int, frame: Frame, sizes: Sequence[int]) -> None:
        """Count a frame for another host. `sizes`: see `encoded_with_sizes`."""
        pair = self.pairs.get(target, PairFigures())
        self.pairs[target] = PairFigures(pair.frames + 1, pair.bytes + sum(sizes))
        edges = [self._edge(*message) for message in frame.messages] or [("", "news")]
        for edge, size in zip(edges, sizes, strict=True):
            self.sent[edge] = self.sent.get(edge, 0) + size

    @property
    def frames(self) -> int:
        """The frames to all hosts."""
        return sum(pair.frames for pair in self.pairs.values())

    def _edge(self, target: str, message: Message) -> tuple[str, Way]:
        if isinstance(message, JoinAnswer | Prepared):
            return message.child, "up"
        if isinstance(message, Events):
            return target, "input"
        # frontiers of lanes that the parent owns, or above it, come from the parent
        if isinstance(message, Frontiers):
            first = next((lane for lane, _ in message.by_lane), None)
            is_own = first is not None and self._lanes.all[first].owner == target
            return target, "input" if is_own else "down"
        return target, "down"
