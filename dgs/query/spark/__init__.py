"""The text of queries for Spark: `spark_text`, with the functions that have their own text there in `spark_functions`."""
