"""Readers: files and objects as raw rows with named columns. Read in this order.

- `choosing`: the reader for a section `source:`.
- `files`: paths and globs. `csv` (with `csv_cells`), `jsonl`, `parquet`: the formats of files.
- `generators`, `items`: items from Python code. `custom_rows`: rows of a user's source.
"""
