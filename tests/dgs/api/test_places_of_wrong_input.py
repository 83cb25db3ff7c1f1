"""A column or file that the plan names and the input lacks is an error with the line of the plan file."""

import subprocess
import sys

import pytest

import dgs
from dgs.errors import AmbiguousTagError, MissingInputError, UnknownColumnError

PROGRAM = """
import dgs


class Sum(dgs.Program):
    kinds = (dgs.kind("value"), dgs.kind("view", key=str))

    def init(self):
        return 0

    def update(self, state, event, emit):
        return state + 1
"""
PLAN = """version: 1
name: sums
program: {ref: "program.py:Sum"}
streams:
  - id: amount
    tags: {kind: value}
    source:
      csv:
        path: data.csv
        columns: {amount: int}
    payload: [amount]
runtime: {kind: local}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "data.csv").write_text("ts,amount,key\n1,5,k\n2,6,k\n")
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


@pytest.mark.parametrize(
    ("before", "after", "kind", "line", "said"),
    [
        ("path: data.csv", "path: date.csv", MissingInputError, 9, "did you mean"),
        (
            "columns: {amount: int}",
            "columns: {amonut: int}",
            UnknownColumnError,
            10,
            "did you mean 'amount'?",
        ),
        ("payload: [amount]", "payload: [amonut]", UnknownColumnError, 11, "did you mean 'amount'?"),
        ("tags: {kind: value}", "tags: {kind: view, key: key}", AmbiguousTagError, 6, "`key: {column: key}`"),
        ("tags: {kind: value}", "tags: {kind: view, key: {column: kye}}", UnknownColumnError, 6, "'key'?"),
    ],
)
def test_error_has_the_line_of_the_plan_file(project, *, before, after, kind, line, said):
    (project / "plan.yaml").write_text(PLAN.replace(before, after))
    with pytest.raises(kind) as caught:
        dgs.run(project / "plan.yaml")
    assert str(caught.value).startswith(f"{project}/plan.yaml:{line}:")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            b"ts,amount\n1,5\n2,x\n",
            "error[DGS322]: stream 'amount', row 1: column 'amount': invalid value 'x'",
        ),
        ("ts,amount\n1,5\n2,é\n".encode("latin-1"), "its text is not utf-8: byte 0xe9 at byte 16"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "it is a gzip file, not text: name it .gz (data.csv)"),
    ],
)
def test_wrong_input_ends_the_command_with_exit_3(project, data, said):
    (project / "data.csv").write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-m", "dgs", "run", "plan.yaml"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_generator_that_misses_a_file_of_its_own_is_believed(project):
    raising = "\n\ndef rows():\n    raise dgs.errors.MissingInputError(stream='of its own', path='gone.csv')\n    yield\n"
    (project / "program.py").write_text(PROGRAM + raising)
    source = "source: {generator: {ref: 'program.py:rows'}}\n    payload"
    text = PLAN[: PLAN.index("source:")] + source + PLAN[PLAN.index("payload") + len("payload") :]
    (project / "plan.yaml").write_text(text)
    with pytest.raises(MissingInputError, match="stream 'of its own'"):
        dgs.run(project / "plan.yaml")
