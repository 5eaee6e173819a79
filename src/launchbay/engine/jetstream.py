"""Wake-ups of workers through NATS JetStream (extra `launchbay[nats]`, setting `dispatch_url`).

A message says that an organization has jobs that are ready. JetStream gives it to one worker, which then claims from
PostgreSQL as it always does. So a message that is lost, repeated, late or forged costs time or an empty claim, and
never a job: the state, the holder and the fence of a job are only in PostgreSQL (decision 0108).

The stream keeps one message for each organization: a newer one takes the place of an older one, which speaks for the
same jobs. A worker acknowledges a message after its claim; until then it may be delivered to another worker.
"""

import asyncio
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

import nats
import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from nats.js import errors as jetstream_errors

from launchbay.concurrency import gather_bounded
from launchbay.telemetry import metrics

log = structlog.get_logger(__name__)
CONNECT_S = 2  # to one server
CONNECT_ALL_S = 5.0
RETRY_S = 1  # between attempts at one server
PING_S = 2  # two unanswered pings close a connection
LOOK_S = 1.0  # between looks at the stream, which find that it was lost or has no quorum
SETTLE_S = 0.5  # a new leader of the stream is not known everywhere at once
ANSWER_S = 2.0
PULL_S = 2.0  # also how late a worker finds that a new leader doesn't know its request
ACK_WAIT_S = 1.0  # then a message that a worker has not acknowledged goes to another one
PASSED_ON = 3  # deliveries of a message before the next one is delayed: all workers may be full
PASS_ON_S = 0.25
PUBLISHED_AT_ONCE = 32
MOST_PULLS = 4_096  # of all workers
ANY = "any"  # in place of an organization
_NAME = re.compile(r"[A-Za-z0-9_-]+")  # what a part of a subject may be
CONSUMER = "workers"
_DESCRIPTION = "Launchbay: organizations with jobs that are ready"
NatsError = nats.errors.Error  # what this module raises, for callers without the library
_FAILURES = (nats.errors.Error, TimeoutError, OSError, EOFError)


