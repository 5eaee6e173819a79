"""Who sends this request: the credentials in its headers, verified."""

from collections.abc import Mapping

from launchbay.access.actor import Actor
from launchbay.access.authorization import BearerCredentials, read_authorization
from launchbay.access.basic import BasicAuthentication
from launchbay.access.bearer import SessionTokens


class Authenticator:
    """Both schemes of the reference (§5); where both are sent, the token alone decides."""

    def __init__(self, basic: BasicAuthentication, sessions: SessionTokens) -> None:
        self._basic = basic
        self._sessions = sessions

    async def authenticate(self, headers: Mapping[str, str], client_address: str) -> Actor:
        """Return the caller. `headers` has lower-case names, lines of one name joined with a comma.

        Raises NotAuthenticated, TooManyRequests after wrong attempts, Unavailable.
        """
        credentials = read_authorization(headers.get("authorization"))
        if isinstance(credentials, BearerCredentials):
            return await self._sessions.authenticate(credentials.token, client_address)
        return await self._basic.authenticate(credentials, client_address)
