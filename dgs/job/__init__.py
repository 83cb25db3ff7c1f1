"""A job as files: plan.yaml in, the directory of the run out. Read in this order.

- `document`: YAML, strictly, with the place of every value; `settings`: flags and environment over the file, validated once.
- `schema`: the sections of plan.yaml; `schema_sources`, `schema_runtime`: those of sources, of the runtime and sinks;
  `schema_base`, `units`: what all sections have in common, and values with units.
- `problems`: what pydantic complains about, in sentences with places.
- `loading`: programs, connectors and functions that a plan file names; `stream_tags`: the tags that may arrive on a stream.
- `python_streams`: streams given from Python, described as a plan file would.
- `run_directory`: the files that a run leaves.
"""
