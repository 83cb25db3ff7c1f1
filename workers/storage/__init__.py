"""Durable files: the only place that locks files and forces them to disk.

- `disk`: the disk as an interface, so that the simulation can fail it, and the real one.
- `whole_files`: files that appear whole or not at all.
- `sealed_file`: the frame around every file that we read again: magic, version, name and digest.
"""
