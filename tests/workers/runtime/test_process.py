"""Freed memory is kept: a new process counts the pages that the system has to map again. Garbage is collected rarely during a run only."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys

import pytest

import dgs
from dgs.workers.runtime import process

ROUNDS = """
import resource
import numpy as np
from dgs.workers.runtime.process import keep_freed_memory
{call}
def use():
    return [np.arange(500_000) for _ in range(4)]   # 4 MB each: no huge pages
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(call: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS.format(call=call)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the allocator of glibc is told")
def test_pages_of_freed_arrays_are_used_again():
    assert faults("keep_freed_memory()") * 10 < faults("")


@pytest.mark.parametrize(("before", "meanwhile"), [(700, 5000), (10_000, 10_000), (0, 0)])
def test_garbage_is_collected_less_often_meanwhile_unless_that_is_set(before, meanwhile):
    usual = gc.get_threshold()
    gc.set_threshold(before, *usual[1:])
    try:
        with process.rarer_collections():
            assert gc.get_threshold() == (meanwhile, *usual[1:])
        assert gc.get_threshold() == (before, *usual[1:])
    finally:
        gc.set_threshold(*usual)


def test_a_threshold_that_a_program_sets_in_a_run_stays():
    usual = gc.get_threshold()
    try:
        with process.rarer_collections():
            gc.set_threshold(2000)
        assert gc.get_threshold()[0] == 2000
    finally:
        gc.set_threshold(*usual)


def test_a_run_collects_garbage_less_often_and_leaves_the_setting_as_it_was():
    seen = []

    class Looking(dgs.Program):
        def init(self):
            return 0

        def update(self, state, event, emit):
            seen.append(gc.get_threshold()[0])
            return state

    usual = gc.get_threshold()
    gc.set_threshold(700, *usual[1:])
    try:
        dgs.run(Looking, streams={"s": [("n", 1, 0)]})
        assert seen == [process.NEW_OBJECTS]
        assert gc.get_threshold() == (700, *usual[1:])
    finally:
        gc.set_threshold(*usual)
