"""A run: one host at work, commits, generations, and the driver of the local runtime. Read in this order.

- `job`: the task of a runtime (`Job`), its result (`JobResult`), and the callbacks to its caller (`Caller`).
- `deployment`: the host of each worker and of each source.
- `engine`: the loop of one host, with its `host_sources`, `host_outputs` and `process`, its clock, memory and signals. All runtimes drive this loop.
- `checkpointing`: when to take a checkpoint and what to commit.
- `control`: requests to stop or to move, from signals and files. `recovery.coordinator` follows such a request.
- `supervisor`: a run as generations, each from the last commit. `store_opening`: the stores that it commits to.
- `local`: the driver of one generation in this process. `ray_runtime` has the one for Ray.
- `observed`: figures, from the workers to the report. `stall`: why a run makes no progress. `run_story`: what happened before it failed.
"""
