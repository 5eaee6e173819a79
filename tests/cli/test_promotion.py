"""`launchbay promote` and `launchbay promotion`: what is where, what keeps it there, and what brings it on."""

import json
from pathlib import Path

from tests.support.promotion import MANIFEST, NEW
from tests.support.shell import Shell


def placed(cli: Shell, folder: Path, name: str, **gates: object) -> None:
    """Make an application whose new version is in the first of two environments, with an order."""
    manifest = folder / "manifest.yaml"
    manifest.write_text(MANIFEST.format(release=1), "utf-8")
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(manifest))
    ids = [cli.good("environment", "create", f"{name}-{each}", "--quiet").strip() for each in ("test", "prod")]
    for each in ("test", "prod"):
        cli.good("launch", name, "--environment", f"{name}-{each}", "--instance-name", f"{name}-{each}", "--wait")
    manifest.write_text(MANIFEST.format(release=2), "utf-8")
    cli.good("manifest", "upload", name, str(manifest))
    cli.good("instance", "reconfigure", f"{name}-test", "--manifest-version", str(NEW), "--wait")
    order = folder / "order.json"
    order.write_text(json.dumps([{"environmentId": ids[0]}, {"environmentId": ids[1], **gates}]), "utf-8")
    cli.good("application", "set-promotion-order", name, "--stages", f"@{order}")


def test_the_board_lists_each_gate_with_its_reason(cli: Shell, tmp_path: Path) -> None:
    placed(cli, tmp_path, "shelf", soak=86_400_000, workflows=["smoke"], approvals=1)
    said = cli.good("promotion", "show", "shelf")
    for part in (
        "shelf-test  version 3",
        "shelf-prod: version 2, Running, since 20",
        "Version 3 is waiting.",
        "open    version: Version 3 is in 'shelf-test'.",
        "closed  soak: Version 3 must run in 'shelf-test' for 1 d: until",
        "closed  workflow: The workflow 'smoke' must run",
        "closed  approvals: 1 person has to approve",
        "differs in",
    ):
        assert part in said, said
    there = ("promote", "shelf", "--from", "shelf-test", "--to", "shelf-prod")
    dry = cli.run(*there, "--dry-run")
    assert "This would promote version 3" in dry.stderr
    assert not any(part in dry.stdout for part in ("Pending", "createdAt")), dry.stdout
    waits = cli.bad(11, *there, "--wait")
    for part in ("1 approval", "must run in 'shelf-test'", "The workflow 'smoke' must run"):
        assert part in waits, waits
    again = cli.run(*there)
    assert "There is an open change set already for version 3" in again.stderr
    assert "Pending" in again.stderr


def test_a_promotion_that_cannot_be_or_takes_too_long_says_so_by_its_exit_code(cli: Shell, tmp_path: Path) -> None:
    placed(cli, tmp_path, "crate")
    there = ("promote", "crate", "--from", "crate-test", "--to", "crate-prod")
    assert "'crate-nowhere'" in cli.bad(3, *there[:-1], "crate-nowhere")
    assert "hasn't ended within" in cli.bad(8, *there, "--wait", "--timeout", "1ms")
    cli.good("change-set", "wait", json.loads(cli.good("change-set", "list", "--output", "json"))[0]["id"])
    said = cli.bad(9, *there, "--wait")
    assert "has version 3 already" in said


def test_how_long_a_change_set_can_be_applied_is_no_time_of_an_instance(cli: Shell) -> None:
    for command in (("promotion", "propose"), ("change-set", "create")):
        said = " ".join(cli.good(*command, "--help").split())
        assert "How long the change set can be applied" in said
        assert "Destroy the instance after" not in said
    assert "Destroy the instance after" in " ".join(cli.good("bulk", "create", "--help").split())
