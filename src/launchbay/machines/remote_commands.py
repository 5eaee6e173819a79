"""Commands on machines that run once, even if this server dies in the meantime.

A command gets a directory on its machine, named after the job and the step's attempt (`run_key`). A supervisor there,
a short shell script, runs it in its own process group and stores its output and exit code. This server only watches.
If the connection breaks or the server dies, the command keeps running. The next attempt finds the directory and adopts
the command, running or ended. It starts the command only if it never started: of all supervisors, only the one that
creates the directory `began` runs it (`scripts/`).

    run = RemoteRun(context, machine, lambda: provider.open(context, machine))
    result = await run.command(RemoteCommand(line="uname", arguments=("-a",)))
"""

import asyncio
import codecs
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from launchbay import limits
from launchbay.clock import Backoff
from launchbay.errors import ActionFailed
from launchbay.machines.answers import Answer, Frame, quoted, run_script, script, text_of
from launchbay.machines.contract import OpenShell, ProviderContext, Shell, ShellLost
from launchbay.model.machine import CommandResult, Machine, RemoteCommand, Sink
from launchbay.model.redaction import RedactionStream
from launchbay.telemetry.tracing import trace_parent


class LineSplitter:
    """Passes the lines of a stream of bytes to a sink; splits lines that are longer than a log line can be.

    Secrets are redacted before, because the split may be in the middle of one.

    `note` gets, after each line, the position in the stream: the byte at which its line begins, or the next one, and
    how many pieces of that line the sink has got. A splitter that starts at such a position continues there.
    """

    def __init__(
        self,
        stream: str,
        sink: Sink | None,
        redaction: RedactionStream,
        position: str = "",
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._stream = stream
        self._sink = sink
        self._redaction = redaction
        self._note = note
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        begin, _, pieces = position.partition("+")
        self.received = self._line_begin = int(begin or 0)
        self._known_pieces = int(pieces or 0)  # that the sink got in another process
        self._pieces = 0

    def __call__(self, data: bytes) -> None:
        if self._sink is None:
            self.received += len(data)
            return
        for part in _lines(data):
            self.received += len(part)
            text = self._redaction.feed(self._decoder.decode(part))
            self._take(text, is_whole=part.endswith(b"\n"))

    def skip(self, size: int) -> None:
        """Leave out bytes of the stream, and say so."""
        self.close()
        self.received += size
        self._line_begin, self._pieces, self._known_pieces = self.received, 0, 0
        if self._sink is not None:
            self._sink(self._stream, f"({size} bytes of output are not shown)")
            self._note(str(self._line_begin))

    def close(self) -> None:
        """Pass on the last line, which no line break ended."""
        if self._sink is not None:
            self._take(self._redaction.feed(self._decoder.decode(b"", final=True)) + self._redaction.finish())
            if self._rest:
                self._emit(self._rest)
            self._rest = ""

    def _take(self, text: str, *, is_whole: bool = False) -> None:
        *whole, rest = (self._rest + text).split("\n")
        self._rest = rest
        for line in whole:
            last = self._emit_pieces(line)
            if is_whole:
                self._line_begin = self.received
            self._emit(last, is_last=is_whole)
        self._rest = self._emit_pieces(self._rest)

    def _emit_pieces(self, text: str) -> str:
        """Pass on pieces as long as a log line, and return the rest."""
        while len(text) > limits.LOG_LINE_CHARS:
            self._emit(text[: limits.LOG_LINE_CHARS])
            text = text[limits.LOG_LINE_CHARS :]
        return text

    def _emit(self, line: str, *, is_last: bool = False) -> None:
        assert self._sink is not None
        self._pieces += 1
        if self._pieces > self._known_pieces:
            # A progress bar rewrites its line; only the last state is of interest.
            self._sink(self._stream, line.rstrip("\r").rpartition("\r")[2])
            self._note(f"{self._line_begin}" if is_last else f"{self._line_begin}+{self._pieces}")
        if is_last:
            self._pieces = self._known_pieces = 0


def _lines(data: bytes) -> list[bytes]:
    """Split after line feeds. `splitlines` also splits after carriage returns."""
    return [part for part in re.split(rb"(?<=\n)", data) if part]


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


T = TypeVar("T")
SudoPassword = Callable[[], Awaitable[str]]
"""Returns the password that sudo asks for on a machine, or nothing."""


async def no_password() -> str:
    return ""


Prepare = Callable[[Shell], Awaitable[None]]
_VANISHED, _TOO_MUCH = 75, 76  # exit codes of the scripts
_RECONNECT = Backoff(0.5, 10.0)
_MARKER_BYTES = 200  # a line with the number of omitted bytes
_SHOWN_NOISE_CHARS = 200
_READS = 3  # of a result into which something else writes
_STREAMS = {"out": "stdout", "err": "stderr"}
_FULL = "full"
log = structlog.get_logger(__name__)


async def logged_lines(context: ProviderContext, source: str, stream: str, sink: Sink | None) -> LineSplitter:
    """Return a splitter that continues where the step's log ends."""
    positions = context.log_positions
    position = await positions.find(source) if sink is not None else ""
    return LineSplitter(
        stream, sink, context.redaction_stream(), position, lambda position: positions.note(source, position)
    )


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
    sudo_password: SudoPassword = no_password
    _is_ours: bool = False
    _is_noise_told: bool = False
    _lost: str = ""
    _lines: dict[str, LineSplitter] = field(default_factory=dict)

    async def command(self, command: RemoteCommand, prepare: Prepare | None = None) -> CommandResult:
        """Run the command to its end, or adopt it. Calls `prepare` before it starts a command.

        Raises ActionFailed if it can't run, takes too long, writes too much or vanishes without an exit code. A
        cancellation also ends it on the machine, unless another process takes over the job.
        """
        bound_s = limits.COMMAND_S if command.timeout_s is None else command.timeout_s

        async def run(shell: Shell) -> CommandResult:
            age_s = await self._begin(shell, command, prepare)
            # Of a command that another process began, a part of its time is over. No answer gives it more.
            until = asyncio.get_running_loop().time() + bound_s - age_s
            if until < (time_out.when() or until):
                time_out.reschedule(until)
            await self._follow(shell, command)
            return await self._finish(shell, command)

        try:
            async with asyncio.timeout(bound_s) as time_out:  # of all attempts to connect together
                return await self._with_reconnects(run)
        except TimeoutError:
            text = f"The command on {self.machine.host} took longer than {bound_s:g} s and "
            if not self._is_ours:
                raise ActionFailed(f"{text}did not begin: {self._lost or 'the machine did not answer'}.") from None
            left = await self._stop_now()
            raise ActionFailed(f"{text}was stopped." if not left else f"{text}{left}") from None
        except asyncio.CancelledError:
            if not self.context.handed_over():
                await asyncio.shield(self._stop_now())
            raise
        finally:
            if not self.context.handed_over():  # otherwise the next process has the whole line
                for each in self._lines.values():
                    each.close()

    async def _begin(self, shell: Shell, command: RemoteCommand, prepare: Prepare | None) -> float:
        """Start the command unless it has started; return its age in seconds."""
        answer = await self._ask(shell, self._script("place", "look"))
        if "known" in answer.words:
            if not self._is_ours:
                self.context.log("info", f"Waiting for the command on {self.machine.host}, which was started before.")
            self._is_ours = True
            return float(answer.words["known"][0])
        if prepare is not None:
            await prepare(shell)
        try:
            text = self._script(
                "place",
                "begin",
                kind=command.kind,
                command=command.text,
                arguments=f"set -- {quoted(*command.words)}\n",
                shell=command.shell or "sh",
                supervisor=text_of("supervise"),
                sudo="1" if command.sudo else "",
                password=await self.sudo_password() if command.sudo else "",
                directory=self.directory,
                identity=command.identity or "",
                trace=trace_parent.get(),
            )
        except ValueError as error:
            raise ActionFailed(f"Can't run the command: {error}.", retryable=False) from None
        self._is_ours = True
        await self._ask(shell, text)
        return 0.0

    async def _follow(self, shell: Shell, command: RemoteCommand) -> None:
        lines = self._lines = self._lines or {
            stream: await self._splitter(stream, command.sink) for stream in _STREAMS.values()
        }

        current: Frame | None = None

        def show(frame: Frame, data: bytes) -> None:
            nonlocal current
            stream = lines[_STREAMS[frame.kind]]
            if frame is not current:
                current = frame
                skipped = int(frame.words[0]) - stream.received
                if skipped > 0:
                    stream.skip(skipped)
            stream(data)

        text = self._script(
            "place",
            "follow",
            out_from=lines["stdout"].received,
            err_from=lines["stderr"].received,
            most=limits.COMMAND_SHOWN_AT_ONCE_BYTES if command.sink is not None else 0,
            bound=limits.COMMAND_OUTPUT_BYTES,
        )
        answer = await self._run_script(shell, text, on_content=show)
        if answer.code == _VANISHED:
            raise ActionFailed(
                f"The command on {self.machine.host} vanished without an exit code: the machine restarted, or the"
                " command's supervisor was killed.",
                "Launchbay doesn't repeat it, because its progress is unknown. To repeat it, set retryCount.",
            )
        if answer.code == _TOO_MUCH:
            await self._stop_now()
            raise ActionFailed(
                f"The command on {self.machine.host} wrote more than {limits.COMMAND_OUTPUT_BYTES // limits.MIB} MiB"
                " and was stopped. Write to a file instead.",
                retryable=False,
            )
        if answer.code != 0:
            raise ShellLost(f"following the command ended with {answer.code}")

    async def _finish(self, shell: Shell, command: RemoteCommand) -> CommandResult:
        text = self._script("place", "finish", keep=command.keep_bytes)
        for _ in range(_READS):
            answer = await self._run_script(shell, text, keep_bytes=command.keep_bytes + _MARKER_BYTES)
            if answer.code != 0 or "exit" not in answer.words:
                raise ShellLost(f"reading the result ended with {answer.code}")
            exit_code, *flags = answer.words["exit"]
            if not answer.is_mixed:
                break
        else:
            raise ActionFailed(
                f"The command on {self.machine.host} ended with exit code {exit_code}, but something else writes into"
                " its output.",
                "Look in the start-up files of the login's shell, such as ~/.bashrc, for what keeps writing, and"
                " restrict it to interactive shells.",
                retryable=False,
            )
        note = ""
        if _FULL in flags:
            note = f"The disk of {self.machine.host} was full when the command ended: its output may be incomplete."
            self.context.log("warning", note)
        return CommandResult(_text(answer.content("out")), _text(answer.content("err")), int(exit_code), note)

    async def _ask(self, shell: Shell, text: str) -> Answer:
        answer = await self._run_script(shell, text)
        if answer.code != 0:
            raise cannot_run(self.machine.host, answer)
        return answer

    async def _run_script(self, shell: Shell, text: str, **more: Any) -> Answer:
        return await run_script(shell, text, self.machine.host, on_noise=self._tell_noise, **more)

    def _tell_noise(self, noise: str) -> None:
        if self._is_noise_told:
            return
        self._is_noise_told = True
        redaction = self.context.redaction_stream()  # before the cut, which could be in a secret
        shown = (redaction.feed(noise) + redaction.finish())[:_SHOWN_NOISE_CHARS]
        self.context.log(
            "warning",
            f"The login of {self.machine.host} writes {shown!r} before each command. Launchbay skips that; restrict it"
            " to interactive shells.",
        )

    async def _splitter(self, stream: str, sink: Sink | None) -> LineSplitter:
        source = f"{run_key(self.context, self.machine, self.purpose)} {stream}"
        return await logged_lines(self.context, source, stream, sink)

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
                self._lost = str(error)
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

    async def _stop_now(self) -> str:
        """End the command, and return why it may still run, or nothing."""
        key = run_key(self.context, self.machine, self.purpose)
        try:
            await stop_runs(self.context, self.machine, self.open, key, self.sudo_password)
        except ActionFailed as error:
            return f"could not be stopped: {error}"
        return ""


def cannot_run(host: str, answer: Answer) -> ActionFailed:
    reason = answer.errors or f"sh ended with {answer.code}"
    return ActionFailed(f"Can't run commands on {host}: {reason}.".replace("..", "."))


async def stop_runs(
    context: ProviderContext,
    machine: Machine,
    open_shell: OpenShell,
    prefix: str,
    sudo_password: SudoPassword = no_password,
) -> None:
    """End the process groups of all runs with this prefix. Raises ActionFailed if some may still run."""
    try:
        password = await sudo_password()
        text = script("place", "stop", key="", prefix=prefix, grace=int(limits.COMMAND_STOP_S * 10), password=password)
        async with asyncio.timeout(limits.MACHINE_STOP_S), open_shell() as shell:
            answer = await run_script(shell, text, machine.host)
    except (ShellLost, ActionFailed, TimeoutError) as error:
        log.warning("machine.stop_failed", machine=machine.host, job=context.job_id, reason=str(error))
        reason = str(error) or f"it did not respond within {limits.MACHINE_STOP_S:g} s"
        raise ActionFailed(f"Commands may still run on {machine.host}: {reason}") from error
    if answer.code != 0:
        raise ActionFailed(f"Commands may still run on {machine.host}: {answer.errors}")


def file_too_large(name: str, host: str, max_bytes: int) -> ActionFailed:
    return ActionFailed(f"The file {name} on {host} has more than {max_bytes} bytes.", retryable=False)


def _text(data: bytes) -> str:
    """Return output as text that the database accepts."""
    return data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
