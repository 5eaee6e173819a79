"""Wires the machine providers of this installation, loading each at its first use."""

import importlib
import resource
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from launchbay import limits
from launchbay.auth.secret_key import SecretKey
from launchbay.clock import Clock
from launchbay.egress.addresses import Allowlist, literal_addresses, validate_address
from launchbay.egress.http import EgressClient
from launchbay.egress.transport import SystemResolver
from launchbay.engine.machine_ledger import EnvironmentPools, PostgresHostKeys, PostgresMachineLedger
from launchbay.engine.sweeper import Sweeper
from launchbay.errors import ActionFailed, CannotStart, InvalidManifest
from launchbay.ids import is_id
from launchbay.machines.contract import MachineProvider, ProviderContext, ProviderDeps, Sweepable
from launchbay.machines.dry_run import Answers, read_answers
from launchbay.machines.registry import LazyProvider, Providers
from launchbay.manifest.reader import read
from launchbay.manifest.tree import children_of, is_null, report_kind
from launchbay.model.findings import Findings
from launchbay.service_types.key_pairs import KeyPairs
from launchbay.settings import Settings
from launchbay.store import environments
from launchbay.store.database import Database

_KEY = "answers"


def read_answers_file(path: str) -> Answers:
    """Return the simulated answers of a file; none without a path. Raises CannotStart with the place of an error."""
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
            f"LAUNCHBAY_DRY_RUN_ANSWERS: can't read {path}: {error.strerror}.",
            "Correct the path, or unset it.",
            code="UnreadableAnswers",
        ) from error
    except InvalidManifest as error:
        sentences = (f"{path}: {sentence.replace('manifest', 'document')}" for sentence in error.messages)
        raise CannotStart(*sentences, code="InvalidAnswers") from None
    return answers


CLOUD, CONTAINER = "cloud", "container"
_EVERY = "*"
_FILES = 65_536
_PROCESSES = 16_384  # of one user on the entire machine; containers have their own, lower limit


def cloud_providers(settings: Settings, database: Database, secret_key: SecretKey, deps: ProviderDeps) -> LazyProvider:
    """Return the factories of the cloud provider, and of the container provider if an engine is set."""
    ledger = PostgresMachineLedger(database, secret_key)
    late: dict[str, Callable[[], MachineProvider]] = {
        CLOUD: lambda: _load("launchbay.machines.clouds.provider:CloudMachines")(deps, ledger)
    }
    if settings.container_socket:
        late[CONTAINER] = partial(_containers, settings, ledger, deps)
    return late


def sweeper(
    settings: Settings, database: Database, secret_key: SecretKey, providers: Providers, clock: Clock
) -> Sweeper:
    """Return the sweeper. It loads only providers that may have created machines."""
    ledger = PostgresMachineLedger(database, secret_key)

    async def providers_to_sweep() -> list[Sweepable]:
        names = [CLOUD] if await ledger.places() else []
        names += [CONTAINER] if settings.container_socket else []
        return [provider for name in names if isinstance(provider := providers.named(name), Sweepable)]

    return Sweeper(
        database=database,
        providers=providers_to_sweep,
        clock=clock,
        mode=settings.machines_sweep,
        interval_s=settings.machines_sweep_interval_s,
        grace_s=settings.machines_sweep_grace_s,
    )


def _containers(settings: Settings, ledger: PostgresMachineLedger, deps: ProviderDeps) -> MachineProvider:
    engine = _load("launchbay.machines.containers.engine_api:EngineApi")(settings.container_socket)
    bounds = _load("launchbay.machines.containers.order:ContainerLimits")(
        memory_mb=settings.container_memory_mb,
        cpus=settings.container_cpus,
        networks=_listed(settings.container_networks),
        # This server's limits are probably the engine's. Containers with higher ones would not start.
        files=_own_limit(resource.RLIMIT_NOFILE, _FILES),
        processes=_own_limit(resource.RLIMIT_NPROC, _PROCESSES),
    )
    environments = _listed(settings.container_environments)

    def may_use(context: ProviderContext) -> bool:
        if settings.machines == CONTAINER or _EVERY in environments:
            return True
        return context.environment_id in environments or context.organization_id in environments

    provider: MachineProvider = _load("launchbay.machines.containers.provider:ContainerMachines")(
        engine, ledger, bounds, deps.egress, may_use
    )
    return provider


def _own_limit(which: int, wanted: int) -> int:
    _, hard = resource.getrlimit(which)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def local_environments(text: str) -> list[str]:
    """Return IDs and names of a setting. Commas separate names, which have blanks; blanks separate IDs too."""
    found: list[str] = []
    for part in text.split(","):
        words = part.split()
        found += words if all(is_id(word) or word == "*" for word in words) else [part.strip()]
    return found


async def _names_of(database: Database, organization_id: str, environment_id: str) -> list[str]:
    """Return how an operator can name an environment.

    Its name alone is enough only if nobody can have another organization with such an environment.
    """
    async with database.connection() as connection:
        row = await environments.read_chosen_name(
            connection, organization_id=organization_id, environment_id=environment_id
        )
    if row is None:
        return []
    return [f"{organization_id}/{row.name}", *([row.name] if row.is_alone else [])]


def _load(path: str) -> Callable[..., Any]:
    """Import a class at its first use, because its libraries are large."""
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


class CheckedResolver:
    """Resolves a name once and checks each address. Implements `machines.contract.AddressResolver`."""

    def __init__(self, allowlist: Allowlist) -> None:
        self._allowlist = allowlist

    async def addresses(self, context: ProviderContext, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. Raises AddressRefused, and ActionFailed if the name has none."""
        try:
            found = await SystemResolver().resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ActionFailed(f"Host {host} has no address: {error}.") from error
        return self._checked(context, host, port, found)

    def unresolved(self, context: ProviderContext, host: str, port: int) -> str:
        """Return an address in its normal form, or the name.

        Raises AddressRefused for addresses and `localhost`.
        """
        return next(iter(self._checked(context, host, port, literal_addresses(host, port))), host)

    def _checked(self, context: ProviderContext, host: str, port: int, found: Sequence[str]) -> list[str]:
        allowlist = self._allowlist.for_environment(context.organization_id, context.environment_id, context.policies)
        return [validate_address(each, host, port, allowlist) for each in found][: limits.EGRESS_ADDRESSES]


_DIRECTORY = "machines"


def machine_providers(settings: Settings, database: Database, secret_key: SecretKey, egress: EgressClient) -> Providers:
    """Return the providers. Raises CannotStart if the setting names an unknown one."""
    deps = ProviderDeps(
        keys=KeyPairs(database, secret_key),
        host_keys=PostgresHostKeys(database),
        pools=EnvironmentPools(database, secret_key),
        resolver=CheckedResolver(Allowlist.parse(settings.outgoing_allow)),
        egress=egress,
        directory=settings.data_dir.resolve() / _DIRECTORY,  # absolute: it is the home directory of local commands
    )
    late: LazyProvider = {
        "local": lambda: _load("launchbay.machines.local:LocalMachines")(
            deps, local_environments(settings.local_environments), partial(_names_of, database)
        ),
        "static": lambda: _load("launchbay.machines.static:StaticMachines")(deps),
        **cloud_providers(settings, database, secret_key, deps),
    }
    return Providers.load(settings.machines, read_answers_file(settings.dry_run_answers), late)
