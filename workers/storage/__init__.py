"""Durable files: the only place that locks files and forces them to disk. Read in this order.

- `disk`: the disk as an interface, which the simulation can fail, and the real one. `locks`: locks on files.
- `whole_files`: files that appear whole or not at all.
- `record_file`: a file of pairs of numbers that only grows.
- `sealed_file`: the frame around every file that we read again: magic, version, name and digest.
"""
