"""Mistakes in queries: the code, the place, the line with a caret, and the fix."""

import re
from pathlib import Path

import pytest

pytest.importorskip("sqlglot")

from dgs.errors.as_data import as_data
from dgs.query.errors import CODES, QueryError, Span


def test_an_error_shows_its_place_with_a_caret():
    place = Span("top.sql", 2, 8, "select nme from t")
    text = str(QueryError.of("Q201", "t has no column 'nme'", "Say 'name'.", place))
    first, line, caret, remedy = text.splitlines()
    assert first == "Q201 top.sql:2:8: t has no column 'nme'"
    assert line[caret.index("^") :].startswith("nme")
    assert remedy.strip() == "Say 'name'."


@pytest.mark.parametrize(("code", "exit_code"), [("Q201", 3), ("Q503", 4), ("Q702", 5)])
def test_the_exit_code_is_that_of_the_code(code, exit_code):
    assert QueryError.of(code, "wrong").exit_code == exit_code


def test_an_error_is_data_with_its_own_code_and_place():
    data = as_data(QueryError.of("Q204", "wrong", "Mend it.", Span("q.sql", 3, 4, "")))
    assert (data["code"], data["file"], data["line"], data["column"]) == ("Q204", "q.sql", 3, 4)


def test_the_page_of_errors_lists_every_code():
    text = (Path(__file__).parents[3] / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(Q\d+)` \| (\d) \| (.+) \|$", text, re.MULTILINE)
    assert rows == [(code, str(exit_code), title) for code, (title, exit_code) in CODES.items()]
