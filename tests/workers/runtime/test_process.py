"""Freed memory is kept: a new process counts the pages that the system has to map again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

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
