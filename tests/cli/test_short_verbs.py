"""Short commands: `status`, `destroy`, `wait`, `open`, `launch --dry-run`, and beginnings of IDs."""

import json
import re
from pathlib import Path

import pytest

from launchbay.cli.short_verbs import job_status_words
from tests.support.applications import NEEDY, SPEAKER
from tests.support.eventually import eventually_blocking
from tests.support.manifests import FAILING_EARLY, WAITING_COMPONENTS
from tests.support.shell import Shell

MANIFEST = """
application:
  interfaces:
    manage: { move: bind(ferry#manage.move) }
  components:
    ferry:
      type: workflow.Instance
      interfaces:
        manage: { move: receive-command(string delay => string moved) }
      configuration:
        configuration.workflows:
          launch: { steps: [{ sail: { action: wait, parameters: { delay: "0" } } }] }
          move:
            steps: [{ turn: { action: wait, parameters: { delay: "{$.delay}" } } }]
            return: { moved: { value: "after {$.delay}" } }
          destroy: { steps: [{ scrap: { action: wait, parameters: { delay: "0" } } }] }
"""
GATE = """
launch: {steps: []}
ask: {steps: [{gate: {action: approval, parameters: {text: "Go on?"}}}]}
pass:
  parameters: [{delay: {default: "0.05"}}]
  steps: [{turn: {action: wait, parameters: {delay: "{$.delay}"}}}]
"""
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def ferry(cli: Shell, tmp_path: Path) -> str:
    """Return the name of an application with a command whose time is its parameter."""
    name = f"ferry of {tmp_path.name}"
    file = tmp_path / "manifest.yaml"
    file.write_text(MANIFEST, "utf-8")
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(file))
    return name


@pytest.fixture
def ship(cli: Shell, ferry: str) -> str:
    """Return the ID of a running instance, which has the name of its application."""
    instance = cli.good("launch", ferry, "--name", ferry).strip()
    cli.good("wait", instance)
    return instance


def test_the_status_names_application_job_and_error(cli: Shell, ferry: str, ship: str) -> None:
    cli.bad(1, "run", ferry, "manage.move", "delay=whenever", "--wait")
    shown = cli.good("status", ferry)
    assert re.search(rf"application +{ferry}", shown)
    assert re.search(r"manage\.move +Failed", shown)
    assert "step 'turn' failed" in shown
    document = cli.document("status", ferry)
    assert (document["id"], document["application"], document["environment"]) == (ship, ferry, "default")
    counts = {name: number for name, number in document["components"].items() if number}
    assert counts == {"total": 1, "failed": 1}
    assert [(each["path"], each["status"]) for each in document["componentStates"]] == [("ferry", "Failed")]
    assert [job["name"] for job in document["jobs"]] == ["manage.move", "launch"]
    assert all(ISO.fullmatch(document[name]) for name in ("createdAt", "destroyAt"))
    assert all(ISO.fullmatch(job["finishedAt"]) for job in document["jobs"])


def test_the_status_of_an_instance_of_another_organization_has_names(cli: Shell, ferry: str, ship: str) -> None:
    other = cli.good("organization", "create", f"other than {ferry}").strip()
    document = cli.document("status", ship, "--organization", other)
    assert (document["application"], document["environment"]) == (ferry, "default")


def test_the_status_says_what_destroyed_an_instance(cli: Shell, ferry: str) -> None:
    expired = cli.good("launch", ferry, "--destroy-interval", "1ms").strip()
    cli.good("instance", "wait", expired, "--until", "Destroyed")
    assert re.search(r"destroyedBy +end of its lifetime\n", cli.good("status", expired))
    ended = cli.good("launch", ferry).strip()
    cli.good("wait", ended)
    cli.good("destroy", ended, "--wait")
    assert cli.document("status", ended)["destroyedBy"] == "Administrator"


def test_destroy_cancels_the_job_under_way_if_asked(cli: Shell, ferry: str, ship: str) -> None:
    cli.good("run", ship, "manage.move", "delay=60s")
    assert "To cancel it first, add --cancel." in cli.bad(6, "destroy", ferry)
    assert cli.document("status", ferry)["status"] == "Executing"
    cli.good("destroy", ferry, "--cancel", "--wait")
    document = cli.document("status", ship)
    assert (document["status"], [job["status"] for job in document["jobs"][:2]]) == (
        "Destroyed",
        ["Succeeded", "Failed"],
    )
    idle = cli.good("launch", ferry, "--wait", "-o", "json")
    cli.good("destroy", json.loads(idle)["id"], "--cancel", "--wait")


