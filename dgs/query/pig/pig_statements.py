"""The statements of Pig that read, write and make relations, one function each; `MEANINGS` has them by statement."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from os.path import normpath

from dgs.query.pig.pig_foreach import accumulate, constant, foreach, whole_number
from dgs.query.pig.pig_joins import cogrouped, crossed, has_times, joined, same_windows, windowed
from dgs.query.pig.pig_loading import Load, fields_of, loaded_schema, read_as, stem_of, storage_of
from dgs.query.pig.pig_relations import (
    by_name,
    distinct,
    filtered,
    grouped,
    limited,
    named_key,
    ordered,
    rolling,
    united,
)
from dgs.query.pig.pig_scalars import condition_of, value_of
from dgs.query.pig.pig_scope import ROW_NUMBER, PigRelation, Value
from dgs.query.pig.pig_state import PigRequest, PigState
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.pig.text.pig_macros import with_values
from dgs.query.relation import Relation, Where
from dgs.query.scalar import Scalar, call, column, literal

HASHES = 2**32


def _check_socket(state: PigState, statement: pig.Load | pig.Store, verb: str, remedy: str) -> None:
    """Raise QueryError Q110 for a socket if no plan file gives the streams."""
    if statement.is_socket and state.sources is None:
        raise state.scope().error(
            "Q110", f"{verb} is not supported without a plan file", remedy, statement.at
        )


def _load(state: PigState, statement: pig.Load) -> None:
    path = with_values(statement.path, state.parameters, statement.at, state.source)
    if statement.is_socket:
        path = stem_of(re.sub(r"\W+", "_", path))
    _check_socket(
        state, statement, "SOCKET_READ", f"In one it reads the stream {path!r}, of a `socket` source."
    )
    storage = storage_of(statement, state.scope())
    known = None if state.sources is None else state.sources.get(path) or state.sources.get(stem_of(path))
    if known is not None and not statement.fields:
        fields = fields_of(known)
    else:
        fields = loaded_schema(statement, path, storage, state.base_dir, state.scope())
    load = Load(path, fields, storage.delimiter)
    name = _source_name(state, load)
    state.program.loads[name] = load
    span = state.source.span(statement.at)
    if state.sources is None:
        node: Relation = replace(load.source(name), span=span)
        hidden: tuple[str, ...] = (ROW_NUMBER,)
    else:
        source = state.sources.get(name) or known
        if source is None:
            raise state.scope().unknown("stream", name, list(state.sources), statement.at)
        node, hidden = read_as(replace(source, span=span), fields)
    is_unbounded = storage.is_stream or statement.is_socket
    state.set(statement.alias, PigRelation(node, fields, hidden, is_unbounded=is_unbounded))


def _source_name(state: PigState, load: Load) -> str:
    """Return the name of a load's stream: that of its file, made unique among different loads."""
    base, count = stem_of(load.path), 1
    name = base
    while name in state.program.loads and state.program.loads[name] != load:
        count += 1
        name = f"{base}_{count}"
    return name


def _store(state: PigState, statement: pig.Store) -> None:
    _check_socket(
        state, statement, "SOCKET_WRITE", "In one the sinks of the plan take the rows, as those of STORE."
    )
    relation = state.relation(statement.source, statement.at)
    path = with_values(statement.path, state.parameters, statement.at, state.source)
    delimiter = storage_of(statement, state.scope()).delimiter
    made = state.output(statement.source, relation)
    stored = (normpath(one.path) for one in state.program.outputs if one.path is not None)
    if state.reads_files and normpath(path) in stored:
        raise state.scope().error("Q202", f"{path!r} is stored twice", "Name another file.", statement.at)
    state.program.outputs.append(replace(made, path=path, delimiter=delimiter))


def _show(state: PigState, statement: pig.Show) -> None:
    relation = state.relation(statement.source, statement.at)
    if statement.what == "dump":
        state.program.outputs.append(state.output(statement.source, relation))
    else:
        state.program.requests.append(PigRequest(statement.what, statement.source, relation))


def _filter(state: PigState, statement: pig.Filter) -> None:
    relation = state.relation(str(statement.source), statement.at)
    scope = state.scope(relation.fields)
    state.set(statement.alias, filtered(relation, statement.condition, scope))


def _foreach(state: PigState, statement: pig.Foreach) -> None:
    relation = state.relation(statement.source, statement.at)
    state.set(statement.alias, foreach(relation, statement, state.scope(relation.fields)))


def _accumulate(state: PigState, statement: pig.Accumulate) -> None:
    relation = state.relation(statement.source, statement.at)
    state.set(statement.alias, accumulate(relation, statement, state.scope(relation.fields)))


def _group(state: PigState, statement: pig.Group) -> None:
    sides = [_keyed(state, one) for one in statement.inputs]
    made = [
        _grouped(one, relation, keys) for one, (relation, keys) in zip(statement.inputs, sides, strict=True)
    ]
    result = made[0] if len(made) == 1 else cogrouped(statement, made, state.scope())
    state.set(statement.alias, result)


