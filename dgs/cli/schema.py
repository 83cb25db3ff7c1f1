"""`dgs schema`: prints the JSON Schema of plan.yaml, for editors."""

from __future__ import annotations

import json

from dgs.cli.reporting import Ending, verb


@verb
def schema(ending: Ending) -> None:
    """Print the JSON Schema of plan.yaml."""
    from dgs.job.schema import json_schema

    print(json.dumps(json_schema(), indent=None if ending.as_json else 2))
