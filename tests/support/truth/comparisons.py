"""What each surface shows, compared with the oracle."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.service import Caller
from tests.support.truth.oracle import Oracle
from tests.support.truth.recording import Record, Recorded
from tests.support.truth.surfaces import Console, Unreadable


class Noticed(Exception):
    """A difference, while one is enough."""


@dataclass
class View:
    """Somebody, what they use, and what they may see."""

    name: str
    caller: Caller
    console: Console
    oracle: Oracle
    url: str
    email: str
    password: str
    record: Record
    transports: list[Recorded]
    differences: list[str] = field(default_factory=list)
    stops: bool = False  # at the first difference

    def _note(self, difference: str) -> None:
        if self.stops:
            raise Noticed(difference)
        self.differences.append(difference)

    @property
    def root(self) -> str:
        return f"organizations/{self.oracle.organization}"

    @property
    def home(self) -> str:
        return f"/console/organizations/{self.oracle.organization}"

    def same(self, where: str, shown: Any, so: Any) -> None:
        """Note a difference between what is shown and what is so."""
        self.record.compare(so)
        if shown == so:
            return
        if isinstance(shown, dict) and isinstance(so, dict):
            wrong = {
                each: (shown.get(each), so.get(each))
                for each in shown.keys() | so.keys()
                if shown.get(each) != so.get(each)
            }
            shown, so = ({each: pair[place] for each, pair in wrong.items()} for place in (0, 1))
        self._note(f"{self.name}, {where}: shows {str(shown)[:600]}, but it is {str(so)[:600]}")

    def has(self, where: str, text: str, wanted: Iterable[str]) -> None:
        """Note what a text lacks."""
        texts = list(wanted)
        self.record.compare(texts)
        if missing := [each for each in texts if each not in text]:
            self._note(f"{self.name}, {where}: lacks {missing}, and says {text[:600]}")

    def same_rows(self, where: str, shown: Mapping[str, Any] | list[tuple[str, Any]], so: Mapping[str, Any]) -> None:
        """Compare rows by ID: none twice, none missing, none too many, and each is so."""
        rows = list(shown.items()) if isinstance(shown, Mapping) else shown
        twice = [each for each, number in Counter(each for each, _ in rows).items() if number > 1]
        self.same(f"{where}, rows that are there twice", twice, [])
        found = dict(rows)
        self.same(f"{where}, rows that are missing", sorted(so.keys() - found.keys()), [])
        self.same(f"{where}, rows that should not be there", sorted(found.keys() - so.keys()), [])
        for each in found.keys() & so.keys():
            self.same(f"{where}, {each}", found[each], so[each])


Compare = Callable[[View], Awaitable[None]]
COMPARISONS: dict[str, Compare] = {}


def comparison(compare: Compare) -> Compare:
    """Register a comparison under the name of its function."""
    COMPARISONS[compare.__name__] = compare
    return compare


async def differences(view: View, *names: str) -> list[str]:
    """Return what the comparisons of these names find, or all of them; what they cannot read is a difference too."""
    for name in names or COMPARISONS:
        view.record.begin(name)
        view.record.disagreements = []
        try:
            await COMPARISONS[name](view)
        except (Unreadable, KeyError, IndexError) as error:
            view.differences.append(f"{view.name}, {name}: cannot be read: {error!r}")
        view.differences += [f"{view.name}, {each}" for each in view.record.disagreements]
    found, view.differences = view.differences, []
    return found
