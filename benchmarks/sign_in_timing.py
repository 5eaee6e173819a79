"""Whether the time of a refusal tells a known e-mail address from an unknown one: python -m benchmarks.sign_in_timing

Interleaved, so that whatever else the machine does falls on all kinds alike. The medians must differ by less than their
spread.
"""

import asyncio
import statistics
import time

from launchbay.auth.authentication import BasicAuthentication, BasicCredentials
from launchbay.auth.passwords import PARAMETERS, Passwords
from launchbay.auth.secret_key import SecretKey
from launchbay.auth.throttle import SignInThrottle
from launchbay.clock import SystemClock
from launchbay.errors import NotAuthenticated
from launchbay.ids import new_id
from launchbay.store import users
from launchbay.store.database import Database
from tests.support.databases import Databases

ROUNDS = 300
KINDS = {
    "wrong password": "ann@example.org",
    "unknown e-mail": "nobody@example.org",
    "no password set": "invited@example.org",
    "disabled": "disabled@example.org",
}


async def measure(url: str) -> dict[str, list[float]]:
    """Return the seconds of each refusal, by kind."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with Database(url, connections=2) as database:
        async with database.connection() as connection:
            for email, stored in (
                ("ann@example.org", PARAMETERS.hash("right")),
                ("invited@example.org", None),
                ("disabled@example.org", PARAMETERS.hash("right")),
            ):
                await users.insert(connection, id=new_id(), email=email, name="x", password_hash=stored)
            await connection.execute("UPDATE users SET enabled = false WHERE email = 'disabled@example.org'")
        passwords = Passwords()
        for number in range(ROUNDS):
            for kind, email in KINDS.items():
                async with database.connection() as connection:
                    await connection.execute("TRUNCATE wrong_sign_ins")
                throttle = SignInThrottle(database, SecretKey(bytes(32)))
                basic = BasicAuthentication(database, passwords, throttle, SystemClock())
                begin = time.perf_counter()
                try:
                    await basic.authenticate(BasicCredentials(email, f"wrong {number}"), "127.0.0.1")
                except NotAuthenticated:
                    times[kind].append(time.perf_counter() - begin)
        passwords.close()
    return times


def main() -> None:
    """Measure and print."""
    with Databases.start() as databases:
        times = asyncio.run(measure(databases.create()))
    for kind, seconds in times.items():
        low, median, high = statistics.quantiles(seconds, n=4)
        print(f"{kind:16} median {median * 1000:6.2f} ms   quartiles {low * 1000:6.2f} to {high * 1000:6.2f} ms")


if __name__ == "__main__":
    main()
