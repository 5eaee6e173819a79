"""Archives of cookbooks: fetched from where a manifest says, judged, and packed anew with nothing in them but files.

What a machine unpacks is written here, from members that were checked: no absolute or climbing paths, no links or
devices, no more files and bytes than may be. So no trick of a foreign archive reaches the program that unpacks it.
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
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, AddressRefused, EgressFailed
from launchbay.machines.contract import OpenShell, ProviderContext, Shell, ShellLost
from launchbay.machines.remote_commands import RemoteRun, run_key, script
from launchbay.model.machine import ChefRun, Machine, RemoteCommand

COOKBOOKS, ROLES, DATA_BAGS = "cookbooks", "roles", "data_bags"
_METADATA = frozenset(("metadata.rb", "metadata.json"))
_RETRYABLE = frozenset((408, 425, 429))


@dataclass(frozen=True, slots=True)
class Cookbooks:
    """A checked archive (tar, gzip), and which of its directories hold cookbooks, roles and data bags."""

    archive: bytes
    cookbook_paths: tuple[str, ...]
    role_paths: tuple[str, ...]
    data_bag_paths: tuple[str, ...]


async def fetch_cookbooks(egress: EgressClient, url: str, first_cookbook: str) -> Cookbooks:
    """Fetch an archive and check it. `first_cookbook` names what an archive of a single cookbook holds.

    Raises ActionFailed, and AddressRefused for an address that the rules forbid.
    """
    try:
        answer = await egress.request(
            "GET", url, timeout_s=limits.COOKBOOKS_FETCH_S, max_bytes=limits.COOKBOOKS_ARCHIVE_BYTES
        )
    except AddressRefused:
        raise
    except EgressFailed as error:
        raise ActionFailed(f"The cookbooks cannot be fetched: {error}", retryable=error.retryable) from error
    if answer.status != 200:
        again = answer.status in _RETRYABLE or answer.status >= 500
        raise ActionFailed(f"The cookbooks cannot be fetched: {answer.url} answered {answer.status}.", retryable=again)
    try:
        return await asyncio.to_thread(repacked, answer.body, first_cookbook)
    except ValueError as error:
        raise ActionFailed(f"The archive of {answer.url} is refused: {error}.", retryable=False) from error


def repacked(archive: bytes, first_cookbook: str) -> Cookbooks:
    """Return the archive with what is plain in it. Raises ValueError with what is wrong."""
    written = io.BytesIO()
    names: list[str] = []
    left = limits.COOKBOOKS_BYTES
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source,
            tarfile.open(fileobj=written, mode="w:gz", compresslevel=1) as target,
        ):
            is_single = False
            for member in source:
                name = _checked_name(member)
                if name is None:
                    continue
                left -= member.size
                if left < 0 or len(names) >= limits.COOKBOOKS_FILES:
                    raise ValueError(
                        f"it unpacks to more than {limits.COOKBOOKS_BYTES // limits.MIB} MiB or"
                        f" {limits.COOKBOOKS_FILES} files"
                    )
                is_single = is_single or name in _METADATA
                names.append(name)
                _add(source, member, target, name)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"it is no tar.gz that can be read ({error})") from error
    if is_single:
        return _single(written.getvalue(), first_cookbook)
    return _described(written.getvalue(), names)


def _checked_name(member: tarfile.TarInfo) -> str | None:
    """Return where a member goes; None for what makes no file, such as a directory or the header of a generator."""
    if member.isdir() or member.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
        return None
    name = posixpath.normpath(member.name)
    if not member.isfile():
        raise ValueError(f"{member.name[:120]!r} is no plain file; links and devices are not taken")
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
    """Return an archive whose files are those of one cookbook, moved to where a cookbook belongs."""
    written = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as source,
        tarfile.open(fileobj=written, mode="w:gz", compresslevel=1) as target,
    ):
        for member in source:
            _add(source, member, target, posixpath.join(COOKBOOKS, name or "cookbook", member.name))
    return Cookbooks(written.getvalue(), (COOKBOOKS,), (), ())


def _described(archive: bytes, names: list[str]) -> Cookbooks:
    """Find the directories: cookbooks have metadata or recipes; those deepest down belong to a cookbook themselves."""
    cookbooks = {posixpath.dirname(name) for name in names if posixpath.basename(name) in _METADATA}
    cookbooks |= {posixpath.dirname(posixpath.dirname(name)) for name in names if _parent(name) == "recipes"}
    paths = {posixpath.dirname(each) for each in cookbooks}
    outer = {path for path in paths if not any(_is_inside(path, other) for other in cookbooks)}
    if not outer:
        raise ValueError("it has no cookbook in it, which is a directory with a metadata.rb or with recipes")
    return Cookbooks(
        archive,
        tuple(sorted(outer)),
        tuple(sorted(_named(names, ROLES, outer))),
        tuple(sorted(_named(names, DATA_BAGS, outer))),
    )


def _parent(name: str) -> str:
    return posixpath.basename(posixpath.dirname(name))


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _named(names: list[str], wanted: str, outer: set[str]) -> set[str]:
    """Return the directories of this name that stand beside the cookbooks."""
    beside = {posixpath.join(posixpath.dirname(path), wanted) for path in outer} | {
        posixpath.join(path, wanted) for path in outer
    }
    return {place for place in beside if any(name.startswith(f"{place}/") for name in names)}


# Chef without a server: cookbooks, a node's attributes and a run list go to a machine, and the saved node comes back.
#
# `chef-solo` or `cinc-solo` of version 12.11 or newer must be installed there. It is called with `-c` and `-j`; the run
# list is in the JSON and not in `-o`, because Chef does not save the node of a run whose list was overridden.

_PURPOSE = "chef"
_ON_THE_HOST = Cookbooks(b"", ("/var/chef/cookbooks", "/etc/chef/cookbooks"), ("/var/chef/roles",), ())
_LEVELS = ("default", "normal", "override", "automatic")  # the later ones count more
_REPORTED_CHARS = 400


async def converge(
    context: ProviderContext,
    machine: Machine,
    chef: ChefRun,
    open_shell: OpenShell,
    egress: EgressClient,
    directory: str = "",
) -> Mapping[str, Any]:
    """Run Chef and return the attributes of the node that it saved. `directory` is where commands begin there.

    Raises ActionFailed where it cannot be run or fails.
    """
    if not chef.solo:
        raise ActionFailed("isSolo: false needs a Chef server, which is not supported; leave it out.", retryable=False)
    if chef.version:
        context.log("info", f"The version {chef.version} of Chef is not installed by itself; the installed one runs.")
    items = run_list(chef)
    place = f".launchbay/chef/{run_key(context, machine, _PURPOSE)}"

    async def prepare(shell: Shell) -> None:
        client = egress.for_environment(context.organization_id, context.environment_id, context.policies)
        await _upload(shell, chef, items, place, client)

    run = RemoteRun(context, machine, open_shell, _PURPOSE, directory)
    command = RemoteCommand(line=f"#!/bin/sh\n{script('chef', place=place)}", sudo=chef.sudo, sink=chef.sink)
    result = await run.command(command, prepare)
    if result.exit_code != 0:
        covering = context.redaction_stream()  # before it is cut, in a secret perhaps
        told = (covering.feed(result.stderr.strip() or result.stdout.strip()) + covering.finish())[-_REPORTED_CHARS:]
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


async def _upload(shell: Shell, chef: ChefRun, items: list[str], place: str, egress: EgressClient) -> None:
    """Put everything where Chef will look for it."""
    cookbooks = _ON_THE_HOST
    if chef.recipe_url:
        try:
            cookbooks = await fetch_cookbooks(egress, chef.recipe_url, _cookbook(items))
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