class ForeignStreamError(nats.errors.Error):
    """The stream of that name has other messages than ours."""

    def __init__(self, stream: str) -> None:
        super().__init__(f"The stream {stream} belongs to something else.")


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A message that JetStream gave to this process."""

    organization_id: str
    _message: Msg

    async def acknowledge(self) -> None:
        """Take the message out of the stream.

        If that fails, another worker looks too, and finds nothing.
        """
        with suppress(*_FAILURES):
            await self._message.ack()

    async def pass_on(self) -> None:
        """Leave the message to another worker."""
        delay_s = PASS_ON_S if self._message.metadata.num_delivered > PASSED_ON else None
        with suppress(*_FAILURES):  # then its time runs out
            await self._message.nak(delay=delay_s)


class JetStreamWakeUps:
    """The stream of one installation, and this process's connection to it.

    Implements `dispatch.WakeUps`. `run` keeps the connection: it makes a new one whenever NATS can't be reached or
    doesn't answer, and makes the stream again whenever it is lost.
    """

    def __init__(self, url: str, *, stream: str, replicas: int) -> None:
        self._servers = servers(url)
        self._stream = stream
        self._wanted = wanted_stream(stream, replicas)
        self._is_settled = False
        self._client: Client | None = None
        self._pull: JetStreamContext.PullSubscription | None = None
        self._up = asyncio.Event()
        self._look = asyncio.Event()
        self._problem = ""
        self.on_change: Callable[[], object] = lambda: None
        metrics.dispatch_connected.labels("nats").set(0)

    @property
    def is_up(self) -> bool:
        """Whether JetStream has answered lately."""
        return self._up.is_set()

    async def run(self) -> None:
        """Stay connected until this is cancelled."""
        try:
            while True:
                self._look.clear()
                try:
                    await self._ensure()
                except _FAILURES as error:
                    await self._lost(error)
                else:
                    self._found()
                _raise_cancellation()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._look.wait()
                        await asyncio.sleep(SETTLE_S)
        finally:
            self._up.clear()
            metrics.dispatch_connected.labels("nats").set(0)
            await self._close()

    async def offer(self, organizations: Collection[str]) -> bool:
        """Send a message for each organization, "" for any.

        Returns False if JetStream didn't take them all.
        """
        client = self._client
        if client is None or not self.is_up:
            return False
        try:
            await gather_bounded((self._publish(client, each) for each in organizations), PUBLISHED_AT_ONCE)
        except _FAILURES as error:
            self._suspect(error)
            return False
        return True

    async def take(self) -> WakeUp | None:
        """Wait for a message.

        Returns None after a while without one, or if the connection is lost.
        """
        await self._up.wait()
        pull = self._pull
        if pull is None:
            return None
        try:
            [message] = await pull.fetch(1, timeout=PULL_S)
        except TimeoutError:
            return None
        except _FAILURES as error:
            self._suspect(error)
            return None
        finally:
            _raise_cancellation()
        organization_id = message.subject.rpartition(".")[2]
        return WakeUp("" if organization_id == ANY else organization_id, message)

    async def _publish(self, client: Client, organization_id: str) -> None:
        name = organization_id if _NAME.fullmatch(organization_id) else ANY
        await client.jetstream(timeout=ANSWER_S).publish(f"{self._stream}.ready.{name}")

    # The connection

    def _suspect(self, error: Exception) -> None:
        """Use JetStream no more until `run` has looked."""
        if self.is_up:
            log.warning("dispatch.interrupted", stream=self._stream, error=str(error) or type(error).__name__)
        self._set_down()
        self._look.set()

    def _found(self) -> None:
        if self.is_up:
            return
        log.info("dispatch.connected", stream=self._stream)
        self._problem = ""
        self._up.set()
        metrics.dispatch_connected.labels("nats").set(1)
        self.on_change()

    async def _lost(self, error: Exception) -> None:
        self._set_down()
        problem = str(error) or type(error).__name__
        if problem != self._problem:
            log.warning("dispatch.disconnected", stream=self._stream, error=problem)
        self._problem = problem
        await self._close()

    def _set_down(self) -> None:
        if self.is_up:
            self._up.clear()
            metrics.dispatch_connected.labels("nats").set(0)
            self.on_change()

    async def _ensure(self) -> None:
        """Connect, and create the stream and its consumer, as far as needed."""
        if self._client is None or self._client.is_closed:
            await self._close()
            async with asyncio.timeout(CONNECT_ALL_S):
                self._client = await self._connect()
        context = self._client.jetstream(timeout=ANSWER_S)
        # Each has a leader of its own.
        try:
            found = (await context.stream_info(self._stream)).config
        except jetstream_errors.NotFoundError:
            found = (await context.add_stream(self._wanted)).config
        if not is_ours(found, self._wanted):
            raise ForeignStreamError(self._stream)
        try:
            consumer = (await context.consumer_info(self._stream, CONSUMER, timeout=ANSWER_S)).config
        except jetstream_errors.NotFoundError:
            consumer = (await context.add_consumer(self._stream, _WANTED_CONSUMER)).config
        if not self._is_settled:
            await self._settle(context, found, consumer)
        if self._pull is None:
            self._pull = await context.pull_subscribe_bind(CONSUMER, self._stream)

    async def _connect(self) -> Client:
        client = Client()
        try:
            await client.connect(
                self._servers,
                name="launchbay",
                allow_reconnect=False,  # `run` makes a new client, whatever state the old one is in
                connect_timeout=CONNECT_S,
                reconnect_time_wait=RETRY_S,
                ping_interval=PING_S,
                closed_cb=self._closed,
                error_cb=_ignore,
            )
        except BaseException:
            with suppress(Exception):
                await client.close()
            raise
        return client

    async def _closed(self) -> None:
        self._suspect(nats.errors.ConnectionClosedError())

    async def _settle(self, context: JetStreamContext, found: api.StreamConfig, consumer: api.ConsumerConfig) -> None:
        """Give the stream and its consumer the settings of this process, once.

        Only a new process does: one that still has older settings would change them back.
        """
        try:
            if differences(found, self._wanted):
                await context.update_stream(self._wanted)
            if differences(consumer, _WANTED_CONSUMER):
                await context.add_consumer(self._stream, _WANTED_CONSUMER)
        except jetstream_errors.APIError as error:  # it works as it is
            log.warning(
                "dispatch.stream_differs",
                stream=self._stream,
                differs=differences(found, self._wanted) + differences(consumer, _WANTED_CONSUMER),
                error=error.description,
            )
        self._is_settled = True

    async def _close(self) -> None:
        client, self._client, self._pull = self._client, None, None
        if client is not None:
            with suppress(*_FAILURES):
                async with asyncio.timeout(ANSWER_S):
                    await client.close()


def wanted_stream(name: str, replicas: int) -> api.StreamConfig:
    """Return the settings of the stream of an installation."""
    return api.StreamConfig(
        name=name,
        description=_DESCRIPTION,
        subjects=[f"{name}.ready.*"],
        retention=api.RetentionPolicy.WORK_QUEUE,
        storage=api.StorageType.MEMORY,  # nothing in it is needed: PostgreSQL has it all
        max_msgs=-1,
        max_bytes=-1,
        max_age=0,
        max_msgs_per_subject=1,
        discard=api.DiscardPolicy.OLD,
        duplicate_window=120,  # the default of the server, which it would fill in
        num_replicas=replicas,
    )


_WANTED_CONSUMER = api.ConsumerConfig(
    durable_name=CONSUMER,
    ack_policy=api.AckPolicy.EXPLICIT,
    ack_wait=ACK_WAIT_S,
    max_deliver=-1,
    max_ack_pending=-1,
    max_waiting=MOST_PULLS,
    mem_storage=True,
)


def is_ours(found: api.StreamConfig, wanted: api.StreamConfig) -> bool:
    """Return whether a stream may be changed: it is Launchbay's, or like it."""
    is_alike = found.description == _DESCRIPTION or found.subjects == wanted.subjects
    return is_alike and found.retention == wanted.retention


