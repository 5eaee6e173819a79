"""`launchbay ps` and `launchbay bulk`: many instances at once."""

import json
import re
from pathlib import Path

import pytest

from tests.support.manifests import FAILING_EARLY, PAUSING
from tests.support.shell import Shell


def test_ps_finds_the_failed_ones_among_others(cli: Shell, tmp_path: Path) -> None:
    for name, manifest in (("ps-good", PAUSING), ("ps-bad", FAILING_EARLY)):
        (tmp_path / name).write_text(manifest, "utf-8")
        cli.good("application", "create", name)
        cli.good("manifest", "upload", name, str(tmp_path / name))
    good = cli.good("launch", "ps-good", "--instance-name", "sound").strip()
    bad = cli.good("launch", "ps-bad", "--instance-name", "wrecked").strip()
    cli.good("instance", "wait", "sound")
    cli.bad(1, "instance", "wait", "wrecked")
    assert cli.good("ps", "--last", "Failed", "--application", "ps-bad", "-q").split() == [bad]
    assert cli.good("ps", "--last", "Failed", "--application", "ps-good", "-q") == ""
    table = cli.good("ps", "--search", "wrecked")
    assert "launch Failed" in table
    cli.good("instance", "set-labels", "sound", "team=rigging", "tier=db")
    assert cli.document("instance", "labels", "sound") == {"team": "rigging", "tier": "db"}
    [found] = cli.document("ps", "--label", "team=rigging", "--label", "tier!=front", "--limit", "1")
    assert (found["id"], found["labels"], found["lastJob"]["status"]) == (
        good,
        {"team": "rigging", "tier": "db"},
        "Succeeded",
    )
    cli.good("run", "sound", "destroy", "--wait")
    assert cli.good("ps", "--label", "team=rigging", "-q") == ""
    assert cli.good("ps", "--label", "team=rigging", "-q", "--all").split() == [good]
    said = "Not shown: destroyed (1). To see them, use --all.\n"
    assert cli.run("ps", "--label", "team=rigging").stderr.endswith(said)
    assert cli.run("instance", "list", "--application", "ps-good").stderr.endswith(said)
    for complete in (["--all"], ["--status", "Failed"], ["-q"], ["-o", "json"]):
        assert "Not shown" not in cli.run("instance", "list", "--application", "ps-good", *complete).stderr


def test_a_cancelled_launch_has_a_place_among_the_failures(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "slow").write_text("launch: {steps: [{nap: {action: wait, parameters: {delay: 600}}}]}\n", "utf-8")
    cli.good("application", "create", "sleepers")
    cli.good("manifest", "upload", "sleepers", str(tmp_path / "slow"))
    cli.good("launch", "sleepers", "--instance-name", "drowsy")
    cli.good("job", "cancel", "drowsy", "last")
    cli.bad(1, "instance", "wait", "drowsy")
    [found] = cli.document("failures", "--application", "sleepers")
    assert (found["count"], found["failed"], found["place"]) == (1, 1, "launch")
    assert re.search(r" 1 +1 +launch .*Cancelled by ", cli.good("failures", "--application", "sleepers"))


