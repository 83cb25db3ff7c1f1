"""Lines for stdout: printed as far as their reader reads, for any kind of stdout, without waiting for it."""

import contextlib
import io
import os
import sys
from pathlib import Path

import pytest

from dgs.errors import OutputUnwritableError
from dgs.workers.sinks.kept_outputs import StdoutSink

LINES = [f"{number:06d}" + "x" * 93 + "\n" for number in range(3_000)]  # more than a pipe holds


@contextlib.contextmanager
def piped():
    """Replace stdout by a pipe; yield its reading end."""
    reading, writing = os.pipe()
    with (
        os.fdopen(reading, "rb", buffering=0) as reader,
        os.fdopen(writing, "w") as out,
        contextlib.redirect_stdout(out),
    ):
        yield reader


def sink(lines=LINES):
    made = StdoutSink()
    made.put(iter(lines))
    return made


def test_lines_go_as_far_as_the_reader_reads_and_come_in_order():
    out, got = sink(), b""
    with piped() as pipe:
        assert out.show()
        assert not out.show()
        assert not out.show(within=0.01)
        while out.is_behind or got.count(b"\n") < len(LINES):
            got += pipe.read(10_000)
            out.show()
    assert got.decode().splitlines(keepends=True) == LINES


def test_lines_that_are_not_printed_to_their_end_are_left():
    out = sink()
    with piped() as pipe:
        out.show()
        out.put(["last\n"])
        left = list(out.left())
        printed = os.read(pipe.fileno(), 2**20).decode()
    whole = printed[: printed.rfind("\n") + 1].splitlines(keepends=True)
    assert "".join([*whole, *left]) == "".join([*LINES, "last\n"])
    assert not out.is_behind


def test_reader_of_a_run_that_stops_gets_whole_lines():
    """What is left comes again with the run that goes on: behind half a line it would be none."""
    out = sink()
    with piped() as pipe:
        out.show()
        printed = os.read(pipe.fileno(), 2**20).decode()
    assert "".join([printed, *out.left()]) == "".join(LINES)


def test_line_that_no_pipe_takes_at_once_is_printed():
    lines = ["a" * 10_000 + "\n", "b\n"]
    with piped() as pipe:
        sink(lines).show()
        assert pipe.read(20_000).decode() == "".join(lines)


def test_earlier_prints_come_first():
    with piped() as pipe:
        sys.stdout.write("first\n")
        sink(["second\n"]).show()
        assert pipe.read(100) == b"first\nsecond\n"


def test_closed_reader_is_a_broken_pipe():
    with piped() as pipe:
        pipe.close()
        with pytest.raises(BrokenPipeError):
            sink().show()


@pytest.mark.parametrize("kind", ["text", "file"])
def test_files_and_texts_take_all_at_once(kind, tmp_path):
    made = sink()
    with io.StringIO() if kind == "text" else (tmp_path / "out").open("w+") as out:
        with contextlib.redirect_stdout(out):
            assert made.show()
        assert not made.is_behind
        out.seek(0)
        assert out.readlines() == LINES


def test_full_disk_is_reported_with_its_place():
    is_told = pytest.raises(OutputUnwritableError, match=r"stdout.*No space left")
    with Path("/dev/full").open("w") as out, contextlib.redirect_stdout(out), is_told:
        sink().show()
