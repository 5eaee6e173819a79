from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.actions.builtin import Wait
from launchbay.errors import ActionFailed
from tests.actions.contexts import START, RecordingContext, SteppedClock, run

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("delay", "seconds"), [(60, 60), ("2 minutes", 120), (0, 0), ("0.5", 0.5), ("3 hours", 10800)])
async def test_the_whole_delay_passes(delay: Any, seconds: float) -> None:
    context = RecordingContext()

    assert await run(Wait(), context, delay=delay) == {}

    assert context.clock.passed_s == pytest.approx(seconds)


async def test_after_a_crash_only_the_rest_is_waited() -> None:
    context = RecordingContext(clock=SteppedClock(passed_s=45), attempt=1)

    await run(Wait(), context, delay=60)

    assert sum(context.naps) == pytest.approx(15)
    assert context.percents[0] == 75


async def test_nothing_is_waited_when_the_delay_passed_during_the_crash() -> None:
    context = RecordingContext(clock=SteppedClock(passed_s=61))

    await run(Wait(), context, delay=60)

    assert context.naps == []


async def test_a_wall_clock_that_was_set_back_never_makes_the_wait_longer() -> None:
    context = RecordingContext(started_at=START + timedelta(days=1))

    await run(Wait(), context, delay=60)

    assert sum(context.naps) == pytest.approx(60)


@given(delay=st.floats(0.001, 600_000), passed=st.floats(0, 700_000))
async def test_percent_rises_below_a_hundred_and_is_reported_seldom(delay: float, passed: float) -> None:
    context = RecordingContext(clock=SteppedClock(passed_s=passed))

    await run(Wait(), context, delay=delay)

    assert context.percents == sorted(context.percents)
    assert all(0 <= percent <= 99 for percent in context.percents)
    assert len(context.percents) <= 22
    assert sum(context.naps) == pytest.approx(max(delay - passed, 0), abs=2e-3)


@pytest.mark.parametrize("delay", [None, "soon", -1, [], "8 days", True])
async def test_a_wrong_delay_fails_the_step_at_once_and_names_the_parameter(delay: Any) -> None:
    context = RecordingContext()

    with pytest.raises(ActionFailed, match="'delay'") as failed:
        await run(Wait(), context, delay=delay)

    assert not failed.value.retryable
    assert context.naps == []
