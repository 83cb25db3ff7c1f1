"""The story of a run, for reading after a failure: what the driver did and what the hosts tell, as lines in the run directory.

It is written when a run fails, stalls, or is stopped without a checkpoint; a run that ends well leaves none.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "story.jsonl"
>>> story = RunStory(path)
>>> story.begin(1)
>>> story.says("commits epoch 1")
>>> story.hosts = lambda: [StoryEntry(0.0, 1, 0, "w0 closes epoch 1", ("w0",))]
>>> story.write()
>>> [(entry.host, entry.text) for entry in read_story(path)]
[(0, 'w0 closes epoch 1'), (None, 'commits epoch 1')]
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path

from dgs.errors import DgsError
from dgs.workers.protocol.story import MOST_NOTES, Log, Story
from dgs.workers.protocol.story_words import StoryEntry, entries_of

LONGEST_LINE = 200
"""Characters of an error in an entry; the whole of it is in the results."""


class RunStory:
    """What the driver of a run did lately, and `hosts`, which asks the hosts of the generation. `path`: of the file, if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._log: Log = deque(maxlen=MOST_NOTES)
        self._driver = Story(None, log=self._log)
        self.hosts: Callable[[], list[StoryEntry]] = list

    def begin(self, generation: int) -> None:
        """Note that the driver begins a generation, whose hosts have nothing to tell yet."""
        self._driver = Story(None, generation=generation, log=self._log)
        self.hosts = list

    def says(self, text: str) -> None:
        """Note what the driver does."""
        self._driver.tick(time.time())
        self._driver.says(text)

    def keep(self) -> None:
        """Ask the hosts now: later they will be gone."""
        found = self.hosts() if self._path is not None else []
        self.hosts = lambda: found

    def write(self) -> None:
        """Write the file, in place of an older one, if that is possible: what it is written for is what matters."""
        if self._path is None:
            return
        entries = sorted([*self.hosts(), *entries_of(self._log)], key=attrgetter("time"))
        with suppress(OSError):
            draft = self._path.with_name(self._path.name + ".draft")
            draft.write_text("".join(f"{json.dumps(asdict(entry))}\n" for entry in entries), encoding="utf-8")
            draft.replace(self._path)

    def forget(self) -> None:
        """Remove the file: the run has ended well."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def read_story(path: Path) -> list[StoryEntry]:
    """Return the entries of a file, the oldest first; none if there is no such file, or if it cannot be read."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [StoryEntry(**{**line, "workers": tuple(line["workers"])}) for line in lines]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def in_a_line(error: BaseException) -> str:
    """Return an error in one line, without the trace of user code."""
    trace = error.facts.get("trace") or "" if isinstance(error, DgsError) else ""
    text = " ".join(str(error).removeprefix(trace).split())
    return f"{type(error).__name__}: {text}"[:LONGEST_LINE]