def test_the_status_shows_the_running_step(cli: Shell, ferry: str, ship: str) -> None:
    cli.good("run", ship, "manage.move", "delay=60s")
    assert re.search(r"job +manage\.move \(turn: (Requested|Executing)\)", cli.good("status", ferry))
    assert cli.document("status", ferry)["job"]["name"] == "manage.move"
    cli.good("job", "cancel", ferry, "last")


def test_the_status_says_since_when_a_job_waits_and_what_ends_that(cli: Shell, ferry: str, tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(GATE, "utf-8")
    cli.good("manifest", "upload", ferry, str(tmp_path / "gate.yaml"))
    gate = cli.good("launch", ferry, "--name", f"gate {ferry}", "--destroy-interval", "never").strip()
    cli.good("wait", gate)
    assert cli.document("status", gate)["sleep"] is None
    cli.good("run", gate, "pass", "--wait")
    cli.good("run", gate, "ask")
    document = eventually_blocking(lambda: cli.document("status", gate), lambda document: document["waits"])
    [wait] = document["waits"]
    assert (wait["kind"], wait["endsWhen"]) == ("approval", "The approval of any user who may approve, or its expiry.")
    assert ISO.fullmatch(wait["since"])
    assert document["usualDurationMs"] is None
    shown = cli.good("status", gate)
    assert re.search(r"waitingFor +Waiting for approval by any user who may approve: Go on\?\n", shown)
    assert re.search(r"since +\d\d:\d\d:\d\d\n", shown)
    assert "endsWhen  The approval of any user who may approve, or its expiry." in re.sub(" {2,}", "  ", shown)
    cli.good("job", "cancel", gate, "last")
    cli.bad(1, "wait", gate)
    cli.good("run", gate, "pass", "delay=60s")
    assert re.search(r"job +pass \(.*\), usually (0\.\d s|\d+ ms)\n", cli.good("status", gate))
    cli.good("job", "cancel", gate, "last")


def test_progress_names_the_component_of_a_step(cli: Shell, ship: str) -> None:
    assert "  ferry › turn: Succeeded" in cli.run("run", ship, "manage.move", "delay=0", "--wait").stderr


def test_the_beginning_of_an_id_is_enough(cli: Shell, ferry: str, ship: str) -> None:
    assert cli.document("status", ship[:14])["id"] == ship
    application = cli.document("application", "show", ferry)["id"]
    assert cli.document("application", "show", application[:14])["name"] == ferry
    [job] = cli.document("job", "list", ship)
    assert cli.document("job", "show", ship[:14], job["id"][:14])["name"] == "launch"


def test_the_beginning_of_several_ids_is_refused_with_those(cli: Shell, ferry: str, ship: str) -> None:
    other = cli.good("launch", ferry, "--name", f"second {ferry}").strip()
    # Both begin with their time, which stays the same in its first digits for hours.
    told = cli.bad(2, "status", ship[:4])
    assert "begins the ID of more than one instance. Type more characters:" in told
    assert f"  {other}  second {ferry}: {ferry}, default, " in told
    assert "Unknown instance 'ffff1234'" in cli.bad(3, "status", "ffff1234")
    assert "Unknown job 'ffff1234'" in cli.bad(3, "job", "show", ship, "ffff1234")


def test_instances_of_one_name_exit_with_2_and_are_listed(cli: Shell, ferry: str, ship: str) -> None:
    other = cli.good("launch", ferry, "--name", ferry).strip()
    for command in (("status", ferry), ("run", ferry, "manage.move"), ("destroy", ferry), ("wait", f"{ferry}#1")):
        told = cli.bad(2, *command)
        assert f"More than one instance is named '{ferry}'. Use the ID of one:" in told
        assert all(f"  {each}  {ferry}: {ferry}, default, " in told for each in (ship, other))
    cli.good("destroy", other, "--wait")
    assert cli.document("status", ferry)["id"] == ship


def test_a_job_alone_is_enough_to_show_and_cancel_it(cli: Shell, ferry: str, ship: str) -> None:
    started = cli.document("run", ship, "manage.move", "delay=60s")["job"]
    for words in ((started,), (started[:-1],), (f"{ferry}#2",), (ferry, "2"), (ship, started)):
        assert cli.document("job", "show", *words)["id"] == started
    assert [step["path"] for step in cli.document("job", "steps", started)] == ["ferry#move/turn"]
    assert "Missing argument 'JOB'" in cli.bad(2, "job", "show")
    assert "Unknown job" in cli.bad(3, "job", "cancel", ferry)
    cli.good("job", "cancel", started[:-1])
    assert "Cancelled by" in cli.bad(1, "wait", started)
    listed = cli.document("job", "list", ship)
    assert [(each["status"], each["cancelled"]) for each in listed] == [("Failed", True), ("Succeeded", False)]
    assert re.search(r"manage\.move +Cancelled ", cli.good("job", "list", ship))
    assert "manage.move Cancelled" in cli.good("ps", "--search", ferry)
    [found] = cli.document("ps", "--search", ferry)
    assert (found["health"], found["lastJob"]["cancelled"]) == ("Healthy", True)
    for command in (("ps", "--search", ferry), ("instance", "list", "--application", ferry)):
        assert "Running  Healthy" in re.sub(" {2,}", "  ", cli.good(*command))
    assert re.search(r"health +Healthy", cli.good("status", ferry))
    assert "JobEnded" in cli.bad(6, "job", "cancel", started)
    resumed = cli.document("job", "resume", started, "-p", "delay=0", "--wait")
    assert resumed["jobStatus"] == "Succeeded"
    assert re.search(rf"{resumed['job']} +manage\.move +Succeeded .* 3\b", cli.good("job", "list", ship))


def test_a_name_wins_over_the_beginning_of_an_id(cli: Shell, ferry: str, ship: str) -> None:
    named = cli.good("launch", ferry, "--name", ship[:14]).strip()
    assert cli.document("status", ship[:14])["id"] == named
    assert cli.document("status", ship[:15])["id"] == ship


@pytest.mark.slow
def test_waiting_for_an_instance_exits_by_the_outcome_of_its_job(cli: Shell, ferry: str, ship: str) -> None:
    cli.good("run", ship, "manage.move", "delay=2s")
    assert "after 2s" in cli.good("wait", ferry)
    assert "Running" in cli.good("wait", ferry)
    job = cli.document("job", "list", ship)[0]["id"]
    assert "after 2s" in cli.good("wait", job)
    cli.run("run", ship, "manage.move", "delay=whenever", "--wait")
    failed = cli.document("job", "list", ship)[0]["id"]
    assert "Job 'manage.move' failed" in cli.bad(1, "wait", failed)
    assert "Job 'manage.move' failed" in cli.bad(1, "wait", failed[:-1])
    assert "Job 'manage.move' failed" in cli.bad(1, "job", "wait", failed[:-1])
    assert "after 2s" in cli.good("wait", f"{ferry}#2")
    assert "after 2s" in cli.good("job", "wait", f"{ship[:14]}#2")
    assert cli.document("job", "show", ferry, "#3")["id"] == failed
    assert cli.document("job", "show", ferry, "2")["number"] == 2
    assert "Unknown job '#99'" in cli.bad(3, "wait", f"{ferry}#99")
    cli.good("run", ship, "manage.move", "delay=60s")
    assert "still running" in cli.bad(8, "wait", ferry, "--timeout", "1s")
    cli.good("job", "cancel", ferry, "last")


def test_waiting_for_a_failed_instance_exits_with_1(cli: Shell, tmp_path: Path) -> None:
    name = f"bad {tmp_path.name}"
    (tmp_path / "bad.yaml").write_text(FAILING_EARLY, "utf-8")
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(tmp_path / "bad.yaml"))
    cli.bad(1, "launch", name, "--name", name, "--wait")
    cli.bad(1, "wait", name)


