"""The command line: one module per verb; heavy imports inside of them. `dgs.cli.app` lists the verbs.

Read in this order: `app` (all verbs), `run`, `finishing` (what run and resume have in common), `reporting` (messages and exit codes),
`options` (shared flags); every other module is the verb of its name, `show_config` a flag of run.

Data goes to stdout, talk to stderr; nothing is ever asked. The exit codes are those of `dgs.errors`.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit; Ctrl-C counts from the first moment, also while the verbs are imported."""
    try:
        from dgs.cli.app import app

        app(prog_name="dgs")
    except KeyboardInterrupt:
        sys.stderr.write("dgs was stopped before it had begun\n")
        sys.exit(130)
