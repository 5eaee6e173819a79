"""Commands on machines that are run once, whatever becomes of this server meanwhile.

A command gets a directory on its machine, named after the job and the step's attempt (`run_key`). A supervisor there,
of a few lines of shell, runs it in a process group of its own and keeps its output and exit code. This server only
looks on. So when the way to the machine breaks, or the server dies, the command goes on; whoever comes back finds the
directory and adopts the command, still running or ended, and starts it only where it never began: of all supervisors
the one that makes the directory `began` is the only one that runs it (`scripts/`).

    run = Run(context, machine, lambda: ssh.open(context, machine))
    result = await run.command(RemoteCommand(line="uname -a"))
"""

import asyncio
import codecs
import hashlib
import shlex
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TypeVar

import structlog

from launchbay import limits
from launchbay.backoff import Backoff
from launchbay.errors import ActionFailed, EgressFailed
from launchbay.machines.contract import OnData, OpenShell, ProviderContext, Shell, ShellLost
from launchbay.model.machine import CommandResult, Machine, RemoteCommand, Sink
from launchbay.model.redaction import RedactionStream


class LineSplitter:
    """Takes bytes as they come and hands over whole lines; what is longer than a log takes goes in pieces.

    Secrets are covered before, because a piece may end in the middle of one.
    """

    def __init__(self, stream: str, sink: Sink | None, redaction: RedactionStream) -> None:
        self._stream = stream
        self._sink = sink
        self._redaction = redaction
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def __call__(self, data: bytes) -> None:
        """Take some bytes."""
        if self._sink is not None:
            self._take(self._redaction.feed(self._decoder.decode(data)))

    def close(self) -> None:
        """Hand over the last line, which no line break ended."""
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
        # Of a line that a progress bar writes again and again, the last state counts.
        self._sink(self._stream, line.rstrip("\r").rpartition("\r")[2])


class OutputBuffer:
    """Takes bytes as they come and keeps them, up to a bound; what comes after that is dropped."""

    def __init__(self, max_bytes: int) -> None:
        self._most = max_bytes
        self._data = bytearray()

    def __call__(self, data: bytes) -> None:
        """Take some bytes."""
        self._data += data[: max(0, self._most - len(self._data))]

    @property
    def data(self) -> bytes:
        """Return what was kept."""
        return bytes(self._data)


class ByteCounter:
    """Hands bytes on and counts them."""

    def __init__(self, on_data: OnData) -> None:
        self._on_data = on_data
        self.bytes = 0

    def __call__(self, data: bytes) -> None:
        """Take some bytes."""
        self.bytes += len(data)
        self._on_data(data)


T = TypeVar("T")


async def gather_bounded(works: Iterable[Awaitable[T]], at_once: int) -> list[T]:
    """Do all of it, so many at the same time, and return what each gave, in order.

    Raises ActionFailed with the sentences of all that failed, after the last one ended.
    """
    turn = asyncio.Semaphore(at_once)

    async def done(work: Awaitable[T]) -> T:
        async with turn:
            return await work

    results = await asyncio.gather(*map(done, works), return_exceptions=True)
    failures: list[ActionFailed | EgressFailed] = []
    found: list[T] = []
    for result in results:
        if isinstance(result, ActionFailed | EgressFailed):
            failures.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            found.append(result)
    if failures:
        sentences = dict.fromkeys(sentence for failure in failures for sentence in failure.messages)
        raise ActionFailed(*sentences, retryable=all(failure.retryable for failure in failures))
    return found


# The shell scripts that run on machines, written for POSIX `sh`.
#
# Each gets its parameters as variables, quoted by `script`, and is sent through the standard input of `sh -s`: so no
# shell of the login reads them, and a parameter is never read as code.


def script(*names: str, **variables: str | int) -> str:
    """Return these scripts one after the other, with the variables set before them. Raises ValueError for a NUL."""
    if any("\0" in str(value) for value in variables.values()):
        raise ValueError("a shell script cannot hold a NUL character")
    lines = [f"{name}={shlex.quote(str(value))}" for name, value in variables.items()]
    return "\n".join((*lines, *map(text_of, names), ""))


@cache
def text_of(name: str) -> str:
    """Return the text of a script by its name."""
    return resources.files("launchbay.machines.scripts").joinpath(f"{name}.sh").read_text("utf-8")


Prepare = Callable[[Shell], Awaitable[None]]
_NO_PLACE, _VANISHED, _TOO_MUCH = 73, 75, 76  # exit codes of the scripts
_RECONNECT = Backoff(0.5, 10.0)
_REPORTED_BYTES = 4 * limits.KIB
_MARKER_BYTES = 200  # a line that says how much is left out, and the exit code
log = structlog.get_logger(__name__)


def run_key(context: ProviderContext, machine: Machine, purpose: str = "") -> str:
    """Return the name of what this attempt of a step runs on the machine; it begins with that of the job."""
    parts = "\n".join((context.tag, str(context.attempt), machine.id, machine.role, purpose))
    return f"{job_prefix(context)}{hashlib.sha256(parts.encode()).hexdigest()[:32]}"


def job_prefix(context: ProviderContext) -> str:
    """Return how the names begin of everything that the context's job runs."""
    return f"{context.job_id or 'x'}-"


