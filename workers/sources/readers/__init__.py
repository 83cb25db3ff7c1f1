"""Readers: files and objects as raw rows with named columns.

- `choosing`: which reader a section `source:` asks for.
- `files`: paths and globs; `csv`, `jsonl`, `parquet`: their formats.
- `generators`, `items`: what Python code yields.
"""
