"""Somebody's authenticator application, and accounts that have one."""

import re
from base64 import b32decode
from dataclasses import dataclass, field

import httpx

from launchbay.auth.cookies import form_token
from launchbay.auth.second_factors import totp_code
from launchbay.clock import Clock, SystemClock
from tests.support.pages import ORIGIN, Page, browser
from tests.support.service import Api, Person

CONSOLE_COOKIE = "launchbay_session"


@dataclass
class Codes:
    """An application, which shows each code once, and recovery codes."""

    secret: bytes
    clock: Clock = field(default_factory=SystemClock)
    recovery: list[str] = field(default_factory=list)
    _last_step: int = 0

    def next(self) -> str:
        """Return a code that was not shown before. There are two at a time: the current one, and the next."""
        self._last_step = max(self._last_step + 1, int(self.clock.now().timestamp() // 30))
        return totp_code(self.secret, self._last_step)


async def post(client: httpx.AsyncClient, path: str, /, **fields: str) -> Page | httpx.Response:
    """Send a form of the console with the token of its session; a redirect is returned as it is."""
    session = client.cookies.get(CONSOLE_COOKIE) or ""
    answer = await client.post(path, data={"formToken": form_token(session), **fields}, headers={"Origin": ORIGIN})
    return answer if answer.status_code == 303 else Page(answer)


async def shown(client: httpx.AsyncClient, path: str, /, **fields: str) -> Page:
    """Send a form that is answered with a page."""
    page = await post(client, path, **fields)
    assert isinstance(page, Page), page
    return page


def application_of(page: Page) -> Codes:
    """Read the secret from the page that sets a second factor up."""
    [secret] = re.findall(r"Secret: ([A-Z2-7]{32})", page.text)
    return Codes(b32decode(secret))


def recovery_codes_of(page: Page) -> list[str]:
    """Return the recovery codes that a page shows."""
    return [line.strip() for line in page.text.splitlines() if line.count("-") == 5]


async def protect(api: Api, who: Person) -> Codes:
    """Set an authenticator application up for somebody, in a browser of theirs."""
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": who.email, "password": who.password})
        page = await shown(client, "/console/account/secondFactors", currentPassword=who.password)
        codes = application_of(page)
        codes.clock = api.clock
        page = await shown(
            client, "/console/account/secondFactors/setUp", token=page.fields["token"], code=codes.next()
        )
        codes.recovery = recovery_codes_of(page)
        assert len(codes.recovery) == 10
    return codes
