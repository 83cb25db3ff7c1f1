"""A job as files: a plan.yaml as input, and the directory of the run. Read in this order.

- `document`: strict YAML, with the place of every value. `settings`: flags and environment over the file, validated once.
- `schema`: the sections of plan.yaml. `schema_sources`, `schema_runtime`: those of sources, and of the runtime and sinks.
  `schema_base`, `units`: the common part of all sections, and values with units.
- `problems`: pydantic's errors as sentences with places.
- `loading`: programs, connectors and functions that a plan file names. `program_code`: digests of a program's code.
- `stream_tags`: the possible tags of a stream.
- `python_streams`: streams given from Python, described as in a plan file.
- `run_directory`: the files of a run. `private_files`: who may read them.
- `references`: values from environment variables, and relative paths seen from another directory.
"""
