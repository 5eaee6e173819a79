"""Tenants, and how they share what is scarce (decisions 0080 and 0140).

A tenant is text: `creator/organization` for organizations that count together for the person who created them, and
otherwise the ID of the organization, or of a user. The text before the slash is its group. Groups share with each
other, and the organizations of a group among themselves.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")
# The tenant for which a task works, or "" for the process itself.
current_tenant: ContextVar[str] = ContextVar("current tenant", default="")
_RESERVED = 20  # one of so many places is for those that have none


def group_of(tenant: str) -> str:
    """Return what all organizations have in common that count together."""
    return tenant.partition("/")[0]


def may_take(taken: int, free: int, total: int) -> bool:
    """Return whether somebody who has `taken` of `total` places may take one more.

    So many are `free`. None has more than four times as many as are free ("dynamic thresholds": alone, one gets four
    fifths). The last twentieth is for those that have none.
    """
    return free > 0 and (taken == 0 or (free > total // _RESERVED and taken < 4 * free))


class Tenants:
    """Which organizations count together, as this process knows it.

    Those that an administrator of the server created count alone: administrators create them for others.
    """

    def __init__(self) -> None:
        self._creators: dict[str, str] = {}
        self._organizations: dict[str, tuple[str, ...]] = {}

    def replace(self, creators: Iterable[tuple[str, str]]) -> None:
        """Take over all organizations that count together, each with its creator."""
        self._creators = dict(creators)
        by_creator = defaultdict[str, list[str]](list)
        for organization_id, creator_id in self._creators.items():
            by_creator[creator_id].append(organization_id)
        self._organizations = {creator_id: tuple(made) for creator_id, made in by_creator.items()}

    def add(self, organization_id: str, creator_id: str) -> None:
        """Let a new organization count with the others of its creator at once."""
        if organization_id not in self._creators:
            self._creators[organization_id] = creator_id
            self._organizations[creator_id] = (*self._organizations.get(creator_id, ()), organization_id)

    def of(self, organization_id: str) -> str:
        """Return the tenant of an organization."""
        creator_id = self._creators.get(organization_id)
        return organization_id if creator_id is None else f"{creator_id}/{organization_id}"

    def together(self, organization_id: str) -> tuple[str, ...]:
        """Return the organizations that count together with one, with itself."""
        creator_id = self._creators.get(organization_id)
        return (organization_id,) if creator_id is None else self._organizations[creator_id]


class TurnQueue(Generic[T]):
    """A queue in which tenants take turns, however many items each has in it.

    First the groups do, then the tenants of each.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self._counts: Counter[str] = Counter()  # by group
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def count(self, tenant: str) -> int:
        """Return how many items of a tenant are in the queue."""
        tenants = self._groups.get(group_of(tenant))
        return len(tenants[tenant]) if tenants is not None and tenant in tenants else 0

    def count_of_group(self, tenant: str) -> int:
        """Return how many items of the tenant's group are in the queue."""
        return self._counts[group_of(tenant)]

    def put(self, tenant: str, item: T) -> None:
        """Add an item behind the tenant's others."""
        group = group_of(tenant)
        self._groups.setdefault(group, OrderedDict()).setdefault(tenant, deque()).append(item)
        self._add(group, 1)

    def take(self) -> T:
        """Remove and return the next tenant's first item.

        Raises KeyError if the queue is empty.
        """
        group, tenants = self._groups.popitem(last=False)
        tenant, items = tenants.popitem(last=False)
        item = items.popleft()
        if items:
            tenants[tenant] = items  # behind the group's other tenants
        if tenants:
            self._groups[group] = tenants  # behind the other groups
        self._add(group, -1)
        return item

    def discard(self, tenant: str, item: T) -> None:
        """Remove an item, if it is there."""
        group = group_of(tenant)
        tenants = self._groups.get(group)
        items = None if tenants is None else tenants.get(tenant)
        if tenants is None or items is None or item not in items:
            return
        items.remove(item)
        if not items:
            del tenants[tenant]
        if not tenants:
            del self._groups[group]
        self._add(group, -1)

    def _add(self, group: str, count: int) -> None:
        self._count += count
        self._counts[group] += count
        if not self._counts[group]:
            del self._counts[group]
