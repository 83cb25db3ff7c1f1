"""`import dgs` does not import the libraries of queries."""

import subprocess
import sys


def test_importing_dgs_imports_no_library_of_queries():
    found = "import sys, dgs; print([one for one in ('duckdb', 'sqlglot', 'lark') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_making_a_program_of_a_query_does_not_import_pandas():
    found = """
import sys, dgs
from dgs.query.types import INT, TEXT, Schema
text = "select c, count(*) n from t where d > 1.5 and c <> 'a' and (d > 2) is true group by c"
query = dgs.query(text, schemas={"t": Schema.of(c=TEXT, d=INT)})
query.program.answering
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
