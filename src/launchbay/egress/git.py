"""Commits of remote repositories, read with the program `git` (decision 0112).

The program opens a connection to a checked address or the proxy, and to nothing else: no redirect, no submodule, no
other transport. A commit comes without history into a directory of its own and is never checked out, so no file of it
gets into a file system and no hook or filter runs. Its files are read by their content hashes, within limits.
"""

import asyncio
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from launchbay import limits
from launchbay.egress.http import EgressClient, basic_authorization
from launchbay.errors import ActionFailed, BadRequest, EgressFailed
from launchbay.processes.run import Command, Programs, private_directory, run_program, write_private

_PORTS = {"https": 443, "http": 80, "ssh": 22}
_SHORT = re.compile(r"(?P<user>[A-Za-z0-9._-]+)@(?P<host>[A-Za-z0-9._-]+):(?P<path>[^/:].*)")
_USER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_REDIRECTED = re.compile(r"returned error: 30\d|redirect")
_HOST_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]{40,2000}={0,2}")
_OBJECT = re.compile(
    r"(?P<mode>\d{6}) (?P<kind>[a-z]+) (?P<id>[0-9a-f]{40}|[0-9a-f]{64}) +(?P<size>\d+|-)\t(?P<path>.*)"
)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BAD_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/.]|/\.|[/.]$|\.lock(/|$)")
_REMEDY = "Install it: apt install git openssh-client"
_STDERR_CHARS = 600
_CPU_S = 120
_HEAD_BYTES = 4 * limits.KIB
_BLOCK_BYTES = 512  # the unit of the shell's ulimit -f
_KNOWN_AS = "repository"  # the name of every host in the file of host keys
# Limits hold for each program that the script starts. The path is an argument, never a part of the script.
_LIMITED = (
    f"ulimit -f {limits.GIT_REPOSITORY_BYTES // _BLOCK_BYTES}; "
    f"ulimit -v {limits.GIT_MEMORY_BYTES // limits.KIB}; ulimit -t {_CPU_S}; ulimit -c 0; set -e; "
)
_FETCH = (
    _LIMITED
    + '"$1" init -q --bare --template= repository; cd repository; '
    + '"$1" fetch -q --depth=1 --no-tags --no-recurse-submodules --no-write-fetch-head --end-of-options "$2" '
    + '"$3:refs/launchbay/head"; '
    + '"$1" rev-parse --verify "refs/launchbay/head^{commit}" >../commit; '
    + f"ulimit -f {limits.GIT_LISTING_BYTES // _BLOCK_BYTES}; "
    + '"$1" --literal-pathspecs ls-tree -r -l --full-tree refs/launchbay/head -- ${4:+"$4"} >../listing'
)
_READ = _LIMITED + 'cd repository; exec "$1" cat-file --batch <../wanted >../contents'
_HEAD = _LIMITED + '"$1" ls-remote --quiet --end-of-options "$2" "$3" >head'


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A repository, and how to reach it.

    Raises BadRequest for an address that can't be one.

    Over https, `secret` is a password or token of `user`; over ssh it is a private key, and `host_keys` are the only
    ones that the host may have, such as `ssh-ed25519 AAAA…`.
    """

    url: str
    user: str = ""
    secret: str = field(default="", repr=False)
    host_keys: tuple[str, ...] = ()
    scheme: str = field(init=False)
    host: str = field(init=False)
    port: int = field(init=False)
    path: str = field(init=False)

    def __post_init__(self) -> None:
        scheme, user, host, port, path = _parts(self.url)
        object.__setattr__(self, "scheme", scheme)
        object.__setattr__(self, "user", self.user or user)
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "port", port)
        object.__setattr__(self, "path", path)
        for key in self.host_keys:
            if not _HOST_KEY.fullmatch(key):
                raise BadRequest(
                    f"hostKeys: {key[:60]!r} isn't a host key.",
                    "ssh-keyscan HOST prints them; leave out the name of the host.",
                    code="InvalidGitSource",
                )
        if self.user and not _USER.fullmatch(self.user):
            raise BadRequest("user: use letters, digits, dots, hyphens and underscores.", code="InvalidGitSource")

    @property
    def address(self) -> str:
        """The URL as `git` gets it, without a user."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/{self.path}"


