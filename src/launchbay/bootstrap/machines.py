"""The machine providers of this installation, with what they work with."""

import importlib
from collections.abc import Callable
from typing import Any

from launchbay.auth.secret_key import SecretKey
from launchbay.bootstrap.answers_file import read_answers_file
from launchbay.bootstrap.clouds import cloud_providers
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import OutgoingHttp
from launchbay.engine.machine_ledger import EnvironmentPools, PinnedHosts
from launchbay.machines.contract import MachineProvider, Parts
from launchbay.machines.dialling import CheckedReach
from launchbay.machines.registry import Late, Providers
from launchbay.service_types.key_pairs import KeyPairs
from launchbay.settings import Settings
from launchbay.store.database import Database

_DIRECTORY = "machines"


def machine_providers(
    settings: Settings, database: Database, secret_key: SecretKey, outgoing: OutgoingHttp
) -> Providers:
    """Return the providers. Raises CannotStart for a setting that names none of them."""
    parts = Parts(
        keys=KeyPairs(database, secret_key),
        host_keys=PinnedHosts(database),
        pools=EnvironmentPools(database, secret_key),
        reach=CheckedReach(Allowlist.parse(settings.outgoing_allow)),
        outgoing=outgoing,
        directory=settings.data_dir.resolve() / _DIRECTORY,  # whole: it is the home of what runs on local machines
    )
    allowed_local = settings.local_environments.replace(",", " ").split()
    late: Late = {
        "local": lambda: _loaded("launchbay.machines.local:LocalMachines")(parts, allowed_local),
        "static": lambda: _loaded("launchbay.machines.static:StaticMachines")(parts),
        **cloud_providers(settings, database, secret_key, parts),
    }
    return Providers.load(settings.machines, read_answers_file(settings.dry_run_answers), late)


def _loaded(path: str) -> Callable[..., MachineProvider]:
    """Import a provider's class now, at its first use: what it stands on is heavy."""
    module, _, name = path.partition(":")
    found: Any = getattr(importlib.import_module(module), name)
    return found  # type: ignore[no-any-return]  # the name is written in this file