def test_destroy_ends_an_instance_and_can_be_tried_first(cli: Shell, ferry: str, ship: str) -> None:
    assert "ferry#destroy" in cli.good("destroy", ferry, "--dry-run")
    assert cli.document("status", ship)["status"] == "Running"
    assert "Destroyed" in cli.good("destroy", ferry, "--wait")
    assert "is destroyed" in cli.bad(9, "destroy", ship, "--dry-run")


def test_a_dry_run_of_a_launch_launches_nothing(cli: Shell, ferry: str) -> None:
    assert re.search(r"ferry +starts", cli.good("launch", ferry, "--dry-run", "--name", "never"))
    assert "Unknown parameter 'x'" in cli.bad(9, "launch", ferry, "--dry-run", "-p", "x=1")
    assert cli.good("ps", "--application", ferry, "-q", "--all") == ""


def test_a_dry_run_exits_as_what_it_tries_would(cli: Shell, ferry: str, ship: str) -> None:
    environment = f"frozen {ferry}"
    cli.good("environment", "create", environment)
    launch = ("launch", ferry, "--environment", environment)
    frozen = f"{ferry}-2"
    cli.good(*launch, "--name", frozen, "--wait")
    cli.good("instance", "reconfigure", frozen, "--name", frozen, "--wait")
    tries = (launch, ("instance", "reconfigure", frozen), ("destroy", frozen), ("rollback", frozen, "1"))
    for words in tries:
        cli.good(*words, "--dry-run")
    cli.good("environment", "set-freeze", environment, "Incident 4711")
    try:
        for words in tries:
            result = cli.run(*words, "--dry-run")
            assert result.exit_code == 9, words
            assert "This would be refused now. " in result.stderr
            assert "Incident 4711" in result.stderr
            assert "workflows" in result.stdout
            cli.good(*words, "--dry-run", "--override-freeze", "The fix")
        cli.good("launch", ferry, "--dry-run")
    finally:
        cli.good("environment", "lift-freeze", environment)


