"""A run in a script that fails or is interrupted: the error shows the script's own frames, and the call that resumes it."""

import os
import subprocess
import sys

import pytest

SCRIPT = """\
import os, signal
import dgs


class Sums(dgs.Program):
    def init(self):
        return 0

    def update(self, state, event, emit):
        return self.added(state, event.payload)

    def added(self, state, value):
        {act}
        return state + value


def main():
    events = [("value", ts, 1 if ts != 5 else "x") for ts in range(20)]
    dgs.run(Sums, streams={{"a": events}}, runtime="local"{more})


main()
"""


@pytest.fixture
def scripted(tmp_path):
    def run(act="pass", more="", **environ):
        (tmp_path / "script.py").write_text(SCRIPT.format(act=act, more=more))
        command = [sys.executable, "script.py"]
        env = {**os.environ, **environ}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return run


def frames(text):
    return [line.strip() for line in text.splitlines() if line.startswith("  File ")]


def test_a_traceback_has_the_frames_of_the_script_and_a_note_of_the_others(scripted):
    done = scripted()
    assert done.returncode == 1
    assert done.stderr.count("in added") == 1
    assert all("script.py" in line for line in frames(done.stderr))
    assert "During handling" not in done.stderr
    assert "direct cause" not in done.stderr
    assert done.stderr.splitlines()[-1].endswith("frames of dgs (DGS_DEBUG=1 shows them)")


def test_all_frames_are_shown_on_demand(scripted):
    done = scripted(DGS_DEBUG="1")
    assert len(frames(done.stderr)) > 5
    assert "frames of dgs" not in done.stderr


def test_an_interrupted_script_names_its_run_and_the_call_that_resumes_it(scripted):
    interrupts = "value == 'x' or os.kill(os.getpid(), signal.SIGINT)"
    done = scripted("value = 1; " + interrupts, more=", run_dir='there'")
    assert "KeyboardInterrupt" in done.stderr
    assert "dgs: Sums was interrupted; " in done.stderr
    assert "the run is in there; go on with: dgs.resume('there', program=..., streams=...)" in done.stderr
