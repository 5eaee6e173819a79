"""A real EC2 endpoint on loopback: moto's server, a process with an environment of its own (`requirements/moto`)."""

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

PROGRAM = Path(__file__).resolve().parents[3] / ".venv" / "moto" / "bin" / "moto_server"
MISSING = "moto is not installed: run requirements/moto, which needs the package registry"
IMAGE = "ami-12c6146b"  # one of those that moto knows
SIZE = "t2.micro"
_START_S = 60.0


@contextmanager
def started(log: Path) -> Iterator[str]:
    """Run the server and give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [PROGRAM, "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output, start_new_session=True
        )
    try:
        _wait(url, process, log)
        yield url
    finally:
        process.kill()
        process.wait()


def reset(url: str) -> None:
    """Forget every machine."""
    urlopen(Request(f"{url}/moto-api/reset", method="POST"), timeout=30).close()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while True:
        try:
            urlopen(f"{url}/moto-api/data.json", timeout=5).close()
        except (URLError, OSError):
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"moto did not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.1)
        else:
            return


def loopback_subnet(url: str, region: str, network: int) -> str:
    """Make a subnet whose machines get the addresses 127.0.`network`.4 and on, and return its id."""
    vpc = _asked(url, region, "vpcId", Action="CreateVpc", CidrBlock=f"127.0.{network}.0/24")
    return _asked(url, region, "subnetId", Action="CreateSubnet", VpcId=vpc, CidrBlock=f"127.0.{network}.0/24")


def _asked(url: str, region: str, wanted: str, **parameters: str) -> str:
    scope = f"AKIAIOSFODNN7EXAMPLE/20260101/{region}/ec2/aws4_request"
    request = Request(
        f"{url}/?{urlencode({**parameters, 'Version': '2016-11-15'})}",
        headers={"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"},
    )
    with urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    found = re.search(rf"<{wanted}>([^<]+)</{wanted}>", text)
    assert found is not None, text
    return found[1]
