"""Dead letters, functions as sinks, and the sentence on sinks that may repeat outputs."""

import json

import pytest

from dgs.errors import ProgramImportError, UserCodeError
from dgs.job.schema import SinkConfig
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.model.user_code import shown
from dgs.semantics.skipped_events import DeadLetter
from dgs.workers.recovery.checkpoint import StagedFile
from dgs.workers.sinks import open_sink
from dgs.workers.sinks.dead_letters import dead_letters
from dgs.workers.sinks.files.places import output_places
from dgs.workers.sinks.files.publishing import publish, remove_earlier
from dgs.workers.sinks.opening import deliveries


def letter(**changes):
    fields = {
        "stream": "s", "ts": 5, "seq": 3, "kind": "a", "key": None, "payload": 1,
        "error": "ValueError: no", "function": "update", "worker": "w2",
    }  # fmt: skip
    return DeadLetter(**(fields | changes))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_letters_are_one_record_each_by_epoch(tmp_path):
    letters = dead_letters(tmp_path, host=2, generation=3, by_epoch=True)
    letters.write(letter(), 1)
    letters.write(letter(seq=4, payload={"n": [1, (2, 3)]}, key=("x", 7)), 2)
    letters.write(letter(seq=9), 1)
    staged = [letters.stage(epoch).files for epoch in (1, 2, 3)]
    assert [[file.rows for file in files] for files in staged] == [[2], [1], []]
    publish([file for files in staged for file in files])
    letters.close()
    assert [one["seq"] for one in lines(tmp_path / "dead-letter-000001-2.jsonl")] == [3, 9]
    assert lines(tmp_path / "dead-letter-000002-2.jsonl") == [
        {
            "stream": "s", "ts": 5, "seq": 4, "kind": "a", "key": ["x", 7], "payload": {"n": [1, [2, 3]]},
            "error": "ValueError: no", "function": "update", "worker": "w2", "row": None,
        }
    ]  # fmt: skip


def test_payload_that_json_cannot_hold_is_written_as_its_repr(tmp_path):
    letters = dead_letters(tmp_path, host=0)
    loop = []
    loop.append(loop)
    for payload in (object, loop):
        letters.write(letter(payload=payload), 1)
    publish(letters.stage(1).files)
    letters.close()
    found = [one["payload"] for one in lines(tmp_path / "dead-letter-0.jsonl")]
    assert found == [repr(object), shown(loop)]


def test_run_without_letters_leaves_none_of_an_earlier_one(tmp_path):
    publish([staged(tmp_path / "dead-letter-0.jsonl")])
    (tmp_path / "part-0.jsonl").write_text("outputs")
    letters = dead_letters(tmp_path, host=0)
    publish(letters.stage(1).files)
    letters.close()
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["part-0.jsonl"]


def test_letters_are_among_the_places_of_a_run_that_may_have_them(tmp_path):
    publish([staged(tmp_path / "dead-letter-000003-0.jsonl")])
    remove_earlier(output_places((), output_dir=tmp_path, base_dir=tmp_path))
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    remove_earlier(output_places((), output_dir=tmp_path, base_dir=tmp_path, dead_letters=True))
    assert not list(tmp_path.glob("*.jsonl"))


def staged(final):
    """Stage a file with the final name `final`."""
    partial = final.with_name(f"{final.name}.partial")
    partial.write_text("old")
    return StagedFile(str(partial), str(final), 3, "", 1)


# -- functions ---------------------------------------------------------------------------------------------------------

SEND = """
seen = []
def post(batch, to):
    seen.append((to, batch.seq.tolist(), batch.to_list()))
def fail(batch):
    raise RuntimeError("the mail is down")
async def late(batch): ...
def lazy(batch): yield
def empties(batch):
    batch.to_list().clear()
number = 5
"""


def batch(*values):
    rows = list(range(len(values)))
    return OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=rows, seq=rows, index=rows, values=list(values))


def sink(folder, ref, **arguments):
    (folder / "send.py").write_text(SEND)
    config = SinkConfig.model_validate({"callable": {"ref": ref, "args": arguments}})
    return open_sink(config, output_dir=folder, base_dir=folder, host=0, program="Sums")


def test_function_is_called_with_every_batch_at_once(tmp_path):
    one = sink(tmp_path, "send.py:post", to="me")
    one.write(batch("x", "y"), 1)
    one.write(batch(), 1)
    assert one._function.__globals__["seen"] == [("me", [0, 1], ["x", "y"])]
    assert one.stage(1).files == one.stage(1).unaccepted == ()
    one.close()


def test_function_that_empties_its_list_takes_no_outputs_from_other_sinks(tmp_path):
    outputs = batch("x", "y")
    sink(tmp_path, "send.py:empties").write(outputs, 1)
    assert outputs.to_list() == ["x", "y"]


def test_function_that_raises_ends_the_run_with_its_traceback(tmp_path):
    one = sink(tmp_path, "send.py:fail")
    with pytest.raises(
        UserCodeError,
        match=r'(?s)send.py".*send.py:fail of program Sums raised RuntimeError: the mail is down as a',
    ):
        one.write(batch("x"), 1)
    one.abort()


@pytest.mark.parametrize("ref", ["send.py:number", "send.py:missing", "send.py:late", "send.py:lazy"])
def test_other_values_than_functions_are_refused_when_the_sink_opens(tmp_path, ref):
    with pytest.raises(ProgramImportError):
        sink(tmp_path, ref)


# -- promises ----------------------------------------------------------------------------------------------------------


def test_sinks_that_may_repeat_are_named():
    weak = [SinkConfig.model_validate({"callable": {"ref": f"send.py:{name}"}}) for name in ("one", "two")]
    strong = [
        SinkConfig.model_validate(form)
        for form in ("stdout", "none", {"jsonl": {"path": "out"}}, {"sqlite": {"path": "out.db"}})
    ]
    assert deliveries(strong, "exactly_once") is None
    said = deliveries([*weak, *strong], "exactly_once")
    assert "sinks `callable: send.py:one`, `callable: send.py:two` may see outputs again" in said
    assert deliveries([*weak, *strong], "at_least_once") is None
