"""The system account that PostgreSQL runs under when the server is started as root, which PostgreSQL refuses to be.

Somebody else's account must reach the binaries and the data directory. Opening the directories above them to everybody
would weaken the machine (think of /root), so only this one account gets an access-control entry that lets it through.
"""

import os
import pwd
import shutil
import stat
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from launchbay.errors import CannotStart
from launchbay.processes.run import least_environment

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


def account_for(cluster: Path) -> Account | None:
    """Return the account to run PostgreSQL under; None means the caller's own.

    As root it is the account that owns the existing cluster, else `launchbay-db`, which is created when missing.
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
        _create()
        entry = pwd.getpwnam(ACCOUNT_NAME)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def open_way(account: Account, paths: list[Path]) -> None:
    """Let the account pass through every directory above the paths, where it cannot yet.

    Raises CannotStart when the file system keeps no access-control lists.
    """
    for directory in sorted({parent for path in paths for parent in path.resolve().parents}):
        if not directory.stat().st_mode & stat.S_IXOTH and directory.stat().st_uid != account.uid:
            try:
                _let_pass(directory, account.uid)
            except OSError as error:
                raise CannotStart(
                    f"PostgreSQL does not run as root, and the account {account.name} that runs it cannot pass through"
                    f" {directory} ({error.strerror}).",
                    f"Allow it with `chmod o+x {directory}`, choose another LAUNCHBAY_DATA_DIR,"
                    " or start the server as an ordinary user.",
                ) from error


def _let_pass(directory: Path, uid: int) -> None:
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


def _create() -> None:
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    answer = "there is no useradd program"
    if useradd is not None:
        options = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
        command = [useradd, *options, ACCOUNT_NAME]
        run = subprocess.run(  # noqa: S603 - nothing of a user's
            command, check=False, capture_output=True, text=True, env=least_environment()
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
