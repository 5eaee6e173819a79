"""Types of the API: jobs. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class StepDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step. `path` is its place in the plan; times are milliseconds since the Unix epoch. `outputsOmitted` says
    that there are outputs, but too many to be shown.
    """

    path: str
    name: str
    status: str
    percent_complete: int
    attempt: int
    started_at: int | None = None
    finished_at: int | None = None
    outputs: dict[str, Any] | None = None
    outputs_omitted: bool = False
    error_message: str | None = None


class JobDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job. `parameters` are a command's; `resumes` is the failed job that this one goes on with."""

    id: str
    name: str
    status: str
    owner_id: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    error_message: str | None
    parameters: dict[str, Any]
    resumes: str | None
    steps: list[StepDetail]


class LogLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A line of a log; `id` is what `after` takes, `at` milliseconds since the Unix epoch, `step` the step's path."""

    at: int
    id: int
    job: str
    level: str
    step: str | None
    text: str
