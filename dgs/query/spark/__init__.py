"""The text of queries for Spark: `spark_text` of nodes, `spark_scalars` of scalars and aggregates."""
