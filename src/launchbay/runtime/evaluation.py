"""Where expressions are evaluated: at once if that is cheap, otherwise in another process.

Every evaluation begins here, with a budget of `EXPRESSION_INLINE_NS`. Almost all end within it, and cost nothing else.
One that is charged more stops before the work that it was charged for, and starts again in a worker process, which has
bounds of time and memory and may be killed. Functions are pure, so both attempts compute the same.

In one pass of the event loop, evaluations of all jobs together have that budget once; others wait for the next pass.
"""

import asyncio
import pickle
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from itertools import islice
from signal import SIGXCPU
from typing import Any, Protocol, TypeAlias
from weakref import WeakValueDictionary

import msgspec
import structlog

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.budget import EvaluationBudget, TooExpensive
from launchbay.manifest.expressions import Template
from launchbay.manifest.paths import Scope
from launchbay.processes.run import minimal_environment
from launchbay.runtime.evaluation_worker import LENGTH, Answer, frames_of, value_of
from launchbay.runtime.slot import staying
from launchbay.tenants import current_tenant, group_of

Evaluated: TypeAlias = tuple[Any, tuple[str, ...]]
"""The value of a template, and warnings for the step's log."""

_SHOWN_CHARS = 100
_SHOWN_EXPRESSIONS = 3
_END_S = 2.0  # for a process that has closed its output
_log = structlog.get_logger(__name__)


class Evaluator(Protocol):
    """Evaluates the expressions of jobs."""

    async def evaluate(self, template: Template, scope: Scope, tenant: str) -> Evaluated:
        """Return the value of a template and its warnings.

        `tenant` is the organization whose job it is. Raises `ExpressionError`.
        """


class InPlace:
    """Evaluates in this process, however long it takes: for one person's own manifests."""

    async def evaluate(self, template: Template, scope: Scope, tenant: str) -> Evaluated:  # noqa: ARG002 - the contract's
        return template.evaluate(scope)


