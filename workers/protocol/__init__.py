"""One worker and one host as pure state machines: messages in, effects out. Read in this order (an hour).

- `messages`: what workers and hosts say to each other. `lanes`: sets of tags that no other worker needs to tell apart.
- `mailbox`: what may be processed now, by frontiers and join requests. `releases`: events that it lets go together.
- `worker`: what all workers do. `leaf`: folds events into a state. `making`: which kind of worker a node of a plan gets.
- `pending`: what is in flight at a worker with children. `inner`: the two kinds of these. `forking`: forks along a tree.
- `folding`: folding `update` over events: which way, event by event, and leaving out events that raise.
- `host`: many workers, and the ways of messages between them. `edges`: counted frames. `read_gate`: which source is next.
- `story`: notes of what a host was given and did lately. `story_words`: these notes as sentences.

Rules R1 to R11 are those of docs/protocol.md. There is no clock, no randomness and no thread here: a seed replays. What holds
between steps is in `validate_state` of `Mailbox`, `Worker` and `Host`, which tests and the simulation call after every step.
"""
