"""Formats of outputs: text and tables. Read in this order.

- `json_text`: one value as JSON. `json_columns`: whole columns at once, if their types allow it.
- `arrow_tables`: outputs as Arrow tables. `spark_columns`: the types that Spark can read.
"""
