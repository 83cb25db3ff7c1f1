"""Dead letters: the events that `on_error: skip` left out, one line of JSON each, committed like outputs.

>>> import tempfile
>>> from dgs.workers.sinks.files.publishing import publish
>>> folder = Path(tempfile.mkdtemp())
>>> letters = dead_letters(folder, host=0, generation=1, by_epoch=True)
>>> letter = DeadLetter(
...     stream="clicks", ts=5, seq=3, kind="view", key=7, payload={"n": 0},
...     error="ZeroDivisionError: division by zero", function="update", worker="w2",
... )
>>> letters.write(letter, epoch=4)
>>> publish(letters.stage(4).files)
>>> print((folder / "dead-letter-000004-0.jsonl").read_text(), end="")  # doctest: +ELLIPSIS
{"stream":"clicks","ts":5,"seq":3,"kind":"view","key":7,"payload":{"n":0},"error":"ZeroDivisionError: ...","function":"update","worker":"w2","row":null}
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from dgs.errors import CodecError
from dgs.model.user_code import shown
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.sinks.contract import AroundSink
from dgs.workers.sinks.files.file_sink import FileSink, JsonlWriter
from dgs.workers.sinks.files.places import PartNames, dead_letter_place
from dgs.workers.sinks.formats.json_text import plain


class DeadLetters(AroundSink):
    """Writes dead letters. It is like a sink, but takes letters instead of outputs."""

    def __init__(self, sink: FileSink) -> None:
        super().__init__(sink)
        self._files = sink

    def write(self, letter: DeadLetter, epoch: int) -> None:
        """Take a letter. A value that JSON cannot hold is written as its repr: it may be the reason why the event failed."""
        self._files.write_column([_record(letter)], 1, epoch)


def dead_letters(output_dir: Path, *, host: int, generation: int = 1, by_epoch: bool = False) -> DeadLetters:
    """Open the dead letters of one host: `dead-letter-....jsonl`. Raises OutputUnwritableError."""
    return DeadLetters(
        FileSink(PartNames(dead_letter_place(output_dir), host, generation, by_epoch), JsonlWriter)
    )


def _record(letter: DeadLetter) -> dict[str, Any]:
    record = {field.name: getattr(letter, field.name) for field in fields(letter)}
    for name in ("key", "payload"):
        try:
            record[name] = plain(record[name])
        except (CodecError, RecursionError):
            record[name] = shown(record[name])
    return record