def differences(found: api.Base, wanted: api.Base) -> list[str]:
    """Return what differs from the wanted settings: `num_replicas: 1 instead of 3`."""
    changed = []
    for name, value in wanted.as_dict().items():
        present = found.as_dict().get(name)
        # The server leaves out what is 0 or false.
        if (present or 0) != (value or 0):
            changed.append(f"{name}: {_shown(present)} instead of {_shown(value)}")
    return changed


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(value)
    return str(value.value if isinstance(value, Enum) else value or 0)


async def compare_stream(url: str, *, stream: str, replicas: int) -> list[str]:
    """Return what differs in the stream and its consumer from the settings.

    A stream that isn't there yet doesn't differ. Raises the errors of nats-py, and ForeignStreamError if the stream
    belongs to something else.
    """
    wanted = wanted_stream(stream, replicas)
    async with asyncio.timeout(CONNECT_ALL_S):
        client = await nats.connect(
            servers(url), name="launchbay doctor", allow_reconnect=False, connect_timeout=CONNECT_S, error_cb=_ignore
        )
        try:
            differs: list[str] = []
            with suppress(jetstream_errors.NotFoundError):
                context = client.jetstream(timeout=ANSWER_S)
                found = (await context.stream_info(stream)).config
                if not is_ours(found, wanted):
                    raise ForeignStreamError(stream)
                differs += differences(found, wanted)
                differs += differences((await context.consumer_info(stream, CONSUMER)).config, _WANTED_CONSUMER)
            return differs
        finally:
            await client.close()


def servers(url: str) -> list[str]:
    """Return the address of each host of a URL.

    The account in `nats://user:secret@one,two` is that of both.
    """
    scheme, _, rest = url.partition("://")
    account, at, hosts = rest.rpartition("@")
    return [f"{scheme}://{account}{at}{host.strip()}" for host in hosts.split(",") if host.strip()]


def _raise_cancellation() -> None:
    """Raise CancelledError if this task was cancelled.

    The library may answer a cancellation with another error or a result, as `asyncio.wait_for` of Python 3.11 does.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _ignore(_: Exception) -> None:
    """Leave an error to the call that gets it too."""
