"""Chef without a server: send cookbooks, attributes and a run list to a machine, and fetch the saved node.

`chef-solo` or `cinc-solo` 12.11 or newer must be installed there. It is called with `-c` and `-j`. The run list is in
the JSON instead of `-o`, because Chef doesn't save the node of an overridden run list.

Archives of cookbooks are repacked here from checked members: no absolute or climbing paths, no links or devices, and
within the limits. So no trick of a foreign archive reaches the program that unpacks it on the machine.
"""

import asyncio
import io
import posixpath
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from launchbay import limits
from launchbay.egress.archives import read_members
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, AddressRefused, EgressFailed
from launchbay.machines.answers import run_script, script
from launchbay.machines.contract import OpenShell, ProviderContext, Shell, ShellLost
from launchbay.machines.remote_commands import RemoteRun, SudoPassword, cannot_run, no_password, run_key
from launchbay.model.machine import ChefRun, Machine, RemoteCommand
from launchbay.telemetry.tracing import trace_parent

COOKBOOKS, ROLES, DATA_BAGS = "cookbooks", "roles", "data_bags"
_METADATA = frozenset(("metadata.rb", "metadata.json"))
_RETRYABLE = frozenset((408, 425, 429))


@dataclass(frozen=True, slots=True)
class Cookbooks:
    """A checked archive (tar.gz), and its directories of cookbooks, roles and data bags."""

    archive: bytes
    cookbook_paths: tuple[str, ...]
    role_paths: tuple[str, ...]
    data_bag_paths: tuple[str, ...]


async def fetch_cookbooks(egress: EgressClient, url: str, first_cookbook: str) -> Cookbooks:
    """Fetch an archive and check it. `first_cookbook` is the name for an archive of a single cookbook.

    Raises ActionFailed, and AddressRefused for a forbidden address.
    """
    try:
        response = await egress.request(
            "GET", url, timeout_s=limits.COOKBOOKS_FETCH_S, max_bytes=limits.COOKBOOKS_ARCHIVE_BYTES
        )
    except AddressRefused:
        raise
    except EgressFailed as error:
        raise ActionFailed(f"Can't fetch the cookbooks: {error}", retryable=error.retryable) from error
    if response.status != 200:
        raise ActionFailed(
            f"Can't fetch the cookbooks: {response.url} returned {response.status}.",
            retryable=response.status in _RETRYABLE or response.status >= 500,
        )
    try:
        return await asyncio.to_thread(repacked, response.body, first_cookbook)
    except ValueError as error:
        raise ActionFailed(f"Invalid archive of cookbooks at {response.url}: {error}.", retryable=False) from error


def repacked(archive: bytes, first_cookbook: str) -> Cookbooks:
    """Return the archive, reduced to plain files. Raises ValueError with the reason."""
    written = io.BytesIO()
    names: list[str] = []
    try:
        with tarfile.open(fileobj=written, mode="w:gz", compresslevel=1) as target:
            is_single = False
            for source, member in read_members(archive, limits.COOKBOOKS_BYTES, limits.COOKBOOKS_FILES):
                name = _checked_name(member)
                if name is None:
                    continue
                is_single = is_single or name in _METADATA
                names.append(name)
                _add(source, member, target, name)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"it isn't a valid tar.gz ({error})") from error
    if is_single:
        return _single(written.getvalue(), first_cookbook)
    return _described(written.getvalue(), names)


def _checked_name(member: tarfile.TarInfo) -> str | None:
    """Return the normalized name of a member, or None if it isn't a file, such as a directory or a header."""
    if member.isdir() or member.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
        return None
    name = posixpath.normpath(member.name)
    if not member.isfile():
        raise ValueError(f"{member.name[:120]!r} isn't a plain file; links and devices are not allowed")
    if name.startswith("/") or name.split("/")[0] == ".." or "\0" in name or "\n" in name:
        raise ValueError(f"{member.name[:120]!r} leads out of the archive")
    return name


