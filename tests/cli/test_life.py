"""The whole life of an application by commands, with names in the place of ids."""

import json
import re
import textwrap
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from launchbay.cli.instances import status_words
from tests.support.service import FAILING, GREETER, SLOW
from tests.support.shell import Shell

ASKED = """
application:
  interfaces:
    act: { greet: bind(greeter#act.greet) }
  components:
    greeter:
      type: workflow.Instance
      interfaces:
        act: { greet: receive-command(string name) }
      configuration:
        configuration.workflows:
          greet:
            parameters: { name: { type: string } }
            steps:
              - speak: { action: logging, parameters: { message: "Hello, {$.name}!" } }
"""


def uploaded(cli: Shell, tmp_path: Path, name: str, manifest: str) -> str:
    file = tmp_path / "manifest.yaml"
    file.write_text(manifest, "utf-8")
    number = cli.good("application", "create", name).strip()
    assert re.fullmatch(r"[0-9a-f]{24}", number)
    assert cli.document("manifest", "upload", name, str(file)) == {"version": 2}
    return number


def test_an_application_lives_from_upload_to_deletion(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "life", GREETER)
    words = ("launch", "life", "-p", "input.who=harbour", "--name", "born", "--destroy-interval", "2h")
    told = cli.run(*words, "--wait", "--timeout", "1m")
    assert (told.exit_code, "Hello, harbour!" in told.stdout) == (0, True)
    assert "breathe: Succeeded" in told.stderr
    instance = cli.document("instance", "show", "born")
    assert instance["returnValues"] == {"result.greeting": "Hello, harbour!"}
    begun, ends = (datetime.fromisoformat(instance[name]) for name in ("createdAt", "destroyAt"))
    assert (ends - begun).total_seconds() == pytest.approx(2 * 3_600, abs=1)
    assert [each["name"] for each in cli.document("instance", "list", "--application", "life")] == ["born"]
    assert cli.document("job", "show", "born", "last")["name"] == "launch"
    assert cli.good("instance", "set-destroy-at", "born", "never") == ""
    assert "A time or duration can't be negative: -1." in cli.bad(2, "instance", "set-destroy-at", "born", "-1")
    assert "2020-01-01 has passed." in cli.bad(2, "instance", "set-destroy-at", "born", "2020-01-01")
    assert "TIME: +2h, 2026-12-24T18:00 or never." in cli.good("instance", "set-destroy-at", "--help")
    assert cli.document("instance", "show", "born")["destroyAt"] is None
    cli.good("revision", "create", "life", "stable", "--version", "2", "-p", "input.who=stable")
    launched = cli.good("launch", "life", "--revision", "life/stable", "--instance-name", "fixed").strip()
    cli.good("instance", "wait", "fixed")
    assert cli.document("instance", "show", launched)["returnValues"] == {"result.greeting": "Hello, stable!"}
    for name in ("born", "fixed"):
        cli.good("run", name, "destroy", "--wait")
        cli.good("instance", "delete", name, "--yes")
    cli.good("application", "delete", "life", "--yes")
    cli.bad(3, "application", "show", "life")


def test_a_workflow_is_run_scheduled_and_its_log_read(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "asked", ASKED)
    cli.good("launch", "asked", "--instance-name", "answers", "--wait")
    cli.good("run", "answers", "act.greet", "name=Ann", "--wait")
    log = cli.good("logs", "answers")
    assert "'logging' has no effect here" in log
    assert re.search(r"^\d\d:\d\d:\d\d \w+ › \w+ ", log, re.MULTILINE)
    bare = cli.good("logs", "answers", "--no-prefix").splitlines()
    assert len(bare) == len(log.splitlines())
    assert not any(re.match(r"\d\d:\d\d:", line) for line in bare)
    schedule = cli.good("instance", "schedule", "answers", "act.greet", "1h", "-p", "name=Bob").strip()
    listed = cli.document("instance", "schedules", "answers")["schedules"]
    assert [each["id"] for each in listed] == [schedule]
    cli.good("instance", "reschedule", "answers", schedule, "0")
    assert cli.document("instance", "schedules", "answers")["schedules"] == []


