"""Which jobs and requests of one process continue, and which wait (decisions 0080, 0119 and 0186)."""

import asyncio

import pytest

from launchbay.engine import admission as engine_admission
from launchbay.engine.admission import MOST_CLAIMED, PATIENCE_S, STARTING, Admission, Places, Precedence
from launchbay.tenants import Tenants


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job starts at a time, and as long as it runs."""
    monkeypatch.setattr(engine_admission, "STARTING", 1)
    monkeypatch.setattr(engine_admission, "STARTING_S", 60.0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request gives up in the time of a test, however busy the machine is."""
    monkeypatch.setattr(engine_admission, "PATIENCE_S", 60.0)


def taken(places: Places, *organizations: str) -> dict[str, int]:
    """Let organizations take places in turn until they may take no more, and return how many each has."""
    count = dict.fromkeys(organizations, 0)
    while able := [each for each in organizations if places.may_take(each)]:
        for each in able:
            if places.may_take(each):
                places.take(each)
                count[each] += 1
    return count


# Running


def test_an_organization_alone_takes_four_fifths_of_the_places() -> None:
    assert taken(Places(100, Tenants()), "acme") == {"acme": 80}


def test_a_newcomer_finds_a_place_whatever_the_others_have() -> None:
    places = Places(100, Tenants())
    both = taken(places, "acme", "globex")
    assert both == {"acme": 45, "globex": 44}
    assert places.may_take("late")
    assert sorted(places.full()) == ["acme", "globex"]


def test_organizations_of_one_creator_take_no_more_than_one_would() -> None:
    tenants = Tenants()
    tenants.replace([("acme", "anna"), ("globex", "anna")])
    places = Places(100, tenants)
    assert sum(taken(places, "acme", "globex").values()) == 80
    places.give_back("acme")
    assert taken(places, "late")["late"] > 1
    assert sorted(places.full()) == ["acme", "globex", "late"]


def test_an_organization_that_gave_all_places_back_is_not_full() -> None:
    places = Places(1, Tenants())
    places.take("acme")
    assert places.full() == ["acme"]
    places.give_back("acme")
    assert places.full() == []


# Waiting


@pytest.mark.parametrize(("free", "most"), [(1000, MOST_CLAIMED), (40, 10), (3, 1), (0, 0), (-2, 0)])
def test_a_claim_takes_a_quarter_of_the_free_places(free: int, most: int) -> None:
    places = Places(max(free, 0), Tenants())
    for _ in range(free, 0):
        places.take("acme")
    assert places.claimable() == most


# Starting and accepting


def test_so_many_jobs_start_at_a_time() -> None:
    assert Precedence(starting=STARTING - 1).may_start()
    assert not Precedence(starting=STARTING).may_start()


def test_a_burst_is_accepted_at_once() -> None:
    rule = Precedence(empty_at_s=10.0, started_at_s=10.0 + PATIENCE_S)
    assert not rule.must_wait(10.0 + PATIENCE_S)
    assert rule.must_wait(10.1 + PATIENCE_S)


def test_no_request_waits_where_no_job_starts() -> None:
    rule = Precedence(empty_at_s=0.0, started_at_s=100.0)
    assert rule.must_wait(99.9 + PATIENCE_S)
    assert not rule.must_wait(100.0 + PATIENCE_S)


def test_a_tenth_of_the_starts_lets_no_request_through() -> None:
    rule = Precedence()
    assert sum(rule.start(1.0) for _ in range(100)) == 90
    assert rule.started_at_s == 1.0


# Turns


@pytest.mark.usefixtures("one_at_a_time")
async def test_organizations_take_turns_at_starts_however_many_jobs_each_has() -> None:
    admission, started = Admission(10, Tenants()), []

    async def run(tenant: str) -> None:
        end = await admission.start(tenant)
        started.append(tenant)
        await asyncio.sleep(0)
        end()

    await asyncio.gather(*map(run, ["noisy", "noisy", "noisy", "noisy", "late", "noisy"]))
    assert started == ["noisy", "noisy", "late", "noisy", "noisy", "noisy"]


@pytest.mark.usefixtures("one_at_a_time")
async def test_a_start_that_is_given_to_a_job_that_leaves_goes_to_the_next() -> None:
    admission = Admission(10, Tenants())
    end = await admission.start("acme")
    first, second = (asyncio.create_task(admission.start("acme")) for _ in range(2))
    await asyncio.sleep(0)
    end()
    first.cancel()
    async with asyncio.timeout(5.0):
        (await second)()
        await admission.start("late")


@pytest.mark.usefixtures("one_at_a_time")
async def test_a_start_that_nobody_wants_anymore_is_free_again() -> None:
    admission = Admission(10, Tenants())
    end = await admission.start("acme")
    waiting = asyncio.create_task(admission.start("acme"))
    await asyncio.sleep(0)
    end()
    waiting.cancel()
    await asyncio.wait({waiting})
    async with asyncio.timeout(5.0):
        await admission.start("late")


async def test_a_start_ends_once_and_by_itself_when_the_job_mostly_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_admission, "STARTING", 1)
    monkeypatch.setattr(engine_admission, "STARTING_S", 0.001)
    admission = Admission(10, Tenants())
    async with asyncio.timeout(5.0):
        end = await admission.start("acme")
        await admission.start("acme")
        end()
        monkeypatch.setattr(engine_admission, "STARTING_S", 60.0)
        await admission.start("acme")
    waiting = asyncio.create_task(admission.start("acme"))
    await asyncio.sleep(0)
    assert not waiting.done(), "the first one gave back no second start"
    waiting.cancel()


@pytest.mark.usefixtures("patient")
async def test_callers_take_turns_while_jobs_wait_and_each_start_lets_one_request_through() -> None:
    admission, order = Admission(100, Tenants()), []

    async def ask(caller: str) -> None:
        await admission.turn(caller)
        order.append(caller)

    await admission.start("acme")
    asked = [asyncio.create_task(ask(caller)) for caller in ("many", "many", "many", "one")]
    await asyncio.sleep(0)
    assert order == []
    for expected in (["many"], ["many", "one"], ["many", "one", "many"]):
        await admission.start("acme")
        while len(order) < len(expected):
            await asyncio.sleep(0)
        assert order == expected
    asked[2].cancel()
    await asyncio.wait(asked)
    await admission.start("acme")  # lets nobody through
    assert order == ["many", "one", "many"]


@pytest.mark.usefixtures("patient")
async def test_all_requests_continue_when_no_job_waits_anymore() -> None:
    admission = Admission(100, Tenants())
    await admission.start("acme")
    asked = [asyncio.create_task(admission.turn("client")) for _ in range(3)]
    await asyncio.sleep(0)
    admission.ready_is_empty()
    async with asyncio.timeout(5.0):
        await asyncio.gather(*asked)
        await admission.turn("client")


async def test_a_request_waits_for_a_start_no_longer_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_admission, "PATIENCE_S", 0.1)
    admission = Admission(100, Tenants())
    await admission.start("acme")
    began_s = asyncio.get_running_loop().time()
    async with asyncio.timeout(5.0):
        await admission.turn("client")
        assert asyncio.get_running_loop().time() - began_s > 0.09