def test_equal_failures_are_one_line_and_resumed_at_once(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text(FAILING_EARLY, "utf-8")
    cli.good("application", "create", "equals")
    cli.good("manifest", "upload", "equals", str(tmp_path / "bad"))
    made = {cli.good("launch", "equals", "--instance-name", f"equal {each}").strip() for each in "ab"}
    for each in "ab":
        cli.bad(1, "instance", "wait", f"equal {each}")
    [found] = cli.document("failures", "--application", "equals")
    assert (found["count"], {each["id"] for each in found["instances"]}) == (2, made)
    table = cli.good("failures", "--application", "equals")
    assert found["id"] in table
    assert found["message"][:20] in table
    shown = cli.good("failures", found["id"], "--application", "equals")
    assert all(each in shown for each in made)
    run = cli.document("failures", found["id"], "--resume", "--application", "equals")
    assert (run["act"], sum(run["counts"].values())) == ("resume", 2)
    assert "launchbay failures" in cli.bad(3, "failures", "0" * 24)
    assert "--resume" in cli.bad(2, "failures", "--resume")


def test_a_failure_is_not_resumed_by_running_another_job_that_failed_since(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "holed").write_text(FAILING_EARLY + FAILING_EARLY.replace("launch:", "patch:"), "utf-8")
    cli.good("application", "create", "holed")
    cli.good("manifest", "upload", "holed", str(tmp_path / "holed"))
    cli.good("launch", "holed", "--instance-name", "holed 1")
    cli.bad(1, "instance", "wait", "holed 1")
    cli.bad(1, "run", "holed 1", "patch", "--wait")
    [found] = cli.document("failures", "--application", "holed")
    assert "Workflow 'launch'" in found["message"]
    refused = " ".join(cli.bad(9, "failures", found["id"], "--resume", "--application", "holed").split())
    assert "Another job has failed since: on 'holed 1' it is 'patch'" in refused
    assert "Reconfigure the instance, or run the workflow again." in refused


def test_ps_refuses_a_wrong_value_and_names_the_right_ones(cli: Shell) -> None:
    told = cli.bad(2, "ps", "--status", "Runing")
    assert "'Runing'" in told
    assert "'Running'" in told
    assert "'Failed'" in cli.bad(2, "ps", "--last", "Broken")


def test_ps_says_that_more_instances_fit(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "two").write_text(PAUSING, "utf-8")
    cli.good("application", "create", "two of a kind")
    cli.good("manifest", "upload", "two of a kind", str(tmp_path / "two"))
    made = [cli.good("launch", "two of a kind", "--instance-name", name).strip() for name in ("first", "second")]
    chosen = ("ps", "--application", "two of a kind", "-q", "--limit")
    cut, whole = cli.run(*chosen, "1"), cli.run(*chosen, "2")
    assert (cut.stdout.split(), whole.stdout.split()) == ([made[1]], [made[1], made[0]])
    assert (cut.stderr, whole.stderr) == ("The first 1; more instances fit. To see them, use --limit.\n", "")


def test_a_bulk_run_says_which_options_choose_instances(cli: Shell) -> None:
    for command in (("bulk", "create", "resume"), ("change-set", "create", "destroy")):
        assert "Choose the instances: by --instance, or by filters" in cli.bad(2, *command)
        both = cli.bad(2, *command, "--instance", "0" * 24, "--select", "lastStatus=Failed")
        assert "Give either --instance or filters" in both
    assert "'fly' is not one of 'destroy', 'extend', 'label', 'reconfigure', 'resume', 'run'.\n" in cli.bad(
        2, "bulk", "create", "fly"
    )
    cli.good("application", "create", "rolled")
    rollout = ("rollout", "create", "rolled", "--version", "1", "--instance", "0" * 24)
    assert "Give either --instance or filters with --select" in cli.bad(2, *rollout, "--select", "lastStatus=Failed")


def test_words_of_a_bulk_run_begin_ids_from_8_characters_on(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "words").write_text(PAUSING, "utf-8")
    cli.good("application", "create", "words")
    cli.good("manifest", "upload", "words", str(tmp_path / "words"))
    made = cli.good("launch", "words", "--instance-name", "unmistakable").strip()
    cli.good("instance", "wait", made)
    bulk = ("bulk", "create", "destroy", "--application", "words", "--dry-run")
    assert cli.good("ps", "--search", made[:7], "--application", "words", "-q").split() == [made]
    assert cli.document(*bulk, "--search", made[:7])["instances"] == []
    labeled = cli.document("bulk", "create", "label", "--instance", made, "--set-label", "a=b", "--wait")["id"]
    assert cli.document("bulk", "show", labeled[:-1])["id"] == labeled
    assert cli.document("bulk", "wait", labeled[:-1])["id"] == labeled
    assert re.search(rf"{labeled} +label +– +Finished +1 +0 ", cli.good("bulk", "list"))
    assert "Unknown bulk run 'ffff'" in cli.bad(3, "bulk", "show", "ffff")
    assert "Unknown rollout 'ffff'" in cli.bad(3, "rollout", "wait", "ffff")
    for words in (made[:8], "mistak", f"UNMIST {made}"):
        assert [each["instanceId"] for each in cli.document(*bulk, "--search", words)["instances"]] == [made]


@pytest.mark.slow
def test_many_failures_are_found_and_resumed_by_two_commands(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "many").write_text(FAILING_EARLY, "utf-8")
    cli.good("application", "create", "many")
    cli.good("manifest", "upload", "many", str(tmp_path / "many"))
    made = {cli.good("launch", "many", "--instance-name", f"many-{number}").strip() for number in range(3)}
    for instance in made:
        cli.bad(1, "instance", "wait", instance)
    assert set(cli.good("ps", "--last", "Failed", "--application", "many", "-q").split()) == made
    chosen = ("--application", "many", "--last", "Failed")
    preview = cli.document("bulk", "create", "resume", *chosen, "--dry-run")
    filters = ("--select", "application=many", "--select", "lastStatus=Failed")
    assert cli.document("bulk", "create", "resume", *filters, "--preview")["instances"] == preview["instances"]
    assert {each["instanceId"] for each in preview["instances"]} == made
    bulk = cli.document("bulk", "create", "resume", *chosen)["id"]
    assert "3 instances failed" in cli.bad(1, "bulk", "wait", bulk, "--timeout", "1m")
    assert {each["status"] for each in cli.document("bulk", "instances", bulk)} == {"Failed"}
    assert "3 instances failed" in cli.bad(1, "bulk", "create", "resume", *chosen, "--wait", "--timeout", "1m")
    assert cli.document("bulk", "create", "resume", *chosen, "--dry-run", "--wait")["status"] == "Preview"
    shown = cli.document("bulk", "show", bulk)
    assert {each["instanceId"]: each["status"] for each in shown["instances"]} == dict.fromkeys(made, "Failed")
    assert "many-1" in cli.good("bulk", "show", bulk)
    label = ("bulk", "create", "label", "--instance", "many-0", "--set-label", "team=web")
    assert cli.document(*label, "--wait")["counts"]["succeeded"] == 1
    assert cli.document("instance", "labels", "many-0") == {"team": "web"}
    assert "'destroy'" in cli.bad(2, "bulk", "create", "explode")


def test_ps_and_status_say_that_the_environment_is_frozen_by_whom_and_why(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "frozen").write_text(PAUSING, "utf-8")
    cli.good("application", "create", "ps-frozen")
    cli.good("manifest", "upload", "ps-frozen", str(tmp_path / "frozen"))
    cli.good("environment", "create", "icy")
    cli.good("launch", "ps-frozen", "--environment", "icy", "--instance-name", "icebound", "--wait")
    assert "frozen" not in cli.run("ps", "--search", "icebound").stderr
    assert "frozen" not in cli.good("status", "icebound").replace("ps-frozen", "")
    cli.good("environment", "set-freeze", "icy", "Incident 4711")
    why = "admin@launchbay.local: Incident 4711"
    assert f"The environment icy is frozen. {why}\n" in cli.run("ps", "--search", "icebound").stderr
    assert re.search(rf"^frozen +{why}$", cli.good("status", "icebound"), re.MULTILINE)
    assert cli.document("status", "icebound")["frozen"] == why
    [listed] = cli.document("ps", "--search", "icebound")
    assert listed["isFrozen"]
    cli.good("environment", "lift-freeze", "icy")
    assert "frozen" not in cli.run("ps", "--search", "icebound").stderr


def test_ps_says_until_when_a_window_freezes_and_a_reason_overrides_it(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "windowed").write_text(PAUSING, "utf-8")
    cli.good("application", "create", "ps-windowed")
    cli.good("manifest", "upload", "ps-windowed", str(tmp_path / "windowed"))
    cli.good("environment", "create", "polar")
    launch = ("launch", "ps-windowed", "--environment", "polar")
    cli.good(*launch, "--instance-name", "floe", "--wait")
    window = {"reason": "Winter", "firstDay": "2000-01-01", "lastDay": "2199-12-30"}
    cli.good("environment", "set-freeze-windows", "polar", "--windows", json.dumps(window))
    until = "until 2199-12-31T00:00:00Z: Winter"
    assert f"The environment polar is frozen {until}\n" in cli.run("ps", "--search", "floe").stderr
    assert re.search(rf"^frozen +{until}$", cli.good("status", "floe"), re.MULTILINE)
    assert until in cli.bad(5, *launch, "--instance-name", "berg")
    why = "Ice must move: Ørsted agrees"
    cli.good(*launch, "--instance-name", "berg", "--override-freeze", why)
    [entry] = cli.document("audit", "list", "--action", "override_freeze", "--limit", "1")
    assert entry["after"]["reason"] == why
    cli.good("application", "set-freeze", "ps-windowed", "Release")
    cli.good("environment", "set-freeze-windows", "polar")
    assert (
        "The application ps-windowed is frozen. admin@launchbay.local: Release"
        in cli.run("ps", "--search", "floe").stderr
    )
    cli.good("application", "lift-freeze", "ps-windowed", "--yes")
    assert "frozen" not in cli.run("ps", "--search", "floe").stderr