def _parts(url: str) -> tuple[str, str, str, int, str]:
    """Return scheme, user, host, port and path of a repository's URL. Raises BadRequest."""
    text = url.strip()
    short = _SHORT.fullmatch(text)
    if short is not None:
        text = f"ssh://{short['user']}@{short['host']}/{short['path']}"
    try:
        parts = urlsplit(text)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        parts, port = urlsplit(""), 0
    host, path = parts.hostname or "", parts.path.strip("/")
    bad = len(text) > limits.GIT_URL_CHARS or not text.isascii() or not text.isprintable() or " " in text
    if bad or not port or not _HOST.fullmatch(host) or host.startswith("-") or not path or path.startswith("-"):
        raise BadRequest(
            "url: use https://HOST/PATH or ssh://USER@HOST/PATH.",
            "Other transports, such as file:// and ext::, are refused.",
            code="InvalidGitSource",
        )
    if parts.password is not None or (parts.username and parts.scheme != "ssh"):
        raise BadRequest(
            "url: everybody who sees the source would see the user or password in it.",
            "Keep the token in a vault, and name it as credential.",
            code="CredentialsInUrl",
        )
    if parts.query or parts.fragment:
        raise BadRequest("url: leave out the query and the fragment.", code="InvalidGitSource")
    return parts.scheme, parts.username or "", host, port, path


def validate_branch(name: str) -> str:
    """Return the name of a branch. Raises BadRequest for one that Git forbids."""
    if not name or len(name) > limits.NAME_CHARS or _BAD_REF.search(name) or name == "@":
        raise BadRequest(f"branch: {name[:80]!r} can't be the name of a branch.", code="InvalidGitSource")
    return name


