"""How long a refusal takes does not tell whether somebody has an account (conformance.md, "Authentication")."""

import random
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import sqrt

import pytest

from launchbay.auth.authentication import BasicAuthentication, BasicCredentials
from launchbay.auth.passwords import PARAMETERS, Passwords
from launchbay.auth.secret_key import SecretKey
from launchbay.auth.throttle import SignInThrottle
from launchbay.clock import SystemClock
from launchbay.errors import NotAuthenticated
from launchbay.ids import new_id
from launchbay.store import users
from launchbay.store.database import Database

SAMPLES = 2_000  # of each kind
KNOWN, UNKNOWN = "ann@example.org", "nobody@example.org"
DEVIATIONS = 4.0


def longer_by(some: Sequence[float], others: Sequence[float]) -> float:
    """Return how far some are longer than others, in standard deviations of equal distributions (Mann and Whitney)."""
    ordered = sorted(others)
    wins = sum((bisect_left(ordered, value) + bisect_right(ordered, value)) / 2 for value in some)
    share = wins / (len(some) * len(others))
    return (share - 0.5) / sqrt((len(some) + len(others) + 1) / (12 * len(some) * len(others)))


async def refusal_s(database: Database, passwords: Passwords, email: str, number: int) -> float:
    """Return how long one refusal takes, by an authentication that remembers nothing of the others."""
    throttle = SignInThrottle(database, SecretKey(bytes(32)))
    basic = BasicAuthentication(database, passwords, throttle, SystemClock())
    async with database.connection() as connection:
        await connection.execute("TRUNCATE wrong_sign_ins")
    began = time.perf_counter()
    with pytest.raises(NotAuthenticated):
        await basic.authenticate(BasicCredentials(email, f"wrong {number}"), "127.0.0.1")
    return time.perf_counter() - began


@pytest.mark.load
@pytest.mark.timeout(900)
async def test_an_unknown_address_takes_as_long_as_a_wrong_password(database: Database) -> None:
    async with database.connection() as connection:
        await users.insert(connection, id=new_id(), email=KNOWN, name="Ann", password_hash=PARAMETERS.hash("right"))
    # By chance in turn, so that whatever else the machine does falls on both alike.
    order = [KNOWN, UNKNOWN] * SAMPLES
    random.Random(1).shuffle(order)
    times: dict[str, list[float]] = {KNOWN: [], UNKNOWN: []}
    passwords = Passwords()
    try:
        for number, email in enumerate(order):
            times[email].append(await refusal_s(database, passwords, email, number))
    finally:
        passwords.close()
    difference = longer_by(times[UNKNOWN], times[KNOWN])
    medians = {email: f"{sorted(taken)[SAMPLES // 2] * 1000:.2f} ms" for email, taken in times.items()}
    print(f"{SAMPLES} of each: medians {medians}, {difference:+.2f} standard deviations apart")
    assert abs(difference) < DEVIATIONS


@pytest.mark.parametrize(("slower_by_ms", "tells"), [(0.0, False), (1.0, True), (-1.0, True)])
def test_the_comparison_finds_one_millisecond_in_twenty(slower_by_ms: float, tells: bool) -> None:
    chance = random.Random(2)
    ours = [chance.gauss(20, 4) for _ in range(SAMPLES)]
    theirs = [chance.gauss(20 + slower_by_ms, 4) for _ in range(SAMPLES)]
    difference = longer_by(theirs, ours)
    assert (abs(difference) >= DEVIATIONS) is tells
    assert difference * slower_by_ms >= 0
