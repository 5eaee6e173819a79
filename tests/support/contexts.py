"""A small context of a step: it remembers what the action did, and its time passes only by sleeping."""

import ssl
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from launchbay.actions.contract import (
    Action,
    ActionCall,
    Document,
    LogLevel,
    SignalsView,
    StepContext,
    StepMachines,
    idempotency_key,
)
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.egress.mail import MailServer
from launchbay.errors import ActionFailed
from launchbay.machines.contract import ProviderContext
from launchbay.model.job import Question, Verdict
from launchbay.model.machine import CommandResult, ImageRun, Machine, PlannedImageRun
from launchbay.model.redaction import Redactor
from launchbay.processes.run import Programs

LOOPBACK = Allowlist.parse("127.0.0.1, ::1")
TLS = ssl.create_default_context()  # one for all: reading the authorities takes its time
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class SteppedClock:
    passed_s: float = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed_s)

    def monotonic_s(self) -> float:
        return 1000.0 + self.passed_s


@dataclass
class Signals:
    of_one: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    of_many: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    def single(self) -> Mapping[str, Mapping[str, Any]]:
        return self.of_one

    def multi(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        return self.of_many


@dataclass
class KeptInMemory:
    documents: dict[str, Document] = field(default_factory=dict)
    writes: list[bytes] = field(default_factory=list)

    async def read(self, name: str) -> Document | None:
        return self.documents.get(name)

    async def write(self, name: str, data: bytes, version: int) -> int:
        before = self.documents.get(name, Document(b"", 0))
        if before.version != version:
            raise ActionFailed("Another step has changed it.")
        self.documents[name] = Document(data, version + 1)
        self.writes.append(data)
        return version + 1

    async def delete(self, name: str) -> None:
        self.documents.pop(name, None)


@dataclass
class RecordingContext:
    instance_id: str = "5f0000000000000000000001"
    organization_id: str = "5f0000000000000000000002"
    environment_id: str = "5f0000000000000000000003"
    job_id: str = "5f0000000000000000000004"
    step_path: str = "web/launch/deploy"
    attempt: int = 1
    started_at: datetime = START
    clock: SteppedClock = field(default_factory=SteppedClock)
    signals: SignalsView = field(default_factory=Signals)
    egress: EgressClient = field(default_factory=lambda: EgressClient(LOOPBACK, ssl_context=TLS))
    results: Mapping[str, Any] | ActionFailed = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)
    percents: list[int] = field(default_factory=list)
    naps: list[float] = field(default_factory=list)
    awaited: list[tuple[dict[str, int], float | None]] = field(default_factory=list)
    identity: str | None = None
    documents: KeptInMemory = field(default_factory=KeptInMemory)
    learned: list[Any] = field(default_factory=list)
    programs: Programs = field(default_factory=Programs)
    mail_server: MailServer | None = None
    told: list[Mapping[str, Any]] = field(default_factory=list)
    images: list[ImageRun] = field(default_factory=list)
    image_result: CommandResult = field(default_factory=lambda: CommandResult("", "", 0))
    image_plan: PlannedImageRun = field(default_factory=lambda: PlannedImageRun("sha256:1", 1.0, 256, "none"))
    questions: list[Question] = field(default_factory=list)
    verdict: Verdict | None = None
    commands: list[tuple[str, str, dict[str, Any], float | None]] = field(default_factory=list)

    @property
    def machines(self) -> StepMachines:
        raise ActionFailed("There is no machine provider.", retryable=False)

    @property
    def idempotency_key(self) -> str:
        return idempotency_key(self.job_id, self.step_path)

    def register_secret(self, value: Any) -> None:
        self.learned.append(value)

    def redact(self, text: str) -> str:
        return Redactor().text(text)

    def log(self, level: LogLevel, text: str, stream: str = "system") -> None:
        self.lines.append((level, text))

    async def progress(self, percent: int) -> None:
        self.percents.append(percent)

    def resting(self, seconds: float) -> AbstractContextManager[None]:
        return nullcontext()

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.clock.passed_s += seconds

    @property
    def mail(self) -> MailServer:
        if self.mail_server is None:
            raise ActionFailed("There is no mail server.", retryable=False)
        return self.mail_server

    async def notify_webhooks(self, notification: Mapping[str, Any]) -> int:
        self.told.append(notification)
        return 1

    async def run_image(self, run: ImageRun) -> CommandResult:
        self.images.append(run)
        return self.image_result

    async def plan_image(self, run: ImageRun) -> PlannedImageRun:
        return self.image_plan

    async def ask(self, question: Question) -> Verdict:
        self.questions.append(question)
        assert self.verdict is not None
        return self.verdict

    async def wait_peers(self, interfaces: Mapping[str, int], timeout_s: float | None) -> None:
        self.awaited.append((dict(interfaces), timeout_s))

    async def call_command(
        self, interface: str, command: str, arguments: Mapping[str, Any], timeout_s: float | None
    ) -> Mapping[str, Any]:
        self.commands.append((interface, command, dict(arguments), timeout_s))
        if isinstance(self.results, ActionFailed):
            raise self.results
        return self.results


async def run(action: Action, context: StepContext | None = None, **parameters: Any) -> Mapping[str, Any]:
    return await action.run(ActionCall(parameters, context or RecordingContext()))


class Log(list[str]):
    """The lines of a step's log."""

    def __call__(self, level: str, text: str) -> None:
        self.append(text)


def context(log: Log | None = None, **more: Any) -> ProviderContext:
    found = ProviderContext(
        organization_id="5f0000000000000000000002",
        environment_id="5f0000000000000000000003",
        instance_id="5f0000000000000000000001",
        component="web",
        action="execrun",
        step="deploy",
        path="web#launch/deploy",
        tag="t",
        log=Log() if log is None else log,
    )
    return replace(found, **more)


MACHINE = Machine(
    id="m",
    role="web",
    provider="dry-run",
    number=1,
    public_ip="192.0.2.7",
    private_ip="198.51.100.7",
    host_name="web-1.dry-run.example",
)
