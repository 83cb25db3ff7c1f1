"""Transports: they carry frames between the processes of a run. Read in this order.

- `contract`: the laws of a transport (first in, first out per sender), and the credits that bound the bytes in flight.
- `frames`: a frame as bytes, and how many a host sends.
- `unix_sockets`, with `unix_door` and `shared_memory`: for hosts on one machine.
- `zeromq`: for hosts on several machines, encrypted. `ray_calls`: for places where no port may be opened.
"""
