"""What somebody who watches over the server should hear of."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import structlog

_log = structlog.get_logger("launchbay.security")


class SecurityEventKind(StrEnum):
    """What happened."""

    MANY_REFRESH_TOKENS = "many refresh tokens"
    REFRESH_TOKENS_BLOCKED = "generation of refresh tokens blocked"


@dataclass(frozen=True, slots=True)
class SecurityEvent:
    """Something that looks like misuse; it holds no secret."""

    kind: SecurityEventKind
    user_id: str
    detail: str


class SecurityEvents(Protocol):
    """Who hears of security events. Must not raise."""

    def report(self, event: SecurityEvent) -> None:
        """Take an event."""
        ...


class LoggedSecurityEvents:
    """Writes every event to the log, at level warning."""

    def report(self, event: SecurityEvent) -> None:
        """Write the event."""
        _log.warning("security event", kind=event.kind.value, user_id=event.user_id, detail=event.detail)