def _add(source: tarfile.TarFile, member: tarfile.TarInfo, target: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = member.size
    entry.mode = 0o755 if member.mode & 0o100 else 0o644
    entry.mtime = member.mtime
    content = source.extractfile(member)
    assert content is not None, "it is a plain file"
    target.addfile(entry, content)


def _single(archive: bytes, name: str) -> Cookbooks:
    """Return the archive of a single cookbook, with its files moved below `cookbooks/NAME`."""
    written = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source,
        tarfile.open(fileobj=written, mode="w:gz", compresslevel=1) as target,
    ):
        for member in source:
            _add(source, member, target, posixpath.join(COOKBOOKS, name or "cookbook", member.name))
    return Cookbooks(written.getvalue(), (COOKBOOKS,), (), ())


def _described(archive: bytes, names: list[str]) -> Cookbooks:
    """Find the directories of an archive. Cookbooks have metadata or recipes, and may contain others of their own."""
    cookbooks = {posixpath.dirname(name) for name in names if posixpath.basename(name) in _METADATA}
    directories = map(posixpath.dirname, names)
    cookbooks |= {posixpath.dirname(each) for each in directories if posixpath.basename(each) == "recipes"}
    paths = {posixpath.dirname(each) for each in cookbooks}
    outer = {path for path in paths if not any(f"{path}/".startswith(f"{other}/") for other in cookbooks)}
    if not outer:
        raise ValueError("it contains no cookbook, which is a directory with metadata.rb or recipes")
    return Cookbooks(
        archive,
        tuple(sorted(outer)),
        tuple(sorted(_named(names, ROLES, outer))),
        tuple(sorted(_named(names, DATA_BAGS, outer))),
    )


def _named(names: list[str], wanted: str, outer: set[str]) -> set[str]:
    """Return the directories with this name next to the cookbooks."""
    candidates = {posixpath.join(posixpath.dirname(path), wanted) for path in outer} | {
        posixpath.join(path, wanted) for path in outer
    }
    return {each for each in candidates if any(name.startswith(f"{each}/") for name in names)}


_PURPOSE = "chef"
_ON_THE_HOST = Cookbooks(b"", ("/var/chef/cookbooks", "/etc/chef/cookbooks"), ("/var/chef/roles",), ())
_LEVELS = ("default", "normal", "override", "automatic")  # by rising precedence
_REPORTED_CHARS = 400


async def converge(
    context: ProviderContext,
    machine: Machine,
    chef: ChefRun,
    open_shell: OpenShell,
    egress: EgressClient,
    directory: str = "",
    sudo_password: SudoPassword = no_password,
) -> Mapping[str, Any]:
    """Run Chef and return the attributes of the saved node. Commands start in `directory`. Raises ActionFailed."""
    if not chef.solo:
        raise ActionFailed("A Chef server isn't supported. Remove isSolo: false.", retryable=False)
    if chef.version:
        context.log("info", f"Using the installed version of Chef; Launchbay doesn't install {chef.version}.")
    items = run_list(chef)
    place = f".launchbay/chef/{run_key(context, machine, _PURPOSE)}"

    async def prepare(shell: Shell) -> None:
        client = egress.for_environment(context.organization_id, context.environment_id, context.policies)
        await _upload(shell, machine.host, chef, items, place, client)

    run = RemoteRun(context, machine, open_shell, _PURPOSE, directory, sudo_password)
    line = f"#!/bin/sh\n{script('chef', place=place, trace=trace_parent.get())}"
    command = RemoteCommand(line=line, sudo=chef.sudo, sink=chef.sink, identity=chef.identity)
    result = await run.command(command, prepare)
    if result.exit_code != 0:
        redaction = context.redaction_stream()  # before the cut, which could be in a secret
        tail = (redaction.feed(result.stderr.strip() or result.stdout.strip()) + redaction.finish())[-_REPORTED_CHARS:]
        raise ActionFailed(f"Chef on {machine.host} ended with exit code {result.exit_code}: {tail}")
    try:
        async with asyncio.timeout(limits.MACHINE_FILE_S), open_shell() as shell:
            node = await shell.get(f"{place}/node.json", limits.CHEF_NODE_BYTES)
    except (ShellLost, TimeoutError) as error:
        raise ActionFailed(f"Can't fetch the node that Chef saved on {machine.host}: {error}.") from error
    return attributes_of(node, machine)


