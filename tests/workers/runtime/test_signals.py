"""Signals at a bad moment act after it, and foreign handlers do not stay."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dgs.workers.runtime.control import ENDING, Control, deferred
from dgs.workers.runtime.supervisor import _end_printing


class Came(BaseException):
    pass


@pytest.fixture(params=ENDING, ids=lambda number: number.name)
def number(request):
    def come(number, _frame):
        raise Came(number)

    known = signal.signal(request.param, come)
    yield request.param
    signal.signal(request.param, known)


def test_signal_acts_after_the_block_although_others_have_set_handlers(number):
    steps = []

    def busy():
        with deferred():
            signal.raise_signal(number)
            steps.append("goes on")
            signal.signal(number, lambda *_: None)
            signal.signal(signal.SIGALRM, lambda *_: None)

    with pytest.raises(Came):
        busy()
    assert steps == ["goes on"]
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    with pytest.raises(Came):
        signal.raise_signal(number)


def caught():
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_default_that_c_code_sets_is_undone_inside_the_block(number):
    """Ray does so as it ends. A signal would then end the process."""
    came = []
    signal.signal(number, lambda number, _frame: came.append(number))
    with deferred():
        ctypes.CDLL(None).signal(number, 0)
        deadline = time.monotonic() + 30
        while not caught() >> number - 1 & 1:
            assert time.monotonic() < deadline, "the default stays"
            time.sleep(0.001)
        os.kill(os.getpid(), number)
        assert came == []
    assert came == [number]


def test_second_signal_acts_at_once(number):
    steps = []

    def busy():
        with deferred():
            for step in ("first", "second"):
                signal.raise_signal(number)
                steps.append(step)

    with pytest.raises(Came):
        busy()
    assert steps == ["first"]


def test_ignored_signal_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    with deferred():
        signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN


def test_signal_does_not_interrupt_a_run_that_keeps_what_is_not_printed(tmp_path):
    """Writing many outputs may take longer than a stop may: interrupted, it lost all but the first and said nothing."""
    control = Control(tmp_path)
    with control.listening(patience=60.0):
        signal.raise_signal(signal.SIGTERM)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        control.leave_in_peace()
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_signals_wait_until_what_is_not_printed_is_kept(number):
    said = []

    def close():
        for _ in range(3):
            signal.raise_signal(number)
        return "unprinted.jsonl"

    caller = SimpleNamespace(notify=said.append)
    outputs = SimpleNamespace(close=close)
    with pytest.raises(Came):
        _end_printing(SimpleNamespace(control=Control(None), caller_outputs=outputs, caller=caller))
    assert "unprinted.jsonl" in said[0]
