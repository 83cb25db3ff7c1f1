"""The prints and logs of a program: which lines are taken, how many, and that nothing else changes."""

import io
import logging
import sys
import threading
import time
from contextlib import contextmanager, suppress

from dgs.workers.observing.program_lines import MOST_CHARACTERS, MOST_LINES, ProgramLines


def say(text, end="\n"):
    """Print like a program."""
    sys.stdout.write(f"{text}{end}")


def texts(lines):
    return [line.text for line in lines]


def test_lines_above_the_limit_per_second_are_counted():
    now = [100.0]
    lines = ProgramLines(clock=lambda: now[0])
    with lines.prints():
        for number in range(MOST_LINES + 70):
            say(number)
    assert texts(lines.take()) == [str(number) for number in range(MOST_LINES)]
    now[0] = 101.0
    with lines.prints():
        say("the next second")
    assert texts(lines.take()) == ["70 more lines of this second are left out", "the next second"]


def test_a_line_is_one_line_that_can_be_written_anywhere():
    lines = ProgramLines(clock=time.monotonic)
    with lines.prints():
        say("a\x1b[2J\ud800b", end="")
        say("c\nd", end="")
        sys.stdout.writelines(["e\n", "x" * 9000])
    assert texts(lines.take()) == ["a\\x1b[2J\\ud800bc", "de"]
    (last,) = texts(lines.close())
    assert last == "x" * MOST_CHARACTERS + "..."


def test_streams_are_as_before_whatever_the_program_does_to_them(capsys):
    lines, before = ProgramLines(clock=time.monotonic), sys.stdout
    with suppress(KeyError), lines.prints():
        say("shown")
        raise KeyError
    assert sys.stdout is before
    mine = io.StringIO()
    with lines.prints():
        sys.stdout = mine
    assert sys.stdout is mine
    sys.stdout = before
    assert capsys.readouterr().out == "shown\n"


def test_two_runs_in_turns_take_their_own_lines_and_leave_the_stream_as_it_was():
    one, other, before = (
        ProgramLines(clock=time.monotonic, is_alone=True),
        ProgramLines(clock=time.monotonic, is_alone=True),
        sys.stdout,
    )
    turns = [threading.Barrier(2) for _ in range(5)]

    def second():
        for number in range(2):
            turns[2 * number].wait()
            with other.prints():
                say("of the other")
                turns[2 * number + 1].wait()
        turns[4].wait()

    thread = threading.Thread(target=second)
    thread.start()
    for number in range(2):  # each ends while the other is still active
        with one.prints():
            say("of the one")
            turns[2 * number].wait()
        turns[2 * number + 1].wait()
    turns[4].wait()
    thread.join()
    assert sys.stdout is before
    assert (texts(one.take()), texts(other.take())) == (["of the one"] * 2, ["of the other"] * 2)


@contextmanager
def nothing_set_up():
    """The root logger of a process that has not set up logging."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def test_records_are_taken_from_info_on_and_warnings_still_go_to_stderr(capsys):
    lines = ProgramLines(clock=time.monotonic)
    with nothing_set_up() as root:
        with lines.prints(), lines.logs():
            logging.getLogger("fraud").info("seen")
            logging.getLogger("fraud").warning("strange")
            logging.getLogger("fraud").debug("detail")
            logging.getLogger("dgs.run").warning("of dgs itself")
        assert (root.handlers, root.level) == ([], logging.WARNING)
    assert [(line.level, line.origin, line.text) for line in lines.take()] == [
        (logging.INFO, "fraud", "seen"),
        (logging.WARNING, "fraud", "strange"),
    ]
    assert capsys.readouterr().err == "strange\n"


def test_levels_that_the_caller_has_set_stay():
    lines = ProgramLines(clock=time.monotonic)
    with nothing_set_up() as root, lines.logs():
        root.setLevel(logging.ERROR)
        logging.getLogger("fraud").info("not wanted")
        logging.getLogger("fraud").error("wanted")
    assert texts(lines.take()) == ["wanted"]


def test_prints_without_a_reader_do_not_affect_stdout():
    lines, before = ProgramLines(clock=time.monotonic, takes_prints=False), sys.stdout
    with lines.prints():
        assert sys.stdout is before
    assert lines.close() == []
