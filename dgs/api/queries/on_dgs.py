"""A query over tables as a run of dgs: leaves add up the rows in the order of their times, and a closing event asks for the answer."""

from __future__ import annotations

from itertools import chain, count
from typing import Any

import numpy as np

from dgs.api.queries.asking import Answers, Asked
from dgs.errors import UsageError
from dgs.model.events import EventBatch
from dgs.model.tags import Tag


def on_dgs(asked: Asked, when: str) -> Answers:
    """Return the rows of each output, of all answers one after the other. `when`: `end`, or `every=N` of the times of the rows.

    Of several answers, each row begins with the time of its answer. Raises UsageError, QueryError, and what a run raises.
    """
    from dgs.api import run
    from dgs.query.program import QueryProgram
    from dgs.query.rewrite import rewritten
    from dgs.query.types import conform
    from dgs.query.windowing.windowed_program import program_of_query

    if when != "end" and any("at" in relation.schema for _, relation in asked.outputs):
        message = "--answer puts the time of each answer into a column 'at': give the column 'at' of the query another name"
        raise UsageError(message=message)
    asking = next(
        name for name in chain(["answer"], map("answer_{}".format, count())) if name not in asked.tables
    )
    sources = asked.script.sources()
    tables = {name: rows for name, rows in asked.rows.items() if not sources[name].changes}
    script = rewritten(asked.script).script
    is_list = when == "end" and any(relation.is_ordered for _, relation in asked.outputs)
    make = (
        QueryProgram if is_list else program_of_query
    )  # answers by window are in order in each window alone
    program = make(script, closes=asking, require=asked.require, tables=tables, exact=asked.exact)
    streams: dict[str, Any] = {
        name: _events(asked, name, rank, program.at.get(name))
        for rank, name in enumerate(asked.rows)
        if name not in tables
    }
    latest = max((int(one.ts[-1]) for one in streams.values() if len(one)), default=0)
    streams[asking] = [(asking, ts, None) for ts in _times(when, latest + program.reach)]
    outputs = run(program, streams=streams, runtime="local").outputs
    schemas = {name: relation.schema for name, relation in asked.outputs}
    found: Answers = {name: [] for name in schemas}
    for record, ts in zip(outputs, outputs.ts, strict=True):
        name = record["output"] if len(schemas) > 1 else next(iter(schemas))
        row = tuple(conform(record[column], of) for column, of in schemas[name].fields)
        found[name].append(row if when == "end" else (ts, *row))
    return found


def _events(asked: Asked, name: str, rank: int, at: str | None) -> EventBatch:
    """Return a table as events, in the order of times. `at`: the column of the times of windows, null for rows in no window."""
    rows, ts = asked.rows[name], asked.tables[name].ts
    if at is not None:
        rows = rows.filter(rows[at].is_valid())
        ts = np.asarray(rows[at].combine_chunks())
        order = np.argsort(ts, kind="stable")
        rows, ts = rows.take(order), ts[order]
    payload = {column: rows[column].combine_chunks() for column in rows.column_names}
    return EventBatch.of(name, rank=rank, tags=[Tag(name)], ts=ts, payload=payload)


def _times(when: str, latest: int) -> list[int]:
    """Return the times of the answers; the last one is at the last row or after it."""
    word, _, number = when.partition("=")
    if word == "end" and not number:
        return [latest]
    if word != "every" or not number.isdigit() or not int(number):
        raise UsageError(message=f"--answer {when}: write `end`, or `every=N` with a whole number")
    every = int(number)
    return [*np.arange(every, latest, every).tolist(), latest]
