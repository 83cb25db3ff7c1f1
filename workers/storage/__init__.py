"""Durable files: the only place that locks files and forces them to disk. Read in this order.

- `disk`: the disk as an interface, which the simulation can fail, and the real one; files that appear whole or not at all. `locks`: locks on files.
- `record_file`: a file of pairs of numbers that only grows.
- `sealed_file`: the frame around every file that we read again: magic, version, name and digest.
"""
