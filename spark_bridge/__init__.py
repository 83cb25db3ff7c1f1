"""The bridge to Spark: source streams from Spark, checkpoints in Spark tables, outputs as a Spark data source."""
