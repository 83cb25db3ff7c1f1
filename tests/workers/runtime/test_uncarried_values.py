"""Values that cannot be saved, sent or written: the error says whose they are."""

import subprocess
import sys

import pytest

import dgs
from dgs.errors import CodecError
from dgs.model.events import EventBatch
from dgs.model.order import BEGIN
from dgs.model.tags import Tag
from dgs.workers.protocol.messages import Events, ForkedState, Frame
from dgs.workers.transport.frames import encoded, encoded_with_sizes


class EmitsAnObject(dgs.Program):
    depends = dgs.Dependence(("v", "v", dgs.ALWAYS))

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(object() if event.ts == 3 else event.ts)
        return state


class KeepsAnObject(EmitsAnObject):
    def update(self, state, event, emit):
        return object()


INPUT = {"v": [("v", ts, None) for ts in range(1, 6)]}


def error_of(program, runtime, **settings):
    with pytest.raises(CodecError) as caught:
        dgs.run(program, streams=INPUT, runtime=runtime, settings=settings)
    return str(caught.value)


@pytest.mark.parametrize("sink", ["jsonl", "parquet", "sqlite"])
def test_an_output_that_a_sink_cannot_write_is_shown(tmp_path, sink):
    error = error_of(EmitsAnObject(), "local", sinks=[{sink: {"path": str(tmp_path / "out")}}])
    assert error.startswith("an output of type object cannot be written as JSON: <object object at 0x")
    assert "; emit numbers, texts" in error
    at_once = sink == "sqlite"  # the others write many outputs together, later
    assert error.endswith("`update` emitted it at event v of stream 'v', ts 3") == at_once


def test_an_output_that_cannot_come_back_from_ray_is_named_with_its_event(ray_cluster):
    assert error_of(EmitsAnObject(), "ray").endswith("`update` emitted it at event v of stream 'v', ts 3")


def test_a_state_that_cannot_be_saved_is_called_so(tmp_path, ray_cluster):
    problem = "the state that `update` returned cannot be saved: the codec does not carry values of type"
    assert error_of(KeepsAnObject(), "local", checkpoint={"every": "1s"}).startswith(problem)
    assert error_of(KeepsAnObject(), "ray").startswith(problem)


@pytest.mark.parametrize("encode", [encoded, encoded_with_sizes])
def test_a_message_that_cannot_be_sent_is_named_with_its_worker(encode):
    batch = EventBatch.of("s", rank=0, tags=[Tag("a")], ts=[1], seq=[0], payload=[object()])
    for message, what in ((Events(0, batch), "a payload"), (ForkedState([object()]), "a state")):
        frame = Frame(0, 0, 1, (("w1", ForkedState(1)), ("w2", message)), lowest_frontier=BEGIN, load=0)
        with pytest.raises(CodecError, match=f"{what} cannot be sent to worker w2, .* type builtins.object"):
            encode(frame)


OF_A_MODULE = """
import sys
import dgs
{makes}
try:
    print(dgs.run(mine.Echo(), streams={{"v": [("v", 1, None)]}}, runtime="ray").outputs)
except dgs.DgsError as error:
    print(error.code, error)
"""
MINE = """
import dgs

class Echo(dgs.Program):
    depends = dgs.Dependence(("v", "v", dgs.ALWAYS))

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(event.ts)
        return state
"""


def said_by(folder, makes):
    script = OF_A_MODULE.format(makes=makes)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()


@pytest.mark.ray
def test_hosts_look_for_modules_where_the_driver_does(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "mine.py").write_text(MINE)
    assert said_by(tmp_path, "sys.path.insert(0, 'lib')\nimport mine") == "[1]"


@pytest.mark.ray
def test_program_of_a_module_that_hosts_do_not_have_is_refused(tmp_path):
    makes = f"import types\nmine = sys.modules['mine'] = types.ModuleType('mine')\nexec({MINE!r}, vars(mine))"
    said = said_by(tmp_path, makes)
    assert said.startswith("DGS302 cannot load 'mine': the program is of this module, and the hosts")
