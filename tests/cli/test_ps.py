"""`launchbay ps`: all instances with their last jobs, by filters."""

from pathlib import Path

from tests.support.manifests import FAILING_EARLY, PAUSING
from tests.support.shell import Shell


def test_ps_finds_the_failed_ones_among_others(cli: Shell, tmp_path: Path) -> None:
    for name, manifest in (("ps-good", PAUSING), ("ps-bad", FAILING_EARLY)):
        (tmp_path / name).write_text(manifest, "utf-8")
        cli.good("application", "create", name)
        cli.good("manifest", "upload", name, str(tmp_path / name))
    good = cli.good("launch", "ps-good", "--instance-name", "fine").strip()
    bad = cli.good("launch", "ps-bad", "--instance-name", "broken").strip()
    cli.good("instance", "wait", "fine")
    cli.bad(1, "instance", "wait", "broken")
    assert cli.good("ps", "--last", "Failed", "--application", "ps-bad", "-q").split() == [bad]
    assert cli.good("ps", "--last", "Failed", "--application", "ps-good", "-q") == ""
    table = cli.good("ps", "--search", "broken")
    assert "launch Failed" in table
    cli.good("instance", "set-labels", "fine", "team=web", "tier=db")
    assert cli.document("instance", "labels", "fine") == {"team": "web", "tier": "db"}
    [found] = cli.document("ps", "--label", "team=web", "--label", "tier!=front", "--limit", "1")
    assert (found["id"], found["labels"], found["lastJob"]["status"]) == (
        good,
        {"team": "web", "tier": "db"},
        "Succeeded",
    )
    cli.good("run", "fine", "destroy", "--wait")
    assert cli.good("ps", "--label", "team=web", "-q") == ""
    assert cli.good("ps", "--label", "team=web", "-q", "--all").split() == [good]


def test_ps_refuses_a_wrong_value_and_names_the_right_ones(cli: Shell) -> None:
    told = cli.bad(2, "ps", "--status", "Runing")
    assert "'Runing'" in told
    assert "'Running'" in told
    assert "'Failed'" in cli.bad(2, "ps", "--last", "Broken")
