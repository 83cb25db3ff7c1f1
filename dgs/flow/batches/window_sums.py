"""Sums of integers over the last blocks, by key: the parts of a block are kept, and subtracted from the totals when the block leaves.

A store of sums is plain data: `panes`, [[block, {key: part}]]; `totals`, {key: total}; `last`, {key: its last block}, for keys that are
dropped when that block leaves. Without keys it is empty. A store of queues has the panes of each key, as `dgs.flow.panes` keeps them.

>>> store = {}
>>> add(store, 1, {"a": 3, "b": 5})
>>> add(store, 2, {"a": 4})
>>> drop_before(store, 2)
{'a': 4}
>>> to_queues(store)
>>> store
{'a': [[], [(2, 4)], 4]}
"""

from __future__ import annotations

from typing import Any

Store = dict[Any, Any]


def holds(store: Store) -> bool:
    """Return whether a store is a store of sums with keys."""
    return type(store.get("totals")) is dict  # a queue is a list


def are_integers(parts: dict[Any, Any]) -> bool:
    """Return whether the sums of parts are exact in every order."""
    return {int}.issuperset(map(type, parts.values()))


def add(store: Store, block: int, parts: dict[Any, int], *, keep_all: bool = False) -> None:
    """Add the parts of a later block, which then belong to the store. `keep_all`: no key is ever dropped."""
    if not parts:
        return
    if not store:
        store.update(panes=[], totals={}, last={})
    totals = store["totals"]
    store["panes"].append([block, parts])
    for key, part in parts.items():
        totals[key] = totals[key] + part if key in totals else part
    if not keep_all:
        store["last"].update(dict.fromkeys(parts, block))


def drop_before(store: Store, block: int) -> dict[Any, int]:
    """Drop the parts of earlier blocks, and keys that have no others; return the totals."""
    panes: list[Any] = store.get("panes", [])
    totals: dict[Any, int] = store.get("totals", {})
    last: dict[Any, int] = store.get("last", {})
    while panes and panes[0][0] < block:
        number, parts = panes.pop(0)
        for key, part in parts.items():
            totals[key] -= part
        for key in parts if last else ():
            if last[key] == number:
                del last[key], totals[key]
    if not totals:
        store.clear()
    return totals


def of_key(store: Store, key: Any) -> Store:
    """Return the part of a store for one key, as a store."""
    if key not in store["totals"]:
        return {}
    panes = [[block, {key: parts[key]}] for block, parts in store["panes"] if key in parts]
    totals, last = ({key: of[key]} if key in of else {} for of in (store["totals"], store["last"]))
    return {"panes": panes, "totals": totals, "last": last}


def put_key(store: Store, key: Any, own: Store) -> None:
    """Replace the part of a store for one key by another store of that key."""
    panes = dict(store["panes"])
    for parts in panes.values():
        parts.pop(key, None)
    for block, parts in own.get("panes", ()):
        panes.setdefault(block, {}).update(parts)
    store["panes"] = [[block, panes[block]] for block in sorted(panes) if panes[block]]
    for name in ("totals", "last"):
        store[name].pop(key, None)
        store[name].update(own.get(name, {}))
    if not store["totals"]:
        store.clear()


def to_queues(store: Store) -> None:
    """Change a store of sums to one of queues."""
    panes, totals = store["panes"], store["totals"]
    store.clear()
    for key, total in totals.items():
        store[key] = [[], [(block, parts[key]) for block, parts in panes if key in parts], total]
