"""The first start of a server on an empty directory, as an operator sees it (api-decisions, "Running it")."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.durability.servers import EMAIL, Process

SHOWN_ONCE = re.compile(r"Password, shown this once: (\S+)")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory outside of pytest's own: every pytest that starts closes that to PostgreSQL's account."""
    made = Path(tempfile.mkdtemp(prefix="launchbay-first-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def organizations(server: Process, password: str) -> httpx.Response:
    return httpx.get(
        f"http://127.0.0.1:{server.port}/api/1/organizations", auth=(EMAIL, password), trust_env=False, timeout=30
    )


@pytest.mark.slow
def test_the_first_start_makes_the_administrator_and_shows_a_random_password_this_once(directory: Path) -> None:
    settings = {"LAUNCHBAY_ADMIN_PASSWORD": "", "LAUNCHBAY_ORGANIZATION": "Acme"}
    server = Process(["serve", "--port", "0", "--data-dir", str(directory / "data")], directory, settings=settings)
    try:
        server.start()
        [password] = SHOWN_ONCE.findall((directory / "serve-1.log").read_text("utf-8"))
        assert len(password) >= 16
        answer = organizations(server, password)
        assert (answer.status_code, [each["name"] for each in answer.json()]) == (200, ["Acme"])
        for guess in ("admin", "password", "launchbay", ""):
            assert organizations(server, guess).status_code in {401, 429}
        server.end()
        server.start()
        again = (directory / "serve-2.log").read_text("utf-8")
        assert not SHOWN_ONCE.search(again)
        assert password not in again
        assert organizations(server, password).status_code == 200
    finally:
        server.end()
