"""PostgreSQL as operators bring it: of an older version, from the same wheel as the embedded one, or with TLS."""

import io
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path

import psycopg
import pytest

from launchbay.postgres import cluster
from tests.support.eventually import eventually_blocking
from tests.support.external_services import made_certificate
from tests.support.servers import free_ports, place

ROOT = Path(__file__).parents[2]
# The last commit of the schema `launchbay.store.schema.OLDEST_COMPATIBLE`.
OLDEST_BESIDE = "a102b83f24"


def old_source(commit: str, directory: Path) -> Path:
    """Write the source tree of a commit below a directory, with the packages that only it needs, and return it.

    Skips where the history is not there.
    """
    archive = git_archive(commit, "src", "requirements/runtime.txt")
    if archive is None:
        pytest.skip(f"the history of the repository does not reach back to {commit}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory / commit, filter="data")
    source = directory / commit / "src"
    _install_missing(directory / commit / "requirements" / "runtime.txt", source)
    return source


def _install_missing(locked: Path, target: Path) -> None:
    """Install the packages of a lock file that this environment doesn't have: today's version may have dropped them."""
    here = {each.name.lower().replace("_", "-") for each in distributions()}
    packages = re.split(r"(?m)^(?=\w)", locked.read_text("utf-8"))
    missing = [each for each in packages if "==" in each and each.partition("==")[0].lower() not in here]
    if not missing:
        return
    locked.write_text("".join(missing), "utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
    subprocess.run([*pip, "--target", target, "--requirement", locked], check=True)


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
        url = f"postgresql://postgres@/postgres?host={directory}/data"
        with _running(programs, directory, "-c", "listen_addresses=", url=url):
            yield url


@contextmanager
def postgres_with_tls() -> Iterator[str]:
    """Run the machine's own PostgreSQL and yield the URL of an empty database, which demands TLS."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
    if programs is None or not (programs / "postgres").exists():
        pytest.skip("the machine has no PostgreSQL, and the embedded one can't use TLS")
    [port] = free_ports(1)
    with place() as directory:
        certificate, key = made_certificate(directory)
        access = directory / "pg_hba.conf"
        access.write_text("hostssl all all 127.0.0.1/32 trust\n")
        given = {"listen_addresses": "127.0.0.1", "port": port, "ssl": "on", "hba_file": access}
        files = {"ssl_cert_file": certificate, "ssl_key_file": key}
        options = [word for name, value in {**given, **files}.items() for word in ("-c", f"{name}={value}")]
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=verify-full&sslrootcert={certificate}"
        with _running(programs, directory, *options, url=url):
            yield url


@contextmanager
def _running(programs: Path, directory: Path, *options: str, url: str) -> Iterator[None]:
    """Create a cluster below the directory and run it, under the account that also gets the files of the directory."""
    data = directory / "data"
    data.mkdir(mode=0o700)
    account = cluster.account_for(data)
    if account is not None:
        for path in directory.iterdir():
            os.chown(path, account.uid, account.gid)
        cluster.make_traversable(account, [programs / "postgres", data])
    run = cluster.run_as(account, data)
    command = f"{programs}/initdb -D {data} -U postgres --auth=trust --encoding=UTF8 --locale=C"
    subprocess.run(command.split(), check=True, capture_output=True, **run)
    options = ("-c", f"unix_socket_directories={data}", "-c", "fsync=off", *options)
    server = subprocess.Popen([programs / "postgres", "-D", data, *options], stderr=subprocess.DEVNULL, **run)
    try:
        _await(url, server)
        yield
    finally:
        server.terminate()
        server.wait(timeout=_WITHIN_S)


def _await(url: str, server: "subprocess.Popen[bytes]") -> None:
    def lets_in() -> bool:
        assert server.poll() is None, "PostgreSQL did not start"
        psycopg.connect(url).close()
        return True

    eventually_blocking(lets_in, within_s=_WITHIN_S, despite=psycopg.OperationalError)
