"""Outputs as text and as tables.

- `json_text`: one value as JSON; `json_columns`: whole columns at once, where their types allow it.
- `arrow_tables`: outputs as Arrow tables; `spark_columns`: the types that Spark can read.
"""