def test_a_log_is_followed_until_the_instance_is_destroyed(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "followed", ASKED)
    instance = cli.good("launch", "followed").strip()
    cli.good("instance", "wait", instance)
    cli.good("run", instance, "act.greet", "-p", "name=Ann", "--wait")
    (line,) = [json.loads(line) for line in cli.good("logs", instance, "-q", "LOGGING", "-o", "json").splitlines()]
    assert (line["level"], line["component"], line["stream"]) == ("info", "greeter", "system")
    assert cli.good("logs", instance, "--since", "1h", "--until", "2001-01-01", "-o", "json") == ""
    cli.good("run", instance, "destroy")
    assert "'logging' has no effect here" in cli.good("logs", instance, "--follow")


@pytest.mark.slow
def test_a_limit_is_the_number_of_all_lines(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "limited", ASKED)
    instance = cli.good("launch", "limited").strip()
    cli.good("instance", "wait", instance)
    for name in ("Ann", "Bob", "Cem"):
        cli.good("run", instance, "act.greet", f"name={name}", "--wait")
    assert len(cli.good("instance", "log", instance, "-q", "logging", "-o", "json").splitlines()) == 3
    assert len(cli.good("instance", "log", instance, "--limit", "1", "-o", "json").splitlines()) == 1
    assert len(cli.good("logs", instance, "--limit", "2", "--follow").splitlines()) == 2


def test_a_revision_needs_no_application_where_the_command_names_it(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "named", GREETER)
    cli.good("revision", "create", "named", "golden", "--version", "2", "-p", "input.who=gold")
    cli.good("launch", "named", "--revision", "golden", "--name", "coin", "--wait")
    assert cli.document("instance", "show", "coin")["returnValues"] == {"result.greeting": "Hello, gold!"}
    assert cli.document("instance", "preview", "coin", "--revision", "golden")["errors"] == []
    assert "Unknown revision 'gold'" in cli.bad(3, "launch", "named", "--revision", "gold")


def test_a_failed_launch_ends_with_1_and_tells_why(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "fails", FAILING)
    assert "step 'call' failed" in cli.bad(1, "launch", "fails", "--wait")


def test_waiting_too_long_ends_with_8(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "slow", SLOW)
    assert "still" in cli.bad(8, "launch", "slow", "--wait", "--timeout", "50ms")


def test_environments_are_set_up_with_names(cli: Shell, tmp_path: Path) -> None:
    cli.good("environment", "create", "lab")
    cli.good("environment", "set-markers", "lab", "blue", "green")
    assert cli.document("environment", "show-markers", "lab") == {"markers": [{"name": "blue"}, {"name": "green"}]}
    one = '{"name": "mirror", "value": "http://m.example", "type": "string"}'
    cli.good("environment", "set-properties", "lab", one)
    assert cli.document("environment", "show-properties", "lab")["properties"][0]["name"] == "mirror"
    policies = tmp_path / "policies.yaml"
    policies.write_text("policies:\n  execrun.ignoreFail: true\n", "utf-8")
    cli.good("environment", "set-policies", "lab", str(policies))
    assert yaml.safe_load(cli.good("environment", "show-policies", "lab"))["policies"] == {"execrun.ignoreFail": True}
    cli.good("environment", "set-services", "lab", "Default workflow service")
    names = [each["name"] for each in cli.document("environment", "show-services", "lab")["services"]]
    assert names == ["Default workflow service"]
    cli.good("environment", "delete", "lab", "-y")


def test_people_and_roles_are_managed_with_names(cli: Shell, tmp_path: Path) -> None:
    text = tmp_path / "role.yaml"
    text.write_text("- Read: [/*]\n", "utf-8")
    cli.good("role", "create", "Reader", "--permissions", f"@{text}")
    assert cli.good("role", "show", "Reader", "-o", "json").count("- Read: [/*]")
    cli.good("user", "create", "Ann", "--email", "ann@example.org", "--password", "a good password")
    cli.good("user", "assign-roles", "ann@example.org", "Reader", "Guest")
    assert set(cli.document("user", "show", "Ann")["roles"]) == {"Reader", "Guest"}
    words = ("--permission", "Read", "--path", "/roles/Reader", "--user", "Ann")
    explained = cli.document("permission", "explain", *words)
    assert explained["role"] in {"Reader", "Guest"}
    cli.good("user", "update", "Ann", "--no-enabled")
    assert cli.document("user", "show", "ann@example.org")["enabled"] is False
    cli.good("user", "remove", "Ann", "-y")
    cli.good("role", "delete", "Reader", "-y")


