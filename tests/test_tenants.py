"""Tenants, and how they share what is scarce (decisions 0080 and 0140)."""

from collections import Counter

import pytest

from launchbay.tenants import Tenants, TurnQueue, group_of, may_take


def test_tenants_take_turns_however_many_items_each_has() -> None:
    queue: TurnQueue[str] = TurnQueue()
    for item in ("a1", "a2", "a3", "b1", "a4", "c1", "b2"):
        queue.put(item[0], item)
    queue.discard("a", "a2")
    queue.discard("a", "never there")
    queue.discard("c", "c1")
    assert [queue.take() for _ in range(len(queue))] == ["a1", "b1", "a3", "b2", "a4"]
    with pytest.raises(KeyError):
        queue.take()
    queue.put("c", "c2")
    assert (len(queue), queue.take(), len(queue)) == (1, "c2", 0)


def test_organizations_of_one_creator_have_one_turn_together_and_take_turns_in_it() -> None:
    queue: TurnQueue[str] = TurnQueue()
    for item in ("c/a1", "c/a2", "c/b1", "d1", "c/b2", "d2", "d3"):
        queue.put(item[:-1], item)
    assert (queue.count("c/a"), queue.count_of_group("c/a"), queue.count_of_group("d")) == (2, 4, 3)
    queue.discard("c/b", "c/b2")
    assert [queue.take() for _ in range(len(queue))] == ["c/a1", "d1", "c/b1", "d2", "c/a2", "d3"]
    assert queue.count_of_group("c/a") == 0


def test_organizations_that_count_alone_are_their_own_tenants() -> None:
    tenants = Tenants()
    tenants.replace([("a1", "ann"), ("a2", "ann"), ("b1", "bob")])
    tenants.add("a3", "ann")
    assert [tenants.of(each) for each in ("a3", "b1", "other")] == ["ann/a3", "bob/b1", "other"]
    assert group_of(tenants.of("a1")) == group_of(tenants.of("a3"))
    assert [tenants.together(each) for each in ("a1", "b1", "other")] == [("a1", "a2", "a3"), ("b1",), ("other",)]
    tenants.replace([])  # ann administers the server now
    assert (tenants.of("a1"), tenants.together("a1")) == ("a1", ("a1",))


@pytest.mark.parametrize(("sharing", "each"), [(1, 800), (2, 445), (50, 20), (240, 4)])
def test_however_many_share_a_twentieth_stays_for_those_that_have_none(sharing: int, each: int) -> None:
    total, taken = 1_000, Counter[int]()

    def takes(who: int) -> bool:
        if may := may_take(taken[who], total - taken.total(), total):
            taken[who] += 1
        return may

    while sum(takes(who) for who in range(sharing)):
        pass
    assert each - 1 <= min(taken[who] for who in range(sharing)) <= max(taken.values()) <= each
    free = total - taken.total()
    assert free >= total // 20
    assert sum(takes(sharing + number) for number in range(total)) == free
