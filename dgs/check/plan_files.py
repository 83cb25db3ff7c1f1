"""Checking a plan file: its plan is valid and covers the streams, and payloads and keys come from the input."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from dgs import codec
from dgs.check.checking import of_finding
from dgs.check.drawing.sample_tags import known_kinds
from dgs.check.flows import flow_results
from dgs.check.flows.flow_elsewhere import Home
from dgs.check.laws import Finding
from dgs.check.options import Options
from dgs.check.relation import relation_finding
from dgs.check.report import LawResult
from dgs.errors import CodecError, InvalidPlanError, RunError, UserCodeError
from dgs.model import columns
from dgs.model.program import Program

if TYPE_CHECKING:
    from dgs.api.preparing import Request
    from dgs.model.tags import Tag

MOST_ROWS = 400
"""The number of rows to read of each stream."""
MOST_PAYLOADS = 30
"""The number of different payloads of a kind to use, the smallest ones."""

NAME = "plan"
WORDS = "the plan is valid (V1, V2) and covers every tag of every stream"


def from_plan(
    path: str | os.PathLike[str], options: Options, memory: Mapping[str, Any] | None = None
) -> tuple[Program | None, Options, list[LawResult]]:
    """Return the program of a plan file, the options with samples of its input, and the results for its flow or query and for the plan.

    There is no program if a step of the flow breaks a law, or a rule changes the answer of the query.

    Raises any InvalidError except InvalidPlanError.
    """
    from dgs.api import preparing
    from dgs.job.loading import load_flow, load_program
    from dgs.job.queries.query_programs import REF, QueryData

    request = preparing.from_file(path, {}, memory=memory)
    config = request.settings.config
    before = []
    if config.flow is not None:
        flow = load_flow(config.program, request.base_dir)
        home = Home(config.program.ref, config.program.args, request.base_dir)
        before = flow_results(flow, options, _rows_of(request), home)
        if any(one.is_broken for one in before):  # the compiled program would only have the same mistake
            return None, options, before
    if config.program.ref == REF:
        from dgs.check.queries import rule_results, with_rounding

        options = with_rounding(options)

        before = rule_results(QueryData(**config.program.args).explanation().rewritten.steps, options)
        if any(one.is_broken for one in before):
            return None, options, before
    program = request.program or load_program(config.program, request.base_dir)
    if relation_finding(program) is not None:
        return program, options, before
    return (
        program,
        _with_samples(request, program, options),
        [*before, of_finding(NAME, WORDS, _plan_finding(request))],
    )


def _rows_of(request: Request) -> dict[str, list[tuple[int, Any]]]:
    """Return the first rows of each stream of a flow, (ts, value). A row that cannot be read ends its stream here."""
    from dgs.api.preparing import context_of
    from dgs.workers.sources.opening import open_rows

    context = context_of(request, Program())
    found: dict[str, list[tuple[int, Any]]] = {}
    for stream in (one for one in request.settings.config.streams if one.source.kind != "ticks"):
        arrivals = open_rows(stream, context, MOST_ROWS)
        with closing(arrivals), suppress(RunError, UserCodeError):
            rows = (row for part in arrivals for row in zip(part.ts.tolist(), _payloads(part), strict=True))
            found[stream.id] = sorted(islice(rows, MOST_ROWS), key=lambda row: row[0])
    return found


def _plan_finding(request: Request) -> Finding | None:
    """Make or read the plan, and check it against the streams."""
    from dgs.api import preparing

    try:
        preparing.prepare(request)
    except InvalidPlanError as error:
        found = [str(one) for one in error.violations]
        return Finding(
            f"the plan breaks {len(found)} rule{'s' if len(found) > 1 else ''}", differences=tuple(found)
        )
    return None


def _with_samples(request: Request, program: Program, options: Options) -> Options:
    """Return the options with payloads, keys and streams by kind from the first rows of every stream."""
    payloads: dict[str, dict[bytes, Any]] = {}
    keys: dict[str, dict[Any, None]] = {name: {} for name in known_kinds(program)}
    streams: dict[str, dict[str, None]] = {}
    for stream, tag, payload in _first_rows(request, program):
        with suppress(CodecError):
            payloads.setdefault(tag.kind, {})[codec.encode(payload)] = payload
        keys.setdefault(tag.kind, {})[tag.key] = None
        streams.setdefault(tag.kind, {})[stream] = None
    return replace(
        options,
        strategies={kind: _smallest(found) for kind, found in payloads.items()} | dict(options.strategies),
        keys={kind: list(found) for kind, found in keys.items()} | dict(options.keys),
        streams={kind: tuple(found) for kind, found in streams.items()},
    )


def _smallest(found: Mapping[bytes, Any]) -> list[Any]:
    return [found[data] for data in sorted(found, key=lambda data: (len(data), data))[:MOST_PAYLOADS]]


def _first_rows(request: Request, program: Program) -> Iterator[tuple[str, Tag, Any]]:
    """Yield stream, tag and payload of the first rows of every stream. A row that cannot be read ends its stream here."""
    from dgs.api.preparing import context_of
    from dgs.workers.sources.opening import open_arrivals

    context = context_of(request, program)
    for stream in request.settings.config.streams:
        arrivals = open_arrivals(stream, context, MOST_ROWS).arrivals
        with closing(arrivals), suppress(RunError, UserCodeError):
            rows = ((stream.id, tag, payload) for part in arrivals for tag, payload in _rows(part))
            yield from islice(rows, MOST_ROWS)


def _rows(part: Any) -> Iterator[tuple[Tag, Any]]:
    count = min(len(part), MOST_ROWS)
    codes = [0] * count if part.codes is None else part.codes[:count].tolist()
    return zip(map(part.tags.__getitem__, codes), _payloads(part)[:count], strict=True)


def _payloads(part: Any) -> list[Any]:
    return [None] * len(part) if part.payload is None else columns.to_list(part.payload)
