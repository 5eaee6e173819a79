"""`--wait` follows the job that the command starts, and exits with the outcome of that job."""

import json
from pathlib import Path

import pytest

from tests.support.manifests import FERRY
from tests.support.shell import Shell

GOOD, BAD = "0", "whenever"  # delays of the action `wait`: a workflow with the second one fails


@pytest.fixture
def ferry(cli: Shell, tmp_path: Path) -> str:
    """Return the name of an application whose workflows fail on demand."""
    name = f"ferry of {tmp_path.name}"
    file = tmp_path / "manifest.yaml"
    file.write_text(FERRY, "utf-8")
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(file))
    return name


def launched(cli: Shell, ferry: str, *words: str) -> str:
    instance = cli.good("launch", ferry, *words).strip()
    cli.good("instance", "wait", instance)
    return instance


def status(cli: Shell, instance: str) -> str:
    return str(cli.document("instance", "show", instance)["status"])


def test_a_launch_exits_by_its_outcome(cli: Shell, ferry: str) -> None:
    assert "Running" in cli.good("launch", ferry, "--name", "Elsa", "--wait")
    told = cli.bad(1, "launch", ferry, "-p", f"input.at-launch={BAD}", "--wait")
    assert "Job 'launch' failed: Component 'ferry': workflow 'launch': step 'sail' failed" in told
    assert "To read more, run: launchbay explain ActionFailed" in told


def test_a_failed_launch_that_is_repeated_exits_by_the_new_outcome(cli: Shell, ferry: str) -> None:
    cli.bad(1, "launch", ferry, "--name", ferry, "-p", f"input.at-launch={BAD}", "--wait")
    assert "Job 'launch' failed" in cli.bad(1, "run", ferry, "launch", "--wait")
    cli.good("job", "resume", ferry, "last", "-p", f"input.at-launch={GOOD}", "--wait")
    assert status(cli, ferry) == "Running"


