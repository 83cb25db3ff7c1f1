"""The end of the process of a command: its exit code, what `atexit` has to do, and outputs that cannot be written."""

import subprocess
import sys
from pathlib import Path

import pytest

END = """
import atexit, sys
from dgs.cli import process
atexit.register(print, "the end")
sys.argv = ["dgs", *sys.argv[1:]]
process()
"""


def ended(*arguments, **options):
    command = [sys.executable, "-c", END, *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["no-such-verb"], 2)])
def test_a_process_ends_with_the_code_of_the_command_and_calls_its_handlers(arguments, code):
    done = ended(*arguments, stdout=subprocess.PIPE)
    assert done.returncode == code
    assert done.stdout.splitlines()[-1] == "the end"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has a file that is always full")
def test_outputs_that_cannot_be_written_at_the_end_are_an_error():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = ended("--version", stdout=full)
    assert done.returncode == 4
    assert done.stderr.startswith("dgs: the outputs cannot be written: ")
