r"""`dgs run --show-config`: the resolved plan.yaml, each value with its origin.

>>> print("\n".join(commented({"runtime": {"kind": "local"}, "sinks": []}, lambda place: f"at {place}")))
runtime:
  kind: local  # at ('runtime', 'kind')
sinks: []  # at ('sinks',)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dgs.cli.reporting import print_json

if TYPE_CHECKING:
    from dgs.job.references import Place
    from dgs.job.settings import Settings


def print_config(settings: Settings, *, as_json: bool) -> None:
    """Print the resolved configuration on stdout: YAML with comments, or an object."""
    data = settings.written(exclude_none=True)
    if not as_json:
        print("\n".join(commented(data, settings.origin)))
        return
    from dgs.job.settings import path_text

    rows = [
        {"path": path_text(place), "value": v, "origin": origin} for place, v, origin in settings.values()
    ]
    print_json({"config": data, "values": rows})


def commented(
    data: Any, origin: Callable[[Place], str], place: Place = (), indent: str = ""
) -> Iterator[str]:
    """Yield the lines of a mapping as YAML, each value with its origin as a comment."""
    for key, value in data.items():
        yield from _entry(f"{indent}{_inline(key)}:", value, origin, (*place, key), indent + "  ")


def _entry(head: str, value: Any, origin: Callable[[Place], str], place: Place, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        yield head
        yield from commented(value, origin, place, indent)
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        yield head
        for number, item in enumerate(value):
            lines = list(_entry("", item, origin, (*place, number), indent + "  "))
            first, *rest = [line for line in lines if line]
            yield f"{indent}- {first.strip()}"
            yield from rest
    else:
        yield f"{head} {_inline(value)}  # {origin(place)}"


def _inline(value: Any) -> str:
    """Return a value as YAML on one line."""
    from dgs.job.document import dump

    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, str) and ("\n" in value or "," in value):
        import json

        return json.dumps(value)
    return dump(value).rstrip("\n")
