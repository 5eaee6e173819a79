"""A PostgreSQL of an older version, from the same wheel as the embedded one; operators may bring theirs."""

import io
import os
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from launchbay.postgres import cluster
from tests.support.servers import place

ROOT = Path(__file__).parents[2]
# The last commit of the schema `launchbay.store.schema.OLDEST_COMPATIBLE`.
OLDEST_BESIDE = "a102b83f24"


def old_source(commit: str, directory: Path) -> Path:
    """Write the source tree of a commit below a directory and return it. Skips where the history is not there."""
    archive = git_archive(commit, "src")
    if archive is None:
        pytest.skip(f"the history of the repository does not reach back to {commit}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory / commit, filter="data")
    return directory / commit / "src"


def git_archive(commit: str, *paths: str) -> bytes | None:
    """Return some paths of a commit as a tar file, or None where the history is not there."""
    command = ["git", "-C", str(ROOT), "archive", commit, "--", *paths]
    try:
        made = subprocess.run(command, check=False, capture_output=True)
    except FileNotFoundError:
        return None
    return made.stdout if made.returncode == 0 else None


_WITHIN_S = 60.0


@contextmanager
def older_postgres() -> Iterator[str]:
    """Run it in a directory of its own and yield the URL of an empty database, whose owner may do everything."""
    programs = cluster.binaries().parent.parent / "pginstall" / "bin"
    if not (programs / "postgres").exists():
        pytest.skip("the wheel brings no older PostgreSQL any more")
    with place() as directory:
        data = directory / "older"
        data.mkdir(mode=0o700)
        account = cluster.account_for(data)
        if account is not None:
            os.chown(data, account.uid, account.gid)
            cluster.make_traversable(account, [programs / "postgres", data])
        run = cluster.run_as(account, data)
        command = f"{programs}/initdb -D {data} -U postgres --auth=trust --encoding=UTF8 --locale=C"
        subprocess.run(command.split(), check=True, capture_output=True, **run)
        options = ["-c", f"unix_socket_directories={data}", "-c", "listen_addresses=", "-c", "fsync=off"]
        server = subprocess.Popen([programs / "postgres", "-D", data, *options], stderr=subprocess.DEVNULL, **run)
        try:
            url = f"postgresql://postgres@/postgres?host={data}"
            _await(url, server)
            yield url
        finally:
            server.terminate()
            server.wait(timeout=_WITHIN_S)


def _await(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _WITHIN_S
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert server.poll() is None, "the older PostgreSQL did not start"
            assert time.monotonic() < deadline, "the older PostgreSQL does not answer"
            time.sleep(0.05)
        else:
            return
