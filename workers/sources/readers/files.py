"""Input files: a path or a glob, relative to the plan file; `.gz` is decompressed, and text of any encoding comes as UTF-8.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> for name in ("b.csv", "a.csv"):
...     _ = (folder / name).write_text("ts")
>>> [path.name for path in input_files("*.csv", base_dir=folder, stream="clicks")]
['a.csv', 'b.csv']
>>> _ = (folder / "a.csv").write_bytes("preis,größe".encode("utf-16"))
>>> with TextFile(folder / "a.csv", "utf-16") as file:
...     file.read(100).decode()
'preis,größe'
"""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import IO, Any

from dgs.errors import MissingInputError

CHUNK_BYTES = 1 << 16
MOST_LINES = 4
"""After this many times the longest line without a closing quotation mark, the reader looks for one that is never closed."""
_SIGNATURES = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "Parquet",
}
_LONGEST_SIGNATURE = max(map(len, _SIGNATURES))


def _no_text(error: UnicodeError) -> tuple[str | bytes, int]:
    """Decode a wrong byte to half of a surrogate pair, and encode all such halves as the byte 0xff, which UTF-8 never has."""
    if isinstance(error, UnicodeEncodeError):
        return b"\xff" * (error.end - error.start), error.end
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff" * (error.end - error.start), error.end


codecs.register_error("dgs.no_text", _no_text)


class FileProblemError(Exception):
    """A file cannot be read, or not to its end. The text says why and what to do."""


def input_files(path: str, *, base_dir: Path, stream: str) -> tuple[Path, ...]:
    """Return the files that `path` names, in the order of their names. Row numbers go on from file to file.

    Raises MissingInputError if there are none, or if the pattern also matches a directory.
    """
    whole = base_dir / path
    if whole.is_file():
        return (whole,)
    names = sorted(glob.glob(str(whole), recursive=True))  # noqa: PTH207 - Path.glob refuses absolute patterns
    found = [Path(name) for name in names]
    others = [one for one in found if not one.is_file()]
    if others and "**" not in path:
        hint = f"it is a directory; name its files, such as {others[0] / '*'}"
        if others[0].is_symlink() and not others[0].exists():
            hint = "it is a link to a file that is not there"
        elif not others[0].is_dir():
            hint = "it is a pipe, a device or a socket; copy what it gives into a file, or send it to a `socket` source"
        raise MissingInputError(stream=stream, path=others[0], hint=f": {hint}")
    if not found or len(others) == len(found):
        raise MissingInputError(stream=stream, path=whole, hint=_nearest(whole))
    return tuple(one for one in found if one not in others)


def _nearest(path: Path) -> str:
    """Return `; did you mean 'x'?` for a nearby file with a similar name, also if the name of a directory is misspelt."""
    rest: list[str] = []
    here = path
    while not here.parent.is_dir():
        rest.insert(0, here.name)
        here = here.parent
    try:
        names = [one.name for one in here.parent.iterdir() if one.is_dir() == bool(rest)]
    except OSError:
        return ""
    close = get_close_matches(here.name, names, n=1, cutoff=0.6)
    return f"; did you mean {str(here.with_name(close[0]).joinpath(*rest))!r}?" if close else ""


