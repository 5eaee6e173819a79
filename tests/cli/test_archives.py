"""`organization export` and `organization import`: a whole organization in a file."""

import json
import stat
from pathlib import Path

from tests.cli.shell import Shell


def test_an_organization_goes_into_a_file_and_comes_out_under_another_name(cli: Shell, tmp_path: Path) -> None:
    cli.environ["LAUNCHBAY_ORGANIZATION"] = cli.good("organization", "create", "Packed").strip()
    cli.good("environment", "create", "lab")
    file = tmp_path / "packed.json"
    cli.good("organization", "export", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(json.loads(file.read_text())["environments"]) == {"default", "lab"}
    assert "cannot be written: File exists" in cli.bad(2, "organization", "export", str(file))

    planned = cli.document("organization", "import", str(file), "--plan", "--name", "Unpacked")
    assert (planned["id"], planned["created"]["environments"]) == (None, 2)
    made = cli.document("organization", "import", str(file), "--name", "Unpacked")
    cli.environ["LAUNCHBAY_ORGANIZATION"] = made["id"]
    assert cli.document("organization", "show")["name"] == "Unpacked"
    assert {each["name"] for each in cli.document("environment", "list")} == {"default", "lab"}


def test_what_is_no_archive_is_refused(cli: Shell, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("launch: {}")
    assert "is no JSON" in cli.bad(2, "organization", "import", str(file))
    file.write_text('{"format": "other"}')
    assert "This is no archive of an organization" in cli.run("organization", "import", str(file)).stderr