def test_a_refusal_that_is_not_about_roles_leads_to_none(cli: Shell, ferry: str) -> None:
    environment = f"governed {ferry}"
    cli.good("environment", "create", environment)
    cli.good("environment", "set-change-policy", environment, "--approvals", "1")
    told = cli.bad(5, "launch", ferry, "--environment", environment)
    assert "launchbay change-set create, or Save as change set in the console." in told
    assert "roles" not in told


def test_open_prints_the_address_in_the_console(cli: Shell, ferry: str, ship: str) -> None:
    address = cli.good("open", ferry).strip()
    assert address == f"{cli.environ['LAUNCHBAY_URL']}/console/instances/{ship}"
    assert cli.document("open") == {"url": f"{cli.environ['LAUNCHBAY_URL']}/console"}


@pytest.mark.parametrize("words", [("application", "instances", "x"), ("environment", "instances", "default")])
def test_a_mistyped_name_is_refused_with_the_right_ones(cli: Shell, ferry: str, words: tuple[str, ...]) -> None:
    words = tuple(ferry if word == "x" else word for word in words)
    told = cli.bad(2, *words, "--status", "Runing")
    assert "'Runing'" in told
    assert "is not one of 'Requested', 'Executing', 'Running', 'Failed', 'Destroying', 'Destroyed'." in told
    assert "'Broken'" in cli.bad(2, "organization", "instances", "--last-status", "Broken")
    assert "'Reed' is not one of 'Read', " in cli.bad(2, "permission", "explain", "--permission", "Reed", "--path", "/")


def test_instances_are_listed_newest_first(cli: Shell, ferry: str, ship: str) -> None:
    newest = cli.good("launch", ferry).strip()
    assert [each["id"] for each in cli.document("instance", "list", "--application", ferry)] == [newest, ship]
    assert [each["id"] for each in cli.document("instance", "list", "--limit", "1")] == [newest]


def test_the_audit_log_begins_with_the_newest_and_shows_names_and_changes(cli: Shell, ferry: str, ship: str) -> None:
    cli.good("application", "rename", ferry, f"new {ferry}")
    table = cli.good("audit", "list", "--limit", "2").splitlines()
    assert "rename_application" in table[2]
    assert f"/applications/new {ferry}" in table[2]
    assert f'name: "{ferry}" → "new {ferry}"' in table[2]
    assert "launch_application" in table[3]
    [entry] = cli.document("audit", "list", "--object", ship, "--action", "launch_application", "--since", "1h")
    assert entry["names"][ship] == ferry
    assert cli.document("audit", "list", "--object", ship, "--until", "1h") == []
    shown = f"/applications/new {ferry}/instances/{ferry}"
    assert shown in cli.good("audit", "list", "--object", ship)
    assert cli.document("audit", "list", "--object", shown, "--action", "launch_application") == [entry]
    assert "Unknown application 'nowhere'" in cli.bad(3, "audit", "list", "--object", "/applications/nowhere")


