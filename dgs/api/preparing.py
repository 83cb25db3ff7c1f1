"""Preparing a run, from a plan file or a program with streams to a launch: everything is loaded and checked, nothing is started.

A plan file becomes a `Request` (read and validated), then `Prepared` (program loaded, plan made), and with directory and options a `Launch`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.errors import (
    AmbiguousTagError,
    MissingInputError,
    PlanFileError,
    ProgramError,
    UnknownColumnError,
    UsageError,
)
from dgs.job import private_files
from dgs.job.flow_streams import with_flow
from dgs.job.program_code import Code, code_of
from dgs.job.references import relocated, relocated_references
from dgs.job.run_directory import RunDirectory
from dgs.job.schema import FileSink, PlanFile, SinkConfig
from dgs.job.settings import Given, Settings, resolve
from dgs.model.declarations import check_declarations
from dgs.model.events import declared_stream
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.workers.observing.run_log import LogFormat

if TYPE_CHECKING:
    from dgs.api.costing import KnownCosts
    from dgs.model.impl_tags import ImplTagSet
    from dgs.model.order import OrderKey
    from dgs.planner.plan import Plan
    from dgs.planner.prediction.costs import Costs
    from dgs.planner.topology import Topology
    from dgs.workers.runtime.job import Job
    from dgs.workers.sources.contract import SourceContext


@dataclass(frozen=True)
class Request:
    """A job to run, with its settings resolved. `program`: None if the plan file names it.

    `plan_file`: None for streams from Python. `plan_digest`: of its content. `keeps_plan`: use the plan that is written there.
    """

    settings: Settings
    base_dir: Path
    program: Program | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    keeps_plan: bool = True
    plan_file: Path | None = None
    plan_digest: str | None = None

    @property
    def is_from_file(self) -> bool:
        """Whether the request is from a plan file that names the program."""
        return self.program is None

    @property
    def checkpoint_dir(self) -> Path | None:
        """The directory that the plan file names for checkpoints, None if it names none."""
        section = self.settings.config.checkpoint
        return None if section is None or section.dir is None else (self.base_dir / section.dir).resolve()


@dataclass(frozen=True)
class Prepared:
    """A request with its program loaded and its plan made and checked.

    `until`: the key at which `max_events` cuts the streams. `is_made`: the plan was made here, and not written by hand.
    `costs`: those by which it was chosen, if several plans were compared.
    """

    request: Request
    program: Program
    topology: Topology
    plan: Plan
    until: OrderKey | None = None
    max_events: int | None = None
    is_made: bool = True
    costs: KnownCosts | None = None

    @property
    def config(self) -> PlanFile:
        """The resolved plan file."""
        return self.request.settings.config

    @cached_property
    def code(self) -> Code:
        """The digests of the program's code, made on first use."""
        ref = self.config.program.ref if self.request.is_from_file else None
        return code_of(self.program, self.request.base_dir, ref)

    @property
    def why_one_worker(self) -> str | None:
        """The reason why the plan has one worker, None if it has several."""
        from dgs.planner.drawing.explain import why_one_worker

        bound = self.config.optimizer.max_leaves
        return why_one_worker(self.plan, self.program, self.topology, most_leaves=bound)

    @property
    def plan_data(self) -> dict[str, Any]:
        """The plan as the `plan:` section of a plan file."""
        from dgs.planner.plan_data import to_data

        streams = [name for config in self.config.streams for name in config.impl_streams]
        return to_data(self.plan, self.program, streams=streams)


@dataclass(frozen=True)
class Options:
    """Options of the run of a prepared job. `collect`: bring the outputs to the caller. `resumes`: go on from the last commit.

    `accepts_duplicates`: resume even without the record. `accepts_code_change`: resume even with other code of the program.
    `verify`: compare with the sequential program, floats with `tolerance`. `log_format`: of `run.log`.
    """

    collect: bool = False
    verify: bool = False
    tolerance: float | None = None
    resumes: bool = False
    accepts_duplicates: bool = False
    accepts_code_change: bool = False
    log_format: LogFormat = "text"


