"""`import dgs` leaves the libraries of queries alone."""

import subprocess
import sys


def test_importing_dgs_imports_no_library_of_queries():
    found = "import sys, dgs; print([one for one in ('duckdb', 'sqlglot', 'lark') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
