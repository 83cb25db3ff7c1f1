"""Ray's own lines, which go to a file of the run: not among the outputs on stdout, and not among our messages on stderr.

Ray prints reports of its processes with colours, some of them on stdout, and its C++ part writes to the file descriptor of stderr.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dgs.errors.hidden_values import masked
from dgs.job import private_files

COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

STDERR = 2
"""The file descriptor that C++ writes to."""


class RayLog(logging.Handler):
    """The file of Ray's lines; it is made with the first of them. None: they are dropped."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(logging.WARNING)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record of Ray's loggers."""
        self.take("ray", record.getMessage())

    def take(self, origin: object, text: str) -> None:
        """Take lines without their colours and without the values of secrets. Lines are lost if the file cannot be written."""
        if self._path is None or not text.strip():
            return
        at = time.strftime("%Y-%m-%d %H:%M:%S")
        lines = masked(COLOUR.sub("", text)).rstrip("\n").splitlines()
        try:
            with open(self._path, "a", encoding="utf-8", opener=private_files.opener) as file:
                file.writelines(f"{at} ({origin}) {line}\n" for line in lines)
        except OSError:  # the run must not end for a line of its log
            return


@contextmanager
def lines_kept(path: Path | None) -> Iterator[RayLog]:
    """Write what Ray's processes report, and what its loggers say, to a file for as long as this context lasts."""
    from ray._private import worker

    log, logger = RayLog(path), logging.getLogger("ray")
    handlers, propagates = logger.handlers, logger.propagate
    printed = getattr(worker, "print_to_stdstream", None)  # private: another version of Ray may not have it

    def taken(data: Mapping[str, Any], *_: Any, **__: Any) -> None:
        log.take(data.get("pid"), "\n".join(data.get("lines", ())))

    if printed is not None:
        worker.print_to_stdstream = taken
    logger.handlers, logger.propagate = [log], False
    try:
        yield log
    finally:
        if printed is not None:
            worker.print_to_stdstream = printed
        logger.handlers, logger.propagate = handlers, propagates


@contextmanager
def stderr_kept(log: RayLog) -> Iterator[None]:
    """Write to the log what comes to the file descriptor of stderr inside this context, also from C++."""
    kept = os.dup(STDERR)
    with tempfile.TemporaryFile() as file:  # no pipe: processes that Ray starts may keep their end of it open
        sys.stderr.flush()
        os.dup2(file.fileno(), STDERR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, STDERR)
            os.close(kept)
            file.seek(0)
            log.take("ray", file.read().decode(errors="replace"))
