"""A typed client of the API, synchronous and asynchronous (docs/reference/client.md)."""

from launchbay.client.client import AsyncClient, Client
from launchbay.client.core import Basic, RefreshToken, Retries, Session, SessionToken
from launchbay.client.errors import (
    ApiError,
    BadRequest,
    ClientError,
    Conflict,
    ConnectionFailed,
    InstanceFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    ServerFailed,
    TooLarge,
    TooManyRequests,
    UnreadableAnswer,
    WaitTimedOut,
)
from launchbay.client.operations import Operations
from launchbay.client.streams import Event

__all__ = [
    "ApiError",
    "AsyncClient",
    "BadRequest",
    "Basic",
    "Client",
    "ClientError",
    "Conflict",
    "ConnectionFailed",
    "Event",
    "InstanceFailed",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "Operations",
    "RefreshToken",
    "Retries",
    "ServerFailed",
    "Session",
    "SessionToken",
    "TooLarge",
    "TooManyRequests",
    "UnreadableAnswer",
    "WaitTimedOut",
]