def run_list(chef: ChefRun) -> list[str]:
    """Return the items in Chef's own form. `a` and `a::b` are recipes, and an item may be comma-separated."""
    names = [name.strip() for item in chef.run_list for name in item.split(",")]
    return [name if "[" in name else f"recipe[{name}]" for name in names if name]


def attributes_of(node: bytes, machine: Machine) -> Mapping[str, Any]:
    """Return the attributes of a saved node, with its levels merged. Raises ActionFailed."""
    try:
        saved = msgspec.json.decode(node)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ActionFailed(f"Can't read the node that Chef saved on {machine.host}: {error}.") from error
    if not isinstance(saved, dict):
        raise ActionFailed(f"The node that Chef saved on {machine.host} isn't a map.")
    found: dict[str, Any] = {}
    for level in _LEVELS:
        found = merge_attributes(found, saved.get(level) or {})
    return {**found, "run_list": saved.get("run_list", [])}


async def _upload(shell: Shell, host: str, chef: ChefRun, items: list[str], place: str, egress: EgressClient) -> None:
    cookbooks = _ON_THE_HOST
    if chef.recipe_url:
        try:
            cookbooks = await fetch_cookbooks(egress, chef.recipe_url, _cookbook(items))
        except AddressRefused as error:
            raise ActionFailed(str(error), retryable=False) from error
    made = await run_script(shell, f'umask 077\n{script(place=place)}mkdir -p "$place"\n', host)
    if made.code != 0:
        raise cannot_run(host, made)
    if cookbooks.archive:
        await shell.put(f"{place}/cookbooks.tgz", cookbooks.archive)
    await shell.put(f"{place}/solo.rb", _settings(cookbooks).encode())
    await shell.put(f"{place}/dna.json", msgspec.json.encode({**chef.attributes, "run_list": items}))


def _settings(cookbooks: Cookbooks) -> str:
    """Return `solo.rb`, with paths relative to its own directory."""
    lines = ["here = File.expand_path(File.dirname(__FILE__))"]
    paths = {
        "cookbook_path": cookbooks.cookbook_paths,
        "role_path": cookbooks.role_paths,
        "data_bag_path": cookbooks.data_bag_paths,
    }
    for name, values in paths.items():
        if values:
            directories = ", ".join(f"File.expand_path({_ruby(value)}, File.join(here, 'files'))" for value in values)
            lines.append(f"{name} [{directories}]")
    lines += [
        "node_path File.join(here, 'nodes')",
        "file_cache_path File.join(here, 'cache')",
        "chef_repo_path here",
        "solo_legacy_mode false",
        "",
    ]
    return "\n".join(lines)


def _ruby(text: str) -> str:
    """Return a string literal of Ruby. In single quotes, only these and the backslash are special."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _cookbook(items: list[str]) -> str:
    """Return the cookbook of the first recipe."""
    recipes = [item[len("recipe[") :].rstrip("]") for item in items if item.startswith("recipe[")]
    return recipes[0].partition("::")[0].partition("@")[0].replace("/", "_") if recipes else ""


def merge_attributes(base: Mapping[str, Any], override: Any) -> dict[str, Any]:
    """Return a copy of `base` with the entries of `override`, merged recursively where both are maps."""
    merged = dict(base)
    for name, value in (override if isinstance(override, Mapping) else {}).items():
        known = merged.get(name)
        is_nested = isinstance(known, Mapping) and isinstance(value, Mapping)
        merged[name] = merge_attributes(dict(known or {}), value) if is_nested else value
    return merged