class TextFile(io.RawIOBase):
    """A text file as UTF-8 without a byte order mark: unpacked by its name, decoded from its encoding.

    Bytes that are not text in the encoding come as bytes that are not UTF-8, so that their rows can be named.
    `quotes` counts the quotation marks read. `read` raises FileProblemError for a file that is not text at all, and for a line of more than
    `longest` bytes. `check_quotes` is called once if a quotation mark may never be closed; it raises if that is so.
    """

    def __init__(
        self,
        path: Path,
        encoding: str,
        *,
        longest: int | None = None,
        check_quotes: Callable[[], None] | None = None,
    ) -> None:
        self._reading = threading.RLock()
        self._file = opened(path)
        self._size = os.fstat(self._file.fileno()).st_size
        name = codecs.lookup(encoding).name
        self._decoder = None
        if name not in ("utf-8", "utf-8-sig"):
            # after a wrong byte, all following text would be wrong
            strict = name.startswith(("utf-16", "utf-32"))
            self._decoder = codecs.getincrementaldecoder(encoding)("strict" if strict else "dgs.no_text")
        self._path, self._encoding = path, encoding
        self._at_start, self._is_over = True, False
        self._longest, self._check_quotes = longest, check_quotes
        self.quotes = self.passed = self._in_line = self._in_record = 0

    def readable(self) -> bool:
        """Return True, since pyarrow asks."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next piece, about `size` bytes; b"" at the end, and once it is closed."""
        with self._reading:
            return b"" if self.closed else self._read(size)

    def _read(self, size: int) -> bytes:
        piece = b""
        while not piece and not self._is_over:
            piece = self._piece(CHUNK_BYTES if size < 0 else size)
        self.quotes += piece.count(b'"')
        if (place := piece.find(b"\0")) >= 0:
            raise FileProblemError(
                f"there is a NUL byte at byte {self.passed + place:,} of its text: the file is damaged, or in another "
                f"encoding than {self._encoding}, such as `encoding: utf-16`"
            )
        self.passed += len(piece)
        if self._longest is not None:
            self._check_length(piece, self._longest)
        return piece

    def _check_length(self, piece: bytes, longest: int) -> None:
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
        self._in_line = len(piece) - end - 1 if end >= 0 else self._in_line + len(piece)
        if self._in_line > longest:
            raise FileProblemError(f"it has a line of more than {longest:,} bytes")
        self._in_record = 0 if end >= 0 and self.quotes % 2 == 0 else self._in_record + len(piece)
        if self._in_record > MOST_LINES * longest and self._check_quotes is not None:
            self._check_quotes()
            self._check_quotes = None

    def _piece(self, size: int) -> bytes:
        try:
            piece = self._file.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise FileProblemError(
                f"it cannot be read any further: {getattr(error, 'strerror', None) or error}"
            ) from None
        self._is_over = not piece
        if self._is_over and (size := os.fstat(self._file.fileno()).st_size) < self._size:
            raise FileProblemError(
                f"it has become shorter while it was read: from {self._size:,} to {size:,} bytes; restore it, and write new files beside it"
            )
        if self._decoder is not None:
            try:
                text = self._decoder.decode(piece, final=self._is_over)
            except UnicodeError:
                raise FileProblemError(undecodable(self._path, self._encoding)) from None
            piece = text.encode("utf-8", "dgs.no_text")
        if self._at_start and piece:
            self._at_start = False
            piece = piece.removeprefix(codecs.BOM_UTF8)
        return piece

    def lines(self, longest: int) -> Iterator[bytes | None]:
        """Yield the lines without their ends; None for one of more than `longest` bytes, which are not kept."""
        return chain.from_iterable(self.groups_of_lines(longest))

    def groups_of_lines(self, longest: int) -> Iterator[list[bytes | None]]:
        """Yield the same lines in lists: those that end in one piece of the file."""
        rest, size = bytearray(), 0
        while piece := self.read(CHUNK_BYTES):
            first, *others = piece.split(b"\n")
            size += len(first)
            if size <= longest:
                rest += first
            else:
                rest = bytearray()
            if others:
                lines: list[bytes | None] = [bytes(rest) if size <= longest else None, *others[:-1]]
                if len(piece) > longest:
                    lines[1:] = (line if len(line) <= longest else None for line in others[:-1])
                yield lines
                rest, size = bytearray(others[-1]), len(others[-1])
        if size:
            yield [bytes(rest) if size <= longest else None]

    def close(self) -> None:
        """Close the file, after a read under way: Arrow reads ahead in a thread, which must not outlive the interpreter."""
        with self._reading:
            self._file.close()
            super().close()


def opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    """Open a text file, unpacked if its name ends in `.gz`. Raises FileProblemError if the content does not fit the name."""
    try:
        with path.open("rb") as file:
            start = file.read(_LONGEST_SIGNATURE)
        packed = next((name for sign, name in _SIGNATURES.items() if start.startswith(sign)), None)
        if path.suffix == ".gz":
            if packed != "gzip" and start:
                raise FileProblemError("its name says gzip, but its content is not: name it without .gz")
            return gzip.open(path) if start else path.open("rb")
        if packed is not None:
            advice = "name it .gz" if packed == "gzip" else "unpack it"
            advice = "read it with a `parquet` source" if packed == "Parquet" else advice
            raise FileProblemError(f"it is a {packed} file, not text: {advice}")
        return path.open("rb")
    except OSError as error:
        raise FileProblemError(f"it cannot be read: {error.strerror or error}") from None


def wrong_byte(error: UnicodeDecodeError, encoding: str) -> str:
    """Return the sentence on a text that is not in its encoding."""
    wrong = bytes(error.object)[error.start]
    return f"its text is not {encoding}: byte 0x{wrong:02x} at byte {error.start} of it"


def undecodable(path: Path, encoding: str) -> str:
    """Return the sentence on a file that is not text in its encoding, with the first wrong byte and advice."""
    name = codecs.lookup(encoding).name
    decoder: Any = codecs.getincrementaldecoder("utf-8" if name == "utf-8-sig" else encoding)()
    before, piece = 0, b""
    try:
        with opened(path) as file:
            start = file.read(CHUNK_BYTES)
            piece = start
            while True:
                waiting = len(decoder.getstate()[0])
                decoder.decode(piece, final=not piece)
                if not piece:
                    return "it holds half of a surrogate pair (\\ud800 to \\udfff), which is not text"
                before += len(piece)
                piece = file.read(CHUNK_BYTES)
    except UnicodeError as error:
        offset = before - waiting + getattr(error, "start", 0)
        kept = getattr(error, "object", b"")[getattr(error, "start", 0) :][:1]
        wrong = f"byte 0x{kept.hex()}" if kept else "what stands"
    except (OSError, EOFError, zlib.error, FileProblemError) as error:
        return f"its text is not {encoding}: {error}"
    likely = "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin-1"
    likely = "utf-8" if name.startswith("utf-16") or likely == encoding else likely
    return (
        f"its text is not {encoding}: {wrong} at byte {offset:,} is none of it; "
        f"say the encoding that it has, such as `encoding: {likely}`"
    )
