"""The possible tags of a stream, from its section of plan.yaml and the kinds of the program.

The planner assigns these sets, and the sources make exactly such tags.

>>> from dgs.job.schema import StreamConfig
>>> from dgs.model.tags import kind
>>> class Views(Program):
...     kinds = (kind("view", key=("home", "shop")), kind("barrier"))
>>> source = {"memory": "clicks"}
>>> declared_tags(StreamConfig(id="a", tags={"kind": "view", "key": {"column": "page"}}, source=source), Views())
{view('home'), view('shop')}
>>> declared_tags(StreamConfig(id="b", tags=["barrier", {"kind": "view", "key": "home"}], source=source), Views())
{barrier, view('home')}
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dgs.errors import PlanFileError
from dgs.job.schema import ColumnRef, StreamConfig, TagConfig, TicksSource
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet, union
from dgs.model.tags import AnyKind, Kind, Tag


def declared_tags(config: StreamConfig, program: Program) -> TagSet:
    """Return the possible tags of the stream.

    A key from a column may be any key in the domain of its kind. A kind from a column may be any of `kinds:`, else any kind of the program,
    else any kind at all. The list form has exactly the listed tags; there, `{kind: view}` of a kind with keys is the whole kind.

    Raises PlanFileError for a kind that the program does not declare, a key of a kind without keys, a missing key of a kind with
    keys (except in the list form), or a key outside the kind's domain.
    """
    if isinstance(config.tags, list):
        return union(_listed(item, config, program) for item in config.tags)
    if isinstance(config.source.details, TicksSource) and config.source.details.classes is not None:
        classes = range(config.source.details.classes)
        return union(
            _with_key(_declared(str(config.tags.parts[0]), config, program), n, config) for n in classes
        )
    return _described(config.tags, config, program)


def some_tag(config: StreamConfig, program: Program) -> Tag:
    """Return one possible tag of the stream, always the same, for events without tags."""
    tags = declared_tags(config, program)
    for name, keys in tags.kinds:
        domain = program.kind(name).domain
        empty: list[Any] = [domain()] if isinstance(domain, type) and domain in _EMPTY else []
        for key in (*sorted(keys.extra, key=repr), *empty, None, ""):
            if Tag(name, key) in tags:
                return Tag(name, key)
    return Tag("unreadable")


def named_like(config: StreamConfig, program: Program, columns: Collection[str]) -> str | None:
    """Return `kind` or `key` if its text is ambiguous: it is the name of a column, and the program does not list it."""
    tags = config.tags
    if not isinstance(tags, TagConfig):
        return None
    kind, _ = tags.parts
    if isinstance(tags.kind, str) and tags.kind in columns and tags.kind not in program.all_kinds():
        return "kind"
    domain = program.kind(kind).domain if isinstance(kind, str) else None
    is_listed = isinstance(domain, tuple) and tags.key in domain
    return "key" if isinstance(tags.key, str) and tags.key in columns and not is_listed else None


_EMPTY = (str, int, float, bool, bytes, tuple)


def literal_tag(config: StreamConfig, program: Program) -> Tag | None:
    """Return the tag of every event of the stream if plan.yaml alone gives it, None if the rows do."""
    if isinstance(config.tags, list):
        tags = declared_tags(config, program)
        listed = list(tags.tags()) if tags.is_finite else []
        return listed[0] if len(listed) == 1 else None
    kind, key = config.tags.parts
    if isinstance(kind, ColumnRef) or isinstance(key, ColumnRef):
        return None
    return Tag(kind) if key is None else Tag(kind, key)


def _listed(item: TagConfig | str, config: StreamConfig, program: Program) -> TagSet:
    kind, key = (item, None) if isinstance(item, str) else item.parts
    if isinstance(kind, ColumnRef) or isinstance(key, ColumnRef):
        raise _wrong(
            config, "a list of tags holds literal tags; for tags read from columns write one mapping"
        )
    found = _declared(kind, config, program)
    return TagSet.of(found) if key is None else _with_key(found, key, config)


def _described(item: TagConfig, config: StreamConfig, program: Program) -> TagSet:
    name, key = item.parts
    if isinstance(name, ColumnRef):
        is_open = isinstance(program.kinds, AnyKind)
        names = item.kinds if item.kinds is not None else [] if is_open else list(program.all_kinds())
        if not names:
            return TagSet.everything()
        return union(_of_kind(_declared(one, config, program), key, config) for one in names)
    kind = _declared(name, config, program)
    if key is not None and not kind.is_keyed:
        raise _keyless(kind, config)
    return _of_kind(kind, key, config)


def _declared(name: str, config: StreamConfig, program: Program) -> Kind:
    problem = program.kind_problem(name)
    if problem is not None:
        raise _wrong(config, problem)
    return program.kind(name)


def _of_kind(kind: Kind, key: object, config: StreamConfig) -> TagSet:
    """Return the tags of one kind that the description allows. Keys are ignored for kinds without keys."""
    if not kind.is_keyed:
        return TagSet.of(kind)
    if isinstance(key, ColumnRef):
        return TagSet.of(kind)
    if key is not None:
        return _with_key(kind, key, config)
    if kind.domain is object:
        return TagSet.of(Tag(str(kind)))
    raise _wrong(config, f"kind {str(kind)!r} has keys: say `key: {{column: NAME}}` or give the key")


def _with_key(kind: Kind, key: object, config: StreamConfig) -> TagSet:
    if not kind.is_keyed:
        raise _keyless(kind, config)
    if isinstance(kind.domain, tuple) and key not in kind.domain:
        raise _wrong(
            config, f"{key!r} is not a key of kind {str(kind)!r}, whose keys are {list(kind.domain)}"
        )
    if isinstance(kind.domain, type) and not isinstance(key, kind.domain):
        expected, got = kind.domain.__name__, type(key).__name__
        raise _wrong(config, f"key {key!r} of kind {str(kind)!r} must be {expected}, not {got}")
    return TagSet.of(Tag(str(kind), key))


def _keyless(kind: Kind, config: StreamConfig) -> PlanFileError:
    return _wrong(
        config,
        f"kind {str(kind)!r} takes no key, but `key:` is given: declare its keys in the program, such as "
        f'`dgs.kind("{kind}", key=str)`, or leave `key:` out',
    )


def _wrong(config: StreamConfig, problem: str) -> PlanFileError:
    return PlanFileError(where=f"stream {config.id!r}, tags", problem=problem, stream=config.id)
