"""The streams of a plan file with `flow:`: each is bound to the parameter or the source of its name, and ticks are added.

The flow decides which events the elements of a stream become. So `tags:` may be left out, unless the flow ends in a program: then it says
which of the program's tags may come.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dgs.errors import PlanFileError
from dgs.errors.nearest import did_you_mean
from dgs.job.loading import load_flow
from dgs.job.schema import PlanFile, SourceConfig, StreamConfig, TagConfig, TagsConfig
from dgs.job.schema_sources import TicksSource

if TYPE_CHECKING:
    from dgs.flow import Flow
    from dgs.flow.clock import Every
    from dgs.flow.compiling import Compiled

TIMES = ("ms", "none")
"""The units of ts in which a flow may have durations as text, such as "10s"."""


def with_flow(config: PlanFile, base_dir: Path) -> PlanFile:
    """Return a plan file with the tags of its flow's streams, and the stream of ticks if the flow needs one.

    Raises ProgramImportError, FlowError, and PlanFileError for streams that do not fit the flow's parameters.
    """
    if config.flow is None:
        return config
    from dgs.pico.lowering import PicoFlow

    flow = load_flow(config.program, base_dir)
    own = [stream for stream in config.streams if stream.source.kind != "ticks"]
    if isinstance(flow, PicoFlow):
        own.sort(key=lambda stream: stream.id)  # names decide ties in the meaning of a pipeline
    for problem in _unfitting(flow, [stream.id for stream in own]):
        raise PlanFileError(where=f"flow {flow.name!r}", problem=problem)
    compiled = flow.compiled(classes=config.flow.classes)
    streams = [stream.model_copy(update={"tags": _tags(compiled, stream)}) for stream in own]
    if compiled.ticks:
        streams.insert(0, _ticks(flow, config, compiled.ticking))
    return config.model_copy(update={"streams": streams})


def _unfitting(flow: Flow, streams: list[str]) -> Iterator[str]:
    from dgs.pico.lowering import PicoFlow

    for name in streams:
        if name not in flow.streams:
            hint = did_you_mean(name, list(flow.streams)) or f"; it has {', '.join(flow.streams)}"
            yield f"stream {name!r} is no {flow.inlet} of it{hint}"
    for name in flow.streams:
        if name not in streams:
            yield f"its {flow.inlet} {name!r} has no stream: add one with `id: {name}` to `streams:`"
    if isinstance(flow, PicoFlow) and flow.sinks:
        path = flow.sinks[0]
        yield f"to_jsonl({path!r}) is for run() in a script: leave it out, and write `sinks: [{{jsonl: {{path: {path}}}}}]`"


def _tags(compiled: Compiled, stream: StreamConfig) -> TagsConfig:
    given = stream.tags if compiled.shape == "program" else None
    tags = compiled.tags_of(stream.id)
    return given or [tag if isinstance(tag, str) else TagConfig(**tag) for tag in tags]


def _ticks(flow: Flow, config: PlanFile, name: str) -> StreamConfig:
    """Return the section of the ticks of a flow: at the ends of its blocks if these are periods, else only at the end."""
    from dgs.flow.clock import Every

    clock, ticks = flow.clock, TicksSource()
    if isinstance(clock, Every):
        if config.time.unit not in TIMES and (text := next(_texts(flow, clock), None)):
            problem = f"its {text}, and ts is in {config.time.unit}: say `time: {{unit: ms}}`, or give the period as a number"
            raise PlanFileError(where=f"flow {flow.name!r}", problem=problem)
        ticks = TicksSource(every=clock.ticks, origin=clock.origin, start=clock.start)
    return StreamConfig(id=name, tags=["tick"], source=SourceConfig(ticks=ticks))


def _texts(flow: Flow, clock: Every) -> Iterator[str]:
    """Yield the clock and the windows whose lengths are texts, with a description."""
    from dgs.flow.panes import TimeWindow

    if isinstance(clock.period, str):
        yield f"clock is {clock}"
    for node in flow.graph.nodes:
        over = getattr(node.step, "over", None)
        if isinstance(over, TimeWindow):
            yield from (f"window is of {part}" for part in (over.size, over.slide) if isinstance(part, str))
