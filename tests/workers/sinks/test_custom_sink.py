"""Users' sinks: staged outputs are sent to the publisher, and errors name the mistake."""

import sys

import pytest

from dgs import codec
from dgs.errors import ConnectorError, ProgramImportError, UserCodeError
from dgs.job.schema import SinkConfig
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.workers.checkpoints.saved import located, relative
from dgs.workers.recovery.checkpoint import Checkpoint, StagedPart
from dgs.workers.recovery.positions import Positions
from dgs.workers.sinks import open_sink
from dgs.workers.sinks.opening import Publisher, is_exactly_once

SINK = """
shown, calls = [], []


class Kept:
    def __init__(self, name="kept"):
        self.name, self.lines = name, {}

    def begin(self, generation):
        calls.append(("begin", self.name, generation.run, generation.number, generation.epoch))

    def open(self, generation, host):
        calls.append(("open", self.name, generation.number, generation.epoch, host))

    def write(self, batch, epoch):
        self.lines.setdefault(epoch, []).extend(batch.to_list())

    def stage(self, epoch):
        return self.lines.pop(epoch, None)

    def publish(self, staged):
        shown.extend((self.name, lines) for lines in staged)

    def close(self):
        calls.append(("close", self.name))
"""


@pytest.fixture
def sinks(tmp_path, monkeypatch):
    """The module of the sinks, loaded as in a run."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "sinks.py").write_text(SINK)
    before = set(sys.modules)  # other tests may have left sinks
    Publisher([config("Kept")], tmp_path, program="Sums")
    (name,) = (name for name in set(sys.modules) - before if name.endswith("_sinks"))
    yield sys.modules[name]
    for loaded in [name for name in sys.modules if name.startswith("dgs_file_")]:
        del sys.modules[loaded]


def config(cls, **args):
    return SinkConfig.model_validate({"custom": {"ref": f"sinks.py:{cls}", "args": args}})


def outputs(*values):
    zeros = [0] * len(values)
    seq = list(range(len(values)))
    return OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=zeros, seq=seq, index=zeros, values=list(values))


def opened(tmp_path, sink, **options):
    return open_sink(sink, output_dir=tmp_path, base_dir=tmp_path, host=2, program="Sums", **options)


def test_staged_outputs_are_published_by_the_object_of_their_sink(tmp_path, sinks):
    staged = []
    for name in ("one", "two"):
        sink = opened(tmp_path, config("Kept", name=name), run="r", generation=3, epoch=6)
        sink.write(outputs("x", name), epoch=7)
        sink.write(outputs("later"), epoch=8)
        staged += sink.stage(7).files
        assert sink.stage(9).files == ()
    assert [part.rows for part in staged] == [2, 2]
    Publisher([], tmp_path, program="Sums").publish(staged)
    assert sinks.shown == [("one", ["x", "one"]), ("two", ["x", "two"])]
    assert sinks.calls == [("open", "one", 3, 6, 2), ("open", "two", 3, 6, 2)]


def test_empty_batches_are_not_written(tmp_path, sinks):
    sink = opened(tmp_path, config("Kept"))
    sink.write(outputs(), epoch=1)
    assert sink.stage(1).files == ()


def test_staged_parts_are_saved_with_a_checkpoint_wherever_its_project_is(tmp_path):
    part = StagedPart("sinks.py:Kept", {"name": "a"}, codec.encode(("x", 1)), 1)
    checkpoint = Checkpoint(1, None, Positions(), relative([part], tmp_path))
    assert located(codec.decode(codec.encode(checkpoint)).files, tmp_path / "moved") == (part,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "class Bad:\n    def write(self, batch, epoch): ...",
            "class Bad has no method `stage`, which a sink needs",
        ),
        ("from dgs.connectors import Sink\nclass Bad(Sink): ...", "no method `stage` and `write`"),
        ("class Bad:\n    def __init__(self, path): ...\n    write = stage = __init__", "making it with"),
        (
            "class Bad:\n    async def write(self, batch, epoch): ...\n    def stage(self, epoch): ...",
            "in class Bad, `write` is `async`, so a call does nothing: write `def write`",
        ),
        (
            "class Bad:\n    def write(self, batch, epoch): ...\n    def publish(self, staged): yield\n    stage = write",
            "in class Bad, `publish` has a `yield`, so a call does nothing",
        ),
    ],
)
def test_other_values_than_sinks_are_refused(tmp_path, sinks, text, problem):
    (tmp_path / "sinks.py").write_text(text)
    with pytest.raises(ProgramImportError, match=problem):
        Publisher([config("Bad")], tmp_path, program="Sums")


def test_sink_that_empties_the_list_of_its_outputs_takes_none_from_others(tmp_path, sinks):
    (tmp_path / "sinks.py").write_text(
        "class Bad:\n    def write(self, batch, epoch): batch.to_list().clear()\n    def stage(self, epoch): ..."
    )
    batch = outputs("x", "y")
    opened(tmp_path, config("Bad")).write(batch, epoch=1)
    assert batch.to_list() == ["x", "y"]


BAD = "class Bad:\n    def write(self, batch, epoch): {write}\n    def stage(self, epoch): {stage}\n"


def test_exception_of_a_sink_has_its_traceback(tmp_path, sinks):
    (tmp_path / "sinks.py").write_text(BAD.format(write="1 / 0", stage="return {}[epoch]"))
    sink = opened(tmp_path, config("Bad"))
    with pytest.raises(
        UserCodeError,
        match=r"Bad.write of program Sums raised ZeroDivisionError.*for 1 outputs of stream 's'",
    ):
        sink.write(outputs("x"), epoch=1)
    with pytest.raises(UserCodeError, match=r"Bad.stage of program Sums raised KeyError.*for epoch 4"):
        sink.stage(4)


def test_wrong_results_of_stage_are_named(tmp_path, sinks):
    (tmp_path / "sinks.py").write_text(BAD.format(write="...", stage="return open"))
    with pytest.raises(ConnectorError, match=r"sink sinks\.py:Bad: `stage` did not return plain data"):
        opened(tmp_path, config("Bad")).stage(1)


def test_sink_that_publishes_gives_each_output_once_and_one_that_does_not_may_repeat(tmp_path, sinks):
    (tmp_path / "sinks.py").write_text(SINK + BAD.format(write="...", stage="..."))
    assert is_exactly_once(config("Kept"), "exactly_once", tmp_path)
    assert not is_exactly_once(config("Bad"), "exactly_once", tmp_path)
