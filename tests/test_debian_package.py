"""The Debian package: installed, started as its unit starts it, and removed, in a copy of this machine."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documentation import ROOT
from tests.support.servers import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.packages, pytest.mark.timeout(900)]
# An overlay over the file system of this machine, which is gone with the process that made it.
COPY = """
set -eu
mount -t tmpfs none {directory}
mkdir {directory}/upper {directory}/work {directory}/copy
mount -t overlay overlay -o lowerdir=/,upperdir={directory}/upper,workdir={directory}/work {directory}/copy
mount --rbind /dev {directory}/copy/dev
mount -t proc proc {directory}/copy/proc
mkdir -p {directory}/copy/package
mount --bind {packages} {directory}/copy/package
exec chroot {directory}/copy /bin/bash -euo pipefail -c {script}
"""
LIFE = """
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd /
dpkg -i /package/*.deb
echo "installed $(launchbay --version)"
getent passwd launchbay | cut -d: -f6,7
stat -c '%a %U' /etc/launchbay/launchbay.env
echo 'LAUNCHBAY_ADMIN_PASSWORD=correct horse battery staple' >/etc/launchbay/launchbay.env
find /opt/launchbay -name '*.pyc' | grep -c . >/tmp/compiled
install -d -o launchbay -g launchbay -m 700 /var/lib/launchbay

run="setpriv --reuid launchbay --regid launchbay --init-groups --no-new-privs"
set -a; . <(sed 's/=\\(.*\\)/="\\1"/' /etc/launchbay/launchbay.env); set +a
export {environment}
$run launchbay doctor --port {port} && echo "healthy"
$run {start} --port {port} >/tmp/log 2>&1 &
server=$!
for i in $(seq 600); do
    curl --silent --fail http://127.0.0.1:{port}/health/ready && break
    kill -0 $server 2>/dev/null || break
    sleep 0.1
done
echo
launchbay-admin backup /tmp/one.dump
stat -c 'backup of %U' /tmp/one.dump
kill $server
wait $server || true
cat /tmp/log

dpkg -i /package/*.deb
grep -c staple /etc/launchbay/launchbay.env
dpkg --purge launchbay
test ! -e /usr/bin/launchbay && test ! -e /opt/launchbay && test ! -e /etc/launchbay/launchbay.env
test -e /var/lib/launchbay/secret.key && echo "data stays"
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = Path("/usr/bin/python3")
    if shutil.which("dpkg-deb") is None or not python.exists():
        pytest.skip("no Debian: dpkg-deb or /usr/bin/python3 is missing")
    if subprocess.run([python, "-c", "import sys, venv; assert sys.version_info >= (3, 11)"], check=False).returncode:
        pytest.skip("the distribution's Python is too old, or its module venv is missing")
    directory = tmp_path_factory.mktemp("packages")
    done = subprocess.run(
        [ROOT / "deploy" / "debian" / "build", directory],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHON": str(python), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    if re.search(r"NewConnectionError|Temporary failure in name resolution", done.stderr):
        pytest.skip("Python's package registry is not to be had")
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def test_the_package_is_installed_runs_and_is_removed(packages: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("a copy of this machine needs root and a mount namespace")
    unit = (ROOT / "deploy" / "systemd" / "launchbay.service").read_text()
    [environment] = re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)
    [start] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    [port] = free_ports(1)
    script = LIFE.format(environment=environment, start=start, port=port)
    copy = COPY.format(directory=tmp_path, packages=packages, script=shlex.quote(script))
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", copy],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={"LANG": "C.UTF-8", "PATH": os.environ["PATH"]},
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "installed launchbay, version " in said
    assert "/var/lib/launchbay:/usr/sbin/nologin" in said
    assert "600 root" in said
    assert "healthy" in said
    assert '{"status":"ready"}' in said
    assert "backup of launchbay" in said
    assert "data stays" in said


def test_the_package_has_what_the_unit_names_and_nothing_of_the_build(packages: Path) -> None:
    [package] = packages.glob("*.deb")
    listed = subprocess.run(["dpkg-deb", "--contents", package], check=True, capture_output=True, text=True).stdout
    names = {line.split()[5].removeprefix(".") for line in listed.splitlines()}
    assert {
        "/usr/bin/launchbay",
        "/opt/launchbay/.venv/bin/launchbay",
        "/usr/lib/systemd/system/launchbay.service",
        "/usr/lib/systemd/system/launchbay-worker@.service",
        "/usr/lib/systemd/system/launchbay-backup.service",
        "/usr/lib/systemd/system/launchbay-backup.timer",
        "/usr/sbin/launchbay-admin",
        "/etc/launchbay/launchbay.env",
    } <= names
    assert not [name for name in names if "__pycache__" in name or "hatchling" in name or "direct_url.json" in name]
    owners = {line.split()[1] for line in listed.splitlines()}
    assert owners == {"root/root"}
    read: list[str | Path] = ["dpkg-deb", "--fsys-tarfile", package]
    with subprocess.Popen(read, stdout=subprocess.PIPE) as tar:
        place = ["tar", "--extract", "--to-stdout", "./opt/launchbay/.venv/bin/launchbay"]
        script = subprocess.run(place, stdin=tar.stdout, check=True, capture_output=True, text=True).stdout
    assert "/opt/launchbay/.venv/bin/python" in script
    assert "/tmp/" not in script