def test_services_are_made_used_and_changed(cli: Shell) -> None:
    resources = 'configuration.resources:=[{"id": "blue", "ip": "10.0.0.1"}]'
    made = cli.run("service", "create", "Pool", "builtin:static_resource_pool", "-p", resources)
    assert made.exit_code == 0, made.output
    taken = cli.document("service", "run", "Pool", "acquire", "holder=me")
    assert taken[-1]["id"] == "blue"
    cli.good("service", "update", "Pool", "--name", "Hosts")
    assert cli.document("service", "show", "Hosts")["typeId"] == "builtin:static_resource_pool"
    cli.good("service", "delete", "Hosts", "-y")


def test_lines_for_scripts_are_neither_folded_nor_filled(cli: Shell) -> None:
    name = "a name that is longer than any terminal " * 5
    cli.good("application", "create", name)
    line = next(line for line in cli.good("application", "list").splitlines() if "longer" in line)
    assert line.endswith(name.strip())
    assert all(line == line.rstrip() for line in cli.good("application", "show", name.strip()).splitlines())


def test_an_instance_is_shown_within_100_columns_though_its_jobs_have_long_errors(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "long", FAILING)
    cli.bad(1, "launch", "long", "--name", "lengthy", "--wait")
    shown = cli.good("instance", "show", "lengthy")
    (error,) = [each["errorMessage"] for each in cli.document("job", "list", "lengthy")]
    assert len(error) > 80
    assert re.search(rf"^  errorMessage +{re.escape(error)}$", shown, flags=re.MULTILINE), "values are never cut"
    assert max(len(line) for line in shown.splitlines() if error not in line) <= 100


def test_the_last_failure_is_shown_with_its_job_and_time(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "failed", FAILING)
    cli.bad(1, "launch", "failed", "--name", "broken", "--wait")
    [job] = cli.document("job", "list", "broken")
    document = cli.document("instance", "show", "broken")
    assert document["lastFailure"] == {
        "jobId": job["id"],
        "workflow": "launch",
        "time": job["finishedAt"],
        "message": document["errorMessage"],
        "code": "AddressRefused",
    }
    origin = re.escape(f"(job {job['id']}, launch, {local(job['finishedAt'])})")
    assert re.search(rf"^ *error .*{origin}$", cli.good("status", "broken"), flags=re.MULTILINE)
    shown = cli.good("instance", "show", "broken")
    assert re.search(r"^  time +\d{4}-\d\d-\d\d", shown, flags=re.MULTILINE)
    assert re.search(rf"^  jobId +{job['id']}$", shown, flags=re.MULTILINE)


def test_the_error_of_an_earlier_job_is_not_shown_as_a_present_one(cli: Shell, tmp_path: Path) -> None:
    breaks = "launch: {steps: []}\nbreak: {steps: [{call: {action: restcall, parameters: {command: not a URL}}}]}\n"
    uploaded(cli, tmp_path, "breaks", breaks)
    cli.good("launch", "breaks", "--name", "cracked", "--wait")
    cli.bad(1, "run", "cracked", "break", "--wait")
    [job, _] = cli.document("job", "list", "cracked")
    shown = cli.good("status", "cracked")
    origin = re.escape(f"(job {job['id']}, break, {local(job['finishedAt'])})")
    assert re.search(rf"^ *lastError .*{origin}$", shown, flags=re.MULTILINE)
    assert not re.search("^ *error ", shown, flags=re.MULTILINE)
    assert cli.document("status", "cracked")["lastFailure"]["jobId"] == job["id"]