@dataclass(frozen=True)
class Launch:
    """A prepared job with the directory of its run (None: the run leaves no files) and its options."""

    prepared: Prepared
    directory: RunDirectory | None = None
    options: Options = Options()

    @cached_property
    def sinks(self) -> tuple[SinkConfig, ...]:
        """The sinks of the plan file; without any, JSON lines in the run directory."""
        sinks = self.prepared.config.sinks
        if sinks or self.directory is None:
            return tuple(sinks)
        return (SinkConfig(jsonl=FileSink(path=str(self.directory.outputs.absolute()))),)

    @property
    def checkpoint_dir(self) -> Path | None:
        """The directory of the checkpoints: the plan file's, else one in the run directory; None without either."""
        configured = self.prepared.request.checkpoint_dir
        if configured is not None or self.directory is None:
            return configured
        return (self.directory.path / "checkpoints").resolve()

    @property
    def _owner(self) -> Path:
        """The original plan file of the run, also if it runs the resolved one from the directory of an earlier run."""
        request = self.prepared.request
        if request.plan_file is None:
            return request.base_dir / self.prepared.config.name
        return RunDirectory(request.plan_file.parent).of or request.plan_file

    @cached_property
    def job(self) -> Job:
        """The job for a runtime."""
        from dgs.workers.runtime.job import Job

        prepared, directory, options = self.prepared, self.directory, self.options
        config, request = prepared.config, prepared.request
        return Job(
            program=prepared.program,
            plan=prepared.plan,
            streams=tuple(config.streams),
            base_dir=request.base_dir,
            owner=self._owner,
            output_dir=_nowhere() if directory is None else directory.path.absolute(),
            runtime=config.runtime if prepared.costs is None else prepared.costs.section(config.runtime),
            sinks=self.sinks,
            program_ref=config.program if request.is_from_file else None,
            unit=config.time.unit,
            memory=request.memory,
            collect=options.collect or options.verify,
            until=prepared.until,
            rates={stream.id: stream.rates for stream in prepared.topology.streams},
            events=prepared.topology.events,
            checkpoint=config.checkpoint,
            checkpoint_dir=self.checkpoint_dir,
            keeps_logs=options.verify or (config.checkpoint is not None and config.checkpoint.keep_logs),
            replan=None if directory is None or config.replan.mode == "off" else config.replan,
            resumes=options.resumes,
            accepts_duplicates=options.accepts_duplicates,
            control_dir=None if directory is None else directory.control.absolute(),
            on_error=config.on_error,
            delivery=config.delivery,
            spark=config.spark,
            umask=config.umask,
            name=config.name,
            log_format=options.log_format,
            observe=config.observe.if_on,
        )


def _nowhere() -> Path:
    """Return the place of Spark's files if a run leaves no directory: made only if needed, for this user alone."""
    return Path(tempfile.gettempdir()) / f"dgs-{os.geteuid()}"


def from_file(
    path: str | os.PathLike[str],
    given: Mapping[str, Given],
    *,
    memory: Mapping[str, Iterable[Any]] | Iterable[Any] | None = None,
    base_dir: Path | None = None,
) -> Request:
    """Return the request of a plan file with values given outside it.

    A given optimizer makes a new plan, and the file's own plan is ignored. `base_dir`: the start of relative paths if that is not
    the directory of the file; relative paths in the file are rewritten. Raises PlanFileError, UsageError.
    """
    from dgs.job.document import read

    document, plan_file = read(path, os.environ), Path(path).resolve()
    digest = document.digest
    if base_dir is not None:
        data = relocated(document.data, plan_file.parent, base_dir)
        found = relocated_references(document.references, document.data, data, plan_file.parent, base_dir)
        document = replace(document, data=data, references=found)
    settings = resolve(document, given, os.environ)
    private_files.allow(settings.config.umask)
    wants_new_plan = any(name.split(".")[0] == "optimizer" for name in given)
    if wants_new_plan and "plan" in given:
        raise UsageError(message="give a plan or an optimizer to make one, not both")
    at, data = base_dir or plan_file.parent, dict[str, Any]()
    if settings.declared.flow is not None:
        settings = replace(settings, bound=with_flow(settings.declared, at))
    if memory:
        from dgs.job.python_streams import with_memory

        settings, data = with_memory(settings, memory)
    if settings.declared.program.query is not None:
        from dgs.api.queries.stream_columns import bound_to_query

        settings = bound_to_query(settings, at, data)
    return Request(
        settings, at, memory=data, keeps_plan=not wants_new_plan, plan_file=plan_file, plan_digest=digest
    )


def from_program(
    program: Program,
    streams: Mapping[str, Any],
    given: Mapping[str, Given],
    *,
    kinds: Mapping[str, list[str]] | None = None,
) -> Request:
    """Return the request of a program over streams from Python. `kinds`: those of each stream, if its items are rows for a front."""
    from dgs.job.document import Document
    from dgs.job.python_streams import described, gathered, readable

    data = gathered(streams)
    document = Document("dgs.run", described(program, data, kinds), {}, {})
    settings = resolve(document, given, {})
    private_files.allow(settings.config.umask)
    return Request(settings, Path.cwd(), program=program, memory=readable(data))


def load(request: Request) -> Program:
    """Return the program of a request. Raises ProgramImportError, AsymmetricDependenceError."""
    from dgs.job.loading import load_program

    program = request.program or load_program(request.settings.config.program, request.base_dir)
    check_declarations(program)
    program.hold_at_most(request.settings.config.runtime.buffer_bytes)
    _ = program.dependence  # checks a functional dependence for symmetry, before planning
    return program