def test_a_command_exits_by_its_outcome_though_the_instance_keeps_running(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    told = cli.run("run", instance, "manage.move", f"delay={GOOD}", "--wait")
    assert (told.exit_code, "turn: Succeeded" in told.stderr) == (0, True)
    assert f"after {GOOD}" in told.stdout
    document = json.loads(cli.good("run", instance, "manage.move", f"delay={GOOD}", "--wait", "-o", "json"))
    assert document["results"] == {"moved": f"after {GOOD}"}
    told = cli.run("run", instance, "manage.move", f"delay={BAD}", "--wait")
    assert told.exit_code == 1
    assert "jobStatus" in told.stdout
    assert "Job 'manage.move' failed: Component 'ferry': workflow 'move': step 'turn' failed" in told.stderr
    assert status(cli, instance) == "Running"
    cli.good("run", instance, "manage.move", f"delay={GOOD}", "--wait")


def test_a_destroy_exits_by_its_outcome(cli: Shell, ferry: str) -> None:
    assert "Destroyed" in cli.good("run", launched(cli, ferry), "destroy", "--wait")
    instance = launched(cli, ferry, "-p", f"input.at-destroy={BAD}")
    assert "step 'scrap' failed" in cli.bad(1, "run", instance, "destroy", "--wait")


def test_a_reconfiguration_exits_by_its_outcome(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    cli.good("instance", "reconfigure", instance, "-p", "input.at-change=1 ms", "--wait")
    told = cli.bad(1, "instance", "reconfigure", instance, "-p", f"input.at-change={BAD}", "--wait")
    assert "Job 'reconfigure' failed" in told
    assert "step 'refit' failed" in told


def test_a_repeated_idempotency_key_waits_for_the_job_of_the_first_call(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    words = ("run", instance, "manage.move", f"delay={BAD}", "--wait", "--idempotency-key", ferry)
    for _ in range(2):
        assert "Job 'manage.move' failed" in cli.bad(1, *words)
    assert [job["name"] for job in cli.document("job", "list", instance)] == ["manage.move", "launch"]


def test_an_earlier_failure_of_the_same_workflow_is_not_this_one(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    for _ in range(3):  # within one second, so that ids say nothing about the order
        cli.bad(1, "run", instance, "manage.move", f"delay={BAD}", "--wait")
        cli.good("run", instance, "manage.move", f"delay={GOOD}", "--wait")
        assert cli.document("job", "show", instance, "last")["status"] == "Succeeded"


def test_a_job_that_takes_longer_than_the_timeout_exits_with_8(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    told = cli.bad(8, "run", instance, "manage.move", "delay=10 minutes", "--wait", "--timeout", "50ms")
    assert "Job 'manage.move' is still running after 0.05 s." in told
    cli.good("job", "cancel", instance, "last", "--yes")


def test_a_failed_wait_shows_the_instance_the_job_and_the_error(cli: Shell, ferry: str) -> None:
    told = cli.run("launch", ferry, "--name", ferry, "-p", f"input.at-launch={BAD}", "--wait", "-o", "json")
    document = json.loads(told.stdout)
    [job] = cli.document("job", "list", ferry)
    assert (told.exit_code, document["job"], document["name"]) == (1, job["id"], ferry)
    assert (document["jobNumber"], document["jobStatus"], document["status"]) == (1, "Failed", "Failed")
    assert "step 'sail' failed" in document["error"]
    assert told.stderr.startswith(f"Instance {document['id']}, job {job['id']}\n")
    for words in (("run", ferry, "launch", "--wait"), ("wait", ferry), ("instance", "wait", ferry)):
        told = cli.run(*words, "-o", "json")
        newest = cli.document("job", "list", ferry)[0]["id"]
        again = json.loads(told.stdout)
        assert (told.exit_code, again["id"], again["job"]) == (1, document["id"], newest)
        assert "failed" in again["error"]
    told = cli.run("wait", ferry)
    assert all(each in told.stdout for each in (document["id"], newest, ferry, "jobNumber"))
    assert ("step 'sail' failed" in told.stdout, told.stderr.count("step 'sail' failed")) == (False, 1)


def test_a_wait_that_times_out_shows_the_instance_and_the_job(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    words = ("manage.move", "delay=10 minutes", "--wait", "--timeout", "50ms", "-o", "json")
    told = cli.run("run", instance, *words)
    document = json.loads(told.stdout)
    job = cli.document("job", "show", instance, "last")
    assert (told.exit_code, document["id"], document["job"]) == (8, instance, job["id"])
    assert (document["jobNumber"], document["jobStatus"]) == (job["number"], "Executing")
    assert "still running after 0.05 s" in document["error"]
    told = cli.run("instance", "wait", instance, "--until", "Destroyed", "--timeout", "50ms")
    assert (told.exit_code, instance in told.stdout, job["id"] in told.stdout) == (8, True, True)
    cli.good("job", "cancel", instance, "last", "--yes")


def test_commands_that_do_not_wait_name_the_job(cli: Shell, ferry: str) -> None:
    told = cli.run("launch", ferry)
    instance = told.stdout.strip()
    cli.good("wait", instance)
    launch = cli.document("job", "show", instance, "last")["id"]
    assert f"Job {launch} has started. Wait for it: launchbay wait {launch}" in told.stderr
    document = json.loads(cli.good("run", instance, "manage.move", f"delay={GOOD}", "-o", "json"))
    assert document == {"id": instance, "job": cli.document("job", "show", instance, "last")["id"]}
    cli.good("wait", document["job"])
    told = cli.run("run", instance, "manage.move", f"delay={GOOD}")
    job = cli.document("job", "show", instance, "last")["id"]
    assert (told.stdout, f"launchbay wait {job}" in told.stderr) == (f"{instance}\n", True)
    assert cli.good("wait", job)
    assert "has started" not in cli.run("instance", "schedule", instance, "manage.move", "1h").stderr


def test_waiting_for_an_instance_judges_its_newest_job_though_it_ended_before(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    cli.bad(1, "run", instance, "manage.move", f"delay={BAD}", "--wait")
    told = cli.run("wait", instance)
    assert (told.exit_code, "Job 'manage.move' failed" in told.stderr) == (1, True)
    assert status(cli, instance) == "Running"
    cli.good("run", instance, "manage.move", f"delay={GOOD}", "--wait")
    assert f"after {GOOD}" in cli.good("wait", instance)


def test_a_scheduled_run_with_interval_0_exits_by_its_outcome(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    words = ("instance", "schedule", instance, "manage.move", "0")
    assert f"after {GOOD}" in cli.good(*words, "-p", f"delay={GOOD}", "--wait")
    told = cli.bad(1, *words, "-p", f"delay={BAD}", "--wait")
    assert "Job 'manage.move' failed: Component 'ferry': workflow 'move': step 'turn' failed" in told
    told = cli.bad(2, "instance", "schedule", instance, "manage.move", "1h", "--wait")
    assert "--wait needs the interval 0" in told


def test_a_forced_deletion_waits_until_the_instance_is_gone(cli: Shell, ferry: str) -> None:
    for delay in (GOOD, BAD):  # the instance goes whether its workflow succeeds or not
        instance = launched(cli, ferry, "-p", f"input.at-destroy={delay}")
        cli.good("instance", "delete", instance, "--force", "--yes", "--wait")
        cli.bad(3, "instance", "show", instance)


@pytest.mark.parametrize(
    "verb",
    [
        ("run", "manage.sail"),
        ("run", "manage.move", "speed=3"),
        ("instance", "reconfigure", "-p", "input.at-sea=1"),
        ("instance", "schedule", "manage.sail", "0"),
        ("job", "resume", "last"),
    ],
    ids=" ".join,
)
def test_a_request_that_is_refused_exits_with_9_and_waits_for_nothing(
    cli: Shell, ferry: str, verb: tuple[str, ...]
) -> None:
    instance = launched(cli, ferry)
    place = 1 if verb[0] == "run" else 2
    told = cli.bad(9, *verb[:place], instance, *verb[place:], "--wait")
    assert "failed" not in told
    assert [job["name"] for job in cli.document("job", "list", instance)] == ["launch"]


def test_a_launch_that_is_refused_exits_with_9(cli: Shell, ferry: str) -> None:
    cli.bad(9, "launch", ferry, "-p", "input.at-sea=1", "--wait")


def test_requests_to_a_busy_instance_exit_with_6(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    cli.good("run", instance, "manage.move", "delay=10 minutes")
    for words in (
        ("run", instance, "manage.move", f"delay={GOOD}"),
        ("run", instance, "destroy"),
        ("instance", "reconfigure", instance),
        ("instance", "schedule", instance, "manage.move", "0", "-p", f"delay={GOOD}"),
    ):
        said = cli.bad(6, *words, "--wait")
        assert f"Wait for the running job: launchbay wait {instance}." in said
        assert f"To end it: launchbay job cancel {instance} last\n(InstanceBusy" in said
    cli.good("job", "cancel", instance, "last", "--yes")


def test_a_cancelled_job_is_a_failed_one(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    cli.good("run", instance, "manage.move", "delay=10 minutes")
    job = cli.document("job", "show", instance, "last")["id"]
    cli.good("job", "cancel", instance, job, "--yes")
    assert "Cancelled by" in cli.bad(1, "job", "wait", job)


def test_a_job_can_be_awaited_by_its_id_alone(cli: Shell, ferry: str) -> None:
    instance = launched(cli, ferry)
    document = json.loads(cli.good("run", instance, "manage.move", f"delay={GOOD}", "--wait", "-o", "json"))
    again = json.loads(cli.good("job", "wait", document["job"], "-o", "json"))
    assert (again["job"], again["results"]) == (document["job"], {"moved": f"after {GOOD}"})
    assert cli.document("job", "find", document["job"])["instanceId"] == instance


@pytest.mark.slow
def test_the_log_takes_jobs_and_steps_as_other_commands_do(cli: Shell, ferry: str) -> None:
    cli.bad(1, "launch", ferry, "--name", ferry, "-p", f"input.at-launch={BAD}", "--wait")
    job = cli.document("job", "show", ferry, "last")["id"]
    whole = cli.good("logs", ferry, "--job", job)
    assert whole
    assert cli.good("logs", ferry, "--job", "last") == cli.good("logs", ferry, "--job", job[:16]) == whole
    assert "Unknown job 'sail'" in cli.bad(3, "logs", ferry, "--job", "sail")
    by_path = cli.good("logs", ferry, "--step", "ferry#launch/sail")
    assert by_path
    assert cli.good("logs", ferry, "--step", "sail") == by_path
    assert len(cli.good("logs", ferry, "--step", "sail", "--tail", "1").splitlines()) == 1
    for option in ("--step", "--component", "-q"):
        told = cli.run("logs", ferry, option, "nowhere")
        assert (told.exit_code, told.stdout) == (0, "")
        assert f"No line of the log fits {option} nowhere." in told.stderr
    assert "'debug', 'error', 'info', 'warning'" in cli.bad(2, "logs", ferry, "--level", "loud")
    assert "--limit: it can't be negative" in cli.bad(2, "logs", ferry, "--limit", "-1")
    assert cli.good("logs", ferry, "--limit", "1") == whole.splitlines(keepends=True)[0]


def test_durations_without_units_and_unknown_filters_are_refused(cli: Shell, ferry: str) -> None:
    assert "units ms, s, m, h, d and w" in cli.bad(2, "launch", ferry, "--wait", "--timeout", "5y")
    assert "units ms, s, m, h, d and w" in cli.bad(2, "launch", ferry, "--destroy-interval", "5")
    assert "lastStatus" in cli.bad(2, "bulk", "create", "destroy", "--select", "colour=red")


def test_a_skipped_step_is_told_as_skipped(cli: Shell, tmp_path: Path) -> None:
    name = f"detour of {tmp_path.name}"
    file = tmp_path / "manifest.yaml"
    file.write_text(
        'launch: {steps: [{detour: {action: wait, when: "1 > 2", parameters: {delay: 0}}},'
        " {sail: {action: wait, parameters: {delay: 0}}}]}",
        "utf-8",
    )
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(file))
    told = cli.run("launch", name, "--wait").stderr
    assert "detour: Skipped" in told
    assert "detour: Succeeded" not in told
    assert "sail: Succeeded" in told


ASKING = """\
application:
  components:
    web:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch: {steps: [{sign: {action: approval, parameters: {text: "Open the harbour?"}}}]}
          destroy: {steps: []}
"""


def test_a_wait_for_an_approval_says_what_for_and_ends_at_wish(cli: Shell, tmp_path: Path) -> None:
    name = f"asking {tmp_path.name}"
    (tmp_path / "manifest.yaml").write_text(ASKING, "utf-8")
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(tmp_path / "manifest.yaml"))
    told = cli.run("launch", name, "--name", name, "--wait", "--no-wait-approval", "-o", "json")
    assert told.exit_code == 11
    document = json.loads(told.stdout)
    assert document["jobStatus"] == "Executing"
    assert "waits for an approval" in document["error"]
    [approval] = cli.document("instance", "approvals", name)
    for shown in (
        "Open the harbour?",
        f"/console/instances/{document['id']}#approvals",
        f"launchbay approval approve {approval['id']}",
    ):
        assert shown in told.stderr
    assert cli.run("wait", name, "--no-wait-approval").exit_code == 11
    assert cli.run("wait", name, "--timeout", "1s").exit_code == 8
    cli.good("approval", "approve", approval["id"])
    cli.good("wait", name, "--no-wait-approval")
