"""Benchmarks of the applications: `python -m experiments.bench --help`, and docs/performance.md."""
