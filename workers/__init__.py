"""Workers: how a plan is run. Read from the heart outwards.

- `protocol`: one worker and one host as pure state machines; the correctness argument is about these (docs/protocol.md).
- `storage`: durable files. `transport`: frames between hosts. `event_log`: durable logs of live sources.
- `recovery`: what a checkpoint is and when it is complete, pure as well.
- `sources`, `sinks`, `checkpoints`: where events come from, where outputs and states go.
- `trial`: what a program costs, measured in a process of its own, to compare plans.
- `runtime`: one host at work, generations, commits, and the driver of the local runtime.
- `ray_runtime`: the same hosts as Ray actors. `simulated`: the same machines in simulated time, under drawn faults.
- `virtual`: the same machines in virtual time, with costs in place of work, to check predictions.
"""
