"""Shaping: raw rows become events in order. Read in this order.

- `mapping`: the columns of time, tag and payload. `times`: how to read times.
- `disorder`: the policies for rows that come too late, and the bounded buffer that sorts.
"""
