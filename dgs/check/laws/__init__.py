"""The laws, in the order in which they are checked: a law comes after those without which it says nothing.

`contract` says what a law is. Then:

- `codec`, `ownership`, `determinism`, `resuming`: what every program must keep to, parallel or not.
- `commuting` (C3), `forking` (C2), `joining` (C1): consistency (Section 2.3).
- `identity`, `accumulation`: programs that accumulate.
- `batches`, `windows`: vectorised methods are folds of `update`.
- `elsewhere`: another process does the same.
"""

from dgs.check.laws.accumulation import AccumulatingKindsAccumulate
from dgs.check.laws.batches import BatchesAreFolds
from dgs.check.laws.codec import SurvivesTheCodec
from dgs.check.laws.commuting import IndependentEventsCommute
from dgs.check.laws.contract import Finding, Law
from dgs.check.laws.determinism import RunsTheSameTwice
from dgs.check.laws.elsewhere import RunsTheSameElsewhere
from dgs.check.laws.forking import ForkingIsUndone
from dgs.check.laws.identity import IdentityIsNeutral
from dgs.check.laws.joining import UpdatesMayJoinLater
from dgs.check.laws.ownership import OwnsOnlyStates
from dgs.check.laws.resuming import GoesOnAfterTheCodec
from dgs.check.laws.windows import WindowsAreFolds

LAWS: tuple[Law, ...] = (
    SurvivesTheCodec(),
    OwnsOnlyStates(),
    RunsTheSameTwice(),
    GoesOnAfterTheCodec(),
    IndependentEventsCommute(),
    IdentityIsNeutral(),
    AccumulatingKindsAccumulate(),
    ForkingIsUndone(),
    UpdatesMayJoinLater(),
    BatchesAreFolds(),
    WindowsAreFolds(),
    RunsTheSameElsewhere(),
)

__all__ = ["LAWS", "Finding", "Law"]
