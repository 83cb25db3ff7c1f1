"""Queries in plan.yaml: `program: {query: ...}`, and the program that it stands for."""
