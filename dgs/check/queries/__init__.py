"""`dgs check` of a query: each rule that rewrote it must keep its answer, by the reference interpreter, on small inputs.

- `small_tables`: small inputs of a script, with few values, many ties, repeated rows and the constants of the script.
- `query_files`: files of queries without a plan file. `rounding`: when their states and answers are equal.
- `rule_results`: compares the scripts before and after each step, and finds a smallest input on which they differ.
"""

from __future__ import annotations

from dgs.check.queries.query_files import with_rounding
from dgs.check.queries.rule_results import rule_results

__all__ = ["rule_results", "with_rounding"]
