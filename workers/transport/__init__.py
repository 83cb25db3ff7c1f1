"""Frames between the processes of a run.

- `contract`: what a transport promises (first in, first out per sender), and the credits that bound what is on its way.
- `frames`: a frame as bytes.
- `unix_sockets`, with `unix_door` and `shared_memory`: hosts on one machine.
- `zeromq`: hosts on several machines, encrypted. `ray_calls`: where no port may be opened.
"""
