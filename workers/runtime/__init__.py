"""A run: one host at work, commits, generations, and the driver of the local runtime. Read in this order.

- `job`: what a runtime is asked to do (`Job`), what it answers (`JobResult`), and what it calls meanwhile (`Caller`).
- `deployment`: which worker and which source is on which host.
- `engine`: the loop of one host, with its `host_sources` and `host_outputs`. All runtimes drive this loop.
- `checkpointing`: when a checkpoint is taken and what is committed; `caller_outputs`: what then goes out at the caller.
- `control`: requests to stop or to move, from signals and files; how far a run is with one: `recovery.stop_request`.
- `supervisor`: a run as generations, each from the last commit; `store_opening`: the stores that it commits to.
- `local`: the driver of one generation in this process. The one for Ray is in `ray_runtime`.
- `figures`: what is counted, from workers to the report; `stall`: what a run waits for that does not move.
- `run_story`: what happened lately, written into the run directory when a run fails.
- `allocator`: freed memory that a host keeps.
"""
