"""Streams given from Python, described as in a plan file.

>>> streams = {"values": [("value", 1, 10)], "barriers": [("barrier", 1, None)]}
>>> [stream["id"] for stream in described(Program(), streams)["streams"]]          # their order breaks ties
['values', 'barriers']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dgs.errors import UsageError
from dgs.errors.shortened import short_repr
from dgs.frames.frame_stream import UNITS, Stream, streams_by_name
from dgs.frames.tables import FrameKindError, MixedTimesError, is_table, of_table
from dgs.model.events import EventBatch
from dgs.model.order import Heartbeat
from dgs.model.program import Program
from dgs.model.tags import Tag

if TYPE_CHECKING:
    from dgs.job.schema import StreamConfig
    from dgs.job.settings import Settings

ITEM_LENGTH = 3


@dataclass(frozen=True, slots=True)
class Given:
    """A program given from Python with its streams; `kinds`: those of each stream, if its items are rows for the front of a flow."""

    program: Program
    streams: Mapping[str, Any] | None = None
    kinds: Mapping[str, list[Any]] | None = None


def of_python(job: Any, streams: Mapping[str, Any] | Iterable[Any] | None, call: str) -> Given:
    """Return the program of a job (a program, its class or a flow), and the kinds of its streams. `call`: the function, for errors.

    Raises UsageError for a job of another type, and FlowError.
    """
    named = None if streams is None else streams_by_name(streams)
    if isinstance(job, Program) or (isinstance(job, type) and issubclass(job, Program)):
        return Given(job() if isinstance(job, type) else job, named)
    if not hasattr(job, "check_streams"):
        advice = "; call its run()" if hasattr(job, "run") else ""
        given = f"the class {job.__name__}" if isinstance(job, type) else f"a {type(job).__name__}"
        raise UsageError(message=f"{call}, and not {given}{advice}")
    made = job.compiled()
    if named is None:
        return Given(made.running())
    job.check_streams(named)
    elements = {name: job.readable(name, stream) for name, stream in named.items()}
    found = made.streams(elements) if made.reads is None else made.rows(elements)
    return Given(made.running(), found, {name: made.tags_of(name) for name in found})


def gathered(streams: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    """Return every stream by its name in a form that can be read more than once; data frames as `Stream`."""
    return {name: _again(name, items) for name, items in streams_by_name(streams).items()}


def _again(name: str, items: Any) -> Any:
    if isinstance(items, (list, tuple, Stream, EventBatch)):
        return items
    if is_table(items):
        return Stream(of_table(items))
    if not isinstance(items, Iterable):
        problem = f"{short_repr(items)} has no items"
        raise FrameKindError(stream=name, problem=problem, advice="Give a list of them, or a data frame")
    return items if isinstance(items, Mapping) else list(items)


def described(
    program: Program, streams: Mapping[str, Any], kinds: Mapping[str, list[Any]] | None = None
) -> dict[str, Any]:
    """Return the plan file's data for a program over streams from Python. `kinds`: those of each stream (default: of its items).

    Raises FrameKindError, MixedTimesError.
    """
    unit = _unit(streams)
    return {
        "version": 1,
        "name": program.name.strip("_") or "program",
        **({} if unit is None else {"time": {"unit": unit}}),
        "program": {"ref": f"{type(program).__module__}:{type(program).__qualname__}"},
        "streams": [
            {"id": name, **_section(name, items, program, None if kinds is None else kinds[name])}
            for name, items in streams.items()
        ],
        "runtime": {"kind": "local"},
    }


def with_memory(
    settings: Settings, memory: Mapping[str, Any] | Iterable[Any]
) -> tuple[Settings, dict[str, Any]]:
    """Return the settings of a plan file, and the data of its `memory` streams as sources read it.

    What a frame says about its columns replaces what the file says.
    """
    data, config = gathered(memory), settings.config
    bound = config.model_copy(update={"streams": [_with_frame(stream, data) for stream in config.streams]})
    return replace(settings, bound=bound), readable(data)


def _with_frame(config: StreamConfig, memory: Mapping[str, Any]) -> StreamConfig:
    from dgs.job.schema import StreamConfig, TagConfig
    from dgs.job.schema_sources import memory_name

    frame = memory.get(memory_name(config.source))
    if config.source.kind != "memory" or not isinstance(frame, Stream):
        return config
    written = config.model_dump(exclude_unset=True)
    tags = written["tags"] if isinstance(config.tags, TagConfig) else {}
    said = {"tags": {**tags, **frame.tags}} if frame.tags else {}
    return StreamConfig.model_validate({**written, **frame.read(memory_name(config.source)), **said})


def readable(streams: Mapping[str, Any]) -> dict[str, Any]:
    """Return streams as `memory` sources read them: those of frames as one table of columns."""
    return {
        name: [dict(items.table)] if isinstance(items, Stream) else items for name, items in streams.items()
    }


def _section(name: str, items: Any, program: Program, kinds: list[Any] | None) -> dict[str, Any]:
    if isinstance(items, Stream) and kinds is None:
        return {"tags": items.tags_in(name, program), **items.read(name)}
    if isinstance(items, Stream):
        if items.tags:
            problem, advice = "a flow gives its elements no kinds and keys", "Leave out `kind` and `key`"
            raise FrameKindError(stream=name, problem=problem, advice=advice)
        return {"tags": kinds, **items.read(name)}
    return {"tags": _kinds(program, items) if kinds is None else kinds, "source": {"memory": name}}


def _unit(streams: Mapping[str, Any]) -> str | None:
    """Return the unit of a run over frames: nanoseconds for calendar times, else the finest unit given, None if none is given.

    Raises MixedTimesError if one stream has calendar times and another bare numbers.
    """
    frames = {name: one for name, one in streams.items() if isinstance(one, Stream) and len(one)}
    calendar = {name: one for name, one in frames.items() if one.is_calendar}
    bare = [name for name in frames if name not in calendar]
    if calendar and bare:
        column = frames[bare[0]].ts
        raise MixedTimesError(calendar=next(iter(calendar)), bare=bare[0], column=column)
    units = [one.unit or "ns" for one in calendar.values()]
    if all(one.unit is None for one in calendar.values()):
        return None
    return max(units, key=UNITS.index)


def _kinds(program: Program, items: Any) -> list[str]:
    """Return the kinds of the items. For tables of columns, which have no tags, return all kinds of the program."""
    found: dict[str, None] = {}
    for item in items if isinstance(items, (list, tuple)) else [items]:
        if isinstance(item, EventBatch):
            found.update((tag.kind, None) for tag in item.tags)
        elif isinstance(item, tuple) and not isinstance(item, Heartbeat) and len(item) >= ITEM_LENGTH:
            found[_kind(item[0])] = None
        elif not isinstance(item, tuple):
            found.update(dict.fromkeys(program.all_kinds()))
    return sorted(found)


def _kind(tag: Any) -> str:
    if isinstance(tag, Tag):
        return tag.kind
    name = tag[0] if isinstance(tag, tuple) and tag else tag
    return str(name) if isinstance(name, str) else short_repr(name)
