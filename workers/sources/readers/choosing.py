r"""The choice of the reader for a section `source:` that is not live, and how many rows its input has, for the percentage of progress.

Parquet files say how many. For text files it is estimated from the rows at the beginning.

>>> from dgs.job.schema import StreamConfig
>>> config = StreamConfig(id="clicks", tags={"kind": "click"}, source={"memory": "clicks"})
>>> mapping = Mapping(config, Program(), plan_unit="none")
>>> context = SourceContext(Program(), memory={"clicks": [("click", 5, "home"), ("click", 6, "shop")]})
>>> arrivals, origin = read(config, mapping, context, batch_rows=100)
>>> next(arrivals).payload, origin.describe()
(['home', 'shop'], {'kind': 'memory', 'length': 2})
>>> import tempfile
>>> file = Path(tempfile.mkdtemp()) / "a.csv"
>>> _ = file.write_text("ts,amount\n" + "1,10\n" * 100)
>>> round(share_of_rows(lambda: rows_of_text([file]))(51), 2)
0.5
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dgs.errors import MissingInputError, UsageError
from dgs.errors.hidden_values import masked_data
from dgs.job.loading import load_function
from dgs.job.schema import ColumnRef, StreamConfig, TagConfig
from dgs.job.schema_sources import memory_name
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.model.user_code import calling
from dgs.workers.sources.contract import SourceContext
from dgs.workers.sources.description import FilesRead, Origin
from dgs.workers.sources.readers.csv import CsvReader
from dgs.workers.sources.readers.files import input_files
from dgs.workers.sources.readers.items import ItemsReader
from dgs.workers.sources.readers.jsonl import JsonlReader
from dgs.workers.sources.readers.parquet import ParquetReader
from dgs.workers.sources.rows import Arrivals, RawRows
from dgs.workers.sources.shaping.mapping import Mapping, each_arrival

Rows = Iterable[RawRows | Arrivals]

PIECES, PIECE_BYTES = 8, 1 << 15
"""The pieces of a text file whose rows are counted, evenly spread: rows may become longer, or shorter."""

MOST_FILES = 1000
"""Of more files the rows are not counted."""

NEARLY_ALL = 0.99
"""The largest share to show for an input whose end has not been seen."""

FILES = ("csv", "jsonl", "parquet")
"""The kinds of sources that read files."""

_KEY_TYPES = {int: "int", float: "float", str: "str", bool: "bool"}


def read(
    config: StreamConfig, mapping: Mapping, context: SourceContext, batch_rows: int
) -> tuple[Generator[Arrivals], Origin]:
    """Return the events of a source as they arrive, at most `batch_rows` at a time, and their origin.

    Raises MissingInputError, ProgramImportError, UsageError.
    """
    rows, origin = raw_rows(config, mapping, context, batch_rows)
    return each_arrival(mapping, rows, batch_rows), origin


def raw_rows(
    config: StreamConfig, mapping: Mapping, context: SourceContext, batch_rows: int
) -> tuple[Rows, Origin]:
    """Return the rows of a source before they become events, and their origin. Raises as `read` does."""
    if config.source.kind == "memory":
        return _from_memory(config, mapping, context.memory, batch_rows)
    if config.source.kind == "generator":
        return _from_generator(config, mapping, context, batch_rows)
    return _from_files(config, mapping, context, batch_rows)


def _from_memory(
    config: StreamConfig, mapping: Mapping, memory: AnyMapping[str, Any], batch_rows: int
) -> tuple[Rows, Origin]:
    name = memory_name(config.source)
    items = _items(memory, name, config.id)
    reader = ItemsReader(mapping, items, where=f"memory {name!r}", batch_rows=batch_rows)
    skip_to = reader.skip_to if config.on_disorder == "error" else None
    return reader.rows(), Origin(
        lambda: {"kind": "memory", "length": _length(items)},
        skip_to,
        share=share_of_rows(lambda: _length(items)),
    )


def _from_generator(
    config: StreamConfig, mapping: Mapping, context: SourceContext, batch_rows: int
) -> tuple[Rows, Origin]:
    ref, arguments = config.source.details.ref, config.source.details.args
    function = load_function(ref, context.base_dir, may_yield=True)
    items = generated(function, arguments, ref=ref, stream=config.id, program=context.program.name)
    rows = ItemsReader(mapping, items, where=ref, batch_rows=batch_rows).rows()
    return rows, Origin(lambda: {"kind": "generator", "ref": ref, "args": masked_data(arguments)})


def _from_files(
    config: StreamConfig, mapping: Mapping, context: SourceContext, batch_rows: int
) -> tuple[Rows, Origin]:
    details, kind = config.source.details, config.source.kind
    found = input_files(details.path, base_dir=context.base_dir, stream=config.id)
    of_text = share_of_rows(lambda: rows_of_text(found))
    files = FilesRead(found, kind=kind, base_dir=context.base_dir, stream=config.id)
    if kind == "csv":
        return CsvReader(details, mapping, files, _key_types(config, context.program)).rows(), Origin(
            files.describe, share=of_text
        )
    if kind == "jsonl":
        return JsonlReader(details, mapping, files, batch_rows).rows(), Origin(files.describe, share=of_text)
    reader = ParquetReader(mapping, files, batch_rows)
    skip_to = reader.skip_to if config.on_disorder == "error" else None
    return reader.rows(), Origin(files.describe, skip_to, share=share_of_rows(lambda: rows_of_parquet(found)))


def _length(items: Sequence[Any]) -> int:
    """Return the number of single events, or of rows in tables."""
    if not items or isinstance(items[0], tuple):
        return len(items)
    return sum(_rows_of(item) for item in items)


def _rows_of(item: Any) -> int:
    """Return the number of events of a batch or of rows of a table; anything else is one row."""
    from dgs.frames.tables import is_table  # a slow import, which runs over files do not need

    if isinstance(item, dict) and is_table(item):
        return columns.length(item)
    return len(item) if isinstance(item, EventBatch) or is_table(item) else 1


def _items(memory: AnyMapping[str, Any], name: str, stream: str) -> Sequence[Any]:
    if name not in memory:
        have = ", ".join(map(repr, memory)) or "nothing"
        raise MissingInputError(stream=stream, path=f"memory {name!r} (given: {have})")
    data = memory[name]
    if isinstance(data, Iterator):
        message = f"memory {name!r} of stream {stream!r} can be read only once: give a list, or use a generator source"
        raise UsageError(message=message)
    return data if isinstance(data, (list, tuple)) else [data]


def _key_types(config: StreamConfig, program: Program) -> dict[str, str]:
    """Return the types of key columns from the domains of their kinds. So text stays text even if it is all digits."""
    kind, key = config.tags.parts if isinstance(config.tags, TagConfig) else (None, None)
    if not isinstance(key, ColumnRef) or not isinstance(kind, str):
        return {}
    domain = program.kind(kind).domain
    kinds = {domain} if isinstance(domain, type) else {type(key) for key in domain or ()}
    known = {_KEY_TYPES.get(kind) for kind in kinds}
    only = known.pop() if len(known) == 1 else None
    return {key.column: only} if only else {}


def share_of_rows(count: Callable[[], int | None]) -> Callable[[int], float | None]:
    """Return the function from the number of rows read to their share of the input. `count` is called once, when first needed."""
    known: list[int | None] = []

    def share(rows: int) -> float | None:
        if not known:
            known.append(count())
        return min(rows / known[0], NEARLY_ALL) if known[0] else None

    return share


def rows_of_parquet(paths: Sequence[Path]) -> int | None:
    """Return the rows of Parquet files, None if a file cannot be read."""
    if len(paths) > MOST_FILES:
        return None
    try:
        return sum(int(pq.read_metadata(path).num_rows) for path in paths)
    except (OSError, pa.ArrowException):  # the reader reports it when it reaches that file
        return None


def rows_of_text(paths: Sequence[Path]) -> int | None:
    """Return about how many rows text files have, None for packed ones."""
    if len(paths) > MOST_FILES or any(path.suffix == ".gz" for path in paths):
        return None
    try:
        return round(sum(map(_about, paths)))
    except OSError:
        return None


def _about(path: Path) -> float:
    size = path.stat().st_size
    if not size:
        return 0.0
    step = max(size // PIECES, PIECE_BYTES)
    with path.open("rb") as file:
        pieces = [os.pread(file.fileno(), PIECE_BYTES, place) for place in range(0, size, step)]
    return sum(piece.count(b"\n") for piece in pieces) * size / sum(map(len, pieces))


def generated(
    function: Callable[..., Any], arguments: AnyMapping[str, Any], *, ref: str, stream: str, program: str
) -> Iterator[Any]:
    """Yield the items of the function. Its exceptions become a UserCodeError, with the user's traceback first.

    >>> from itertools import count
    >>> next(generated(count, {"start": 3}, ref="itertools:count", stream="numbers", program="Sum"))
    3
    """
    items = 0
    with calling(ref, program=program, where=lambda: f"for stream {stream!r}, after {items} items"):
        for item in function(**arguments):
            yield item
            items += 1
