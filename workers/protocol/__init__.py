"""One worker and one host as pure state machines: messages in, effects out. Read in this order (an hour).

- `messages`: what workers and hosts say to each other. `lanes`: sets of tags that no other worker needs to tell apart.
- `mailbox`: decides by frontiers and join requests what may be processed now. `releases`: events that it lets go together.
- `worker`: what all workers do. `leaf`: folds events into a state.
- `pending`: what is in flight at a worker with children, within its `bounds`. `inner`: the two kinds of such workers.
- `forking`: forks along a tree.
- `folding`: folds `update` over events, in whole batches or one by one, and can leave out events that raise.
- `host`: many workers, and routes for their messages. `edges`: numbered frames, and which source to read next.
- `story`: notes of what a host was given and did lately. `story_words`: these notes as sentences.

The rules R1 to R11 are in docs/protocol.md. There is no clock, no randomness and no thread here, so a seed replays. `Mailbox`,
`Worker` and `Host` check their invariants in `validate_state`, which tests and the simulation call after every step.
"""