def prepare(request: Request, *, plan: Plan | None = None, max_events: int | None = None) -> Prepared:
    """Load the program, sample the input and make the plan. Raises any InvalidError before anything is started."""
    from dgs.planner.optimizers.by_name import hosts, machines, make_plan
    from dgs.planner.validity import check
    from dgs.workers.sinks.files.places import CONNECTED
    from dgs.workers.sources.first_events import cutoff
    from dgs.workers.sources.sampling import topology

    config, program = request.settings.config, load(request)
    context = context_of(request, program)
    if any(sink.kind in CONNECTED for sink in config.sinks):
        from dgs.workers.sinks.opening import Publisher

        # refuses classes that are not sinks, and missing packages
        Publisher(config.sinks, request.base_dir, program=program.name)
    if config.checkpoint is not None and config.checkpoint.custom is not None:
        from dgs.workers.checkpoints.custom_store import load_store

        load_store(config.checkpoint.custom, request.base_dir)  # refuses classes that are not stores
    with _placed(request):
        seen = replace(topology(config.streams, machines(config), context), hosts=hosts(config))
    _check_stamps(program, seen)
    if config.runtime.compile == "require":
        from dgs.compiled.preview import check_compiled
        from dgs.workers.sources.sampling import first_events

        check_compiled(program, first_events(config.streams, context))
    given = plan or _written_plan(request, program, seen.impl_tags())
    if given is not None:
        check(given, program, seen.impl_tags())
    costs: list[KnownCosts] = []

    def known() -> Costs:
        costs.append(costs_on(seen, request, program))
        return costs[0].costs

    made = given or make_plan(config, program, seen, costs=known)
    until = None if max_events is None else cutoff(config.streams, context, max_events)
    return Prepared(request, program, seen, made, until, max_events, given is None, next(iter(costs), None))


def _check_stamps(program: Program, seen: Topology) -> None:
    """Refuse to split a stream whose outputs have stamps, which are in the order of the whole stream. Raises ProgramError."""
    stamped = TagSet.of(*program.stamps)
    for stream in seen.streams:
        if "/" in stream.id and stream.tags & stamped:
            problem = f"it stamps outputs of stream {declared_stream(stream.id)!r}, so `split:` of that stream must be 1"
            raise ProgramError(program=program.name, problem=problem)


def costs_on(topology: Topology, request: Request, program: Program) -> KnownCosts:
    """Return the costs of a program. In a single process they decide little, and are not measured there."""
    from dgs.api.costing import known_costs, typical_costs

    config = request.settings.config
    if topology.hosts == 1:
        return typical_costs(program)
    named = config.program if request.is_from_file else None
    kinds = [sink.kind for sink in config.sinks] or ["jsonl" if request.is_from_file else "memory"]
    context, is_shared = context_of(request, program), config.runtime.kind == "ray"
    known = known_costs(context, config.streams, named, kinds, is_shared=is_shared)
    is_compiled = config.runtime.compile != "off"
    return known if is_compiled else replace(known, costs=replace(known.costs, compiled_kinds={}))


def context_of(request: Request, program: Program, log_dir: Path | None = None) -> SourceContext:
    """Return the context for the sources of a request. `log_dir`: see `SourceContext`."""
    from dgs.workers.sources.contract import SourceContext

    config = request.settings.config
    skips = config.on_error == "skip"
    return SourceContext(program, config.time.unit, request.base_dir, request.memory, log_dir, skips)


def replanned(prepared: Prepared, **options: Any) -> Prepared:
    """Return the same request with the plan for other optimizer options."""
    from dgs.planner.optimizers.by_name import make_plan

    made = make_plan(prepared.config, prepared.program, prepared.topology, **options)
    return replace(prepared, plan=made)


@contextmanager
def _placed(request: Request) -> Iterator[None]:
    """Add the line in the plan file to errors about tags that do not fit the program, and about names that the input does not have."""
    try:
        yield
    except PlanFileError as error:
        numbers = {stream.id: i for i, stream in enumerate(request.settings.declared.streams)}
        number = numbers.get(error.facts.get("stream", ""))
        if number is None or not request.is_from_file:
            raise
        origin = request.settings.origin(("streams", number, "tags"))
        raise PlanFileError(**{**error.facts, "where": f"{origin}: {error.where}"}) from None
    except (AmbiguousTagError, MissingInputError, UnknownColumnError) as error:
        settings = request.settings
        details = {config.id: config.source.details for config in settings.config.streams}.get(error.stream)
        # an error of a user's generator may name its own stream
        if details is None or not request.is_from_file:
            raise
        text = error.facts.get("column") or error.facts.get("text") or getattr(details, "path", "")
        at = settings.named_at(error.stream, str(text))
        raise type(error)(**{**error.facts, "at": f"{at}: "}) from None


def _written_plan(request: Request, program: Program, everything: ImplTagSet) -> Plan | None:
    from dgs.planner.plan_data import PlanSectionError, from_data

    data = request.settings.config.plan
    if data is None or not request.keeps_plan:
        return None
    try:
        return from_data(data, program, everything)
    except PlanSectionError as error:
        node = f"{error.node} ({request.settings.origin(('plan',))})"
        raise PlanSectionError(node=node, problem=error.problem) from None