class Evaluations:
    """Evaluates within bounds for all jobs of a server process.

    At most one evaluation of an organization, or of all that count together, and `EXPRESSION_WORKERS` in all are in
    worker processes at a time, so that `memory_bytes` bound an organization as well.
    """

    def __init__(self, memory_bytes: int = limits.EXPRESSION_MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._spent_ns = 0.0
        self._next_turn: asyncio.Future[None] | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._places = asyncio.Semaphore(limits.EXPRESSION_WORKERS)
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()

    async def evaluate(self, template: Template, scope: Scope, tenant: str) -> Evaluated:
        """Evaluate as `Evaluator` says."""
        while self._spent_ns >= limits.EXPRESSION_INLINE_NS:
            with staying():
                await asyncio.shield(self._turn())
        budget = EvaluationBudget(
            limits.EXPRESSION_INLINE_NS,
            min(limits.EXPRESSION_INLINE_BYTES, self._memory_bytes),
            is_trial=True,
        )
        try:
            return template.evaluate(scope, budget)
        except TooExpensive:
            pass
        finally:
            self._spend(min(budget.spent_ns, limits.EXPRESSION_INLINE_NS))
        with staying():
            return await self._elsewhere(template, scope, tenant)

    def _spend(self, ns: float) -> None:
        self._spent_ns += ns
        self._turn()

    def _turn(self) -> "asyncio.Future[None]":
        """Return what is done when the event loop has turned."""
        if self._next_turn is None:
            loop = asyncio.get_running_loop()
            self._next_turn = loop.create_future()
            loop.call_soon(self._begin_turn)
        return self._next_turn

    def _begin_turn(self) -> None:
        self._spent_ns = 0.0
        if self._next_turn is not None:
            self._next_turn.set_result(None)
            self._next_turn = None

    async def _elsewhere(self, template: Template, scope: Scope, tenant: str) -> Evaluated:
        # Of each organization at most one waits for its creator's turn, and of each creator one for a worker.
        of_tenant = self._locks.setdefault(tenant, asyncio.Lock())
        of_group = self._locks.setdefault(f"all of {group_of(current_tenant.get() or tenant)}", asyncio.Lock())
        async with of_tenant, of_group, self._places:
            worker = self._idle.pop() if self._idle else _Worker(self._memory_bytes)
            self._busy.add(worker)
            try:
                # Steps that run meanwhile may set variables.
                kept = Scope(dict(scope.variables), dict(scope.inner), scope.now_s)
                return await worker.evaluate(template, kept)
            finally:
                self._busy.remove(worker)
                self._idle.append(worker)

    async def close(self) -> None:
        """End all workers, also those that evaluate, and return when their processes have ended."""
        await asyncio.gather(*(worker.close() for worker in (*self._idle, *self._busy)))


class _Worker:
    """A process that evaluates one template at a time, and ends when it is idle."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._process: Process | None = None
        self._processes: set[Process] = set()  # that may not have ended yet
        self._ending: asyncio.TimerHandle | None = None

    async def evaluate(self, template: Template, scope: Scope) -> Evaluated:
        """Return the value and warnings, which the process computes.

        Raises `ExpressionError`, also if the process ends by itself or takes too long: it is replaced.
        """
        frames = await asyncio.to_thread(_request, template, scope, self._memory_bytes)
        if self._ending is not None:
            self._ending.cancel()
        doing = _Progress(template)
        is_done = False
        try:
            process = await self._started()
            async with asyncio.timeout(limits.EXPRESSION_WALL_S):
                await _send(process, frames)
                del frames
                await doing.receive(process)
            is_done = True
        except TimeoutError:
            raise ExpressionError(
                f"{doing.expression}: the evaluation took longer than {limits.EXPRESSION_WALL_S:g} s and was ended."
            ) from None
        except (OSError, EOFError, ValueError, RuntimeError) as error:  # the last one is uvloop's, for a closed pipe
            raise ExpressionError(f"{doing.expression}: {await self._why_ended()}") from error
        finally:
            if not is_done:
                self.kill()
            elif doing.is_last:
                self.end()
            else:
                self._ending = asyncio.get_running_loop().call_later(limits.EXPRESSION_WORKER_IDLE_S, self.end)
        return await doing.result()

    async def _started(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-m", "launchbay.runtime.evaluation_worker", str(self._memory_bytes)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                cwd="/",
                env=minimal_environment(),
                start_new_session=True,  # an interrupt from the terminal is for the server
            )
            self._processes = {process for process in self._processes if process.returncode is None}
            self._processes.add(self._process)
        return self._process

    async def _why_ended(self) -> str:
        process = self._process
        code = None
        if process is not None:
            with suppress(TimeoutError):
                code = await asyncio.wait_for(process.wait(), _END_S)
        _log.warning("evaluation ended", exit_code=code)
        if code == -SIGXCPU:
            return f"the evaluation computed for more than {limits.EXPRESSION_CPU_S} s and was ended. Use less data."
        return "the process that evaluated it ended unexpectedly. Use less data or a simpler expression."

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._process = None

    def end(self) -> None:
        """Let the process end when it has nothing to do."""
        if self._ending is not None:
            self._ending.cancel()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    async def close(self) -> None:
        """End all processes that were started, whatever they do, and wait for that."""
        self.end()
        for process in self._processes:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


class _Progress:
    """The answer to one request, as far as it has come."""

    def __init__(self, template: Template) -> None:
        self.expression = _shown(template)
        self.is_last = False
        self._error: str | None = None
        self._warnings: tuple[str, ...] = ()
        self._frames: list[bytes] = []

    async def receive(self, process: Process) -> None:
        """Read the answer to its end. Raises EOFError if the process ends before."""
        assert process.stdout is not None, "it was asked for"
        while True:
            (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
            frame = await process.stdout.readexactly(length)
            kind, content = Answer(frame[:1]), frame[1:]
            match kind:
                case Answer.EXPRESSION:
                    self.expression = _cut(content.decode())
                case Answer.WARNINGS:
                    self._warnings = msgspec.msgpack.decode(content, type=tuple[str, ...])
                case Answer.VALUE:
                    self._frames.append(content)
                case Answer.ERROR:
                    self._error = content.decode()
                case Answer.END | Answer.LAST:
                    self.is_last = kind is Answer.LAST
                    return

    async def result(self) -> Evaluated:
        """Return the value and warnings. Raises `ExpressionError`."""
        if self._error is not None:
            raise ExpressionError(self._error)
        return await asyncio.to_thread(value_of, self._frames), self._warnings


def _request(template: Template, scope: Scope, memory_bytes: int) -> list[bytes]:
    """Return the frames of a request, with their lengths. The last one is empty."""
    scope = template.needed(scope)
    inner = {step: dict(variables) for step, variables in scope.inner.items()}
    frames = [pickle.dumps((template, scope.now_s)), *frames_of([dict(scope.variables), inner], memory_bytes), b""]
    return [LENGTH.pack(len(frame)) + frame for frame in frames]


async def _send(process: Process, frames: list[bytes]) -> None:
    assert process.stdin is not None, "it was asked for"
    for frame in frames:
        process.stdin.write(frame)
        await process.stdin.drain()


def _shown(template: Template) -> str:
    """Return the expressions of a template for a message, as far as they fit."""
    return _cut(", ".join(islice(template.texts, _SHOWN_EXPRESSIONS)))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
