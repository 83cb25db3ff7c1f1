"""Queries of the command line and of Python: their tables, and where they are answered."""
