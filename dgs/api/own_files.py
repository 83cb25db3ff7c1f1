"""The files that runs make in their directories, by their names: whatever else is there belongs to somebody.

>>> import tempfile
>>> place = Path(tempfile.mkdtemp())
>>> for name in ("outputs", "checkpoints"):
...     (place / name).mkdir()
>>> for name in ("run.json", "outputs/part-0.jsonl", "outputs/thesis.txt", "checkpoints/state-7.dgs"):
...     (place / name).touch()
>>> strangers(place)
['outputs/thesis.txt']
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

MADE = (
    "run.json", "plan.yaml", "plans.ndjson", "results.json", "lock", "story.jsonl", "traceback.txt", "ray.log", "report.html",
    "figures*.ndjson*", "run.log*", "unprinted.jsonl*", "dead-letter*", "*.draft", "*.partial", "control", "logs", "spark",
)  # fmt: skip
"""The names in the directory of a run, beside those of DIRECTORIES. What is in the last three directories comes from outside."""

DIRECTORIES = {
    "outputs": ("part-*", "_part-*", "dead-letter*", ".dgs-*", "*.partial"),
    "checkpoints": ("state-*.dgs*", "record-*.dgs*", "lock"),
}
"""The names in other directories that runs make."""


def strangers(directory: Path) -> list[str]:
    """Return what no run has made in the directory of a run, relative to it. Raises OSError."""
    return sorted(str(path.relative_to(directory)) for path in _strangers(directory))


def _strangers(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        inside = DIRECTORIES.get(path.name)
        if inside is None or path.is_symlink() or not path.is_dir():
            if not _is_like(path, (*MADE, *DIRECTORIES)):
                yield path
            continue
        yield from (one for one in path.iterdir() if not _is_like(one, inside))


def _is_like(path: Path, names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path.name, name) for name in names)
