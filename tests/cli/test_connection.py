"""Tokens are kept in the system's keyring where one answers, and in a private file otherwise."""

from collections.abc import Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from launchbay.cli.connection import FileStore, KeyringStore, Secrets, store
from tests.support.scripted_server import Answer, scripted
from tests.support.servers import Bay, served
from tests.support.service import EMAIL, PASSWORD
from tests.support.shell import Shell


class Memory(KeyringBackend):
    """A keyring in memory, as the library lets everybody write one."""

    priority = 5

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # the library has no hints here
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_locked:
            raise KeyringLocked("it is locked")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture(scope="module")
def server() -> Iterator[Bay]:
    """A server of this file alone: a user may make only so many refresh tokens in an hour."""
    with served() as bay:
        yield bay


@pytest.fixture
def memory() -> Iterator[Memory]:
    before, found = keyring.get_keyring(), Memory()
    keyring.set_keyring(found)
    yield found
    keyring.set_keyring(before)


@pytest.mark.slow  # a pause of two seconds, as the server asks
def test_a_pause_before_another_attempt_is_shown_with_its_reason(shell: Shell) -> None:
    later = Answer(503, {"errors": ["The database is out of space."], "code": "Unavailable"}, {"Retry-After": "2"})
    with scripted(later, Answer(body=[])) as script:
        shell.environ = {"LAUNCHBAY_URL": script.url, "LAUNCHBAY_EMAIL": EMAIL, "LAUNCHBAY_PASSWORD": PASSWORD}
        told = shell.run("organization", "list")
    assert told.exit_code == 0
    assert "The database is out of space. Trying again in 2 s." in told.stderr


@pytest.mark.slow
def test_a_keyring_that_answers_keeps_the_token(memory: Memory, shell: Shell, server: Bay) -> None:
    shell.environ = {"LAUNCHBAY_KEYRING": ""}
    told = shell.run("login", server.url, "--email", EMAIL, "--password-stdin", stdin=f"{PASSWORD}\n").stderr
    assert "keyring" in told
    assert shell.document("organization", "list")
    assert [path.name for path in shell.config.iterdir()] == ["config.json"]
    assert "lbr_" in memory.kept["launchbay", "default"]
    shell.good("logout")
    assert memory.kept == {}


def test_a_locked_keyring_is_told_with_the_way_out(memory: Memory, shell: Shell, server: Bay) -> None:
    shell.environ = {"LAUNCHBAY_KEYRING": "", "LAUNCHBAY_URL": server.url}
    memory.is_locked = True
    assert "LAUNCHBAY_KEYRING=off" in shell.bad(1, "organization", "list")


def test_without_a_usable_keyring_there_is_the_file(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAUNCHBAY_KEYRING", raising=False)
    assert isinstance(store(), KeyringStore)
    monkeypatch.setattr(Memory, "priority", 0)
    assert isinstance(store(), FileStore)
    monkeypatch.setattr(Memory, "priority", 5)
    monkeypatch.setenv("LAUNCHBAY_KEYRING", "off")
    assert isinstance(store(), FileStore)


def test_what_cannot_be_read_counts_as_nothing(memory: Memory) -> None:
    memory.kept["launchbay", "default"] = "not JSON"
    assert KeyringStore(keyring).get("default") is None
    KeyringStore(keyring).put("default", Secrets("lbr_x"))
    assert KeyringStore(keyring).get("default") == Secrets("lbr_x")


@pytest.mark.slow
def test_a_member_of_several_organizations_must_choose_one(shell: Shell, server: Bay) -> None:
    cli = Shell.of(server, shell.config)
    cli.good("organization", "create", "Another")
    del cli.environ["LAUNCHBAY_ORGANIZATION"]
    told = cli.bad(2, "application", "list")
    assert "several organizations: 'Another', 'Default'. Choose one with --organization." in " ".join(told.split())
    assert cli.document("application", "list", "--organization", "Another") == []