def validate_path(path: str) -> str:
    """Return a path inside a repository, without slashes at its ends.

    Raises BadRequest for one that leads out.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path or not path.isprintable() or len(path) > limits.NAME_CHARS * 4:
        raise BadRequest("path: use a path inside the repository, such as deploy/shop.", code="InvalidGitSource")
    return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Commit:
    """The files of a commit at a path, by their paths below it.

    If the path is a file, its own path is empty.
    """

    id: str
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class _Listed:
    id: str
    size: int
    path: str


class Git:
    """Reads commits of remote repositories.

    Raises EgressFailed if the host can't be reached or refuses, and BadRequest for contents beyond the limits.
    """

    def __init__(self, egress: EgressClient, programs: Programs) -> None:
        self._egress = egress
        self._programs = programs

    async def head(self, organization_id: str, remote: Remote, ref: str) -> str | None:
        """Return the commit that a ref such as `refs/heads/main` names, or None."""
        async with private_directory() as directory:
            await self._run(organization_id, remote, directory, _HEAD, remote.address, ref)
            found = await asyncio.to_thread(_beginning, directory / "head")
        for line in found.splitlines():
            commit, _, name = line.partition("\t")
            if name == ref and _COMMIT.fullmatch(commit):
                return commit
        return None

    async def fetch(self, organization_id: str, remote: Remote, ref: str, path: str) -> Commit:
        """Return the commit that a ref names, with its files at a path."""
        async with private_directory() as directory:
            try:
                await self._run(organization_id, remote, directory, _FETCH, remote.address, ref, path)
            except EgressFailed:
                if await asyncio.to_thread(_is_too_long, directory / "listing"):
                    raise _beyond(f"more than {limits.GIT_FILES} files") from None
                raise
            commit, listing = await asyncio.to_thread(_read_listing, directory)
            listed = _wanted(listing, path)
            wanted = "".join(f"{each.id}\n" for each in listed)
            await asyncio.to_thread((directory / "wanted").write_text, wanted, "utf-8")
            await self._run(organization_id, remote, directory, _READ)
            contents = await asyncio.to_thread(_read_contents, directory / "contents", listed)
        below = f"{path}/" if path else ""
        return Commit(commit, {each.removeprefix(below) if each != path else "": contents[each] for each in contents})

    async def _run(self, organization_id: str, remote: Remote, directory: Path, script: str, *arguments: str) -> None:
        program = self._programs.require("git", "git", remedy=_REMEDY)
        environment = {} if not arguments else await self._environment(organization_id, remote, directory)
        command = Command(
            argv=("/bin/sh", "-c", script, "git", program, *arguments),
            directory=directory,
            environment={**_CLOSED, **environment},
            timeout_s=limits.GIT_FETCH_S,
            grace_s=0.0,
        )
        try:
            result = await run_program(command, lambda _stream, _line: None)
        except ActionFailed as error:
            raise EgressFailed(f"{remote.host}: {error}") from error
        if result.exit_code != 0:
            if (failed := self._failed_proxy(remote, result.stderr)) is not None:
                raise failed
            reason = f"{_reason(result.stderr)}{_advice(remote, result.stderr)}"
            raise EgressFailed(f"git can't read from {remote.host}: {reason}")

    def _failed_proxy(self, remote: Remote, stderr: str) -> EgressFailed | None:
        """Return what the proxy answered, if the program failed because of it."""
        proxy = self._egress.proxy
        if proxy is None or remote.scheme == "ssh" or not proxy.carries(remote.host, remote.port):
            return None
        answer = _TUNNEL.search(stderr)
        if answer is not None:
            return proxy.refused(f"{remote.host}:{remote.port}", answer["old"] or answer["new"] or answer["plain"])
        is_away = f"Failed to connect to {proxy.host} port {proxy.port}" in stderr or "resolve proxy" in stderr
        return proxy.unreachable(_reason(stderr).rstrip(".")) if is_away else None

    async def _environment(self, organization_id: str, remote: Remote, directory: Path) -> dict[str, str]:
        """Return what lets the program connect to one checked address, with the credentials."""
        egress = self._egress.for_environment(organization_id)
        settings = dict(_SETTINGS)
        settings[f"protocol.{remote.scheme}.allow"] = "always"
        if remote.scheme != "ssh":
            route = await egress.route(remote.host, remote.port)
            if route.proxy is not None:
                settings["http.proxy"] = route.proxy.url_with_credentials
                settings["http.proxyAuthMethod"] = "basic"
            else:
                address = route.addresses[0]
                shown = f"[{address}]" if ":" in address else address
                settings["http.curloptResolve"] = f"{remote.host}:{remote.port}:{shown}"
            if authorities := os.environ.get("SSL_CERT_FILE"):
                # The server's other connections trust this file; git doesn't know the variable.
                settings["http.sslCAInfo"] = authorities
            if remote.secret:
                egress.require_private(remote.address, "The credential")
                # By the environment: everybody on the machine sees the arguments of a program.
                authorization = basic_authorization(remote.user or "git", remote.secret)
                settings["http.extraHeader"] = f"Authorization: {authorization}"
            return _configuration(settings)
        if not remote.host_keys:
            raise BadRequest(
                "hostKeys: a source over ssh needs the keys of its host.",
                "ssh-keyscan HOST prints them; compare them with those that the host publishes.",
                code="InvalidGitSource",
            )
        direct = await egress.direct().route(remote.host, remote.port)
        await asyncio.to_thread(_write_ssh, directory, remote, direct.addresses[0])
        return {
            **_configuration(settings),
            "GIT_SSH_COMMAND": f"ssh -F {shlex.quote(str(directory / 'ssh_config'))}",
            "GIT_SSH_VARIANT": "ssh",
        }


# What curl says of a proxy's answer to CONNECT, by its version, and the one answer over http that is never a server's.
_TUNNEL = re.compile(
    r"HTTP code (?P<old>\d{3}) from proxy|CONNECT tunnel failed, response (?P<new>\d{3})|returned error: (?P<plain>407)"
)
_CLOSED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_CEILING_DIRECTORIES": "/",
}
_SETTINGS = {
    "protocol.allow": "never",
    "protocol.version": "2",
    "core.hooksPath": "/dev/null",
    "core.quotePath": "false",
    "core.fsmonitor": "false",
    "credential.helper": "",
    "fetch.fsckObjects": "true",
    "fetch.unpackLimit": "1",  # one file, whose size the limit of files bounds
    "fetch.recurseSubmodules": "false",
    "transfer.bundleURI": "false",
    "pack.threads": "1",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.followRedirects": "false",
    "http.proxy": "",
    "http.emptyAuth": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
}


def _configuration(settings: Mapping[str, str]) -> dict[str, str]:
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        found[f"GIT_CONFIG_KEY_{number}"], found[f"GIT_CONFIG_VALUE_{number}"] = key, value
    return found


def _write_ssh(directory: Path, remote: Remote, address: str) -> None:
    """Write the key, the host keys, and a configuration that uses nothing else."""
    key = remote.secret if remote.secret.endswith("\n") else remote.secret + "\n"
    write_private(directory / "key", key)
    write_private(directory / "known_hosts", "".join(f"{_KNOWN_AS} {each}\n" for each in remote.host_keys))
    options = {
        "HostName": address,
        "HostKeyAlias": _KNOWN_AS,
        "Port": remote.port,
        "User": remote.user or "git",
        "IdentityFile": directory / "key",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": directory / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "CheckHostIP": "no",
        "UpdateHostKeys": "no",
        "BatchMode": "yes",
        "PreferredAuthentications": "publickey",
        "ForwardAgent": "no",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
        "ControlMaster": "no",
        "ConnectTimeout": 15,
        "ServerAliveInterval": 15,
        "ServerAliveCountMax": 2,
    }
    text = "".join(f"    {name} {value}\n" for name, value in options.items())
    write_private(directory / "ssh_config", f"Host *\n{text}")


def _advice(remote: Remote, stderr: str) -> str:
    """Return what to do about a refusal that `git` reports; empty for others."""
    text = stderr.lower()
    if _REDIRECTED.search(text):
        return " Redirects aren't followed: use the address that this one leads to."
    is_refused = any(sign in text for sign in ("could not read username", "authentication failed", "permission denied"))
    if is_refused and not remote.secret:
        return " The host asks for a credential: name a token or key pair of a vault."
    if is_refused:
        return " The host refuses the credential: check whether it has expired, and may read the repository."
    if "not found" in text:
        return (
            " Check the path. Hosts also say so of a repository that the credential, or nobody without one, may read."
        )
    return ""


def _reason(stderr: str) -> str:
    """Return the last lines of what the program wrote, on one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith("hint:")]
    text = "".join(letter if letter.isprintable() else " " for letter in "; ".join(lines[-4:]))
    return (text[-_STDERR_CHARS:] or "it was ended, or a limit was reached").rstrip(".") + "."