def _grouped(one: pig.Keyed, relation: PigRelation, keys: list[Value] | None) -> PigRelation:
    if relation.is_unbounded and relation.window is None and keys is not None:
        return rolling(relation, one.source, keys)
    made = grouped(relation, one.source, keys)
    return named_key(one.keys, made) if one.keys else made


def _keyed(state: PigState, one: pig.Keyed) -> tuple[PigRelation, list[Value] | None]:
    relation = state.relation(one.source, one.at)
    scope = state.scope(relation.fields)
    return relation, None if one.keys is None else [value_of(key, scope) for key in one.keys]


def _join(state: PigState, statement: pig.Join) -> None:
    sides = [(one, *_keyed(state, one)) for one in statement.inputs]
    state.set(statement.alias, joined(sides, state.scope()))


def _cross(state: PigState, statement: pig.Cross) -> None:
    sides = [state.relation(one.text, statement.at) for one in statement.sources]
    state.set(statement.alias, crossed(statement, sides, state.scope(), are_files=state.reads_files))


def _union(state: PigState, statement: pig.Union) -> None:
    parts = [state.relation(one.text, statement.at) for one in statement.sources]
    same_windows(parts, state.scope())
    state.set(statement.alias, united(by_name(parts) if statement.by_name else parts))


def _distinct(state: PigState, statement: pig.Distinct) -> None:
    state.set(statement.alias, distinct(state.relation(str(statement.source), statement.at)))


def _order(state: PigState, statement: pig.Order) -> None:
    relation = _bounded(state, str(statement.source), "ORDER", statement.at)
    state.set(statement.alias, ordered(relation, statement.keys, state.scope(relation.fields)))


def _limit(state: PigState, statement: pig.Limit) -> None:
    relation = _bounded(state, str(statement.source), "LIMIT", statement.at)
    state.set(statement.alias, limited(relation, whole_number(statement.count, state.scope())))


def _bounded(state: PigState, alias: str, what: str, at: int) -> PigRelation:
    relation = state.relation(alias, at)
    if relation.is_unbounded and relation.window is None:
        problem = f"{what} waits for the end of {alias!r}, a stream that has none"
        raise state.scope().error(
            "Q401", problem, f"Give it windows first: w = WINDOW {alias} RANGE 10 SECONDS;", at
        )
    return relation


def _split(state: PigState, statement: pig.Split) -> None:
    relation = state.relation(statement.source, statement.at)
    scope = state.scope(relation.fields)
    tests = {
        branch.alias: condition_of(branch.condition, scope).scalar
        for branch in statement.branches
        if branch.condition is not None
    }
    for branch in statement.branches:
        test = _none_of(list(tests.values())) if branch.condition is None else tests[branch.alias]
        state.set(branch.alias, replace(relation, node=Where(relation.node, test)))


def _sample(state: PigState, statement: pig.Sample) -> None:
    relation = state.relation(statement.source, statement.at)
    share = constant(statement.share, state.scope())
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise state.scope().error(
            "Q204", f"a share from 0 to 1 is needed here, not {share!r}", "", statement.share.at
        )
    _numbered(state, relation, "SAMPLE", statement.at)
    seed = zlib.crc32("\n".join(sorted(state.program.loads)).encode())
    taken = call("lt", _hash(seed), literal(int(share * HASHES)))
    state.set(statement.alias, replace(relation, node=Where(relation.node, taken)))


def _window(state: PigState, statement: pig.Window) -> None:
    relation = state.relation(statement.source, statement.at)
    if relation.window is not None:
        raise state.scope().error("Q402", "these rows are in windows already", "", statement.at)
    if statement.size.kind == "rows" or not has_times(relation):
        _numbered(state, relation, "WINDOW", statement.at)
    state.set(statement.alias, windowed(relation, statement, state.scope()))


def _numbered(state: PigState, relation: PigRelation, what: str, at: int) -> None:
    if ROW_NUMBER not in relation.hidden:
        problem = f"{what} of rows that are no longer those of a stream, or have no numbers"
        raise state.scope().error("Q110", problem, "Put it before GROUP, JOIN and DISTINCT.", at)


def _none_of(tests: Sequence[Scalar]) -> Scalar:
    found = call("not", tests[0])
    for one in tests[1:]:
        found = call("and", found, call("not", one))
    return found


def _hash(seed: int) -> Scalar:
    """Return a number below 2**32 that depends only on the stream and the number of a row."""
    mixed = call(
        "mod",
        call("add", call("mul", column(ROW_NUMBER), literal(2654435761)), literal(seed)),
        literal(HASHES),
    )
    folded = call("add", call("mul", mixed, literal(40503)), call("intdiv", mixed, literal(65536)))
    return call("mod", folded, literal(HASHES))


MEANINGS: dict[type, Callable[..., None]] = {
    pig.Load: _load,
    pig.Store: _store,
    pig.Show: _show,
    pig.Filter: _filter,
    pig.Foreach: _foreach,
    pig.Accumulate: _accumulate,
    pig.Group: _group,
    pig.Join: _join,
    pig.Cross: _cross,
    pig.Union: _union,
    pig.Distinct: _distinct,
    pig.Order: _order,
    pig.Limit: _limit,
    pig.Split: _split,
    pig.Sample: _sample,
    pig.Window: _window,
}
"""The effect of each statement on the state of its script."""
