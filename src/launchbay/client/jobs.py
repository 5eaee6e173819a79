"""Handles of jobs that a client has started: wait, steps, results, log, cancel."""

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from launchbay.client.core import Call, Core, Emit, Pause, Steps, Stream
from launchbay.client.drivers import AsyncDriver, SyncDriver
from launchbay.client.errors import JobFailed, WaitTimedOut
from launchbay.client.operations import Operations
from launchbay.client.streams import Event, list_steps, watch_steps
from launchbay.client.types import JobDetail, StepDetail

_ASK_S = 10  # how long one request waits for the end: less than the time limit of a read


class _Handle:
    """What both handles have. `results` are those of the ended job, after `wait`."""

    def __init__(self, instance_id: str, job_id: str) -> None:
        self.instance_id, self.id = instance_id, job_id
        self.results: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.instance_id!r}, {self.id!r})"

    def _waiting(self, core: Core, timeout_s: float | None) -> Steps[JobDetail]:
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = _ASK_S if deadline_s is None else deadline_s - time.monotonic()
            wait_s = int(min(max(left_s, 0), _ASK_S, core.timeout_s / 2))
            job = yield from core.answer(Operations.read_job.call(self.instance_id, self.id, wait=wait_s))
            if job.status != "Executing":
                break
            if left_s <= 0:
                raise WaitTimedOut(f"Job '{job.name}' is still running after {timeout_s:g} s.", job.status)
            if wait_s == 0:  # the server waits for whole seconds
                yield Pause(min(left_s, 1.0))
        self.results = dict(job.results)
        if job.status != "Succeeded":
            reason = f": {job.error_message}" if job.error_message else "."
            raise JobFailed(f"Job '{job.name}' failed{reason}", self.instance_id, self.id, job.error_message)
        return job

    def _reading(self, core: Core) -> Steps[JobDetail]:
        return core.answer(Operations.read_job.call(self.instance_id, self.id))

    def _cancelling(self, core: Core) -> Steps[None]:
        return core.answer(Operations.cancel_job.call(self.instance_id, self.id))

    def _log(self, core: Core, *, follow: bool) -> Stream[str]:
        call = Operations.read_log.call(self.instance_id, job=self.id)
        if not follow:
            yield from _texts(list_steps(core, call))
            return
        spec = replace(call.known, answer="text/event-stream")
        events = watch_steps(core, Call(Event, call.path, query=call.query, spec=spec))
        outcome: Any = None
        while True:
            effect = events.send(outcome)
            if not isinstance(effect, Emit):
                outcome = yield effect
            elif effect.item.name == "end":
                return
            else:
                outcome = yield Emit(str(effect.item.data["text"]))


def _texts(lines: Stream[Any]) -> Stream[str]:
    outcome: Any = None
    while True:
        try:
            effect = lines.send(outcome)
        except StopIteration:
            return
        outcome = yield Emit(effect.item.text) if isinstance(effect, Emit) else effect


class Job(_Handle):
    """A job that a `Client` has started.

    job = client.run(instance_id, "backup", {"target": "s3"})
    job.wait(timeout_s=600)
    print(job.results)
    """

    def __init__(self, driver: SyncDriver, instance_id: str, job_id: str) -> None:
        super().__init__(instance_id, job_id)
        self._driver = driver

    def wait(self, *, timeout_s: float | None = None) -> JobDetail:
        """Wait for the end and return the job. Raises JobFailed, WaitTimedOut."""
        return self._driver.perform(self._waiting(self._driver.core, timeout_s))

    def read(self) -> JobDetail:
        """Return the job as it is now: status, percent, steps, what it waits for."""
        return self._driver.perform(self._reading(self._driver.core))

    def status(self) -> str:
        """Return the status that the job has now: Executing, Succeeded or Failed."""
        return self.read().status

    def steps(self) -> Sequence[StepDetail]:
        """Return the steps of the job as they are now."""
        return self.read().steps

    def cancel(self) -> None:
        """Cancel the job, which then ends as failed. Raises Conflict if it has ended."""
        self._driver.perform(self._cancelling(self._driver.core))

    def log(self, *, follow: bool = False) -> Iterator[str]:
        """Iterate over the texts of the job's log; with `follow`, until the job ends."""
        return self._driver.iterate(self._log(self._driver.core, follow=follow))


class AsyncJob(_Handle):
    """A job that an `AsyncClient` has started; otherwise like `Job`."""

    def __init__(self, driver: AsyncDriver, instance_id: str, job_id: str) -> None:
        super().__init__(instance_id, job_id)
        self._driver = driver

    async def wait(self, *, timeout_s: float | None = None) -> JobDetail:
        """Wait for the end and return the job. Raises JobFailed, WaitTimedOut."""
        return await self._driver.perform(self._waiting(self._driver.core, timeout_s))

    async def read(self) -> JobDetail:
        """Return the job as it is now: status, percent, steps, what it waits for."""
        return await self._driver.perform(self._reading(self._driver.core))

    async def status(self) -> str:
        """Return the status that the job has now: Executing, Succeeded or Failed."""
        return (await self.read()).status

    async def steps(self) -> Sequence[StepDetail]:
        """Return the steps of the job as they are now."""
        return (await self.read()).steps

    async def cancel(self) -> None:
        """Cancel the job, which then ends as failed. Raises Conflict if it has ended."""
        await self._driver.perform(self._cancelling(self._driver.core))

    def log(self, *, follow: bool = False) -> AsyncIterator[str]:
        """Iterate over the texts of the job's log; with `follow`, until the job ends."""
        return self._driver.iterate(self._log(self._driver.core, follow=follow))


def starting(core: Core, call: Call[Any]) -> Steps[tuple[str, str]]:
    """Make a call that begins a job; return the ids of instance and job.

    Raises ValueError if the call began none, such as a schedule for later.
    """
    response = yield from core.response(call)
    job_id = response.headers.get("launchbay-job")
    if job_id is None:
        raise ValueError(f"{call.known.method} {call.target()} began no job")
    return response.headers["location"].split("/")[-3], job_id
