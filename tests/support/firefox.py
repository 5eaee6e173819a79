"""Firefox over its own Marionette protocol: JSON on a local socket, without a driver program."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually_blocking

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
START_WITHIN_S = 60.0
_PREFERENCES = {
    "marionette.port": 0,  # any free one, which Firefox writes into its profile
    "datareporting.policy.dataSubmissionEnabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "app.update.enabled": False,
}


class Firefox:
    """One window. Raises AssertionError with what Firefox says about a command that fails."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""
        self._number = 0
        self._read()  # the greeting
        self.call("WebDriver:NewSession")

    def call(self, command: str, **parameters: Any) -> Any:
        self._number += 1
        text = json.dumps([0, self._number, command, parameters]).encode()
        self._connection.sendall(b"%d:%s" % (len(text), text))
        _, _, error, result = self._read()
        assert error is None, f"{command} {parameters}: {error}"
        return result

    def goto(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self.call("WebDriver:Navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        return self.call("WebDriver:ExecuteScript", script=f"return {script}", args=[])["value"]

    def until(self, script: str, within_s: float = 30.0) -> None:
        """Wait until an expression is true."""
        eventually_blocking(lambda: self.evaluate(script), within_s=within_s)

    def type(self, selector: str, text: str) -> None:
        """Type into an element; U+E009 and the like are keys, as WebDriver has them."""
        found = self.call("WebDriver:FindElement", using="css selector", value=selector)["value"]
        self.call("WebDriver:ElementSendKeys", id=next(iter(found.values())), text=text)

    def click(self, selector: str) -> None:
        found = self.call("WebDriver:FindElement", using="css selector", value=selector)["value"]
        self.call("WebDriver:ElementClick", id=next(iter(found.values())))

    def _read(self) -> Any:
        while b":" not in self._buffer:
            self._buffer += self._received()
        length, _, rest = self._buffer.partition(b":")
        while len(rest) < int(length):
            rest += self._received()
        self._buffer = rest[int(length) :]
        return json.loads(rest[: int(length)])

    def _received(self) -> bytes:
        data = self._connection.recv(65_536)
        assert data, "Firefox has closed the connection"
        return data


@contextmanager
def running_firefox(profile: Path) -> Iterator[Firefox]:
    """Start Firefox without a window on the screen, with a profile of its own, and stop it."""
    assert FIREFOX is not None, "install Debian's package firefox-esr"
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in _PREFERENCES.items()]
    (profile / "user.js").write_text("".join(lines), "utf-8")
    command = [FIREFOX, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = profile / "MarionetteActivePort"
        eventually_blocking(
            lambda: (port.exists() and port.read_text("utf-8").strip()) or process.poll() is not None,
            within_s=START_WITHIN_S,
        )
        assert process.poll() is None, "Firefox ended at its start"
        with socket.create_connection(("127.0.0.1", int(port.read_text("utf-8"))), START_WITHIN_S) as connection:
            yield Firefox(connection)
    finally:
        process.terminate()
        process.wait(30)
