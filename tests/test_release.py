"""A release: its files come from the tagged commit, and whoever has them can check them (`make release`)."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.documentation import ROOT, blocks

pytestmark = pytest.mark.slow
VERSION = "0.1.0"


@dataclass(frozen=True)
class Clone:
    """A repository with the files of this one, and what a release needs."""

    directory: Path
    dist: Path
    key: Path

    def git(self, *arguments: str) -> None:
        options = ("-c", "user.name=Releaser", "-c", "user.email=releases@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *options, *arguments], cwd=self.directory, check=True, capture_output=True)

    def release(self, *arguments: str | Path) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, self.directory / "requirements" / "release", *arguments, self.dist],
            check=False,
            capture_output=True,
            text=True,
            timeout=110,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    directory = tmp_path / "clone"
    directory.mkdir()
    for name in ("src", "requirements", "deploy"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"):
        shutil.copy(ROOT / name, directory)
    changes = directory / "CHANGELOG.md"
    changes.write_text(changes.read_text("utf-8").replace(f"## {VERSION} (unreleased)", f"## {VERSION} (2026-12-01)"))
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    made = Clone(directory, tmp_path / "dist", key)
    made.git("init", "--quiet")
    made.git("add", ".")
    made.git("commit", "--quiet", "--message", "Everything")
    return made


def checked(clone: Clone, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    """Run the commands of the page, by which users check a release."""
    signers = tmp_path / "launchbay-signers"
    signers.write_text(f"releases@launchbay {clone.key.with_suffix('.pub').read_text()}")
    [block] = [each for each in blocks(ROOT / "docs/howto/install-package.md") if "-Y verify" in each.text]
    commands = [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
    shutil.copy(signers, clone.dist)
    return subprocess.run(
        ["sh", "-euc", "\n".join(commands)], cwd=clone.dist, check=False, capture_output=True, text=True
    )


def test_a_release_is_made_from_the_tag_and_can_be_checked(clone: Clone, tmp_path: Path) -> None:
    clone.git("tag", f"v{VERSION}")
    code, printed = clone.release("--key", clone.key)
    assert code == 0, printed
    assert {each.name for each in clone.dist.iterdir()} >= {
        f"launchbay-{VERSION}-py3-none-any.whl",
        f"launchbay-{VERSION}.cdx.json",
        f"launchbay-{VERSION}.md",
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }
    notes = (clone.dist / f"launchbay-{VERSION}.md").read_text("utf-8")
    assert notes.startswith(f"# Launchbay {VERSION}\n\nThe first release.")
    assert json.loads((clone.dist / f"launchbay-{VERSION}.cdx.json").read_text("utf-8"))["bomFormat"] == "CycloneDX"
    good = checked(clone, tmp_path)
    assert good.returncode == 0, good.stderr
    assert 'Good "launchbay-release" signature for releases@launchbay' in good.stdout

    with (clone.dist / f"launchbay-{VERSION}-py3-none-any.whl").open("ab") as wheel:
        wheel.write(b"x")
    assert checked(clone, tmp_path).returncode != 0, "a changed file is noticed"
    with (clone.dist / "SHA256SUMS").open("a") as sums:
        sums.write("\n")
    assert "Could not verify signature" in checked(clone, tmp_path).stdout


def test_a_release_that_is_not_ready_is_refused(clone: Clone) -> None:
    code, printed = clone.release()
    assert code == 1
    assert f"The commit has no tag v{VERSION}" in printed
    (clone.directory / "README.md").write_text("changed")
    code, printed = clone.release()
    assert code == 1
    assert "Commit first" in printed
    (clone.directory / "CHANGELOG.md").write_text(f"# Changes\n\n## {VERSION} (unreleased)\n\n- One.\n")
    clone.git("commit", "--quiet", "--all", "--message", "Not yet")
    clone.git("tag", f"v{VERSION}")
    code, printed = clone.release()
    assert code == 1
    assert "must have the date" in printed
    assert not clone.dist.exists(), "nothing is left"
