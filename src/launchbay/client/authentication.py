"""How a client proves who it is (reference §5)."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Basic:
    """E-mail address and password, with each request."""

    email: str
    password: str

    def __repr__(self) -> str:
        return f"Basic({self.email!r})"

    @property
    def header(self) -> str:
        """Return the value of `Authorization`."""
        return "Basic " + base64.b64encode(f"{self.email}:{self.password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class Session:
    """A session token; `expires_at_s` are seconds since the Unix epoch."""

    token: str
    expires_at_s: float

    def __repr__(self) -> str:
        return f"Session(expires_at_s={self.expires_at_s})"


@dataclass(frozen=True, slots=True)
class SessionToken:
    """A session token that somebody else renews."""

    token: str

    def __repr__(self) -> str:
        return "SessionToken()"


@dataclass(frozen=True, slots=True)
class RefreshToken:
    """A refresh token: the client exchanges it for session tokens, each used until it expires.

    `session` is one of before; `renewed` is told each new one. With both, short programs keep a session between them.
    """

    token: str
    session: Session | None = None
    renewed: Callable[[Session], None] | None = None

    def __repr__(self) -> str:
        return "RefreshToken()"


Authentication: TypeAlias = Basic | RefreshToken | SessionToken | None
