"""Queries: one algebra for SQL, MRQL and Pig Latin, with a reference interpreter, as programs that keep their answers (papers/mrql, papers/piglet).

Needs `pip install 'dgs[query]'`. `import dgs` imports none of this.

- `relation`: the ten nodes and `Script`; `types`: schemas and values; `errors`: `QueryError` and `Span`.
- `scalar`: expressions over a row, `functions` and `meanings`: the table of functions; `aggregates`: those of groups.
- `evaluate`: the reference interpreter.
- `split`: from a query to compactions and an answer; `compact`: the state that is kept; `sql_text`, `duck`: statements and DuckDB.
- `build`: queries in Python; `program`: `QueryProgram`.
"""
