"""Commands on machines that run once, even if this server dies in the meantime.

A command gets a directory on its machine, named after the job and the step's attempt (`run_key`). A supervisor there,
a short shell script, runs it in its own process group and stores its output and exit code. This server only watches.
If the connection breaks or the server dies, the command keeps running. The next attempt finds the directory and adopts
the command, running or ended. It starts the command only if it never started: of all supervisors, only the one that
creates the directory `began` runs it (`scripts/`).

    run = RemoteRun(context, machine, lambda: provider.open(context, machine))
    result = await run.command(RemoteCommand(line="uname -a"))
"""

import asyncio
import codecs
import hashlib
import shlex
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TypeVar

import structlog

from launchbay import limits
from launchbay.clock import Backoff
from launchbay.errors import ActionFailed
from launchbay.machines.contract import OnData, OpenShell, ProviderContext, Shell, ShellLost
from launchbay.model.machine import CommandResult, Machine, RemoteCommand, Sink
from launchbay.model.redaction import RedactionStream


class LineSplitter:
    """Passes the lines of a stream of bytes to a sink; splits lines that are longer than a log line can be.

    Secrets are redacted before, because the split may be in the middle of one.
    """

    def __init__(self, stream: str, sink: Sink | None, redaction: RedactionStream) -> None:
        self._stream = stream
        self._sink = sink
        self._redaction = redaction
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def __call__(self, data: bytes) -> None:
        if self._sink is not None:
            self._take(self._redaction.feed(self._decoder.decode(data)))

    def close(self) -> None:
        """Pass on the last line, which no line break ended."""
        if self._sink is not None:
            self._take(self._redaction.feed(self._decoder.decode(b"", final=True)) + self._redaction.finish())
            if self._rest:
                self._emit(self._rest)
            self._rest = ""

    def _take(self, text: str) -> None:
        *whole, rest = (self._rest + text).split("\n")
        for line in whole:
            self._emit(line)
        while len(rest) > limits.LOG_LINE_CHARS:
            self._emit(rest[: limits.LOG_LINE_CHARS])
            rest = rest[limits.LOG_LINE_CHARS :]
        self._rest = rest

    def _emit(self, line: str) -> None:
        assert self._sink is not None
        # A progress bar rewrites its line; only the last state is of interest.
        self._sink(self._stream, line.rstrip("\r").rpartition("\r")[2])


class OutputBuffer:
    """Stores the first `max_bytes` of a stream and drops the rest."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()

    def __call__(self, data: bytes) -> None:
        self._data += data[: max(0, self._max_bytes - len(self._data))]

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class ByteCounter:
    """Passes bytes on and counts them."""

    def __init__(self, on_data: OnData) -> None:
        self._on_data = on_data
        self.bytes = 0

    def __call__(self, data: bytes) -> None:
        self.bytes += len(data)
        self._on_data(data)


# The shell scripts that run on machines, written for POSIX `sh`.
#
# Each gets its parameters as variables, quoted by `script`, and is sent to the standard input of `sh -s`. The shell of
# the login never reads it, and no parameter is read as code.


def script(*names: str, **variables: str | int) -> str:
    """Return the scripts in a row, after assignments of the variables. Raises ValueError if one contains a NUL."""
    if any("\0" in str(value) for value in variables.values()):
        raise ValueError("a shell script can't contain a NUL character")
    lines = [f"{name}={shlex.quote(str(value))}" for name, value in variables.items()]
    return "\n".join((*lines, *map(text_of, names), ""))


@cache
def text_of(name: str) -> str:
    return resources.files("launchbay.machines.scripts").joinpath(f"{name}.sh").read_text("utf-8")


T = TypeVar("T")
Prepare = Callable[[Shell], Awaitable[None]]
_VANISHED, _TOO_MUCH = 75, 76  # exit codes of the scripts
_RECONNECT = Backoff(0.5, 10.0)
_REPORTED_BYTES = 4 * limits.KIB
_MARKER_BYTES = 200  # a line with the number of omitted bytes, and the exit code
log = structlog.get_logger(__name__)


def run_key(context: ProviderContext, machine: Machine, purpose: str = "") -> str:
    """Return the name of this attempt's run on the machine; it starts with `job_prefix`."""
    parts = "\n".join((context.tag, str(context.attempt), machine.id, machine.role, purpose))
    return f"{job_prefix(context)}{hashlib.sha256(parts.encode()).hexdigest()[:32]}"


