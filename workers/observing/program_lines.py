"""The lines that a program prints and logs on a host, for the log of the run: a number per second, the rest only counted.

Terminals and handlers get all lines as before. `prints` wraps calls of the program, since dgs prints as well. `logs` takes the records of
all loggers except those of dgs. If logging is not set up, it takes them from INFO on, and warnings still go to stderr.

>>> lines = ProgramLines(clock=lambda: 1.0)
>>> with lines.prints():
...     print("three", "parts")
three parts
>>> with lines.logs():
...     logging.getLogger("fraud").error("card %s is lost", 7)
>>> [(line.level, line.origin, line.text) for line in lines.take()], lines.take()
([(20, 'stdout', 'three parts'), (40, 'fraud', 'card 7 is lost')], [])
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

MOST_LINES, MOST_CHARACTERS = 500, 2000
"""The lines that are taken in a second, and the characters of one that are."""


class ProgramLine(NamedTuple):
    """A line: the machine's name, when, its level in `logging`, the logger or `stdout` or `stderr`, and the text."""

    machine: str
    t: float
    level: int
    origin: str
    text: str


class ProgramLines:
    """The lines of one host. One thread may take the lines of others. `is_alone`: only lines of the thread that calls the program count.

    `clock`: seconds since 1970. `takes_prints`: False leaves stdout and stderr alone, if nobody reads their lines.
    """

    def __init__(
        self, *, clock: Callable[[], float], is_alone: bool = False, takes_prints: bool = True
    ) -> None:
        self._is_alone, self._clock = is_alone, clock
        self._machine = socket.gethostname()
        self._lock = threading.RLock()
        self._found: list[ProgramLine] = []
        self._second = self._count = self._left_out = 0
        self._echoes = False
        self._thread: int | None = None  # the one that calls the program now
        self._streams = {name: _Taken(name, self) for name in ("stdout", "stderr") if takes_prints}

    def take(self) -> list[ProgramLine]:
        """Remove and return the lines so far."""
        with self._lock:
            if self._left_out and int(self._clock()) != self._second:
                self._say_left_out()
            taken, self._found = self._found, []
        return taken

    def close(self) -> list[ProgramLine]:
        """Return the rest, with unfinished lines: the host is about to end."""
        for stream in self._streams.values():
            stream.end()
        with self._lock:
            self._say_left_out()
        return self.take()

    @property
    def is_said_by_the_program(self) -> bool:
        """Whether what this thread prints or logs is the program's."""
        return not self._echoes and (not self._is_alone or self._thread == threading.get_ident())

    def add(self, level: int, origin: str, text: str) -> None:
        """Add a text, or count its lines."""
        now = self._clock()
        with self._lock:
            if int(now) != self._second:
                self._say_left_out()
                self._second, self._count = int(now), 0
            for line in text.splitlines():
                self._count += 1
                if self._count > MOST_LINES:
                    self._left_out += 1
                else:
                    self._found.append(ProgramLine(self._machine, now, level, origin, _shown(line)))

    def _say_left_out(self) -> None:
        if self._left_out:
            text = f"{self._left_out:,} more lines of this second are left out"
            line = ProgramLine(self._machine, self._clock(), logging.WARNING, "dgs", text)
            self._found.append(line)
            self._left_out = 0

    @contextmanager
    def prints(self) -> Iterator[None]:
        """Take what is printed inside this context; it still goes to its stream."""
        for stream in self._streams.values():
            stream.put_in_place()
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = None
            for stream in self._streams.values():
                stream.take_away()

    @contextmanager
    def logs(self) -> Iterator[None]:
        """Take what is logged inside this context."""
        root, handler = logging.getLogger(), _Records(self)
        level = root.level
        if not root.handlers and level == logging.WARNING:  # nobody has set up logging
            root.setLevel(logging.INFO)
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
            root.setLevel(level)

    @contextmanager
    def echoes(self) -> Iterator[None]:
        """Take nothing inside this context, which prints lines that were taken before."""
        self._echoes = True
        try:
            yield
        finally:
            self._echoes = False


class _Taken:
    """A stream of this process whose lines are taken. Everything else is passed on to the stream behind it."""

    _behind: Any = None
    _places = threading.Lock()

    def __init__(self, name: str, lines: ProgramLines) -> None:
        self._name, self._lines = name, lines
        self._is_in_place = False
        self._torn = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def write(self, text: str) -> int:
        """Write text to the stream behind, and take its whole lines."""
        done: int = 0 if self._behind is None else self._behind.write(text)
        if self._is_in_place and self._lines.is_said_by_the_program:
            whole, end, rest = text.rpartition("\n")
            if end:
                self._lines.add(logging.INFO, self._name, f"{self._torn}{whole}\n")
                self._torn = ""
            self._torn = (self._torn + rest)[: MOST_CHARACTERS + 1]
        return done

    def writelines(self, texts: Iterable[str]) -> None:
        """Write texts one after the other."""
        for text in texts:
            self.write(text)

    def end(self) -> None:
        """Take an unfinished line."""
        if self._torn:
            self._lines.add(logging.INFO, self._name, self._torn)
            self._torn = ""

    def put_in_place(self) -> None:
        """Replace the stream, unless this one is still in the chain behind another thread's."""
        with self._places:
            self._is_in_place = True
            there = getattr(sys, self._name)
            if not any(one is self for one in _chain(there)):
                self._behind = there
                setattr(sys, self._name, self)

    def take_away(self) -> None:
        """Put the stream behind back, also for others that ended while this one was in front of them."""
        with self._places:
            self._is_in_place = False
            for one in _chain(getattr(sys, self._name)):
                if one._is_in_place:  # noqa: SLF001 - of this class
                    break
                setattr(sys, self._name, one._behind)  # noqa: SLF001


def _chain(stream: Any) -> Iterator[_Taken]:
    """Yield a stream and those behind it, as long as their lines are taken."""
    while isinstance(stream, _Taken):
        yield stream
        stream = stream._behind  # noqa: SLF001 - of this module


class _Records(logging.Handler):
    """Takes records of the program. If logging is not set up, warnings go to stderr, as they would without it."""

    def __init__(self, lines: ProgramLines) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        if record.name == "dgs" or record.name.startswith("dgs."):
            return
        if self._lines.is_said_by_the_program:
            self._lines.add(record.levelno, record.name, self.format(record))
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not self._has_another(record.name):
            with self._lines.echoes():
                last.handle(record)

    def _has_another(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def _shown(line: str) -> str:
    r"""Return a line without control characters, cut if it is long, that can be written anywhere.

    >>> _shown("red \x1b[31m" + "x" * 3000)[:15]
    'red \\x1b[31mxxx'
    """
    cut = line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}..."
    if cut.isprintable():
        return cut
    return "".join(letter if letter.isprintable() or letter == "\t" else repr(letter)[1:-1] for letter in cut)
