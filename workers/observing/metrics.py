"""Metrics of a run for Prometheus: its newest figures in the OpenMetrics format, at one address for the whole run.

Labels are names from the plan file and its plan, never keys or times of events, so their number is bounded. With more than MOST_WORKERS
workers, the series are sums by host.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, get_args

from dgs.errors import MissingPackageError, ResourceError
from dgs.job.schema import MetricsConfig
from dgs.job.units import NANOSECONDS
from dgs.workers.observing.figures import Phase, RunFigures, StreamFigures, WorkerFigures

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MOST_WORKERS = 200
"""With more workers there is one series for each host instead of each worker."""

Clock = Callable[[], float]


class MetricsPortError(ResourceError):
    """The port for metrics cannot be used, most often because another run has it."""

    code = "DGS552"
    template = "metrics cannot be served at {host}:{port}: {problem}"
    fix = "Give each run a port of its own (`runtime.metrics.port`), or 0 for a free one"


@contextmanager
def serving(
    config: MetricsConfig | None, run: str, *, clock: Clock, say: Callable[[str], None] = lambda _: None
) -> Iterator[Callable[[RunFigures], None]]:
    """Serve metrics inside this context, at http://host:port/metrics, and give the function that takes new figures.

    Without `config` nothing is served. `run`: the id of the run. `clock`: seconds since 1970. `say` gets the address. Raises
    MetricsPortError, MissingPackageError.
    """
    if config is None:
        yield lambda _: None
        return
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError as error:
        raise MissingPackageError(feature="`runtime.metrics`", package="prometheus-client") from error
    collector, registry = RunCollector(run, clock), CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(config.port, config.host, registry=registry)
    except OSError as error:
        taken = "another process listens there"
        problem = taken if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise MetricsPortError(host=config.host, port=config.port, problem=problem) from None
    if config.token is not None:
        server.set_app(_with_token(server.get_app(), config.token))  # until now there are no figures
    say(f"metrics are at http://{config.host}:{server.server_port}/metrics")
    try:
        yield collector.take
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _with_token(app: Any, token: str) -> Callable[[Mapping[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """Return a WSGI application that answers as another one, but only requests with a token."""
    wanted = f"Bearer {token}".encode()

    def asked(environ: Mapping[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        given = str(environ.get("HTTP_AUTHORIZATION", "")).encode("latin-1", "replace")
        if not compare_digest(given, wanted):
            start("401 Unauthorized", [("WWW-Authenticate", "Bearer"), ("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = app(environ, start)
        return answer

    return asked


class RunCollector:
    """Makes metrics of the newest figures on request. Another thread may ask."""

    def __init__(self, run: str, clock: Clock) -> None:
        self._run, self._clock = run, clock
        self._figures = RunFigures(t=clock())

    def take(self, figures: RunFigures) -> None:
        """Take the newest figures."""
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are checked when they are collected."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        figures, now = self._figures, self._clock()
        known = _Families({"plan": figures.name, "run": self._run})
        _of_run(known, figures, now)
        for name, stream in figures.streams.items():
            _of_stream(known, figures, name, stream, now)
        for name, worker in _some_workers(figures.workers):
            _of_worker(known, figures, name, worker)
        for name, sink in figures.sinks.items():
            known.counter("dgs_sink_outputs", "Outputs that a sink has taken.", sink.outputs, sink=name)
            known.counter("dgs_sink_seconds", "Seconds spent in a sink.", sink.seconds, sink=name)
        for pair, sent in figures.pairs.items():
            of = dict(zip(("host", "to"), pair.split(">"), strict=True))
            known.counter("dgs_sent_bytes", "Bytes that a host has sent to another.", sent.bytes, **of)
        for number, host in figures.hosts.items():
            known.gauge("dgs_memory_bytes", "Memory of a host.", host.memory_bytes, host=str(number))
            known.gauge(
                "dgs_held_bytes", "Bytes of events that wait on a host.", host.held_bytes, host=str(number)
            )
        yield from known.all


def _of_run(known: _Families, figures: RunFigures, now: float) -> None:
    points = figures.checkpoints
    known.counter("dgs_events", "Events read, over all generations.", figures.events)
    known.counter("dgs_outputs", "Outputs made by this process.", figures.outputs)
    known.counter("dgs_skipped", "Events that on_error: skip left out.", figures.skipped)
    known.counter("dgs_restarts", "Generations that were lost.", figures.restarts)
    known.counter("dgs_plan_moves", "Moves to other plans.", len(figures.moves))
    known.counter("dgs_checkpoints", "Checkpoints committed.", points.committed)
    known.counter("dgs_checkpoint_failures", "Checkpoints that could not be committed.", points.failed)
    known.gauge("dgs_checkpoint_seconds", "Seconds that the last commit took.", points.last_seconds)
    known.gauge("dgs_checkpoint_bytes", "Bytes of the last committed state.", points.state_bytes)
    if points.at is not None:
        age = max(now - points.at, 0.0)
        known.gauge("dgs_checkpoint_age_seconds", "Seconds since the last commit.", age)
    known.gauge(
        "dgs_figures_age_seconds", "Seconds since the run last took figures.", max(now - figures.t, 0.0)
    )
    known.gauge("dgs_held_events", "Events that wait at workers.", figures.held_events)
    for phase in get_args(Phase):
        known.gauge(
            "dgs_phase", "1 for the phase that the run is in.", int(figures.phase == phase), phase=phase
        )


def _of_stream(known: _Families, figures: RunFigures, name: str, stream: StreamFigures, now: float) -> None:
    known.counter("dgs_stream_rows", "Rows read in this generation.", stream.rows, stream=name)
    known.counter(
        "dgs_stream_events", "Events given to workers in this generation.", stream.events, stream=name
    )
    known.counter("dgs_dropped", "Late events that were dropped.", stream.dropped, stream=name)
    known.counter("dgs_dead_lettered", "Events that were left out.", stream.dead_lettered, stream=name)
    if stream.frontier is not None and figures.unit != "none":
        reached = stream.frontier * NANOSECONDS[figures.unit] / 1e9
        known.gauge(
            "dgs_stream_frontier_seconds", "The time of events that is reached.", reached, stream=name
        )
    if stream.lag_seconds is not None:
        lag = stream.lag_seconds
        known.gauge("dgs_stream_lag_seconds", "How far the stream is behind the clock.", lag, stream=name)
    silent = 0.0 if stream.heard is None or stream.has_ended else max(now - stream.heard, 0.0)
    known.gauge(
        "dgs_stream_silent_seconds", "Seconds since the stream last brought something.", silent, stream=name
    )
    waits = [
        figures.t - worker.waits_for.since
        for worker in figures.workers.values()
        if worker.waits_for is not None and (worker.waits_for.kind, worker.waits_for.on) == ("stream", name)
    ]
    held = max(waits, default=0.0)
    known.gauge(
        "dgs_stream_holds_back_seconds", "Seconds that a worker has waited for the stream.", held, stream=name
    )


def _of_worker(known: _Families, figures: RunFigures, name: str, worker: WorkerFigures) -> None:
    wait, synchronised = worker.waits_for, worker.fork_seconds + worker.join_seconds
    known.counter("dgs_worker_events", "Events processed.", worker.events, worker=name)
    known.counter(
        "dgs_synchronisations", "Synchronisations taken part in.", worker.synchronisations, worker=name
    )
    known.counter("dgs_synchronisation_seconds", "Seconds in forks and joins.", synchronised, worker=name)
    for state in ("update", "fork", "join", "idle"):
        seconds = getattr(worker, f"{state}_seconds")
        known.counter("dgs_worker_seconds", "Seconds of a worker.", seconds, worker=name, state=state)
    if worker.is_compiled is not None:
        _of_compiled(known, name, worker)
    waiting = 0.0 if wait is None else max(figures.t - wait.since, 0.0)
    known.gauge(
        "dgs_worker_waiting", "Seconds that it has waited for what it waits for.", waiting, worker=name
    )


def _of_compiled(known: _Families, name: str, worker: WorkerFigures) -> None:
    for by, events in (("machine_code", worker.compiled_events), ("interpreter", worker.interpreted_events)):
        known.counter("dgs_folded_events", "Events folded.", events, worker=name, by=by)
    known.counter(
        "dgs_deviations", "Events that machine code left to the interpreter.", worker.deviations, worker=name
    )
    for source, loops in (("compiler", worker.loops_compiled), ("cache", worker.loops_cached)):
        known.counter("dgs_loops", "Loops of machine code made.", loops, worker=name, source=source)
    known.counter("dgs_compile_seconds", "Seconds of compiling.", worker.compile_seconds, worker=name)


def _some_workers(workers: Any) -> Iterator[tuple[str, WorkerFigures]]:
    """Yield the workers, or their sums by host if there are too many."""
    if len(workers) <= MOST_WORKERS:
        yield from workers.items()
        return
    for host in sorted({worker.host for worker in workers.values()}):
        mine = [worker for worker in workers.values() if worker.host == host]
        counts = (
            "events",
            "synchronisations",
            "update_seconds",
            "fork_seconds",
            "join_seconds",
            "idle_seconds",
            "compiled_events",
            "interpreted_events",
            "deviations",
            "loops_compiled",
            "loops_cached",
            "compile_seconds",
        )
        sums: dict[str, Any] = {name: sum(getattr(worker, name) for worker in mine) for name in counts}
        sums["is_compiled"] = mine[0].is_compiled
        yield f"all of host {host}", WorkerFigures(host, **sums)


class _Families:
    """Metrics by name, each with all its series. `labels`: of every series."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels
        self._found: dict[str, Any] = {}

    @property
    def all(self) -> Iterable[Any]:
        return self._found.values()

    def counter(self, name: str, about: str, value: float, **labels: str) -> None:
        """Add a series of a number that only grows; `_total` is added to its name."""
        from prometheus_client.core import CounterMetricFamily

        self._add(CounterMetricFamily, name, about, value, labels)

    def gauge(self, name: str, about: str, value: float, **labels: str) -> None:
        """Add a series of a number that goes up and down."""
        from prometheus_client.core import GaugeMetricFamily

        self._add(GaugeMetricFamily, name, about, value, labels)

    def _add(self, kind: Any, name: str, about: str, value: float, labels: dict[str, str]) -> None:
        whole = {**self._labels, **labels}
        if name not in self._found:
            self._found[name] = kind(name, about, labels=list(whole))
        self._found[name].add_metric(list(whole.values()), value)