def job_prefix(context: ProviderContext) -> str:
    """Return the prefix of the names of all runs of the context's job."""
    return f"{context.job_id or 'x'}-"


@dataclass(slots=True)
class RemoteRun:
    """One command on one machine, started in `directory`. Default: the home directory."""

    context: ProviderContext
    machine: Machine
    open: OpenShell
    purpose: str = ""
    directory: str = ""
    _is_ours: bool = False
    _seen: list[int] = field(default_factory=lambda: [0, 0])

    async def command(self, command: RemoteCommand, prepare: Prepare | None = None) -> CommandResult:
        """Run the command to its end, or adopt it. Calls `prepare` before it starts a command.

        Raises ActionFailed if it can't run, takes too long, writes too much or vanishes without an exit code. A
        cancellation also ends it on the machine, unless another process takes over the job.
        """
        bound_s = limits.COMMAND_S if command.timeout_s is None else command.timeout_s

        async def run(shell: Shell) -> CommandResult:
            async with asyncio.timeout(bound_s):
                age_s = await self._begin(shell, command, prepare)
            async with asyncio.timeout(max(0.0, bound_s - age_s)):
                await self._follow(shell, command)
                return await self._finish(shell, command)

        try:
            return await self._with_reconnects(run)
        except TimeoutError:
            await self._stop_now()
            text = f"The command on {self.machine.host} took longer than {bound_s:g} s and was stopped."
            raise ActionFailed(text) from None
        except asyncio.CancelledError:
            if not self.context.handed_over():
                await asyncio.shield(self._stop_now())
            raise

    async def _begin(self, shell: Shell, command: RemoteCommand, prepare: Prepare | None) -> float:
        """Start the command unless it has started; return its age in seconds."""
        state = await self._ask(shell, self._script("place", "look"))
        if state.startswith("known"):
            if not self._is_ours:
                self.context.log("info", f"Waiting for the command on {self.machine.host}, which was started before.")
            self._is_ours = True
            return float(state.partition(" ")[2] or 0)
        if prepare is not None:
            await prepare(shell)
        try:
            text = self._script(
                "place",
                "begin",
                command=command.line,
                supervisor=text_of("supervise"),
                sudo="1" if command.sudo else "",
                directory=self.directory,
            )
        except ValueError as error:
            raise ActionFailed(f"Can't run the command: {error}.", retryable=False) from None
        self._is_ours = True
        await self._ask(shell, text)
        return 0.0

    async def _follow(self, shell: Shell, command: RemoteCommand) -> None:
        lines = [LineSplitter(name, command.sink, self.context.redaction_stream()) for name in ("stdout", "stderr")]
        counts = [ByteCounter(each) for each in lines]
        text = self._script(
            "place",
            "follow",
            out_from=self._seen[0] if command.sink is not None else 0,
            err_from=self._seen[1] if command.sink is not None else 0,
            most=limits.COMMAND_SHOWN_AT_ONCE_BYTES if command.sink is not None else 0,
            bound=limits.COMMAND_OUTPUT_BYTES,
        )
        try:
            code = await shell.script(text, counts[0], counts[1])
        finally:
            for stream in (0, 1):
                self._seen[stream] += counts[stream].bytes
                lines[stream].close()
        if code == _VANISHED:
            raise ActionFailed(
                f"The command on {self.machine.host} vanished without an exit code: the machine restarted, or the"
                " command's supervisor was killed.",
                "Launchbay doesn't repeat it, because its progress is unknown. To repeat it, set retryCount.",
            )
        if code == _TOO_MUCH:
            await self._stop_now()
            raise ActionFailed(
                f"The command on {self.machine.host} wrote more than {limits.COMMAND_OUTPUT_BYTES // limits.MIB} MiB"
                " and was stopped. Write to a file instead.",
                retryable=False,
            )
        if code != 0:
            raise ShellLost(f"following the command ended with {code}")

    async def _finish(self, shell: Shell, command: RemoteCommand) -> CommandResult:
        stdout, stderr = (OutputBuffer(command.keep_bytes + _MARKER_BYTES) for _ in range(2))
        code = await shell.script(self._script("place", "finish", keep=command.keep_bytes), stdout, stderr)
        exit_code, _, written = stdout.data.partition(b"\n")
        if code != 0 or not exit_code.isdigit():
            raise ShellLost(f"reading the result ended with {code}")
        return CommandResult(_text(written), _text(stderr.data), int(exit_code))

    async def _ask(self, shell: Shell, text: str) -> str:
        stdout, stderr = OutputBuffer(_REPORTED_BYTES), OutputBuffer(_REPORTED_BYTES)
        code = await shell.script(text, stdout, stderr)
        if code != 0:
            reason = _text(stderr.data).strip() or f"sh ended with {code}"
            raise ActionFailed(f"Can't run commands on {self.machine.host}: {reason}.")
        return _text(stdout.data).strip()

    def _script(self, *names: str, **variables: str | int) -> str:
        return script(*names, key=run_key(self.context, self.machine, self.purpose), **variables)

    async def _with_reconnects(self, work: Callable[[Shell], Awaitable[T]]) -> T:
        """Work on the machine, and again after each lost connection. Raises ActionFailed when it gives up."""
        loop = asyncio.get_running_loop()
        delays = _RECONNECT.delays()
        lost_at: float | None = None
        while True:
            opened_at = loop.time()
            try:
                async with self.open() as shell:
                    opened_at = loop.time()
                    return await work(shell)
            except ShellLost as error:
                now = loop.time()
                # A connection that held for a while doesn't suggest that the machine is gone.
                if lost_at is None or now - opened_at > limits.MACHINE_RECONNECT_S:
                    lost_at, delays = now, _RECONNECT.delays()
                # A command that has started is worth a longer wait than one that has not.
                if now - lost_at > (limits.MACHINE_RECONNECT_S if self._is_ours else limits.MACHINE_CONNECT_S):
                    raise ActionFailed(
                        f"{self.machine.host} has been unreachable for {now - lost_at:.0f} s: {error}."
                    ) from None
                self.context.log("warning", f"Lost the connection to {self.machine.host}: {error}. Reconnecting.")
            await asyncio.sleep(next(delays))

    async def _stop_now(self) -> None:
        key = run_key(self.context, self.machine, self.purpose)
        with suppress(ActionFailed):
            await stop_runs(self.context, self.machine, self.open, key)


