"""The machine providers of this installation, with what they work with."""

import importlib
import resource
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from launchbay import limits
from launchbay.auth.secret_key import SecretKey
from launchbay.clock import Clock
from launchbay.egress.addresses import Allowlist, validate_address
from launchbay.egress.http import EgressClient
from launchbay.egress.transport import Resolver, SystemResolver
from launchbay.engine.machine_ledger import EnvironmentPools, PostgresHostKeys, PostgresMachineLedger
from launchbay.engine.sweeper import Sweeper
from launchbay.errors import ActionFailed, CannotStart, InvalidManifest
from launchbay.machines.contract import MachineProvider, ProviderContext, ProviderDeps, Sweepable
from launchbay.machines.dry_run import Answers, read_answers
from launchbay.machines.registry import LazyProvider, Providers
from launchbay.manifest.reader import read
from launchbay.manifest.tree import children_of, is_null, report_kind
from launchbay.model.findings import Findings
from launchbay.service_types.key_pairs import KeyPairs
from launchbay.settings import Settings
from launchbay.store.database import Database

_KEY = "answers"


def read_answers_file(path: str) -> Answers:
    """Return the answers in the file, none without a path. Raises CannotStart with the place of what is wrong."""
    if not path:
        return Answers()
    findings = Findings()
    try:
        document = read(Path(path).read_bytes())
        if is_null(document):
            report_kind(document, "The document", "a map", findings)
        parts = children_of(document, "The document", findings, (_KEY,), strict=True)
        answers = read_answers(parts.get(_KEY), findings)
        findings.raise_errors()
    except OSError as error:
        raise CannotStart(
            f"LAUNCHBAY_DRY_RUN_ANSWERS: the file {path} cannot be read: {error.strerror}.",
            "Correct the path, or leave the setting out.",
            code="UnreadableAnswers",
        ) from error
    except InvalidManifest as error:
        sentences = (f"{path}: {sentence.replace('manifest', 'document')}" for sentence in error.messages)
        raise CannotStart(*sentences, code="InvalidAnswers") from None
    return answers


CLOUD, CONTAINER = "cloud", "container"
_EVERY = "*"
_FILES = 65_536
_PROCESSES = 16_384  # of one login on the whole machine; a container has a lower bound of its own


def cloud_providers(settings: Settings, database: Database, secret_key: SecretKey, deps: ProviderDeps) -> LazyProvider:
    """Return what makes the providers when they are first asked for; containers where the operator named an engine."""
    ledger = PostgresMachineLedger(database, secret_key)
    late: dict[str, Callable[[], MachineProvider]] = {
        CLOUD: lambda: _load_cloud_attribute("launchbay.machines.clouds.provider:CloudMachines")(deps, ledger)
    }
    if settings.container_socket:
        late[CONTAINER] = partial(_containers, settings, ledger, deps)
    return late


def sweeper(
    settings: Settings, database: Database, secret_key: SecretKey, providers: Providers, clock: Clock
) -> Sweeper:
    """Return the sweep. A provider is loaded for it only where it may have made something."""
    ledger = PostgresMachineLedger(database, secret_key)

    async def swept() -> list[Sweepable]:
        names = [CLOUD] if await ledger.places() else []
        names += [CONTAINER] if settings.container_socket else []
        return [provider for name in names if isinstance(provider := providers.named(name), Sweepable)]

    return Sweeper(
        database=database,
        providers=swept,
        clock=clock,
        mode=settings.machines_sweep,
        interval_s=settings.machines_sweep_interval_s,
        grace_s=settings.machines_sweep_grace_s,
    )


def _containers(settings: Settings, ledger: PostgresMachineLedger, deps: ProviderDeps) -> MachineProvider:
    engine = _load_cloud_attribute("launchbay.machines.containers.engine_api:EngineApi")(settings.container_socket)
    allowed = _load_cloud_attribute("launchbay.machines.containers.order:ContainerLimits")(
        memory_mb=settings.container_memory_mb,
        cpus=settings.container_cpus,
        networks=_listed(settings.container_networks),
        # What this server may, its engine may in all likelihood: more would keep containers from starting.
        files=_own_limit(resource.RLIMIT_NOFILE, _FILES),
        processes=_own_limit(resource.RLIMIT_NPROC, _PROCESSES),
    )
    environments = _listed(settings.container_environments)

    def may_use(context: ProviderContext) -> bool:
        if settings.machines == CONTAINER or _EVERY in environments:
            return True
        return context.environment_id in environments or context.organization_id in environments

    made: MachineProvider = _load_cloud_attribute("launchbay.machines.containers.provider:ContainerMachines")(
        engine, ledger, allowed, deps.egress, may_use
    )
    return made


def _own_limit(which: int, wanted: int) -> int:
    _, most = resource.getrlimit(which)
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _load_cloud_attribute(path: str) -> Callable[..., Any]:
    """Import a class now, at its first use: what it stands on is heavy."""
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


class CheckedResolver:
    """Implements `contract.Reach`: a name is resolved once and every address of it is judged."""

    def __init__(self, allowlist: Allowlist, resolver: Resolver | None = None) -> None:
        self._allowlist = allowlist
        self._resolver = resolver or SystemResolver()

    async def addresses(self, context: ProviderContext, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. Raises AddressRefused, and ActionFailed for a name without an address."""
        try:
            found = await self._resolver.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ActionFailed(f"The host {host} has no address ({error}).") from error
        allowlist = self._allowlist.for_environment(context.organization_id, context.environment_id, context.policies)
        return [validate_address(each, host, port, allowlist) for each in found][: limits.EGRESS_ADDRESSES]


_DIRECTORY = "machines"


def machine_providers(settings: Settings, database: Database, secret_key: SecretKey, egress: EgressClient) -> Providers:
    """Return the providers. Raises CannotStart for a setting that names none of them."""
    parts = ProviderDeps(
        keys=KeyPairs(database, secret_key),
        host_keys=PostgresHostKeys(database),
        pools=EnvironmentPools(database, secret_key),
        resolver=CheckedResolver(Allowlist.parse(settings.outgoing_allow)),
        egress=egress,
        directory=settings.data_dir.resolve() / _DIRECTORY,  # whole: it is the home of what runs on local machines
    )
    allowed_local = settings.local_environments.replace(",", " ").split()
    late: LazyProvider = {
        "local": lambda: _load_attribute("launchbay.machines.local:LocalMachines")(parts, allowed_local),
        "static": lambda: _load_attribute("launchbay.machines.static:StaticMachines")(parts),
        **cloud_providers(settings, database, secret_key, parts),
    }
    return Providers.load(settings.machines, read_answers_file(settings.dry_run_answers), late)


def _load_attribute(path: str) -> Callable[..., MachineProvider]:
    """Import a provider's class now, at its first use: what it stands on is heavy."""
    module, _, name = path.partition(":")
    found: Any = getattr(importlib.import_module(module), name)
    return found  # type: ignore[no-any-return]  # the name is written in this file
