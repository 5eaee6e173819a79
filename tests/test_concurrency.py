"""Several works at the same time: failures that become one, and turns of thousands."""

import asyncio

import pytest

from launchbay.concurrency import Pace, Shared, Tasks, gather_bounded, shielded
from launchbay.errors import ActionFailed, AddressRefused


async def fails(error: Exception) -> str:
    raise error


async def test_results_come_in_the_order_of_the_works_whichever_ends_first() -> None:
    first_may_end = asyncio.Event()

    async def first() -> str:
        await first_may_end.wait()
        return "first"

    async def second() -> str:
        first_may_end.set()
        return "second"

    assert await gather_bounded([first(), second()], 2) == ["first", "second"]


async def test_no_more_than_the_limit_run_at_the_same_time() -> None:
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await gather_bounded([work() for _ in range(10)], 3)
    assert most == 3


@pytest.mark.parametrize(
    ("errors", "retryable"),
    [
        ([ActionFailed("busy"), ActionFailed("slow")], True),
        ([ActionFailed("busy"), ActionFailed("wrong", retryable=False)], False),
        ([ActionFailed("busy"), AddressRefused("forbidden")], False),
        ([ActionFailed("wrong", retryable=False), AddressRefused("forbidden")], False),
    ],
)
async def test_failures_are_retryable_together_only_if_every_one_is(errors: list[Exception], retryable: bool) -> None:
    with pytest.raises(ActionFailed) as caught:
        await gather_bounded(map(fails, errors), 2)
    assert caught.value.retryable is retryable


async def test_every_failure_is_reported_once_after_all_works_ended() -> None:
    ended: list[str] = []

    async def last() -> str:
        await asyncio.sleep(0)
        ended.append("last")
        return "last"

    with pytest.raises(ActionFailed) as caught:
        await gather_bounded(
            [fails(ActionFailed("one")), fails(ActionFailed("one")), fails(ActionFailed("two")), last()], 4
        )
    assert caught.value.messages == ("one", "two")
    assert ended == ["last"]


async def test_any_other_error_is_raised_as_it_is() -> None:
    with pytest.raises(KeyError):
        await gather_bounded([fails(ActionFailed("one")), fails(KeyError("bug"))], 2)


async def test_of_many_ready_tasks_a_few_continue_in_each_turn_of_the_loop_in_their_order() -> None:
    pace = Pace(3)
    order: list[int] = []
    turns: list[int] = []
    loop = asyncio.get_running_loop()
    turn = 0

    def count_turns() -> None:
        nonlocal turn
        turn += 1
        if len(order) < 20:
            loop.call_soon(count_turns)

    async def work(number: int) -> None:
        await pace.turn()
        order.append(number)
        turns.append(turn)

    loop.call_soon(count_turns)
    works = [asyncio.create_task(work(number)) for number in range(22)]
    works[7].cancel()
    works[8].cancel()
    await asyncio.wait(works)
    assert order == [number for number in range(22) if number not in {7, 8}]
    assert max(turns.count(each) for each in turns) <= 2 * 3
    assert pace.is_free


async def test_ended_tasks_are_told_once_with_what_they_are_about() -> None:
    tasks: Tasks[int, str] = Tasks()

    async def work(number: int) -> int:
        await asyncio.sleep(0)
        return number

    for number in range(3):
        tasks.start(work(number), f"about {number}")
    found: dict[str, int] = {}
    while tasks:
        found |= {about: task.result() for task, about in await tasks.ended()}
    assert found == {"about 0": 0, "about 1": 1, "about 2": 2}
    tasks.start(asyncio.sleep(60, 0), "never")
    tasks.wake()
    assert await tasks.ended() == []
    await tasks.cancel()


async def test_shared_work_runs_once_for_all_who_wait_and_again_for_the_next() -> None:
    runs = 0

    async def work() -> int:
        nonlocal runs
        runs += 1
        await asyncio.sleep(0)
        return runs

    shared = Shared(work)
    assert await asyncio.gather(*(shared() for _ in range(100))) == [1] * 100
    assert await shared() == 2


async def test_shared_work_ends_with_its_last_waiter() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    shared = Shared(work)
    waiting = [asyncio.create_task(shared()) for _ in range(2)]
    await started.wait()
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    assert not ended.is_set()
    waiting[1].cancel()
    await asyncio.wait(waiting)
    await ended.wait()


async def test_a_future_goes_on_without_its_waiter_and_its_late_error_is_reported_to_nobody() -> None:
    """Since Python 3.14, `asyncio.shield` reports it."""
    loop = asyncio.get_running_loop()
    reports: list[object] = []
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: reports.append(context))
    try:
        future = loop.create_future()
        future.add_done_callback(asyncio.Future.exception)
        gone, there = asyncio.create_task(shielded(future)), asyncio.create_task(shielded(future))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        future.set_exception(ActionFailed("late"))
        with pytest.raises(ActionFailed, match="late"):
            await there
        await asyncio.sleep(0)
    finally:
        loop.set_exception_handler(before)
    assert reports == []
