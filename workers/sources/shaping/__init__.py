"""Shaping: raw rows become events in order.

- `mapping`: which columns are time, tag and payload; `times`, `tagging`, `payloads`: how each of them is read.
- `disorder`: what happens to a row that comes too late; `reorder`: the bounded buffer that sorts.
"""
