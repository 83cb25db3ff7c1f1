"""The story of a run: the notes of the driver and of the hosts, as lines in a file of the run directory.

It is written when a run fails, stalls, or stops without a checkpoint. A run that ends well leaves none.

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
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path

from dgs.errors import DgsError
from dgs.errors.hidden_values import masked
from dgs.job import private_files
from dgs.workers.protocol.story import MOST_NOTES, Log, Story
from dgs.workers.protocol.story_words import StoryEntry, entries_of
from dgs.workers.runtime import process

LONGEST_LINE = 200
"""An entry has at most this many characters of an error. The results have the whole error."""


class RunStory:
    """The latest notes of the driver. `hosts` asks the hosts of the generation for theirs. `path`: the file, None for no file.

    `log` gets every note of the driver, too.
    """

    def __init__(self, path: Path | None, log: Callable[[str], None] = lambda _: None) -> None:
        self._to_log = log
        self._path = path
        self._log: Log = deque(maxlen=MOST_NOTES)
        self._driver = Story(None, log=self._log)
        self.hosts: Callable[[], list[StoryEntry]] = list

    def begin(self, generation: int) -> None:
        """Note that the driver begins a generation. Its hosts have no notes yet."""
        self._driver = Story(None, generation=generation, log=self._log)
        self.hosts = list

    def says(self, text: str) -> None:
        """Note an action of the driver."""
        self._driver.tick(process.now())
        self._driver.says(text)
        self._to_log(text)

    def keep(self) -> None:
        """Ask the hosts for their notes now, before they are gone."""
        found = self.hosts() if self._path is not None else []
        self.hosts = lambda: found

    def write(self) -> None:
        """Write the file, in place of an older one. If that fails, nothing is raised: the run's own error matters more."""
        if self._path is None:
            return
        entries = sorted([*self.hosts(), *entries_of(self._log)], key=attrgetter("time"))
        with suppress(OSError):
            private_files.write(self._path, "".join(map(_line, entries)))

    def forget(self) -> None:
        """Remove the file, since the run has ended well."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


def _line(entry: StoryEntry) -> str:
    return json.dumps({**asdict(entry), "text": masked(entry.text)}) + "\n"


def read_story(path: Path) -> list[StoryEntry]:
    """Return the entries of a file, the oldest first; none if the file does not exist or cannot be read."""
    try:
        lines = [json.loads(line) for line in private_files.read_text(path).splitlines()]
        return [StoryEntry(**{**line, "workers": tuple(line["workers"])}) for line in lines]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []


def in_a_line(error: BaseException) -> str:
    """Return an error in one line, without the trace of user code."""
    trace = error.facts.get("trace") or "" if isinstance(error, DgsError) else ""
    text = " ".join(str(error).removeprefix(masked(trace)).split())
    return f"{type(error).__name__}: {text}"[:LONGEST_LINE]
