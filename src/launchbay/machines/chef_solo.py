"""Chef without a server: cookbooks, a node's attributes and a run list go to a machine, and the saved node comes back.

`chef-solo` or `cinc-solo` of version 12.11 or newer must be installed there. It is called with `-c` and `-j`; the run
list is in the JSON and not in `-o`, because Chef does not save the node of a run whose list was overridden.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay import limits
from launchbay.egress.http import OutgoingHttp
from launchbay.errors import ActionFailed, AddressRefused
from launchbay.machines.contract import Errand
from launchbay.machines.cookbooks import Cookbooks, fetch_cookbooks
from launchbay.machines.running import Run, run_key
from launchbay.machines.scripts import script
from launchbay.machines.shell import OpenShell, Shell, ShellLost
from launchbay.model.machine import ChefRun, Machine, RemoteCommand

_PURPOSE = "chef"
_ON_THE_HOST = Cookbooks(b"", ("/var/chef/cookbooks", "/etc/chef/cookbooks"), ("/var/chef/roles",), ())
_LEVELS = ("default", "normal", "override", "automatic")  # the later ones count more
_TOLD_CHARS = 400


async def converge(
    errand: Errand, machine: Machine, chef: ChefRun, open_shell: OpenShell, outgoing: OutgoingHttp, directory: str = ""
) -> Mapping[str, Any]:
    """Run Chef and return the attributes of the node that it saved. `directory` is where commands begin there.

    Raises ActionFailed where it cannot be run or fails.
    """
    if not chef.solo:
        raise ActionFailed("isSolo: false needs a Chef server, which is not supported; leave it out.", retryable=False)
    if chef.version:
        errand.log("info", f"The version {chef.version} of Chef is not installed by itself; the installed one runs.")
    items = run_list(chef)
    place = f".launchbay/chef/{run_key(errand, machine, _PURPOSE)}"

    async def prepare(shell: Shell) -> None:
        client = outgoing.within(errand.organization_id, errand.environment_id, errand.policies)
        await _provide(shell, chef, items, place, client)

    run = Run(errand, machine, open_shell, _PURPOSE, directory)
    command = RemoteCommand(line=f"#!/bin/sh\n{script('chef', place=place)}", sudo=chef.sudo, sink=chef.sink)
    result = await run.command(command, prepare)
    if result.exit_code != 0:
        covering = errand.covering()  # before it is cut, in a secret perhaps
        told = (covering.feed(result.stderr.strip() or result.stdout.strip()) + covering.finish())[-_TOLD_CHARS:]
        raise ActionFailed(f"On {machine.host} Chef ended with exit code {result.exit_code}: {told}")
    try:
        async with asyncio.timeout(limits.MACHINE_FILE_S), open_shell() as shell:
            node = await shell.get(f"{place}/node.json", limits.CHEF_NODE_BYTES)
    except (ShellLost, TimeoutError) as error:
        raise ActionFailed(f"The node that Chef saved on {machine.host} cannot be fetched: {error}.") from error
    return attributes_of(node, machine)


def run_list(chef: ChefRun) -> list[str]:
    """Return the items in Chef's own form; `a` and `a::b` are recipes, and commas part items as well."""
    names = [name.strip() for item in chef.run_list for name in item.split(",")]
    return [name if "[" in name else f"recipe[{name}]" for name in names if name]


def attributes_of(node: bytes, machine: Machine) -> Mapping[str, Any]:
    """Return the attributes of a saved node, its levels laid over each other. Raises ActionFailed."""
    try:
        saved = msgspec.json.decode(node)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ActionFailed(f"The node that Chef saved on {machine.host} cannot be read: {error}.") from error
    if not isinstance(saved, dict):
        raise ActionFailed(f"The node that Chef saved on {machine.host} is no map.")
    found: dict[str, Any] = {}
    for level in _LEVELS:
        found = _merged(found, saved.get(level) or {})
    return {**found, "run_list": saved.get("run_list", [])}


async def _provide(shell: Shell, chef: ChefRun, items: list[str], place: str, outgoing: OutgoingHttp) -> None:
    """Put everything where Chef will look for it."""
    cookbooks = _ON_THE_HOST
    if chef.recipe_url:
        try:
            cookbooks = await fetch_cookbooks(outgoing, chef.recipe_url, _cookbook(items))
        except AddressRefused as error:
            raise ActionFailed(str(error), retryable=False) from error
    if await shell.script(f'umask 077\n{script(place=place)}mkdir -p "$place"\n', _drop, _drop) != 0:
        raise ActionFailed("The directory for Chef cannot be made on the machine.")
    if cookbooks.archive:
        await shell.put(f"{place}/cookbooks.tgz", cookbooks.archive)
    await shell.put(f"{place}/solo.rb", _settings(cookbooks).encode())
    await shell.put(f"{place}/dna.json", msgspec.json.encode({**chef.attributes, "run_list": items}))


def _settings(cookbooks: Cookbooks) -> str:
    """Return `solo.rb`. Its paths begin at its own directory."""
    lines = ["here = File.expand_path(File.dirname(__FILE__))"]
    paths = {
        "cookbook_path": cookbooks.cookbook_paths,
        "role_path": cookbooks.role_paths,
        "data_bag_path": cookbooks.data_bag_paths,
    }
    for name, values in paths.items():
        if values:
            places = ", ".join(f"File.expand_path({_ruby(value)}, File.join(here, 'files'))" for value in values)
            lines.append(f"{name} [{places}]")
    lines += [
        "node_path File.join(here, 'nodes')",
        "file_cache_path File.join(here, 'cache')",
        "chef_repo_path here",
        "solo_legacy_mode false",
        "",
    ]
    return "\n".join(lines)


def _ruby(text: str) -> str:
    """Return a text as Ruby writes one: in single quotes nothing but these and the backslash means anything."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _cookbook(items: list[str]) -> str:
    """Return the cookbook of the first recipe."""
    recipes = [item[len("recipe[") :].rstrip("]") for item in items if item.startswith("recipe[")]
    return recipes[0].partition("::")[0].partition("@")[0].replace("/", "_") if recipes else ""


def _merged(under: Mapping[str, Any], over: Any) -> dict[str, Any]:
    merged = dict(under)
    for name, value in (over if isinstance(over, Mapping) else {}).items():
        known = merged.get(name)
        merged[name] = _merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def _drop(data: bytes) -> None:
    """Take output that nobody wants."""