def test_the_audit_log_of_an_object_is_found_by_its_name(cli: Shell, ferry: str, ship: str) -> None:
    told = cli.bad(2, "audit", "list", "--object", ferry)
    assert f"More than one instance or application is named '{ferry}'. Use the ID of one:" in told
    assert re.search(rf"{ship}  {ferry}: {ferry}, .*, Running\n", told)
    assert re.search(rf"[0-9a-f]{{24}}  application {ferry}\n", told)
    cli.good("application", "rename", ferry, f"new {ferry}")
    [entry] = cli.document("audit", "list", "--object", ferry, "--action", "launch_application")
    assert entry["names"][ship] == ferry
    named = cli.document("audit", "list", "--object", f"new {ferry}")
    assert named[0]["operation"] == "rename_application"
    assert "No instance or application is named 'nowhere'." in cli.bad(3, "audit", "list", "--object", "nowhere")


def test_a_wrong_choice_is_refused_with_what_the_choices_mean(cli: Shell) -> None:
    told = cli.bad(2, "approval", "list", "--status", "approved")
    assert "'approved' is not one of 'decided', 'pending'.\n`decided`: approved, rejected, expired" in told


def test_a_rollback_is_shown_and_leads_back(cli: Shell, ferry: str, ship: str) -> None:
    [first] = cli.document("generations", ferry)
    assert (first["number"], first["version"]) == (1, 2)
    assert re.search(r"ferry +keeps", cli.good("rollback", ferry, "1", "--dry-run"))
    assert "no earlier configuration" in cli.bad(9, "rollback", ferry, "--dry-run")
    cli.good("rollback", ferry, "1", "--wait")
    assert cli.document("status", ferry)["jobs"][0]["name"] == "reconfigure"
    assert "keeps no generation 9" in cli.bad(3, "rollback", ship, "9")


def test_every_document_has_times_as_iso_8601(cli: Shell, ferry: str, ship: str) -> None:
    [job] = cli.document("job", "list", ship)
    assert ISO.fullmatch(job["startedAt"])
    assert ISO.fullmatch(cli.document("job", "show", ship, "last")["steps"][0]["finishedAt"])
    assert ISO.fullmatch(cli.document("instance", "show", ship)["createdAt"])
    assert ISO.fullmatch(cli.document("audit", "list", "--limit", "1")[0]["at"])
    lines = [json.loads(line) for line in cli.good("logs", ship, "-o", "json").splitlines()]
    assert lines
    assert all(ISO.fullmatch(line["at"]) for line in lines)
    # What users write stays as they wrote it.
    cli.good("instance", "set-user-data", ship, "at=1700000000000")
    assert cli.document("instance", "show", ship)["userData"] == {"at": "1700000000000"}


def test_a_dry_run_names_the_option_that_would_be_needed(cli: Shell, tmp_path: Path) -> None:
    speaker, where = f"speaker {tmp_path.name}", f"where {tmp_path.name}"
    for name, text in ((speaker, SPEAKER), (f"user {tmp_path.name}", NEEDY)):
        (tmp_path / "m.yaml").write_text(text, "utf-8")
        cli.good("application", "create", name)
        cli.good("manifest", "upload", name, str(tmp_path / "m.yaml"))
    cli.good("environment", "create", where)
    cli.good("launch", speaker, "--name", speaker, "--wait")
    cli.good("instance", "offer", speaker, where)
    cli.good("launch", f"user {tmp_path.name}", "--environment", where, "--wait")
    told = cli.bad(9, "destroy", speaker, "--dry-run")
    assert "To destroy it anyway, add --force." in told
    cli.good("destroy", speaker, "--dry-run", "--force")


def test_tables_have_names_next_to_ids(cli: Shell, ferry: str, ship: str) -> None:
    shown = cli.good("application", "instances", ferry)
    assert "environmentName" in shown
    assert re.search(r"\bdefault\b", shown)
    assert "admin@launchbay.local" in cli.good("manifest", "list", ferry)


ASKING = """
launch: {steps: [{sign-off: {action: approval, parameters: {text: "Deploy?"}}}]}
greet: {parameters: {name: {}}, steps: []}
destroy: {steps: []}
"""