def _beginning(file: Path) -> str:
    with file.open("rb") as stream:
        return stream.read(_HEAD_BYTES).decode("utf-8", "replace")


def _is_too_long(listing: Path) -> bool:
    return listing.exists() and listing.stat().st_size >= limits.GIT_LISTING_BYTES


def _read_listing(directory: Path) -> tuple[str, str]:
    commit = (directory / "commit").read_text("utf-8").strip()
    return commit, (directory / "listing").read_text("utf-8", "surrogateescape")


def _wanted(listing: str, path: str) -> list[_Listed]:
    """Return the files of a listing.

    Raises BadRequest for anything else than plain files, and beyond the limits.
    """
    found: list[_Listed] = []
    total = 0
    for line in listing.split("\n"):
        if not line:
            continue
        entry = _OBJECT.fullmatch(line)
        name = "" if entry is None else entry["path"]
        if entry is None or name.startswith('"') or not name.isprintable() or ".." in name.split("/"):
            raise BadRequest(f"The repository has a file with an unusual name: {line[-80:]!r}.", code="GitRefused")
        if entry["kind"] != "blob" or entry["mode"] not in ("100644", "100755", "100664"):
            kind = "a submodule" if entry["kind"] == "commit" else "a symbolic link"
            raise BadRequest(f"{name[:200]} is {kind}, which isn't followed. Replace it by a file.", code="GitRefused")
        if name.removeprefix(path).count("/") > limits.GIT_DEPTH:
            raise _beyond(f"folders more than {limits.GIT_DEPTH} levels deep")
        size = int(entry["size"])
        total += size
        if size > limits.GIT_FILE_BYTES:
            raise _beyond(f"a file of more than {limits.GIT_FILE_BYTES // limits.MIB} MiB, {name[:200]}")
        if total > limits.GIT_CONTENT_BYTES:
            raise _beyond(f"files of more than {limits.GIT_CONTENT_BYTES // limits.MIB} MiB in all")
        found.append(_Listed(entry["id"], size, name))
        if len(found) > limits.GIT_FILES:
            raise _beyond(f"more than {limits.GIT_FILES} files")
    if not found:
        raise BadRequest(f"The commit has no file at {path or 'its root'!r}.", code="GitRefused")
    return found


def _beyond(what: str) -> BadRequest:
    return BadRequest(f"The repository has {what} at the path of the source.", code="GitRefused")


def _read_contents(file: Path, listed: list[_Listed]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with file.open("rb") as stream:
        for each in listed:
            header = stream.readline(200)
            if header != f"{each.id} blob {each.size}\n".encode():
                raise EgressFailed(f"git did not return the file {each.path[:200]}.")
            found[each.path] = stream.read(each.size)
            stream.read(1)
    return found
