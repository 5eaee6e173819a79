"""Runs commands of `launchbay` in this process, with a configuration directory of their own."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from launchbay.cli.main import main
from tests.api.running import EMAIL, PASSWORD
from tests.docs.served import Bay


@dataclass
class Shell:
    """A user's environment."""

    config: Path
    environ: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(server: Bay, config: Path) -> "Shell":
        """Return one whose variables name a server and its administrator."""
        names = {"LAUNCHBAY_URL": server.url, "LAUNCHBAY_EMAIL": EMAIL, "LAUNCHBAY_PASSWORD": PASSWORD}
        return Shell(config, {**names, "LAUNCHBAY_ORGANIZATION": server.organization})

    def run(self, *words: str, stdin: str = "") -> Result:
        """Run a command and return what came of it."""
        environ: dict[str, str | None] = {"LAUNCHBAY_CONFIG_DIR": str(self.config), "LAUNCHBAY_KEYRING": "off"}
        result = CliRunner().invoke(main, list(words), input=stdin, env={**environ, **self.environ})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def good(self, *words: str, stdin: str = "") -> str:
        """Run a command that must succeed, and return its standard output."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def document(self, *words: str) -> Any:
        """Run a command with JSON as output, and return the document."""
        return json.loads(self.good(*words, "-o", "json"))

    def bad(self, code: int, *words: str, stdin: str = "") -> str:
        """Run a command that must end with this code, and return what it told."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == code, result.output
        return result.stderr