def local(time: str) -> str:
    """Return a time of a document as tables show it."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M:%S}"


def test_a_destroy_that_waits_is_in_the_status_and_in_lists_and_its_undo_says_what_follows(
    cli: Shell, tmp_path: Path
) -> None:
    uploaded(cli, tmp_path, "patient", "launch: {steps: []}\nstop: {steps: []}\nstart: {steps: []}\n")
    cli.good("application", "set-lifetime", "patient", "--grace-ms", "2h")
    cli.good("launch", "patient", "--name", "patient-1", "--destroy-interval", "1h", "--wait")
    destroyed = cli.run("instance", "run", "patient-1", "destroy", "--wait")
    document = cli.document("status", "patient-1")
    end = local(document["destroyAt"])
    said = f"The instance is destroyed at {end}. Its lifetime ends then too"
    assert f"{said}: to keep it, run undo-destroy and set a later end. Take it back: launchbay" in destroyed.stderr
    shown = cli.good("status", "patient-1")
    assert re.search(rf"^waitingFor +{re.escape(said)}", shown, flags=re.MULTILINE)
    assert re.search(
        rf"^ends +{re.escape(end)}: Launchbay destroys the instance\. Its lifetime ends then", shown, flags=re.MULTILINE
    )
    for command in (("ps",), ("instance", "list")):
        listed = cli.run(*command, "--application", "patient")
        assert re.search("patient-1 +Running, to be destroyed ", listed.stdout)
        assert "To be destroyed: 1. To take it back: launchbay instance undo-destroy INSTANCE" in listed.stderr
        [row] = cli.document(*command, "--application", "patient")
        assert row["status"] == "Running"
    undone = cli.run("instance", "undo-destroy", "patient-1")
    assert undone.stdout == (
        "The destroy is taken back.\nLaunchbay starts the instance again as soon as no job runs.\n"
    )
    assert f"Launchbay destroys the instance at {end}. Later: launchbay instance extend" in undone.stderr
    assert "to be destroyed" not in cli.good("ps", "--application", "patient")


def test_submodules_that_go_with_their_instance_are_counted_and_have_its_end(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "inner-boat", "launch: {steps: []}\n")
    child = "{type: reference.Submodule, configuration: {__locator.application-id: inner-boat}}"
    uploaded(cli, tmp_path, "outer-boat", f"application: {{components: {{child: {child}}}}}\n")
    cli.good("application", "set-lifetime", "outer-boat", "--grace-ms", "2h")
    cli.good("launch", "outer-boat", "--name", "outer-boat-1", "--wait")
    cli.good("destroy", "outer-boat-1", "--yes")
    inner = cli.run("ps", "--application", "inner-boat")
    assert "To be destroyed: 1, 1 with the instance that launched it. To take one back: " in inner.stderr
    [row] = cli.document("ps", "--application", "inner-boat")
    assert row["destroyAt"] is None
    assert local(row["waitingDestroy"]["at"])[-8:] in inner.stdout


def test_a_table_says_that_an_instance_sleeps_and_is_to_be_destroyed() -> None:
    assert status_words("Running", None, is_asleep=True) == "Running, sleeping"
    assert status_words("Running", "soon", is_asleep=True) == "Running, sleeping, to be destroyed"
    assert status_words("Failed", None, is_asleep=True) == "Failed"


def test_a_table_says_that_an_instance_is_observed_changed_outside_or_uses_an_older_secret() -> None:
    marks = {"is_asleep": False, "is_observed": True, "is_drifted": True, "has_changed_secrets": True}
    assert status_words("Running", None, **marks) == "Running, observed, changed outside, secret changed"
    assert status_words("Destroyed", None, **marks) == "Destroyed"


def test_schedules_after_the_end_of_their_instance_say_so_in_lists(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "ebb", "launch: {steps: []}\npump: {steps: []}\n")
    cli.good("launch", "ebb", "--name", "ebb-1", "--destroy-interval", "1h", "--wait")
    end = local(cli.document("status", "ebb-1")["destroyAt"])
    cli.good("instance", "schedule", "ebb-1", "pump", "30m")
    assert "These don't run" not in cli.run("instance", "schedules", "ebb-1").stderr
    cli.good("instance", "schedule", "ebb-1", "pump", "2h")
    listed = cli.run("instance", "schedules", "ebb-1")
    assert f"The instance is destroyed at {end}. These don't run, for they are due later: pump." in listed.stderr
    cli.good(
        "recurring-schedule", "create", "Yearly", "--cron", "0 0 1 1 *", "--instance", "ebb-1", "--workflow", "pump"
    )
    shown = cli.good("recurring-schedule", "list")
    assert "instanceEndsAt" in shown
    assert end[-8:] in shown, "today, so without the date"
    cli.good("instance", "run", "ebb-1", "destroy", "--wait")
    [yearly] = [each for each in cli.document("recurring-schedule", "list") if each["name"] == "Yearly"]
    assert (yearly["status"], yearly["nextAt"]) == ("Ended", [])


def test_schedules_after_the_end_of_an_idle_instance_run_for_they_move_it(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "doze", "launch: {steps: []}\npump: {steps: []}\n")
    cli.good("application", "set-lifetime", "doze", "--idle-ms", "2h")
    cli.good("launch", "doze", "--name", "doze-1", "--destroy-interval", "12h", "--wait")
    end = local(cli.document("status", "doze-1")["destroyAt"])
    cli.good("instance", "schedule", "doze-1", "pump", "6h")
    assert "These don't run" not in cli.run("instance", "schedules", "doze-1").stderr
    cli.good("instance", "schedule", "doze-1", "pump", "13h")
    said = "The instance is destroyed at {}. These don't run, for they are due later: pump."
    assert said.format(end) in cli.run("instance", "schedules", "doze-1").stderr
    cli.good("instance", "schedule", "doze-1", "destroy", "5h")
    [at] = [
        each["timestamp"]
        for each in cli.document("instance", "schedules", "doze-1")["schedules"]
        if each["name"] == "destroy"
    ]
    listed = cli.run("instance", "schedules", "doze-1").stderr
    assert f"The instance is destroyed at {local(at)}. These don't run, for they are due later: pump, pump." in listed


def test_a_command_that_fails_on_a_failed_instance_is_not_called_its_error(cli: Shell, tmp_path: Path) -> None:
    crack = "{steps: [{crack: {action: restcall, parameters: {command: not a URL}}}]}"
    uploaded(cli, tmp_path, "twice", f"launch: {crack}\nbreak: {crack}\nrest: {{steps: []}}\n")
    cli.run("launch", "twice", "--name", "twice-1", "--wait")
    assert re.search("^ *error ", cli.good("status", "twice-1"), flags=re.MULTILINE)
    cli.run("run", "twice-1", "break", "--wait")
    shown = cli.good("status", "twice-1")
    assert re.search("^ *error +Workflow 'launch': step 'crack' failed", shown, flags=re.MULTILINE)
    assert re.search("^ *lastError +Workflow 'break': step 'crack' failed.*, break, ", shown, flags=re.MULTILINE)
    assert cli.document("status", "twice-1")["cause"].startswith("Workflow 'launch'")
    cli.good("run", "twice-1", "rest", "--wait")
    shown = cli.good("status", "twice-1")
    assert re.search("^ *lastFailure .*, break, ", shown, flags=re.MULTILINE)
    assert not re.search("^ *(error|lastError) ", shown, flags=re.MULTILINE), "which made it Failed isn't known here"


def test_a_workflow_that_makes_an_instance_failed_is_called_its_error(cli: Shell, tmp_path: Path) -> None:
    manifest = """
        application:
          interfaces: {actions: {grow: bind(web#actions.grow)}}
          components:
            web:
              type: workflow.Instance
              interfaces: {actions: {grow: receive-command()}}
              configuration:
                configuration.propagateStatus: [grow]
                configuration.workflows:
                  launch: {steps: []}
                  grow: {steps: [{crack: {action: restcall, parameters: {command: not a URL}}}]}
        """
    uploaded(cli, tmp_path, "vine", textwrap.dedent(manifest))
    cli.good("launch", "vine", "--name", "vine-1", "--wait")
    cli.bad(1, "run", "vine-1", "actions.grow", "--wait")
    assert cli.document("status", "vine-1")["status"] == "Failed"
    shown = cli.good("status", "vine-1")
    assert re.search(r"^ *error .*, actions\.grow, ", shown, flags=re.MULTILINE)
    assert "lastError" not in shown


def test_a_cancelled_job_is_not_shown_as_failed(cli: Shell, tmp_path: Path) -> None:
    rest = "launch: {steps: []}\nrest: {steps: [{nap: {action: wait, parameters: {delay: 60}}}]}\n"
    uploaded(cli, tmp_path, "sleepy", rest)
    cli.good("launch", "sleepy", "--name", "sleepy", "--wait")
    job = cli.document("run", "sleepy", "rest")["job"]
    cli.good("job", "cancel", job)
    ended = cli.bad(1, "wait", job)
    assert re.search("Job 'rest' was ended. Cancelled by ", ended)
    assert "failed" not in ended.lower()
    shown = cli.good("status", "sleepy")
    ended_at = local(cli.document("job", "show", job)["finishedAt"])
    origin = re.escape(f"(job {job}, rest, {ended_at})")
    assert re.search(rf"^cancelled +Cancelled by \S+ {origin}$", shown, flags=re.MULTILINE)
    assert re.search(rf"^{job} +rest +Cancelled ", shown, flags=re.MULTILINE)
    assert "rest Cancelled" in cli.good("ps", "--application", "sleepy")
    assert "Failed" not in shown + cli.good("job", "show", job) + cli.good("job", "steps", job)


def test_a_failure_that_is_ignored_is_not_shown_as_one(cli: Shell, tmp_path: Path) -> None:
    call = "{ action: restcall, parameters: { command: not a URL, ignoreFail: true } }"
    steps = f"[{{announce: {call}}}, {{gate: {{action: approval, parameters: {{text: Go?}}}}}}]"
    uploaded(cli, tmp_path, "loud", f"launch: {{steps: []}}\nask: {{steps: {steps}}}\n")
    cli.good("launch", "loud", "--name", "loud", "--wait")
    job = cli.document("run", "loud", "ask")["job"]
    waited = cli.run("wait", job, "--no-wait-approval", "--timeout", "20")
    assert waited.exit_code == 11
    assert re.search(r"announce: Failed, ignored$", waited.stderr, flags=re.MULTILINE)
    shown = cli.good("status", "loud")
    assert re.search(r"^job +ask \(announce: Failed, ignored, gate: Executing\)", shown, flags=re.MULTILINE)
    assert re.search(r"announce +Failed, ignored ", cli.good("job", "steps", job))
    cli.good("job", "cancel", job)
    cli.bad(1, "wait", job)


def test_status_and_logs_take_a_job_as_well(cli: Shell, tmp_path: Path) -> None:
    look = "look: {steps: [{s: {action: wait, parameters: {delay: 0}}}]}"
    uploaded(cli, tmp_path, "watched", f"launch: {{steps: []}}\n{look}\n")
    cli.good("launch", "watched", "--name", "found", "--wait")
    cli.good("run", "found", "look", "--wait")
    [newest, first] = [each["id"] for each in cli.document("job", "list", "found")]

    def jobs(words: str) -> set[str]:
        return {json.loads(line)["job"] for line in cli.good("logs", words, "-o", "json").splitlines()}

    for words in (newest, "found#2"):
        document = cli.document("status", words)
        assert (document["id"], document["workflow"], document["number"]) == (newest, "look", 2)
        assert jobs(words) == {newest}
    assert jobs("found") == {newest, first}
    assert "f" * 24 in cli.bad(3, "status", "f" * 24)


def test_no_verb_of_the_commands_hides_a_workflow(cli: Shell, tmp_path: Path) -> None:
    """Workflows may have the name of any command, such as `launchbay rollback` or `launchbay instance extend`."""
    verbs = ("rollback", "extend", "schedule", "run", "log", "reconfigure")
    uploaded(cli, tmp_path, "verbs", "launch: {steps: []}\n" + "".join(f"{verb}: {{steps: []}}\n" for verb in verbs))
    instance = json.loads(cli.good("launch", "verbs", "--name", "hidden", "--wait", "-o", "json"))["id"]
    for number, verb in enumerate(verbs, 2):
        command = ("run",) if number % 2 else ("instance", "run")
        cli.good(*command, instance, verb, "--wait")
        newest = cli.document("job", "list", instance)[0]
        assert (newest["number"], newest["name"], newest["status"]) == (number, verb, "Succeeded")
        scheduled = cli.document("instance", "schedule", instance, verb, "1h")["id"]
        assert cli.document("instance", "reschedule", instance, verb, "2h")["id"] == scheduled
        assert verb in cli.document("instance", "schedules", instance)["schedules"][0]["name"]
        cli.good("instance", "reschedule", instance, scheduled, "0")


def test_a_run_prints_what_was_ignored(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "warning", "launch: {steps: []}\nlook: {steps: []}\n")
    cli.good("launch", "warning", "--name", "warned of", "--wait")
    told = cli.run("run", "warned of", "look", "odd=1")
    assert told.exit_code == 0
    assert "Warning: Workflow look has no parameter odd, so it is ignored." in told.stderr
    assert re.fullmatch(r"[0-9a-f]{24}\n", told.stdout)


def test_whatever_takes_parameters_prints_what_was_ignored(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "ignoring", "launch: {steps: []}\nlook: {steps: []}\n")
    cli.good("launch", "ignoring", "--name", "ignorant", "--wait")
    for words in (
        ("revision", "create", "ignoring", "odd", "--version", "2", "-p", "odd=1"),
        ("instance", "reconfigure", "ignorant", "-p", "odd=1"),
    ):
        told = cli.run(*words)
        assert told.exit_code == 0, told.stderr
        assert told.stderr.count("Warning: Workflow launch has no parameter odd, so it is ignored.") == 1


def test_a_launch_returns_the_instance_that_has_its_name(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "unrepeated", "launch: {steps: []}\n")
    first = cli.good("launch", "unrepeated", "--name", "one", "--wait", "-o", "json")
    for more in ((), ("--wait",)):
        told = cli.run("launch", "unrepeated", "--name", "one", "--if-exists", "return", *more)
        assert told.exit_code == 0, told.stderr
        assert "Warning: 'one' is a living instance already:" in told.stderr
        assert "has started" not in told.stderr
        assert told.stdout.strip() == json.loads(first)["id"]

    for way in ("fail", "return"):
        nameless = cli.run("launch", "unrepeated", "--if-exists", way)
        assert (nameless.exit_code, "Add --name, or leave --if-exists out." in nameless.stderr) == (2, True)


def test_a_launch_that_returns_a_failed_instance_fails_if_it_is_to_wait(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "broken", FAILING)
    cli.run("launch", "broken", "--name", "one", "--wait")
    told = cli.run("launch", "broken", "--name", "one", "--if-exists", "return", "--wait")
    assert told.exit_code == 1
    assert "Nothing runs on the instance, which is Failed." in told.stderr


def test_rules_for_lifetimes_that_a_command_takes_away_are_named(cli: Shell) -> None:
    cli.good("application", "create", "ruled")
    cli.good("application", "set-lifetime", "ruled", "--default-ms", "1d", "--greatest-ms", "7d", "--mail")
    told = cli.run("application", "set-lifetime", "ruled", "--default-ms", "2d")
    assert told.exit_code == 0, told.stderr
    tail = "This sets all rules: give those that stay."
    assert told.stderr.splitlines()[-2:] == [
        f"Warning: The rule --greatest-ms is gone; it was 7 days. {tail}",
        f"Warning: The rule --mail is gone; it was True. {tail}",
    ]
    assert "is gone" not in cli.run("application", "set-lifetime", "ruled", "--default-ms", "3d").stderr


def test_a_length_of_time_without_an_end_is_refused_where_it_needs_one(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "endless", "launch: {steps: []}\n")
    cli.good("launch", "endless", "--name", "endless-1", "--wait")
    extended = cli.run("instance", "extend", "endless-1", "never")
    assert (extended.exit_code, extended.stdout) == (2, "")
    assert "launchbay instance set-destroy-at INSTANCE never" in extended.stderr
    ruled = cli.run("application", "set-lifetime", "endless", "--idle-ms", "never")
    assert ruled.exit_code == 2
    assert "This needs an end: use 90s, 1h30m or 2d." in ruled.stderr


def test_an_error_of_the_api_names_the_options_of_the_command(cli: Shell) -> None:
    told = cli.run("recurring-schedule", "create", "Odd", "--cron", "0 3 * * *", "--zone", "UTC")
    assert "Give one of --instance, --application and bulk." in told.stderr


def test_the_preview_of_a_recurring_schedule_shows_its_times_and_warnings(cli: Shell, tmp_path: Path) -> None:
    uploaded(cli, tmp_path, "timed", "launch: {steps: []}\n")
    words = ("recurring-schedule", "create", "Odd", "--cron", "0 3 1 * MON", "--zone", "UTC", "--application", "timed")
    told = cli.run(*words, "--preview")
    assert told.exit_code == 0, told.stderr
    assert "Warning: " in told.stderr
    shown = {line.split()[0] for line in told.stdout.splitlines() if line[:1].strip()}
    assert {"name", "cron", "zone"} <= shown
    assert not {"firings", "ownerEmail", "createdAt", "warnings"} & shown


def test_the_upload_of_a_manifest_prints_its_warnings(cli: Shell, tmp_path: Path) -> None:
    cli.good("application", "create", "warned")
    file = tmp_path / "warned.yaml"
    file.write_text("launch:\n  steps:\n    - one: {action: wait, parameters: {dealy: 1}}\n", "utf-8")
    told = cli.run("manifest", "upload", "warned", str(file))
    assert (told.exit_code, told.stdout.split()) == (0, ["version", "2"])
    assert re.search(r"^Warning: line 3, column \d+: .*'dealy'.*\[UnknownStepParameter\]$", told.stderr, re.MULTILINE)
    [missing, unknown] = sorted(
        each["code"] for each in cli.document("manifest", "upload", "warned", str(file))["warnings"]
    )
    assert (missing, unknown) == ("MissingStepParameter", "UnknownStepParameter")


def test_an_upload_prints_what_a_rule_warns_of(cli: Shell, tmp_path: Path) -> None:
    cli.good("application", "create", "cautioned")
    rules, file = tmp_path / "rules.yml", tmp_path / "cautioned.yaml"
    rules.write_text("- name: think\n  when: true\n  warn: Think twice.\n", "utf-8")
    file.write_text("launch: {steps: []}\n", "utf-8")
    cli.good("application", "set-rules", "cautioned", f"@{rules}")
    told = cli.run("manifest", "upload", "cautioned", str(file))
    assert (told.exit_code, told.stdout.split()) == (0, ["version", "2"]), told.stderr
    assert "Warning: Think twice. (rule 'think'" in told.stderr
    [said] = cli.document("manifest", "upload", "cautioned", str(file))["warnings"]
    assert said["message"].startswith("Think twice. ")


def test_an_unknown_status_is_refused_with_the_valid_ones(cli: Shell) -> None:
    assert "'Running', 'Failed'" in cli.bad(2, "instance", "list", "--status", "Runing")
    assert cli.document("instance", "list", "--status", "Destroying") == []


def test_outputs_are_tables_json_and_yaml(cli: Shell) -> None:
    cli.good("application", "create", "shown")
    as_json = cli.document("application", "list")
    assert yaml.safe_load(cli.good("application", "list", "-o", "yaml")) == as_json
    assert re.search(r"^[0-9a-f]{24} +shown", cli.good("application", "list"), flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("application", "show", "shwn"), 3, "Did you mean 'shown'"),
        (("application", "show", ""), 2, "use a non-empty string"),
        (("instance", "run", "0" * 24, ".."), 2, "use a non-empty string"),
        (("instance", "show", "nothing"), 3, "Unknown instance 'nothing'"),
        (("instance", "show", "0" * 24), 3, "request "),
        (("revision", "show", "stable"), 3, "APPLICATION/REVISION"),
        (("user", "update", "Launchbay"), 2, "Missing option '--enabled"),
        (("environment", "set-properties", "default", "a=1"), 2, "objects with name, value, type, or @FILE"),
        (("launch", "shown", "-p", "input"), 2, "NAME=STRING"),
        (("launch", "shown", "-p", "a:={"), 2, "is not JSON"),
        (("launch", "shown", "--destroy-interval", "soon"), 2, "1h30m"),
        (("instance", "set-destroy-at", "0" * 24, "tomorrow"), 2, "+2h"),
        (("manifest", "upload", "shown", "/no/such/file"), 2, "No such file"),
        (("role", "create", "Bad", "--permissions", "- Nothing: [/*]"), 9, "Nothing"),
        (("organization", "show", "--organization", "Nobody"), 3, "Unknown organization 'Nobody'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_wrong_is_told_with_its_code(cli: Shell, words: tuple[str, ...], code: int, told: str) -> None:
    cli.run("application", "create", "shown")
    assert told in cli.bad(code, *words)
