"""A typed client of the API, synchronous and asynchronous (docs/reference/client.md)."""

from launchbay.client.client import AsyncClient, Client
from launchbay.client.core import Basic, RefreshToken, Retries, Session, SessionToken, Tagged
from launchbay.client.errors import (
    ApiError,
    BadRequest,
    ClientError,
    Conflict,
    ConnectionFailed,
    InstanceFailed,
    JobFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    PreconditionFailed,
    ServerFailed,
    TooLarge,
    TooManyRequests,
    UnreadableAnswer,
    WaitTimedOut,
)
from launchbay.client.jobs import AsyncJob, Job
from launchbay.client.operations import Operations
from launchbay.client.streams import Event

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncJob",
    "BadRequest",
    "Basic",
    "Client",
    "ClientError",
    "Conflict",
    "ConnectionFailed",
    "Event",
    "InstanceFailed",
    "Job",
    "JobFailed",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "Operations",
    "PreconditionFailed",
    "RefreshToken",
    "Retries",
    "ServerFailed",
    "Session",
    "SessionToken",
    "Tagged",
    "TooLarge",
    "TooManyRequests",
    "UnreadableAnswer",
    "WaitTimedOut",
]
