"""The log of a run: standard `logging` under `dgs.*`, and a bounded file `run.log` in the run directory.

The levels of loggers decide what users of `logging` see. The file has everything from INFO on, at any level of the loggers. Progress and the closing
line are not logs.

>>> import tempfile
>>> log = RunLog(Path(tempfile.mkdtemp()) / "run.log", name="sums")
>>> log.info("commits epoch 1")
>>> log.warning("a host died", is_notice=True)
>>> log.close()
>>> [line.partition(" UTC ")[2] for line in log.path.read_text().splitlines()]
['INFO dgs.run: commits epoch 1', 'WARNING dgs.run: a host died']
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Literal

from dgs.errors.hidden_values import masked
from dgs.job import private_files
from dgs.workers.observing.program_lines import ProgramLine

LogFormat = Literal["text", "json"]

LOG = "run.log"

PROGRAM = logging.getLogger("dgs.program")
"""The logger of lines that the program prints and logs in other processes."""

MOST_BYTES = 8 << 20
"""The bytes of a log file. The one before is kept as `run.log.1`."""


class RunLog:
    """The log of one run. `path`: its file, None for none. `name`: of the plan file."""

    def __init__(self, path: Path | None, *, name: str, log_format: LogFormat = "text") -> None:
        self.path, self._name = path, name
        self._logger = logging.getLogger("dgs.run")
        self._file: logging.Handler | None = None
        if path is not None:
            self._file = _PrivateFile(path, maxBytes=MOST_BYTES, backupCount=1, encoding="utf-8", delay=True)
            self._file.setFormatter(formatter(log_format))

    def info(self, text: str) -> None:
        """Note an action of the run."""
        self._note(logging.INFO, text)

    def warning(self, text: str, *, is_notice: bool = False) -> None:
        """Note something that somebody may have to look after. `is_notice`: the caller of the run is told, too."""
        self._note(logging.WARNING, text, is_notice=is_notice)

    def failure(self, text: str) -> None:
        """Note why the run ends, which its caller is told, too."""
        self._note(logging.ERROR, text, is_notice=True)

    def says_program(self, host: int, lines: Iterable[ProgramLine], *, is_elsewhere: bool) -> None:
        """Note what the program has printed and logged on a host. `is_elsewhere`: handlers of this process have not seen it."""
        for line in lines:
            about = {"run_name": self._name, "host": f"{host} ({line.machine})"}
            record = self._logger.makeRecord(
                line.origin, line.level, __file__, 0, masked(line.text), (), None, extra=about
            )
            record.created = line.t
            self._write(record)
            if is_elsewhere and PROGRAM.isEnabledFor(line.level):
                PROGRAM.handle(record)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):  # for the lines that it still holds
                self._file.close()

    def _note(self, level: int, text: str, *, is_notice: bool = False) -> None:
        if self._file is None and not self._logger.isEnabledFor(level):
            return
        about = {"run_name": self._name, "is_notice": is_notice}
        record = self._logger.makeRecord("dgs.run", level, __file__, 0, masked(text), (), None, extra=about)
        self._write(record)
        if self._logger.isEnabledFor(level):
            self._logger.handle(record)

    def _write(self, record: logging.LogRecord) -> None:
        if self._file is not None:
            with suppress(OSError):  # the run matters more than its log
                self._file.handle(record)


class _PrivateFile(RotatingFileHandler):
    """A file with the mode of all files of a run. A failed write is dropped."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=private_files.opener)  # type: ignore[return-value]

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in logging
        """Drop the record: the run goes on."""


class _AsJson(logging.Formatter):
    """One JSON object a line: `t`, `level`, `logger`, `message`, the `name` of the run, and the `host` of what the program says."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        found: dict[str, Any] = {
            "t": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, field in (("name", "run_name"), ("host", "host")):
            if value := getattr(record, field, ""):
                found[key] = value
        if record.exc_info:
            found["trace"] = masked(self.formatException(record.exc_info))
        return json.dumps(found)


class _AsText(logging.Formatter):
    """Plain text, with the host of what the program says."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in logging
        """Return the line of a record."""
        host = getattr(record, "host", "")
        record.place = f" on host {host}" if host else ""
        return super().formatMessage(record)


def formatter(log_format: LogFormat) -> logging.Formatter:
    """Return the formatter of lines: plain text with the time in UTC, or JSON."""
    if log_format == "json":
        return _AsJson()
    plain = _AsText("%(asctime)s UTC %(levelname)s %(name)s%(place)s: %(message)s", "%Y-%m-%d %H:%M:%S")
    plain.converter = time.gmtime
    return plain


def on_stderr(level: int, log_format: LogFormat) -> logging.Handler:
    """Return a handler that prints what `dgs.*` logs on stderr, without notices and failures, which the caller prints."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(level)
    handler.setFormatter(formatter(log_format))
    handler.addFilter(lambda record: not getattr(record, "is_notice", False))
    return handler


def as_json_line(text: str, *, name: str) -> str:
    """Return a warning of a run as a line of JSON."""
    about = {
        "name": "dgs.run",
        "levelno": logging.WARNING,
        "levelname": "WARNING",
        "msg": masked(text),
        "run_name": name,
    }
    return _AsJson().format(logging.makeLogRecord(about))