async def stop_runs(context: ProviderContext, machine: Machine, open_shell: OpenShell, prefix: str) -> None:
    """End the process groups of all runs with this prefix. Raises ActionFailed if some may still run."""
    text = script("place", "stop", key="", prefix=prefix, grace=int(limits.COMMAND_STOP_S * 10))
    stderr = OutputBuffer(_REPORTED_BYTES)
    try:
        async with asyncio.timeout(limits.MACHINE_STOP_S), open_shell() as shell:
            code = await shell.script(text, OutputBuffer(0), stderr)
    except (ShellLost, ActionFailed, TimeoutError) as error:
        log.warning("machine.stop_failed", machine=machine.host, job=context.job_id, reason=str(error))
        reason = str(error) or f"it did not respond within {limits.MACHINE_STOP_S:g} s"
        raise ActionFailed(f"Commands may still run on {machine.host}: {reason}") from error
    if code != 0:
        raise ActionFailed(f"Commands may still run on {machine.host}: {_text(stderr.data).strip()}")


def file_too_large(name: str, host: str, max_bytes: int) -> ActionFailed:
    return ActionFailed(f"The file {name} on {host} has more than {max_bytes} bytes.", retryable=False)


def _text(data: bytes) -> str:
    """Return output as text that the database accepts."""
    return data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