def test_an_approval_is_named_by_the_beginning_of_its_id(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "asking").write_text(ASKING, "utf-8")
    cli.good("application", "create", "asking")
    cli.good("manifest", "upload", "asking", str(tmp_path / "asking"))
    launched = cli.run("launch", "asking", "-p", "whoo=3")
    assert launched.exit_code == 0
    assert "Warning: Workflow launch has no parameter whoo, so it is ignored." in launched.stderr
    instance = launched.stdout.strip()
    asked = eventually_blocking(lambda: cli.document("instance", "approvals", instance))
    approval = asked[0]["id"]
    assert cli.document("approval", "approve", approval[:20], "--comment", "OPS-17")["id"] == approval
    decided = cli.good("approval", "list", "--status", "decided")
    assert all(each in decided for each in ("decidedBy", "decidedAt", "@", "OPS-17"))
    assert "expiresAt" not in decided
    assert cli.document("approval", "show", approval[:20])["status"] == "approved"
    assert "Unknown approval 'maybe'" in cli.bad(3, "approval", "approve", "maybe")
    cli.good("wait", instance)
    ran = cli.run("run", instance, "greet", "name=Ann", "other=1", "--wait")
    assert ran.exit_code == 0
    assert "Warning: Workflow greet has no parameter other, so it is ignored. Parameters: name." in ran.stderr


def test_a_webhook_is_named_by_the_url_in_the_list_or_its_id(cli: Shell) -> None:
    made = [cli.document("webhook", "create", f"https://hooks.example.org/{n}", "--events", "job") for n in "ab"]
    [shown, _] = [each["url"] for each in cli.document("webhook", "list") if each["id"] in {one["id"] for one in made}]
    assert "Use the ID of one" in cli.bad(2, "webhook", "delete", shown, "--yes")
    told = cli.bad(3, "webhook", "delete", "https://hooks.example.org/a", "--yes")
    assert "Use the ID: launchbay webhook list" in told
    assert "Did you mean" not in told
    cli.good("webhook", "delete", made[0]["id"], "--yes")
    cli.good("webhook", "delete", shown, "--yes")


def test_the_status_says_what_components_do_while_one_waits(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(WAITING_COMPONENTS, "utf-8")
    name = f"convoy of {tmp_path.name}"
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(tmp_path / "manifest.yaml"))
    instance = cli.good("launch", name).strip()
    eventually_blocking(lambda: cli.document("status", instance)["components"]["running"] >= 2)
    shown = cli.good("status", instance)
    assert "2 of 4 components running, 1 waiting for approval" in shown
    assert "ask: Needs approval (sure)" in shown


def test_a_queued_job_is_requested_in_the_status_as_its_instance_is() -> None:
    assert job_status_words({"status": "Executing", "startedAt": None}) == "Requested"
    assert job_status_words({"status": "Executing", "startedAt": "2031-06-04T18:00:00.000Z"}) == "Executing"
    assert job_status_words({"status": "Failed", "startedAt": None}) == "Failed"


def test_a_comparison_says_which_job_has_a_step_and_what_differs(cli: Shell, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    rest = "{turn: {action: wait, parameters: {delay: '{$.delay}'}}}"
    again = f"again: {{parameters: [{{delay: {{default: '0'}}}}], steps: [{rest}]}}\n"
    file.write_text(f"launch: {{steps: [{{sail: {{action: wait, parameters: {{delay: '0'}}}}}}]}}\n{again}", "utf-8")
    cli.good("application", "create", name := f"compared of {tmp_path.name}")
    cli.good("manifest", "upload", name, str(file))
    cli.good("launch", name, "--name", name, "--wait")
    cli.good("run", name, "again", "--wait")
    cli.good("run", name, "again", "-p", "delay=0.3", "--wait")
    shown = cli.good("job", "compare", f"{name}#1", f"{name}#2")
    assert re.search(r"/sail: only in job 1, 'launch' \(Succeeded\)", shown)
    assert re.search(r"/turn: only in job 2, 'again' \(Succeeded\)", shown)
    shown = cli.good("job", "compare", f"{name}#2", f"{name}#3")
    assert re.search(r"/turn: Succeeded, \+[\d.]+ m?s, inputs differ", shown)
