"""Lake tables: outputs as tables of Delta Lake and Iceberg, which many engines read. Read in this order.

- `contract`: a table of a lake, and the files that are added to it. `lake_columns`: rows and types of its columns.
- `lake_sink`: the sink. Hosts write Parquet files; one transaction of the table for each checkpoint makes them visible.
- `delta_table`, `iceberg_table`: the two formats.
"""
