"""Workers: how a plan is run. Read from the heart outwards.

- `protocol`: one worker and one host as pure state machines; the correctness argument is about these (docs/protocol.md).
- `storage`: durable files. `transport`: frames between hosts. `event_log`: durable logs of live sources.
- `recovery`: what a checkpoint is and when it is complete, pure as well.
- `sources`, `sinks`, `checkpoints`: where events come from, where outputs and states go.
- `trial`: what the functions of a program cost, measured in a separate process, to compare plans.
- `runtime`: one host at work, generations, commits, and the driver of the local runtime.
- `ray_runtime`: the same hosts as Ray actors. `simulated`: the same state machines in simulated time, under random faults.
- `virtual`: the same state machines in virtual time, with costs in place of work, to check predictions.
"""
