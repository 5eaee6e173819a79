"""`launchbay promote` on a server: it applies the change set, and says why it couldn't."""

from pathlib import Path

import pytest

from tests.support.promotion import MANIFEST, NEW, OLD
from tests.support.service import fresh_name
from tests.support.shell import Shell

pytestmark = pytest.mark.features("promotion")


@pytest.fixture
def released(cli: Shell, tmp_path: Path) -> tuple[str, str, str]:
    """An application with a new version in the first of two environments; an instance with the old one is in both."""
    application, first, second = fresh_name("shop"), fresh_name("staging"), fresh_name("production")
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(MANIFEST.format(release=1))
    cli.good("application", "create", application)
    cli.good("manifest", "upload", application, str(manifest))
    instances = []
    for size, environment in enumerate((first, second), 1):
        cli.good("environment", "create", environment)
        launch = ("launch", application, "--environment", environment, "-p", f"size={size}", "--wait")
        instances.append(cli.document(*launch)["id"])
    manifest.write_text(MANIFEST.format(release=2))
    cli.good("manifest", "upload", application, str(manifest))
    cli.good("instance", "reconfigure", instances[0], "--manifest-version", str(NEW), "--wait")
    return application, first, second


def ordered(cli: Shell, released: tuple[str, str, str], root: Path, gate: str = "") -> tuple[str, ...]:
    """Set the order of the application, and return the command that promotes."""
    application, first, second = released
    folder = root / "wanted" / "applications" / application
    folder.mkdir(parents=True)
    (folder / "promotion.yaml").write_text(f"stages:\n- environment: {first}\n- environment: {second}\n{gate}")
    cli.good("apply", str(root / "wanted"), "--yes")
    return "promote", application, "--from", first, "--to", second


def version_in(cli: Shell, released: tuple[str, str, str]) -> int:
    """Return the version in the second environment."""
    found: int = cli.document("promotion", "show", released[0])["environments"][1]["version"]
    return found


@pytest.mark.slow  # three runs of jobs on a served application
def test_promote_waits_until_the_next_environment_has_the_version(
    cli: Shell, released: tuple[str, str, str], tmp_path: Path
) -> None:
    command = ordered(cli, released, tmp_path)
    assert f"version {NEW}" in cli.good(*command, "--dry-run")
    assert version_in(cli, released) == OLD
    result = cli.run(*command, "--wait", "--timeout", "120")
    assert result.exit_code == 0, result.output
    assert f"Promotes version {NEW}: change set " in result.stderr
    assert "Succeeded" in result.stdout
    assert version_in(cli, released) == NEW
    (instance,) = cli.document("promotion", "show", released[0])["environments"][1]["instances"]
    assert cli.document("instance", "show", instance["id"])["parameters"]["size"] == 2
    assert "NothingToPromote" in cli.run(*command, "--wait").stderr


@pytest.mark.slow
def test_promote_says_why_a_closed_gate_refuses(cli: Shell, released: tuple[str, str, str], tmp_path: Path) -> None:
    command = ordered(cli, released, tmp_path, "  soak: 3600000\n")
    result = cli.run(*command, "--wait")
    assert result.exit_code == 5, result.output
    assert "PromotionGate" in result.stderr
    assert "must run in" in result.stderr
    assert version_in(cli, released) == OLD


@pytest.mark.slow
def test_promote_ends_with_eleven_if_somebody_has_to_approve(
    cli: Shell, released: tuple[str, str, str], tmp_path: Path
) -> None:
    command = ordered(cli, released, tmp_path, "  approvals: 1\n")
    assert "It isn't applied yet." in cli.bad(11, *command, "--wait")
    assert "There is an open change set already for version 3" in cli.run(*command, "--wait").stderr
    assert version_in(cli, released) == OLD
