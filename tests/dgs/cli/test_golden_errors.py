"""The exact texts of common errors, as users see them. `UPDATE_GOLDEN=1` rewrites the files in tests/golden."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden"
RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")

EVERYTHING_BELOW = """\
plan:
  id: root
  tags: {barriers: [barrier]}
  children:
    - {id: one, tags: {left: [value]}}
    - {id: two, tags: {right: [value]}}
"""


@pytest.fixture
def golden(project, dgs):
    """Run a command line and compare its result with the file of that name."""

    def golden(name: str, code: int, line: str = "run plan.yaml") -> None:
        done = dgs(line)
        text = f"$ dgs {line}\nexit {done.code}\n{done.err}".replace(str(project), "PROJECT")
        text = RUN_ID.sub("RUN", text)
        assert done.code == code, done.err
        assert done.out == ""
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(text)
        assert text == path.read_text()

    return golden


def test_unknown_keys_and_wrong_units(golden, edit):
    edit(
        "plan.yaml",
        "payload: amount\noptimizer: {max_leaves: 2, name: greedy}\nruntime: {kind: local}",
        "paylod: amount\noptimiser: {max_leaves: 2}\nruntime: {kind: local, linger: 5}",
    )
    golden("plan_file_problems", 3)


def test_no_such_plan_file(golden):
    golden("no_plan_file", 3, "run plans.yaml")


def test_not_yaml(golden, edit):
    edit("plan.yaml", "name: sums", "name: sums\nname: again")
    golden("duplicate_key", 3)


def test_program_file_that_raises(golden, edit):
    edit("program.py", "import dgs\n", "import dgs\nimport nothing_of_that_name\n")
    golden("program_import_raises", 3)


def test_missing_program(golden, edit):
    edit("plan.yaml", "program.py:Sums", "program.py:Sum")
    golden("program_missing", 3)


def test_program_with_wrong_arguments(golden):
    golden("program_arguments", 3, "run plan.yaml --set program.args.zzz=2")


def test_asymmetric_dependence(golden, edit):
    edit(
        "program.py",
        "    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))\n",
        "    kinds = (VALUE, BARRIER)\n\n    def depends(self, a, b):\n        return a.kind == BARRIER\n",
    )
    golden("asymmetric_dependence", 3)


def test_plan_that_breaks_v1_v2_and_coverage(golden, edit, project):
    (project / "plan.yaml").write_text((project / "plan.yaml").read_text() + EVERYTHING_BELOW)
    edit(
        "plan.yaml",
        "  tags: {barriers: [barrier]}\n  children:\n    - {id: one, tags: {left: [value]}}\n",
        "  children:\n    - {id: one, tags: {barriers: [barrier]}}\n",
    )
    edit("program.py", "    def join(self, left, right):\n        return left + right\n", "")
    golden("invalid_plan", 3)


def test_plan_section_that_is_no_plan(golden, project, edit):
    (project / "plan.yaml").write_text((project / "plan.yaml").read_text() + EVERYTHING_BELOW)
    edit("plan.yaml", "{id: one, tags: {left: [value]}}", "{id: one, tag: {left: [value]}}")
    golden("plan_section", 3)


def test_fork_and_join_missing_where_the_plan_needs_them(golden, project, edit):
    (project / "plan.yaml").write_text((project / "plan.yaml").read_text() + EVERYTHING_BELOW)
    edit("program.py", "    def join(self, left, right):\n        return left + right\n", "")
    golden("join_missing", 3)


def test_missing_input(golden, project):
    (project / "left.csv").unlink()
    golden("missing_input", 3)


def test_unknown_column(golden, edit):
    edit("left.csv", "ts,amount", "ts,amounts")
    golden("unknown_column", 3)


def test_disorder(golden, edit):
    edit("left.csv", "3,100", "1,100")
    golden("disorder", 5)


def test_malformed_row(golden, edit):
    edit("left.csv", "3,100", "NA,100")
    golden("malformed_row", 3)


def test_tag_that_no_worker_owns(golden, project, edit):
    edit(
        "plan.yaml",
        "    tags: {kind: value}\n    source: {csv: {path: left.csv}}",
        "    tags: {kind: {column: kind}, kinds: [value]}\n    source: {csv: {path: left.csv}}",
    )
    (project / "left.csv").write_text("ts,kind,amount\n1,value,1\n2,barrier,10\n3,value,1\n4,value,1\n")
    golden("unowned_tag", 5)


def test_row_of_a_kind_that_the_program_does_not_declare(golden, edit, project):
    edit(
        "plan.yaml",
        "    tags: {kind: value}\n    source: {csv: {path: left.csv}}",
        "    tags: {kind: {column: kind}}\n    source: {csv: {path: left.csv}}",
    )
    (project / "left.csv").write_text("ts,kind,amount\n1,value,1\n2,valeu,10\n")
    golden("undeclared_kind_in_a_row", 3)


def test_stream_of_a_kind_that_the_program_does_not_declare(golden, edit):
    edit("plan.yaml", "{kind: value}", "{kind: valeu}")
    golden("undeclared_kind", 3)


def test_update_raises(golden, edit):
    edit(
        "program.py",
        "        emit(state)\n",
        "        emit(state)\n        if event.ts == 4:\n            raise ValueError('four')\n",
    )
    golden("update_raises", 1)


def test_fork_raises(golden, edit):
    edit("program.py", "        return state, 0\n", "        raise ValueError('cannot be split')\n")
    golden("fork_raises", 1)


def test_join_raises(golden, edit):
    edit("program.py", "        return left + right\n", "        raise KeyError(left)\n")
    golden("join_raises", 1)


def test_ray_is_not_installed(golden, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    golden("ray_absent", 4, "run plan.yaml --runtime ray")


def test_outputs_cannot_be_written(golden, project):
    (project / "out").write_text("a file where a directory should be")
    golden("unwritable_output", 4, "run plan.yaml --set 'sinks=[{jsonl: {path: out}}]'")


def test_run_directory_cannot_be_made(golden, project):
    (project / ".dgs").write_text("a file where a directory should be")
    golden("unwritable_run_directory", 4)


def test_set_leads_nowhere(golden):
    golden("set_nowhere", 2, "run plan.yaml --set streams.lefft.rate=3/h")


def test_environment_variable_is_blamed(golden, monkeypatch):
    monkeypatch.setenv("DGS_HOSTS", "many")
    golden("environment_variable", 3)


def test_relation_with_a_condition_that_is_none(golden, edit):
    edit("program.py", "(BARRIER, VALUE, dgs.ALWAYS)", "(BARRIER, VALUE, 'same_key')")
    golden("condition_is_no_function", 3)


def test_relation_with_a_condition_of_one_tag(golden, edit):
    edit("program.py", "(BARRIER, VALUE, dgs.ALWAYS)", "(BARRIER, VALUE, lambda a: True)")
    golden("condition_of_one_tag", 3)


def test_relation_that_takes_one_tag(golden, edit):
    edit(
        "program.py",
        "    depends = ",
        "    kinds = (VALUE, BARRIER)\n\n    def depends(self, a):\n        return True\n\n    rules = ",
    )
    golden("relation_of_one_tag", 3)


def test_program_without_update(golden, edit):
    edit("program.py", "    def update(", "    def updates(")
    golden("update_missing", 3)


def test_update_that_returns_nothing(golden, edit):
    edit("program.py", "        emit(state)\n        return 0", "        emit(state)")
    golden("update_returns_nothing", 1)


def test_kinds_without_a_comma(golden, edit):
    edit("program.py", "    depends = ", "    kinds = (VALUE)\n    depends = ")
    golden("kinds_without_a_comma", 3)


def test_program_that_looks_at_tags_without_naming_kinds(golden, edit):
    edit("program.py", "    depends = ", "    rules = ")
    golden("kinds_are_missing", 3)


def test_plan_with_a_kind_that_the_program_does_not_declare(golden, edit, project):
    plan = (project / "plan.yaml").read_text()
    (project / "plan.yaml").write_text(plan + EVERYTHING_BELOW.replace("left: [value]", "left: [valeu]"))
    golden("undeclared_kind_in_a_plan", 3)


def test_join_misspelt(golden, edit):
    edit("program.py", "    def join(", "    def jion(")
    edit("left.csv", "3,100", "NA,100")
    golden("join_misspelt", 3)


def test_undeclared_kind_in_a_list_of_tags(golden, edit):
    edit("plan.yaml", "{kind: value}", "[barrier, valu]")
    golden("undeclared_kind_in_a_list", 3)


def test_blanks_in_the_header_of_csv(golden, edit):
    edit("left.csv", "ts,amount", "ts, amount ")
    golden("blanks_in_a_header", 3)


def test_path_of_data_is_misspelt(golden, edit):
    edit("plan.yaml", "path: left.csv", "path: lfet.csv")
    golden("data_path_misspelt", 3)


def test_init_misspelt(golden, edit):
    edit("program.py", "    def init(", "    def inti(")
    golden("init_misspelt", 3)