@dataclass(slots=True)
class RemoteRun:
    """One command on one machine. `directory` is where it begins; the home directory where it is empty."""

    context: ProviderContext
    machine: Machine
    open: OpenShell
    purpose: str = ""
    directory: str = ""
    _is_ours: bool = False
    _seen: list[int] = field(default_factory=lambda: [0, 0])

    async def command(self, command: RemoteCommand, prepare: Prepare | None = None) -> CommandResult:
        """Run the command to its end, or adopt it; `prepare` is called before a command that never began yet.

        Raises ActionFailed where it cannot be run, takes too long, writes too much or vanishes without an end. A
        cancellation ends it on the machine too, unless its job goes on elsewhere.
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
            text = f"On {self.machine.host} the command took longer than {bound_s:g} s and was ended."
            raise ActionFailed(text) from None
        except asyncio.CancelledError:
            if not self.context.handed_over():
                await asyncio.shield(self._stop_now())
            raise

    async def _begin(self, shell: Shell, command: RemoteCommand, prepare: Prepare | None) -> float:
        """Start the command unless it began; return how long ago it did, in seconds."""
        told = await self._ask(shell, self._script("place", "look"))
        if told.startswith("known"):
            if not self._is_ours:
                self.context.log("info", f"On {self.machine.host} the command was begun before; its end is waited for.")
            self._is_ours = True
            return float(told.partition(" ")[2] or 0)
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
            raise ActionFailed(f"The command cannot be run: {error}.", retryable=False) from None
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
            for place in (0, 1):
                self._seen[place] += counts[place].bytes
                lines[place].close()
        if code == _VANISHED:
            raise ActionFailed(
                f"On {self.machine.host} the command vanished without an exit code: the machine was restarted, or"
                " somebody ended the command's supervisor. How far it came is unknown, so it is not started again by"
                " itself; retryCount would."
            )
        if code == _TOO_MUCH:
            await self._stop_now()
            raise ActionFailed(
                f"On {self.machine.host} the command wrote more than {limits.COMMAND_OUTPUT_BYTES // limits.MIB} MiB"
                " and was ended. Write into a file instead.",
                retryable=False,
            )
        if code != 0:
            raise ShellLost(f"the look at the command ended with {code}")

    async def _finish(self, shell: Shell, command: RemoteCommand) -> CommandResult:
        stdout, stderr = (OutputBuffer(command.keep_bytes + _MARKER_BYTES) for _ in range(2))
        code = await shell.script(self._script("place", "finish", keep=command.keep_bytes), stdout, stderr)
        exit_code, _, written = stdout.data.partition(b"\n")
        if code != 0 or not exit_code.isdigit():
            raise ShellLost(f"the outcome could not be read ({code})")
        return CommandResult(_text(written), _text(stderr.data), int(exit_code))

    async def _ask(self, shell: Shell, text: str) -> str:
        stdout, stderr = OutputBuffer(_REPORTED_BYTES), OutputBuffer(_REPORTED_BYTES)
        code = await shell.script(text, stdout, stderr)
        if code != 0:
            reason = _text(stderr.data).strip() or f"sh ended with {code}"
            raise ActionFailed(f"On {self.machine.host} no command can be run: {reason}.")
        return _text(stdout.data).strip()

    def _script(self, *names: str, **variables: str | int) -> str:
        return script(*names, key=run_key(self.context, self.machine, self.purpose), **variables)

    async def _with_reconnects(self, work: Callable[[Shell], Awaitable[T]]) -> T:
        """Do something on the machine, and again where the way there breaks. Raises ActionFailed at last."""
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
                # A way that held for a while is no sign of one that is lost for good.
                if lost_at is None or now - opened_at > limits.MACHINE_RECONNECT_S:
                    lost_at, delays = now, _RECONNECT.delays()
                # What has begun is worth more patience than what has not.
                if now - lost_at > (limits.MACHINE_RECONNECT_S if self._is_ours else limits.MACHINE_CONNECT_S):
                    raise ActionFailed(
                        f"{self.machine.host} is out of reach since {now - lost_at:.0f} s: {error}."
                    ) from None
                self.context.log("warning", f"The way to {self.machine.host} broke: {error}. It is tried again.")
            await asyncio.sleep(next(delays))

    async def _stop_now(self) -> None:
        key = run_key(self.context, self.machine, self.purpose)
        with suppress(ActionFailed):
            await stop_runs(self.context, self.machine, self.open, key)


async def stop_runs(context: ProviderContext, machine: Machine, open_shell: OpenShell, prefix: str) -> None:
    """End the process groups of all commands whose names begin so. Raises ActionFailed where that could not be done."""
    text = script("place", "stop", key="", prefix=prefix, grace=int(limits.COMMAND_STOP_S * 10))
    stderr = OutputBuffer(_REPORTED_BYTES)
    try:
        async with asyncio.timeout(limits.MACHINE_STOP_S), open_shell() as shell:
            code = await shell.script(text, OutputBuffer(0), stderr)
    except (ShellLost, ActionFailed, TimeoutError) as error:
        log.warning("machine.stop_failed", machine=machine.host, job=context.job_id, reason=str(error))
        reason = str(error) or f"it did not answer within {limits.MACHINE_STOP_S:g} s"
        raise ActionFailed(f"On {machine.host} commands may still run: {reason}") from error
    if code != 0:
        raise ActionFailed(f"On {machine.host} commands may still run: {_text(stderr.data).strip()}")


def _text(data: bytes) -> str:
    """Return output as text that the database takes."""
    return data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
