"""`launchbay edit`: nobody's work is overwritten unseen, and nothing is lost."""

import re
import socket
import socketserver
import sys
import threading
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.support.service import fresh_name
from tests.support.shell import Shell, editor


@pytest.fixture
def environment(cli: Shell) -> str:
    name = fresh_name("environment")
    cli.good("environment", "create", name)
    cli.good("environment", "set-markers", name, "one")
    return name


def interfering(cli: Shell, environment: str, marker: str) -> str:
    """Return a program that changes the markers as somebody else, at the first run of the editor."""
    variables = {name: value for name, value in cli.environ.items() if name != "EDITOR"}
    command = [sys.executable, "-m", "launchbay.cli.main", "environment", "set-markers", environment, marker]
    code = f"from launchbay.cli.main import main; main({command[3:]!r})"
    return (
        "import os, subprocess\n"
        "if runs == 1:\n"
        f"    subprocess.run([{sys.executable!r}, '-c', {code!r}], env={{**os.environ, **{variables!r}}}, check=True)\n"
    )


def markers(cli: Shell, environment: str) -> list[str]:
    return [each["name"] for each in cli.document("environment", "show-markers", environment)["markers"]]


def test_what_the_editor_leaves_is_saved(cli: Shell, tmp_path: Path, environment: str) -> None:
    editor(cli, tmp_path, "path.write_text(path.read_text().replace('one', 'two'))\n")
    cli.good("edit", "markers", environment)
    assert markers(cli, environment) == ["two"]


def test_a_text_that_stays_as_it_is_changes_nothing(cli: Shell, tmp_path: Path, environment: str) -> None:
    editor(cli, tmp_path, "")
    assert "Nothing has changed." in cli.run("edit", "markers", environment).stderr


@pytest.mark.slow
def test_a_change_of_somebody_else_is_shown_and_the_text_is_kept(cli: Shell, tmp_path: Path, environment: str) -> None:
    mine = "path.write_text(path.read_text().replace('one', 'mine'))\n"
    editor(cli, tmp_path, interfering(cli, environment, "theirs") + mine)
    told = cli.bad(6, "edit", "markers", environment, stdin="quit\n")
    assert "-- name: one" in told
    assert "+- name: theirs" in told
    assert markers(cli, environment) == ["theirs"]
    found = re.search(r"Your text is in (\S+)\.$", told, re.MULTILINE)
    assert found is not None
    kept = Path(found[1])
    assert "mine" in kept.read_text("utf-8")
    kept.unlink()


@pytest.mark.slow
def test_after_a_conflict_it_is_edited_again_or_overwritten(cli: Shell, tmp_path: Path, environment: str) -> None:
    program = (
        "path.write_text(path.read_text().replace('one', 'mine') if runs == 1 else 'markers:\\n- name: both\\n')\n"
    )
    count = editor(cli, tmp_path, interfering(cli, environment, "theirs") + program)
    cli.good("edit", "markers", environment, stdin="edit\n")
    assert markers(cli, environment) == ["both"]
    count.unlink()
    program = "path.write_text('markers:\\n- name: mine\\n')\n"
    editor(cli, tmp_path, interfering(cli, environment, "theirs") + program)
    cli.good("edit", "markers", environment, stdin="overwrite\n")
    assert markers(cli, environment) == ["mine"]


def test_a_text_that_is_refused_can_be_corrected(cli: Shell, tmp_path: Path) -> None:
    name = fresh_name("application")
    cli.good("application", "create", name)
    program = "path.write_text('launch: {steps: 5}\\n' if runs == 1 else 'launch: {steps: []}\\n')\n"
    editor(cli, tmp_path, program)
    told = cli.run("edit", "manifest", name, stdin="edit\n")
    assert told.exit_code == 0, told.output
    assert "InvalidManifest" in told.stderr
    assert cli.good("manifest", "show", name).strip() == "launch: {steps: []}"


def test_a_role_is_edited_as_its_text(cli: Shell, tmp_path: Path) -> None:
    role = fresh_name("role")
    cli.good("role", "create", role, "--permissions", "- Read: [/applications/*]")
    editor(cli, tmp_path, "path.write_text('- Read: [/environments/*]\\n')\n")
    cli.good("edit", "role", role)
    assert cli.document("role", "show", role)["permissions"] == "- Read: [/environments/*]\n"


def test_a_change_of_another_part_of_an_instance_is_no_conflict(cli: Shell, tmp_path: Path) -> None:
    application, instance = fresh_name("application"), fresh_name("instance")
    cli.good("application", "create", application)
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text("launch: {steps: []}\nlook: {steps: []}\ndestroy: {steps: []}\n")
    cli.good("manifest", "upload", application, str(manifest))
    cli.good("launch", application, "--name", instance, "--wait")
    variables = {name: value for name, value in cli.environ.items() if name != "EDITOR"}
    code = f"from launchbay.cli.main import main; main({['instance', 'set-labels', instance, 'team=web']!r})"
    program = (
        "import os, subprocess\n"
        f"subprocess.run([{sys.executable!r}, '-c', {code!r}], env={{**os.environ, **{variables!r}}}, check=True)\n"
        "path.write_text('note: mine\\n')\n"
    )
    editor(cli, tmp_path, program)
    assert "Somebody else" not in cli.run("edit", "user-data", instance).stderr
    assert cli.document("instance", "show", instance)["userData"] == {"note": "mine"}


class _Forwarder(socketserver.ThreadingTCPServer):
    """Passes requests on to the server until a file is there; then it closes connections."""

    daemon_threads = True

    def __init__(self, url: str, gone: Path) -> None:
        target = httpx.URL(url)

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection((target.host, target.port)) as server:
                    answers = threading.Thread(target=pass_on, args=(server, self.request), daemon=True)
                    answers.start()
                    while not gone.exists() and (data := self.request.recv(65536)) and not gone.exists():
                        server.sendall(data)

        def pass_on(server: socket.socket, client: socket.socket) -> None:
            with suppress(OSError):
                while data := server.recv(65536):
                    client.sendall(data)

        super().__init__(("127.0.0.1", 0), Handler)


def test_the_text_is_kept_when_the_connection_is_lost(cli: Shell, tmp_path: Path, environment: str) -> None:
    gone = tmp_path / "gone"
    editor(cli, tmp_path, f"path.write_text('markers: [{{name: mine}}]\\n')\npathlib.Path({str(gone)!r}).touch()\n")
    address = cli.environ["LAUNCHBAY_URL"]
    with _Forwarder(address, gone) as forwarder:
        threading.Thread(target=forwarder.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        cli.environ["LAUNCHBAY_URL"] = f"http://127.0.0.1:{forwarder.server_address[1]}"
        told = cli.bad(7, "edit", "markers", environment)
        forwarder.shutdown()
    cli.environ["LAUNCHBAY_URL"] = address
    assert "It is unknown whether the change was made." in told
    found = re.search(r"Your text is in (\S+)\.$", told, re.MULTILINE)
    assert found is not None
    assert "mine" in Path(found[1]).read_text("utf-8")
    Path(found[1]).unlink()
    assert markers(cli, environment) == ["one"]
