"""Queries as statements of Spark: `dgs query --on spark`."""
