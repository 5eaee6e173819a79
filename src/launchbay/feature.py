"""What `features/<name>/feature.py` registers, and how `app/features.py` composes it to a process."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from launchbay.auth.secret_key import SecretKey
from launchbay.console.request import PageRoute
from launchbay.egress.mail import MailServer
from launchbay.engine.worker import PeriodicTask
from launchbay.planning.decisions import ChangeRule
from launchbay.processes.run import Programs
from launchbay.runtime.contract import ApprovedPlans, Identities, Notifier, RuntimeDeps, SecretSource
from launchbay.store.database import Connection, Database
from launchbay.store.statements import Value
from launchbay.store.users import Traces
from launchbay.usecases.context import NO_PORTS, AppContext, Ports
from launchbay.usecases.later import Later, LaterWork
from launchbay.usecases.sealing import Sealed
from launchbay.web.routing import Endpoint
from launchbay.web.wire import WireProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDeps:
    """What tasks of features need.

    `on_close` takes what the end of the process waits for.
    """

    app: AppContext
    base_url: str  # as in the settings
    mail: MailServer | None
    programs: Programs
    runtime: RuntimeDeps  # for what looks ahead at jobs
    on_close: Callable[[Callable[[], Awaitable[None]]], object]


class Stuck(NamedTuple):
    """What a feature can't finish without help; `check` is what it is about."""

    check: str
    where: str
    found: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What an organization could do without. It fills what it has.

    The kernel imports no feature, and keeps each of its promises without one (decision 0170).
    """

    name: str  # of the package
    routes: tuple[Iterable[Endpoint], ...] = ()
    pages: tuple[Iterable[PageRoute], ...] = ()
    protocols: tuple[WireProtocol, ...] = ()  # of others, with paths of their own
    locks: Mapping[str, Value[str]] = field(default_factory=dict)  # by the first segment of an API path, for If-Match
    sealed: Sealed = field(default_factory=dict)  # for the rotation of the secret key
    traces: tuple[Traces, ...] = ()  # what is left of a person who was removed
    start: Callable[[Database, SecretKey], Awaitable[None]] | None = None  # runs before the process serves anybody
    later: tuple[type[LaterWork[Any, Any]], ...] = ()
    tasks: Callable[[TaskDeps], tuple[PeriodicTask, ...]] | None = None  # other work in the background
    stuck: Callable[[Connection], Awaitable[Sequence[Stuck]]] | None = None  # what an administrator should know
    change_rules: tuple[ChangeRule, ...] = ()  # what is asked about each change (decision 0200)
    ports: Ports = NO_PORTS  # what the kernel asks of this feature
    offers: tuple[object, ...] = ()  # what other features find by its class
    notifier: Callable[[Database], Notifier] | None = None  # who hears what a step says with `notify`
    identities: Callable[[AppContext], Identities] | None = None  # who says which job asks
    secret_source: Callable[[AppContext, Identities], SecretSource] | None = None  # who reads secrets of providers
    approved_plans: Callable[[AppContext], ApprovedPlans] | None = None  # who knows what was approved of a job


@dataclass(frozen=True, slots=True)
class Features:
    """All features of a process, composed.

    Raises ValueError for what only one may have: a name, the notifier, the issuer, an endpoint, a page, the lock of a
    path, a port.
    """

    all: tuple[Feature, ...]

    def __post_init__(self) -> None:
        _once("feature", (each.name for each in self.all))
        _once("notifier", ("of steps" for each in self.all if each.notifier is not None))
        _once("issuer", ("of tokens" for each in self.all if each.identities is not None))
        _once("source", ("of secrets" for each in self.all if each.secret_source is not None))
        _once("keeper", ("of approved plans" for each in self.all if each.approved_plans is not None))
        _once("port", (name for name, _ in self._ports()))
        _once("endpoint", (f"{each.method} {each.path}" for each in self.endpoints([each.name for each in self.all])))
        _once("lock of", (root for each in self.all for root in each.locks))
        _once("page", (f"{each.method} {each.path}" for each in self.pages()))
        _once("protocol at", (each.root for each in self.protocols()))

    def endpoints(self, order: Sequence[Iterable[Endpoint] | str]) -> tuple[Endpoint, ...]:
        """Return the endpoints in the order of their documentation.

        `order` has the endpoints of the kernel, and a feature's name where its own stand. Those of features without
        such a place come last.
        """
        blocks = {each.name: each.routes for each in self.all}
        rows: list[Endpoint] = []
        for each in order:
            for block in blocks.pop(each, ()) if isinstance(each, str) else (each,):
                rows.extend(block)
        rows.extend(row for rest in blocks.values() for block in rest for row in block)
        return tuple(rows)

    def pages(self) -> tuple[PageRoute, ...]:
        return tuple(page for each in self.all for pages in each.pages for page in pages)

    def protocols(self) -> tuple[WireProtocol, ...]:
        return tuple(protocol for each in self.all for protocol in each.protocols)

    def ports(self) -> Ports:
        return Ports(**dict(self._ports()))

    def _ports(self) -> Iterator[tuple[str, Any]]:
        """Yield what features fill of the ports."""
        for each in self.all:
            for port in fields(Ports):
                filled = getattr(each.ports, port.name)
                if filled is not port.default:
                    yield port.name, filled

    def change_rules(self) -> tuple[ChangeRule, ...]:
        return tuple(rule for each in self.all for rule in each.change_rules)

    def offers(self) -> tuple[object, ...]:
        return tuple(offer for each in self.all for offer in each.offers)

    def locks(self, of_kernel: Mapping[str, Value[str]]) -> dict[str, Value[str]]:
        """Return all locks by the first segment of an API path."""
        own = {root: lock for each in self.all for root, lock in each.locks.items()}
        _once("lock of", [*of_kernel, *own])
        return {**of_kernel, **own}

    def sealed(self) -> Sealed:
        return {column: purpose for each in self.all for column, purpose in each.sealed.items()}

    def traces(self) -> tuple[Traces, ...]:
        return tuple(traces for each in self.all for traces in each.traces)

    async def start(self, database: Database, secret: SecretKey) -> None:
        for each in self.all:
            if each.start is not None:
                await each.start(database, secret)

    async def stuck(self, connection: Connection) -> list[Stuck]:
        """Return what features can't finish without help."""
        return [found for each in self.all if each.stuck is not None for found in await each.stuck(connection)]

    def tasks(self, deps: TaskDeps) -> tuple[PeriodicTask, ...]:
        """Return what the engine does in the background for features."""
        later = (kind for each in self.all for kind in each.later)
        others = (task for each in self.all if each.tasks is not None for task in each.tasks(deps))
        return (
            *(PeriodicTask(kind.task, kind.every_s, Later(kind(deps.app)).advance, due=kind.due) for kind in later),
            *others,
        )

    def notifier(self, database: Database) -> Notifier | None:
        found = [each.notifier for each in self.all if each.notifier is not None]
        return found[0](database) if found else None

    def secret_source(self, app: AppContext, identities: Identities) -> SecretSource | None:
        found = [each.secret_source for each in self.all if each.secret_source is not None]
        return found[0](app, identities) if found else None

    def approved_plans(self, app: AppContext) -> ApprovedPlans | None:
        found = [each.approved_plans for each in self.all if each.approved_plans is not None]
        return found[0](app) if found else None

    def identities(self, app: AppContext) -> Identities | None:
        found = [each.identities for each in self.all if each.identities is not None]
        return found[0](app) if found else None


def _once(noun: str, names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"two declare the {noun} {', '.join(twice)}")
