"""The law of the codec: states, outputs and events come back equal, and give the same bytes again."""

from __future__ import annotations

from typing import Any

from dgs import codec
from dgs.check.drawing.scenarios import Draws
from dgs.check.laws.contract import Finding, Law
from dgs.check.scenarios.equality import same
from dgs.check.scenarios.reachable import reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import World
from dgs.errors import CodecError
from dgs.model.user_code import shown

REGISTER = (
    "events, states and outputs travel between hosts and into checkpoints. Build them of what the codec carries (numbers, texts, lists, "
    "tuples, dicts, sets, dates, arrays, ...), or register the type: write `@dgs.codec.register` above a dataclass, NamedTuple or Enum, and "
    "`@dgs.codec.register(to=vars, from_=lambda fields: YourType(**fields))`, or your own two functions, above any other class"
)


class SurvivesTheCodec(Law):
    """`decode(encode(s)) == s`, and encoding it again gives the same bytes. The same holds for outputs and events, with the order of their parts."""

    name = "codec"
    words = "states, outputs and events survive the codec byte for byte"
    after = ()

    def draw(self, draws: Draws) -> Scenario:
        return Scenario(draws.history()[0])

    def check(self, world: World, scenario: Scenario) -> Finding | None:
        """Encode and decode all events, the state at the end, and all outputs."""
        trace: list[list[Any]] = []
        _, state = reached(world, scenario.steps, trace)
        found = _broken("state", state)
        for event in scenario.every_event():
            found = found or _broken("event", event, keeps_order=True)
        for output in (one for outputs in trace for one in outputs):
            found = found or _broken("output", output)
        return found


def _broken(what: str, value: Any, *, keeps_order: bool = False) -> Finding | None:
    a = "an" if what[0] in "aeiou" else "a"
    try:
        data = codec.encode(value, keeps_order=keeps_order)
        back = codec.decode(data)
        again = codec.encode(back, keeps_order=keeps_order)
    except CodecError as error:
        return Finding(f"{a} {what} cannot be encoded: {error}", (what, shown(value)), hint=REGISTER)
    if data == again and same(value, back):
        return None
    hint = "a registered type must give back from its data what it was made of"
    return Finding(
        f"{a} {what} comes back as another", (what, shown(value)), ("comes back as", shown(back)), hint=hint
    )
