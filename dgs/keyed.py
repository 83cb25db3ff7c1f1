"""Keyed programs: the state is a dictionary by tag key; some kinds change the entry of their key, others only read it.

>>> import dgs
>>> PRICE, ORDER = dgs.kind("price", key=str), dgs.kind("order", key=str)
>>> class Orders(KeyedState):
...     '''Emits what every order costs, at the latest price of its article.'''
...     changes = (PRICE,)
...     reads = (ORDER,)
...     def update(self, state, event, emit):
...         if event.tag.kind == ORDER:
...             emit(event.payload * state.get(event.tag.key, 0))
...         else:
...             state[event.tag.key] = event.payload
...         return state
>>> Orders().dependence(ORDER("tea"), PRICE("tea")), Orders().dependence(ORDER("tea"), ORDER("tea"))
(True, False)
>>> Orders().fork({"tea": 3, "milk": 1}, dgs.TagSet.of(ORDER("tea")), dgs.TagSet.of(ORDER("tea"), PRICE("milk")))
({'tea': 3}, {'tea': 3, 'milk': 1})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dgs.model.declarations import check_kinds
from dgs.model.dependence import SAME_KEY, Dependence, Rule
from dgs.model.program import OwnOutput, Program
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Key, Kind, Tag

if TYPE_CHECKING:  # `KeyedState[int, str]` gives the types of entries and outputs
    from typing_extensions import TypeVar

    Entry = TypeVar("Entry", default=Any)
else:
    Entry = Any


class KeyedState(Program[dict[Any, Entry], OwnOutput]):
    """A program whose `update` uses only the entry `state[event.tag.key]`, and changes it only for events of the kinds `changes`.

    Dependence, fork and join are derived. Within one key, a kind that changes the entry depends on all kinds, and kinds that read it
    are independent of each other; different keys are independent. A fork may put an entry on both sides: then both only read it.
    """

    changes: ClassVar[tuple[Kind | str, ...]] = ()
    reads: ClassVar[tuple[Kind | str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Derive the dependence."""
        super().__init_subclass__(**options)
        check_kinds(cls, "changes", "reads")
        if "depends" not in vars(cls) and vars(cls).keys() & {"changes", "reads"}:
            pairs = [(a, b) for i, a in enumerate(cls.changes) for b in (*cls.changes[i:], *cls.reads)]
            cls.depends = Dependence(*(Rule(a, b, SAME_KEY) for a, b in pairs))

    def init(self) -> dict[Any, Entry]:
        """Start without entries."""
        return {}

    def fork(
        self, state: dict[Any, Entry], left: TagSet, right: TagSet
    ) -> tuple[dict[Any, Entry], dict[Any, Entry]]:
        """Give each side the entries that its events may use, and the left side also unused ones."""
        on_right = {key for key in state if self._uses(right, key)}
        on_left = {key for key in state if key not in on_right or self._uses(left, key)}
        return {key: state[key] for key in state if key in on_left}, {
            key: state[key] for key in state if key in on_right
        }

    def join(self, left: dict[Any, Entry], right: dict[Any, Entry]) -> dict[Any, Entry]:
        """Return the entries of both sides."""
        return left | right

    def _uses(self, tags: TagSet, key: Key) -> bool:
        return any(Tag(str(kind), key) in tags for kind in (*self.changes, *self.reads))
