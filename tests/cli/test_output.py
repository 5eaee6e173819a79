"""What a user sees in a real terminal: bars that move, tables that fit, ids that are never cut."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.output import Ambiguous, ObjectNotFound, exit_code_of, printable, show
from launchbay.client import (
    ApiError,
    BadRequest,
    ClientError,
    Conflict,
    ConnectionFailed,
    InstanceFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    ServerFailed,
    TooLarge,
    TooManyRequests,
    UnreadableAnswer,
    WaitTimedOut,
)
from launchbay.client.errors import Refusal
from tests.support.scripted_server import Answer, scripted
from tests.support.service import EMAIL, PASSWORD, SLOW
from tests.support.shell import Shell, interruptible, plain, run_in_terminal

SIZED = """
application:
  interfaces:
    input: { size: bind(main#input.size) }
  components:
    main:
      type: workflow.Instance
      interfaces:
        input: { size: configuration(int) }
      configuration:
        configuration.workflows:
          launch: { steps: [] }
"""
LONG = "launch:\n  steps:\n    - think: { action: wait, parameters: { delay: 600 } }\n"


def made(cli: Shell, tmp_path: Path, name: str, manifest: str) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(manifest, "utf-8")
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(file))


def refused(kind: type[ApiError], status: int, code: str = "") -> ApiError:
    return kind(Refusal(status, code=code))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (refused(BadRequest, 400), ExitCode.REFUSED),
        (refused(TooLarge, 413), ExitCode.REFUSED),
        (refused(NotAuthenticated, 401), ExitCode.NOT_AUTHENTICATED),
        (refused(NotAllowed, 403), ExitCode.NOT_ALLOWED),
        (refused(NotFound, 404), ExitCode.NOT_FOUND),
        (ObjectNotFound("x"), ExitCode.NOT_FOUND),
        (Ambiguous("x"), ExitCode.USAGE),
        (refused(Conflict, 409), ExitCode.CONFLICT),
        (refused(Conflict, 409, "PlanUnderWay"), ExitCode.CONFLICT),
        (refused(Conflict, 409, "DeletionsNotAllowed"), ExitCode.REFUSED),
        (refused(Conflict, 409, "PlanChanged"), ExitCode.REFUSED),
        (refused(Conflict, 409, "ChangeSetPending"), ExitCode.WAITS_FOR_PERSON),
        (refused(TooManyRequests, 429), ExitCode.UNAVAILABLE),
        (refused(ServerFailed, 503), ExitCode.UNAVAILABLE),
        (ConnectionFailed("x", may_have_arrived=False), ExitCode.UNAVAILABLE),
        (refused(ServerFailed, 500), ExitCode.FAILED),
        (UnreadableAnswer("x"), ExitCode.FAILED),
        (InstanceFailed("x", "Failed", None), ExitCode.FAILED),
        (WaitTimedOut("x", "Executing"), ExitCode.TIMED_OUT),
    ],
    ids=lambda value: value.name if isinstance(value, ExitCode) else type(value).__name__,
)
def test_every_error_of_the_client_has_a_code(error: ClientError, code: ExitCode) -> None:
    assert exit_code_of(error) == code


def test_somebody_without_a_role_gets_5_and_hears_what_explains_it(cli: Shell) -> None:
    cli.good("user", "create", "Bob", "--email", "bob@example.org", "--password", "a good password")
    cli.good("application", "create", "hidden")
    number = cli.document("application", "list")[0]["id"]
    cli.environ |= {"LAUNCHBAY_EMAIL": "bob@example.org", "LAUNCHBAY_PASSWORD": "a good password"}
    path = f"/applications/{number}"
    refusal = cli.bad(5, "application", "show", number)
    assert f"launchbay permission explain --permission Read --path {path}\n" in refusal
    assert cli.document("permission", "explain", "--permission", "Read", "--path", path)["allowed"] is False


def test_a_busy_instance_gets_6(cli: Shell, tmp_path: Path) -> None:
    made(cli, tmp_path, "busy", LONG)
    instance = cli.good("launch", "busy").strip()
    assert "launchbay wait" in cli.bad(6, "run", instance, "destroy")
    cli.good("instance", "delete", instance, "--force", "--yes")


@pytest.mark.slow  # a job is asked what it waits for after two seconds
def test_who_waits_is_told_what_the_job_waits_for(cli: Shell, tmp_path: Path) -> None:
    made(cli, tmp_path, "asks", 'launch: { steps: [ { ask: { action: approval, parameters: { text: "Go on?" } } } ] }')
    instance = cli.good("launch", "asks").strip()
    told = cli.bad(ExitCode.TIMED_OUT, "wait", instance, "--timeout", "4")
    assert [line for line in told.splitlines() if line.endswith("Go on?")] == [
        "Waiting for approval by any user who may approve: Go on?"
    ]


def test_a_job_that_has_ended_is_not_waited_for(cli: Shell, tmp_path: Path) -> None:
    made(cli, tmp_path, "ended", "launch:\n  steps: []\n")
    instance = cli.good("launch", "ended", "--wait", "-o", "json")
    told = cli.bad(6, "job", "cancel", json.loads(instance)["id"], "last")
    assert "JobEnded" in told
    assert "launchbay wait" not in told


@pytest.mark.parametrize(
    ("words", "preview"),
    [
        (("launch", "sized"), "launchbay application preview"),
        (("instance", "reconfigure", "sized"), "launchbay instance preview"),
        (("service", "create", "s1", "builtin:cloud_account"), ""),
    ],
)
def test_a_missing_parameter_names_the_preview_of_this_command(
    cli: Shell, tmp_path: Path, words: tuple[str, ...], preview: str
) -> None:
    if cli.run("application", "show", "sized").exit_code:
        made(cli, tmp_path, "sized", SIZED)
        cli.good("launch", "sized", "--name", "sized", "-p", "input.size=3", "--wait")
    told = cli.bad(9, *words)
    assert "Pass values with -p NAME=VALUE." in told
    assert preview in told
    assert ("preview" in told) == bool(preview)


@pytest.mark.slow
def test_an_interrupted_wait_gets_130_and_leaves_the_instance_alone(cli: Shell, tmp_path: Path) -> None:
    made(cli, tmp_path, "interrupted", LONG)
    environ = {
        **cli.environ,
        "LAUNCHBAY_CONFIG_DIR": str(cli.config),
        "LAUNCHBAY_KEYRING": "off",
        "PYTHONUNBUFFERED": "1",
    }
    command = interruptible(sys.executable, "-m", "launchbay.cli.main", "launch", "interrupted", "--wait")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
    assert process.stderr is not None
    told = process.stderr.readline()
    while "think" not in told:
        told += process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, rest
    assert "launchbay wait" in rest
    (instance,) = cli.document("instance", "list", "--application", "interrupted")
    assert instance["status"] == "Executing"
    cli.good("instance", "delete", instance["id"], "--force", "--yes")


@given(st.text())
def test_what_is_printed_moves_no_cursor(text: str) -> None:
    shown = printable(text)
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in shown)
    assert not any(0x7F <= ord(letter) < 0xA0 for letter in shown)


def test_ordinary_texts_stay_as_they_are() -> None:
    assert printable("Grüße, 世界\n\t– ok") == "Grüße, 世界\n\t– ok"
    assert printable("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"


def test_an_error_that_quotes_what_was_typed_quotes_no_colours(cli: Shell) -> None:
    cli.good("application", "create", "quoting")
    instance = cli.good("launch", "quoting").strip()
    cli.good("instance", "wait", instance)
    told = cli.bad(9, "run", instance, "\x1b[31mred")
    assert "\x1b" not in told
    assert "red" in told


COMMAND = (sys.executable, "-m", "launchbay.cli.main")


def drawn(cli: Shell, *words: str, columns: int) -> str:
    settings = {**cli.environ, "LAUNCHBAY_CONFIG_DIR": str(cli.config), "LAUNCHBAY_KEYRING": "off"}
    code, text = run_in_terminal(*words, columns=columns, command=COMMAND, settings=settings)
    assert code == 0, text
    return plain(text)


@pytest.mark.slow
def test_a_launch_draws_a_bar_for_each_step(cli: Shell, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(SLOW, "utf-8")
    cli.good("application", "create", "drawn")
    cli.good("manifest", "upload", "drawn", str(file))
    text = drawn(cli, "launch", "drawn", "--wait", columns=80)
    assert re.search(r"think +━+ +\d+ % Executing", text)
    assert re.search(r"think +━+ 100 % Succeeded", text)
    assert "Running" in text


def test_a_narrow_table_keeps_ids_whole(cli: Shell) -> None:
    number = cli.good("application", "create", "an application with a long name that cannot fit").strip()
    assert number in drawn(cli, "application", "list", columns=60)
    assert "admin@launchbay.local" in drawn(cli, "user", "list", columns=80)


@pytest.mark.slow  # a process for each width
@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_table_has_one_line_for_each_object_in_any_terminal(cli: Shell, columns: int) -> None:
    names = (
        "東京の店舗のとても長い名前" * 4 + str(columns),
        f"an application with a long name {columns}" * 3,
    )
    numbers = [cli.good("application", "create", name).strip() for name in names]
    text = drawn(cli, "application", "list", columns=columns)
    table = [line for line in text.splitlines() if line[:12] in {number[:12] for number in numbers}]
    assert all(cell_len(line) <= columns for line in text.splitlines())
    assert len(table) >= len(names)
    for number, begin in zip(numbers, ("東京", "an app"), strict=True):
        [line] = [each for each in table if each.startswith(number if columns > 40 else number[:15]) and begin in each]
        assert "…" in line
    if columns == 40:
        roles = " ".join(drawn(cli, "role", "list", columns=columns).split())
        assert "Columns without room: canEdit, canDelete." in roles
    piped = cli.good("application", "list")
    assert [name for name in names if name not in piped] == []


def test_a_single_object_is_shown_whole_below_each_other_in_a_narrow_terminal(cli: Shell) -> None:
    cli.good("service", "create", "narrow-vault", "builtin:cobalt_secure_store")
    text = drawn(cli, "service", "run", "narrow-vault", "generate-keypair", "name=narrow", columns=60)
    assert re.search(r"ssh-ed25519AAAA[\w+/]{64}narrow", re.sub(r"\s", "", text))
    assert "…" not in text


@pytest.mark.slow  # a process
def test_no_color_leaves_colors_out(cli: Shell, tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles" / "Painter.yaml").write_text("- Read: [/*]\n", "utf-8")
    words = ("apply", str(tmp_path), "--dry-run")
    settings = {**cli.environ, "LAUNCHBAY_CONFIG_DIR": str(cli.config), "LAUNCHBAY_KEYRING": "off"}
    _, colored = run_in_terminal(*words, columns=80, command=COMMAND, settings=settings)
    _, bare = run_in_terminal(*words, columns=80, command=COMMAND, settings={**settings, "NO_COLOR": "1"})
    assert "+\x1b[0m role Painter" in colored
    assert "+ role Painter" in bare
    assert "\x1b" not in bare


SECRETIVE = """
application:
  configuration: { input.size: 1, input.password: first secret }
  interfaces: { input: { size: bind(shop#input.size), password: bind(shop#input.password) } }
  components:
    shop:
      type: workflow.Instance
      interfaces: { input: { size: configuration(int), password: configuration(string) } }
      configuration:
        configuration.triggers: { input.size: update }
        configuration.workflows: { update: { steps: [] } }
"""


def test_tables_of_previews_show_what_changes_and_where(cli: Shell, tmp_path: Path) -> None:
    made(cli, tmp_path, "previewed", SECRETIVE)
    for name in ("first", "second"):
        cli.good("launch", "previewed", "--name", f"previewed-{name}", "--wait")
    file = tmp_path / "next.yaml"
    file.write_text(SECRETIVE.replace("size: 1", "size: 2").replace("first secret", "second secret"), "utf-8")
    planned = cli.good("application", "preview-impact", "previewed", str(file))
    assert re.search(r"components +shop changes: input.size 1 → 2, input.password \*+ → \*+", planned)
    assert "secret" not in planned
    assert re.search("instances +previewed-first, previewed-second|previewed-second, previewed-first", planned)
    assert re.search("application +previewed$", planned, re.MULTILINE)
    shown = cli.good("instance", "preview", "previewed-first", "-p", "input.size:=3", "-p", "input.password=another")
    assert "input.size 1 → 3" in shown
    cli.good("manifest", "upload", "previewed", str(file))
    chosen = ("version", "--instance", "previewed-first", "--instance", "previewed-second", "--version", "3")
    kept = cli.document("change-set", "create", *chosen)["id"]
    listed = cli.good("change-set", "show", kept)
    assert listed.count("input.size 1 → 2") == 2
    assert "workflows      shop#update" in listed
    cli.good("instance", "reconfigure", "previewed-first", "-p", "input.size:=4", "--wait")
    back = cli.good("rollback", "previewed-first", "--dry-run")
    assert "input.size 4 → 1 (the default)" in back
    assert "secret" not in planned + shown + listed + back
    assert "another" not in shown


def test_an_impact_says_how_many_instances_it_does_not_list(cli: Shell, tmp_path: Path) -> None:
    made(cli, tmp_path, "crowded", "launch:\n  steps: []\n")
    for _ in range(21):
        cli.good("launch", "crowded")
    file = tmp_path / "next.yaml"
    file.write_text("launch:\n  steps: []\ndestroy:\n  steps: []\n", "utf-8")
    shown = " ".join(cli.good("application", "preview-impact", "crowded", str(file)).split())
    assert "count 21" in shown
    assert shown.endswith("and 1 more")


def test_the_next_times_of_a_schedule_are_times(cli: Shell, tmp_path: Path) -> None:
    made(cli, tmp_path, "hourly", "launch:\n  steps: []\n")
    asked = ("--cron", "30 6 * * MON-FRI", "--zone", "Europe/Berlin", "--application", "hourly")
    assert "06:30:00 CE" in cli.good("recurring-schedule", "create", "Morning", *asked, "--preview")
    cli.good("recurring-schedule", "create", "Morning", *asked)
    day = r"20\d\d-\d\d-\d\d"
    table = cli.good("recurring-schedule", "show", "Morning")
    assert re.search(rf"^nextAt +({day} 06:30:00 CES?T(, |$)){{5}}", table, re.MULTILINE), "in the zone of the schedule"
    shown = json.loads(cli.good("recurring-schedule", "show", "Morning", "-o", "json"))["nextAt"]
    assert len(shown) == 5
    assert all(re.fullmatch(rf"{day}T0[45]:30:00\.000Z", each) for each in shown)
    listed = cli.good("recurring-schedule", "list")
    assert re.search(rf"Europe/Berlin +{day} 06:30 CES?T ", listed)
    cli.good("recurring-schedule", "delete", "Morning", "--yes")


@pytest.mark.parametrize(("changes", "code"), [([], 0), ([{"sign": "~", "kind": "role", "what": "role New"}], 10)])
def test_a_drift_is_an_exit_code_if_somebody_asks_for_it(
    shell: Shell, changes: list[dict[str, str]], code: int
) -> None:
    source = "5f0c0c0c0c0c0c0c0c0c0c0c"
    with scripted(Answer(body={"commit": "0" * 40, "changes": changes})) as server:
        shell.environ = {"LAUNCHBAY_URL": server.url, "LAUNCHBAY_EMAIL": EMAIL, "LAUNCHBAY_PASSWORD": PASSWORD}
        assert shell.run("git-source", "drift", source).exit_code == 0
        assert shell.run("git-source", "drift", source, "--detailed-exitcode").exit_code == code


def test_drift_shows_what_is_described_and_what_was_found(shell: Shell) -> None:
    instance = "5f0c0c0c0c0c0c0c0c0c0c0c"
    finding = {
        "id": "f" * 24, "state": "new", "kind": "changed", "address": "terraform_data.box", "component": "web",
        "step": "web#launch/infra", "from": {"size": 1, "\x1b[2J": "a"}, "to": {"size": 5}, "note": "", "firstSeen": 0,
        "lastSeen": 0, "reason": "", "until": None, "byEmail": "", "changeSetId": None, "remedy": "Change line 3.",
    }  # fmt: skip
    report = {
        "instanceId": instance, "status": "Checked", "ahead": 0, "counts": {"new": 1, "ignored": 0}, "checkedAt": 0,
        "baselineAt": None, "problem": None, "problemAt": None, "unchecked": [], "findings": [finding], "checks": [],
        "schedules": [],
    }  # fmt: skip
    with scripted(Answer(body=report)) as server:
        shell.environ = {"LAUNCHBAY_URL": server.url, "LAUNCHBAY_EMAIL": EMAIL, "LAUNCHBAY_PASSWORD": PASSWORD}
        text = shell.good("drift", "show", instance)
    assert "terraform_data.box  (new, changed; web#launch/infra)" in text
    assert "    size: 1 → 5\n" in text
    assert "a → nothing" in text
    assert "\x1b" not in text
    assert "Change line 3." in text


FAILING = """
launch: {steps: []}
call:
  parameters: [{password: {}}]
  steps:
    - ask: {action: serialize, parameters: {format: XLS, input: {pin: "{$.password}", size: 3}}}
"""


def test_the_steps_of_a_job_are_listed_with_their_inputs_and_a_failed_one_whole(cli: Shell, tmp_path: Path) -> None:
    file = tmp_path / "failing.yaml"
    file.write_text(FAILING)
    cli.good("application", "create", "failing")
    cli.good("manifest", "upload", "failing", str(file))
    cli.good("launch", "failing", "--name", "failing-1", "--wait")
    cli.run("run", "failing-1", "call", "password=swordfish-9", "--wait")
    [job, *_] = json.loads(cli.good("job", "list", "failing-1", "--output", "json"))
    text = cli.good("job", "steps", job["id"])
    assert "swordfish-9" not in text
    assert re.search(r'Failed .*\{"format": "XLS", "input": \{"pin": "\*{8}", "size": 3\}\}', text)
    assert re.search(
        r'/ask: The parameter .format. is wrong.*\n +format +XLS\n +input +\{"pin": "\*{8}", "size": 3\}', text
    )
    [step] = json.loads(cli.good("job", "steps", job["id"], "--output", "json"))
    assert step["inputs"] == {"format": "XLS", "input": {"pin": "********", "size": 3}}
    [shown] = json.loads(cli.good("job", "show", job["id"], "--output", "json"))["steps"]
    assert shown["inputs"] == step["inputs"]


def test_tables_show_durations_causes_and_sentences_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "defaultMs": 86_400_000,
        "idleMs": 5_400_000,
        "differenceMs": -1_500,
        "warnings": ["The first one.", "The second one."],
        "names": ["a", "b"],
    }
    show(document, "table")
    shown = {line.split("  ")[0]: " ".join(line.split()[1:]) for line in capsys.readouterr().out.splitlines()}
    assert shown == {
        "defaultMs": "1 d",
        "idleMs": "1 h 30 min",
        "differenceMs": "−1.5 s",
        "warnings": "The first one. The second one.",
        "names": "a, b",
    }
    show({"defaultMs": -1}, "table")
    assert "never" in capsys.readouterr().out
    show([{"number": 2, "cause": {"kind": "rollout", "id": "5f" * 12}}], "table", ("number", "cause"))
    assert f"rollout {'5f' * 12}" in capsys.readouterr().out
    show(document, "json")
    assert json.loads(capsys.readouterr().out) == document


@pytest.mark.parametrize("name", ["createdAt", "firstSeen", "until", "expires"])
def test_a_time_is_printed_as_one(capsys: pytest.CaptureFixture[str], name: str) -> None:
    show({name: 1_798_761_600_000}, "json")
    assert json.loads(capsys.readouterr().out) == {name: "2027-01-01T00:00:00.000Z"}


def test_the_time_of_a_compared_state_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    show({"from": {"at": 1_798_761_600_000}, "to": {"at": None}}, "json")
    assert json.loads(capsys.readouterr().out)["from"] == {"at": "2027-01-01T00:00:00.000Z"}
