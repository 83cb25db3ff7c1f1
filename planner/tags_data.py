"""Tags of a plan as plain data, in the form that people write by hand.

`barrier` and `{kind: view}` are whole kinds, `{kind: view, key: EWR}` is one tag, `{kind: view, keys: [EWR, JFK]}` several,
`{kind: view, classes: [3, 7], of: 16, except: [JFK]}` keys by their hash classes, and `"*"` is everything.

>>> from dgs.model.tags import kind
>>> class Views(Program):
...     kinds = (kind("view", key=str), kind("barrier"))
>>> tags = TagSet.from_kinds({"barrier": KeySet.of([None]), "view": KeySet.hashed(16, [3, 7])})
>>> tags_to_data(tags, Views())
['barrier', {'kind': 'view', 'classes': [3, 7], 'of': 16}]
>>> tags_from_data(tags_to_data(tags, Views()), Views()) == tags
True
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from dgs.errors import CodecError, InvalidError
from dgs.model.key_sets import KeySet
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet, union
from dgs.model.tags import Key

EVERYTHING = "*"
FIELDS = ("kind", "key", "keys", "classes", "of", "except")
SHAPES = (
    'Write a kind, `{kind: K, key: X}`, `{kind: K, keys: [X, Y]}`, `{kind: K, classes: [0], of: 4}` or "*"'
)


class TagDataError(InvalidError):
    """A tag in the `plan:` section is not readable."""

    code = "DGS321"
    template = "{item!r} is not a tag: {problem}"
    fix = SHAPES.replace("{", "{{").replace("}", "}}")


def tags_to_data(tags: TagSet, program: Program | None = None) -> Any:
    """Return a tag set as plain data. With a program, whole kinds are written by name only."""
    if tags == TagSet.everything():
        return EVERYTHING
    items: list[Any] = []
    if tags.others:
        items.append({"except": [{"kind": kind, **_classes(KeySet.all())} for kind, _ in tags.kinds]})
    for kind, keys in tags.kinds:
        items.extend(_kind_to_data(kind, keys, program))
    return items


def tags_from_data(data: Any, program: Program, carried: TagSet | None = None) -> TagSet:
    """Return the tag set that data describes. If `carried` is given, a whole kind means the part of it that the stream carries.

    Raises TagDataError with the item.
    """
    items = data if isinstance(data, list) else [data]
    return union(_item_from_data(item, program, carried) for item in items)


def _kind_to_data(kind: str, keys: KeySet, program: Program | None) -> Iterator[Any]:
    if program is not None and TagSet.of(program.kind(kind)).keys(kind) == keys:
        yield kind
        return
    if keys.classes:
        yield {"kind": kind, **_classes(keys)}
    listed = _sorted(keys.extra)
    if len(listed) == 1:
        yield {"kind": kind, "key": listed[0]}
    elif listed:
        yield {"kind": kind, "keys": listed}


def _classes(keys: KeySet) -> dict[str, Any]:
    data: dict[str, Any] = {"classes": sorted(keys.classes), "of": keys.modulus}
    return {**data, "except": _sorted(keys.missing)} if keys.missing else data


def _sorted(keys: Iterable[Key]) -> list[Any]:
    try:
        ordered = sorted(keys)  # type: ignore[type-var]  # numbers and words in their own order
    except TypeError:
        ordered = sorted(keys, key=repr)
    return [_key_to_data(key) for key in ordered]


def _key_to_data(key: Key) -> Any:
    """Return a scalar as it is, a tuple as a list, and any other key as encoded by the codec."""
    if key is None or type(key) in (str, int, float, bool):
        return key
    if type(key) is tuple:
        return [_key_to_data(part) for part in key]
    from dgs import codec

    return {"encoded": base64.b64encode(codec.encode(key)).decode()}


def _key_from_data(data: Any, item: Any) -> Key:
    if isinstance(data, list):
        return tuple(_key_from_data(part, item) for part in data)
    if isinstance(data, Mapping):
        if set(data) != {"encoded"}:
            raise TagDataError(item=item, problem="a key is a scalar or a list")
        return _decoded(data["encoded"], item)
    return data  # type: ignore[no-any-return]


def _decoded(text: Any, item: Any) -> Key:
    from dgs import codec

    try:
        return codec.decode(base64.b64decode(text, validate=True))  # type: ignore[no-any-return]
    except (TypeError, ValueError, CodecError):
        raise TagDataError(item=item, problem="`encoded` is not a key written by dgs") from None


def _item_from_data(item: Any, program: Program, carried: TagSet | None) -> TagSet:
    if item == EVERYTHING:
        return TagSet.everything() if carried is None else carried
    if isinstance(item, str):
        return _whole_kind(item, program, carried)
    if not isinstance(item, Mapping):
        raise TagDataError(item=item, problem="neither a name nor a mapping")
    unknown = [field for field in item if field not in FIELDS]
    if unknown:
        _refuse(item, f"unknown {', '.join(map(repr, unknown))}")
    if set(item) == {"except"}:
        return TagSet.everything() - tags_from_data(item["except"], program, carried)
    kind = item.get("kind")
    if not isinstance(kind, str):
        _refuse(item, "`kind` is missing")
    if set(item) == {"kind"}:
        return _whole_kind(kind, program, carried)
    _check_kind(kind, item, program)
    return TagSet.from_kinds({kind: _keys_from_data(item)})


def _check_kind(kind: str, item: Any, program: Program) -> None:
    problem = program.kind_problem(kind)
    if problem is not None:
        _refuse(item, problem)


def _whole_kind(kind: str, program: Program, carried: TagSet | None) -> TagSet:
    _check_kind(kind, kind, program)
    if carried is not None and kind in carried:
        return TagSet.from_kinds({kind: carried.keys(kind)})
    return TagSet.of(program.kind(kind))


def _keys_from_data(item: Mapping[str, Any]) -> KeySet:
    fields = set(item) - {"kind"}
    if fields == {"key"}:
        return KeySet.of([_key_from_data(item["key"], item)])
    if fields == {"keys"}:
        return KeySet.of(_list(item, "keys"))
    if fields not in ({"classes", "of"}, {"classes", "of", "except"}):
        _refuse(item, "give `key`, or `keys`, or `classes` and `of`")
    modulus, classes = item["of"], item["classes"]
    if type(modulus) is not int or modulus < 1:
        _refuse(item, "`of` is the number of classes")
    if not isinstance(classes, list) or any(type(c) is not int or not 0 <= c < modulus for c in classes):
        _refuse(item, f"`classes` lists numbers from 0 to {modulus - 1}")
    return KeySet.hashed(modulus, classes) - KeySet.of(_list(item, "except"))


def _list(item: Mapping[str, Any], field: str) -> list[Key]:
    listed = item.get(field, [])
    if not isinstance(listed, list):
        _refuse(item, f"`{field}` is a list")
    return [_key_from_data(key, item) for key in listed]


def _refuse(item: Any, problem: str) -> NoReturn:
    raise TagDataError(item=item, problem=problem)
