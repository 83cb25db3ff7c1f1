"""Shaping: raw rows become events in order. Read in this order.

- `mapping`: the columns of time, tag and payload. `times`, `tagging`, `payloads`: how to read each of them.
- `disorder`: the policies for rows that come too late. `reorder`: the bounded buffer that sorts.
"""
