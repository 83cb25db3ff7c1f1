"""The laws, in the order of checking: a law comes after the laws that it relies on.

`contract` defines a law. Then read:

- `codec`, `ownership`, `determinism`, `resuming`: laws for every program, parallel or not.
- `commuting` (C3), `forking` (C2), `joining` (C1): consistency (Section 2.3). `plans`: equal states continue alike.
- `identity`, `accumulation`: programs that accumulate.
- `batches`, `windows`: vectorised methods equal folds of `update`. `compiled`: so do loops made from it.
- `elsewhere`: another process gives the same results.
"""

from dgs.check.laws.accumulation import AccumulatingKindsAccumulate
from dgs.check.laws.batches import BatchesAreFolds
from dgs.check.laws.codec import SurvivesTheCodec
from dgs.check.laws.commuting import IndependentEventsCommute
from dgs.check.laws.compiled import CompiledEqualsInterpreted
from dgs.check.laws.contract import Finding, Law
from dgs.check.laws.determinism import RunsTheSameTwice
from dgs.check.laws.elsewhere import RunsTheSameElsewhere
from dgs.check.laws.forking import ForkingIsUndone
from dgs.check.laws.identity import IdentityIsNeutral
from dgs.check.laws.joining import UpdatesMayJoinLater
from dgs.check.laws.ownership import OwnsOnlyStates
from dgs.check.laws.plans import EqualStatesGoOnAlike
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
    EqualStatesGoOnAlike(),
    BatchesAreFolds(),
    WindowsAreFolds(),
    CompiledEqualsInterpreted(),
    RunsTheSameElsewhere(),
)

__all__ = ["LAWS", "Finding", "Law"]
