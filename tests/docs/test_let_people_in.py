"""The page on colleagues works: its commands run in order against a server, and the colleague may only approve."""

import shlex
from pathlib import Path

import pytest

from tests.support.documentation import DOCS, blocks
from tests.support.servers import served
from tests.support.shell import Shell

PAGE = DOCS / "howto" / "let-people-in.md"
FIRST = "a-first-password-of-a-colleague"
OWN = "an-own-password-of-a-colleague"


@pytest.mark.slow  # a server of its own, and a command after the other
def test_a_colleague_approves_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with served() as bay:
        shell = Shell.of(bay, tmp_path / "config")
        application = shell.good("application", "create", "any").strip()
        explained = follow(shell, tmp_path, application)
        assert [words.split()[1] for words in explained] == ["yes", "no"]
        colleague = signed_in(shell, tmp_path / "colleague")
        [asked] = colleague.document("approval", "list")
        shell.bad(5, "approval", "approve", asked["id"])
        colleague.bad(5, "instance", "reconfigure", "shop-1")
        colleague.bad(5, "manifest", "upload", "shop", "shop.yml")
        colleague.good("approval", "approve", asked["id"])
        assert "Destroyed" in shell.good("wait", "shop-1")


def follow(shell: Shell, folder: Path, application: str) -> list[str]:
    """Save the files of the page and run its commands, in order. Return what those print that explain a permission."""
    explained = []
    for block in blocks(PAGE):
        if block.language == "yaml":
            name = "approvers.yml" if "approvers.yml" in block.before else "shop.yml"
            (folder / name).write_text(block.text, "utf-8")
        elif block.language == "console":
            for line in block.text.splitlines():
                words = shlex.split(line.removeprefix("$ launchbay ").replace("APPLICATION", application))
                printed = shell.good(*words)
                explained += [printed] if words[0] == "permission" else []
    return explained


def signed_in(shell: Shell, config: Path) -> Shell:
    """Return what another colleague with the role has, after choosing a password as the page says."""
    email = "lee@example.org"
    shell.good("user", "create", "Lee", "--email", email, "--roles", "Approvers", "--password", FIRST)
    colleague = Shell(config)
    words = ("login", shell.environ["LAUNCHBAY_URL"], "--email", email)
    colleague.bad(5, *words, "--password-stdin", stdin=FIRST)
    colleague.good(*words, stdin=f"{FIRST}\n{OWN}\n{OWN}\n")
    return colleague
