"""Shells complete the names of what there is, and stay quiet where nothing can be known."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.cli.files import file_text
from launchbay.cli.inputs import (
    document,
    inputs,
    json_file,
    mapping,
    parse_duration_ms,
    parse_past_ms,
    parse_time_ms,
    text_or_file,
)
from launchbay.cli.verbs import all_operations
from tests.support.manifests import FERRY
from tests.support.shell import COMMANDS, Shell

SCRIPT = "from launchbay.cli.main import main; main(prog_name='launchbay')"


def completed(cli: Shell, *words: str) -> list[str]:
    environ = {
        **os.environ,
        **cli.environ,
        "LAUNCHBAY_CONFIG_DIR": str(cli.config),
        "LAUNCHBAY_KEYRING": "off",
        "_LAUNCHBAY_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["launchbay", *words]),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-c", SCRIPT]
    told = subprocess.run(command, check=False, capture_output=True, text=True, env=environ)
    assert told.stderr == ""
    return [line.partition(",")[2] for line in told.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("rollout", "create", "--on-failure"), "takeBack"),
        (("change-set", "create", "--on-failure"), "rollback"),
        (("recurring-schedule", "create", "--when-busy"), "queue"),
        (("git-source", "create", "--applies"), "after-approval"),
        (("git-source", "create", "--forge"), "gitlab"),
        (("webhook", "create", "--format"), "slack"),
        (("instance", "log", "x", "--level"), "warning"),
        (("bulk", "instances", "x", "--status"), "Refused"),
        (("rollout", "instances", "x", "--status"), "Skipped"),
        (("organization", "instances", "--sort"), "-lastJob"),
        (("organization", "instances", "--last-status"), "Succeeded"),
        (("organization", "jobs", "--status"), "Executing"),
        (("application", "set-failure-policy", "x"), "keep"),
    ],
)
def test_a_value_that_is_no_choice_is_refused_with_the_choices(
    shell: Shell, words: tuple[str, ...], value: str
) -> None:
    shell.environ = {"LAUNCHBAY_URL": "http://127.0.0.1:9", "LAUNCHBAY_TOKEN": "lbt_x"}
    told = shell.bad(2, *words, "nonsense")
    assert "'nonsense'" in told
    assert value in told


@pytest.mark.slow  # a process for each completion
def test_choices_are_completed(shell: Shell) -> None:
    assert completed(shell, "rollout", "create", "--on-failure", "t") == ["takeBack"]
    assert completed(shell, "bulk", "create", "res") == ["resume"]
    assert completed(shell, "organization", "jobs", "--status", "Failed,Ex") == ["Failed,Executing"]


@pytest.mark.slow
def test_names_of_objects_and_workflows_are_completed(cli: Shell) -> None:
    cli.good("application", "create", "completed-one")
    instance = cli.good("launch", "completed-one", "--instance-name", "completed-instance").strip()
    cli.good("instance", "wait", instance)
    cli.good("revision", "create", "completed-one", "fixed", "--version", "1")
    assert completed(cli, "launch", "completed-") == ["completed-one"]
    assert completed(cli, "instance", "show", "completed-i") == ["completed-instance"]
    assert "destroy" in completed(cli, "run", "completed-instance", "d")
    assert completed(cli, "launch", "completed-one", "--environment", "def") == ["default"]
    assert completed(cli, "revision", "show", "completed-one/") == ["completed-one/fixed"]
    assert "Guest" in completed(cli, "role", "show", "G")
    assert "admin@launchbay.local" in completed(cli, "user", "show", "adm")


def test_nothing_is_completed_where_nobody_can_be_asked(shell: Shell) -> None:
    assert completed(shell, "launch", "a") == []
    shell.environ = {"LAUNCHBAY_URL": "http://127.0.0.1:9"}
    assert completed(shell, "launch", "a") == []


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("250ms", 250),
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("never", -1),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_parts_of_durations_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration_ms(f"{hours}h{minutes}m{seconds}s") == ((hours * 60 + minutes) * 60 + seconds) * 1000


@pytest.mark.parametrize("text", ["", "soon", "1.5h", "h", "1h 30", "-5s", "10y", "5", "1500"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.UsageError, match="1h30m"):
        parse_duration_ms(text)


def test_moments() -> None:
    assert parse_time_ms("2026-01-01T00:00:00+00:00") == 1_767_225_600_000
    assert abs(parse_time_ms("+1h") - (time.time() * 1000 + 3_600_000)) < 60_000
    assert parse_time_ms("never") == -1
    with pytest.raises(click.UsageError, match=r"\+2h"):
        parse_time_ms("tomorrow")
    with pytest.raises(click.UsageError, match=r"Invalid time: yesterday\. Use 10m or 2d \(ago\)"):
        parse_past_ms("yesterday")
    assert abs(parse_past_ms("1h") - (time.time() * 1000 - 3_600_000)) < 60_000


def test_maps_are_made_of_pairs_json_and_files(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("size: 2\nname: from the file\n", "utf-8")
    (tmp_path / "text").write_text("a text", "utf-8")
    found = mapping([f"@{file}", "name=given", "list:=[1, 2]", '{"b": true}', f"t=@{tmp_path / 'text'}", "e=a=b"])
    assert found == {"size": 2, "name": "given", "list": [1, 2], "b": True, "t": "a text", "e": "a=b"}
    assert mapping([]) is None


@pytest.mark.parametrize("item", ["x", "=y", ":=1", "a:={", "@/no/such/file", "{", "[1]"])
def test_what_is_no_pair_is_refused(item: str) -> None:
    with pytest.raises(click.UsageError):
        mapping([item])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": NaN}', "is not JSON (NaN isn't a JSON value)"),
        ('{"a": -Infinity}', "is not JSON (-Infinity isn't a JSON value)"),
        ('{"a": 1e400}', "is JSON with a number beyond a double"),
        ('{"a": 9223372036854775808}', "is JSON with an integer beyond 64 bits"),
        ('{"a": 1, "a": 2}', "is JSON with a duplicate key"),
        (r'{"a": "\ud800"}', "is JSON with half of a surrogate pair"),
        ('{\n  "a": x}', "is not JSON (Expecting value at line 2, column 8)"),
    ],
)
def test_json_that_would_change_on_its_way_is_refused_in_parameters_and_in_archives(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "archive.json").write_text(text, "utf-8")
    for read in (lambda: mapping([f"o:={text}"]), lambda: json_file(str(tmp_path / "archive.json"))):
        with pytest.raises(click.UsageError) as caught:
            read()
        assert reason in caught.value.message


def test_numbers_of_an_archive_and_of_parameters_keep_their_text(tmp_path: Path) -> None:
    text = '{"a":[1.10,1e3,-0,9007199254740993.0,7,0.5]}'
    (tmp_path / "archive.json").write_text(text, "utf-8")
    assert msgspec.json.encode(json_file(str(tmp_path / "archive.json"))).decode() == text
    assert msgspec.json.encode(mapping([f"o:={text}"])).decode() == f'{{"o":{text}}}'


def test_documents_beyond_a_limit_are_not_called_something_else_than_yaml() -> None:
    with pytest.raises(click.UsageError) as caught:
        document("a: 1\na: 2\n", "@p.yaml")
    assert caught.value.message == "@p.yaml: Line 2, column 1: Duplicate key 'a'. The first one is in line 1, column 1."


def test_documents_are_json_or_yaml_and_texts_may_stand_in_files() -> None:
    assert document('{"a": [1]}', "x") == document("a:\n- 1\n", "x") == {"a": [1]}
    with pytest.raises(click.UsageError, match="Line 2, column 1"):
        document("{", "x")
    assert text_or_file("plain") == "plain"
    assert text_or_file("@") == "@"


def _takes_file() -> list[tuple[str, str]]:
    """Return operation and argument of each value that is the text of a file, or can be."""
    return [
        (operation.name, each.name)
        for operation in all_operations().values()
        for each in inputs(operation)
        if each.parameter is not None and each.parameter.metavar in {"FILE", "YAML"}
    ]


@pytest.mark.parametrize(("operation", "argument"), _takes_file())
def test_each_argument_that_takes_a_file_takes_it_as_at_file(tmp_path: Path, operation: str, argument: str) -> None:
    file = tmp_path / "given"
    file.write_text('{"a.b": "1.10"}', "utf-8")
    entry = next(each for each in inputs(all_operations()[operation]) if each.name == argument)
    assert entry.read(f"@{file}", None, {}) in ('{"a.b": "1.10"}', {"a.b": "1.10"})  # type: ignore[arg-type] # asks no server


def test_the_arguments_that_take_files_are_known() -> None:
    assert {
        ("replace_policies", "text"),
        ("replace_manifest", "text"),
        ("preview_impact", "text"),
        ("preview_environment_impact", "policies"),
        ("put_directory_object", "content"),
        ("import_organization", "archive"),
        ("check_role", "permissions"),
    } <= set(_takes_file())


def test_a_file_whose_name_begins_with_an_at_sign_has_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("@x").write_text("of @x", "utf-8")
    Path("x").write_text("of x", "utf-8")
    assert (file_text("@x"), file_text("x"), file_text("./@x"), file_text("@@x")) == ("of x", "of x", "of @x", "of @x")


def test_standard_input_is_a_file_with_and_without_an_at_sign(shell: Shell) -> None:
    for name in ("-", "@-"):
        told = shell.run("validate", name, stdin="nonsense: 1\n")
        assert "Can't read" not in told.stderr, told
        assert "nonsense" in told.stdout, told


def test_every_option_that_takes_a_time_takes_it_as_people_write_it() -> None:
    of_api = re.compile(r"Times? .* [Uu]nix epoch|Milliseconds since|, in\s+milliseconds since")
    found = {path for path, context in COMMANDS.items() if of_api.search(" ".join(context.get_help().split()))}
    assert found == set()
    schedule = COMMANDS["launchbay recurring-schedule create"].command
    options = {each.name: each.metavar for each in schedule.params}
    assert (options["starts_at"], options["ends_at"]) == ("TIME", "TIME")


def test_the_bounds_of_a_schedule_take_what_times_are(cli: Shell, tmp_path: Path) -> None:
    name = f"bounds {tmp_path.name}"
    (tmp_path / "manifest.yaml").write_text(FERRY, "utf-8")
    cli.good("application", "create", name)
    cli.good("manifest", "upload", name, str(tmp_path / "manifest.yaml"))
    words = ("recurring-schedule", "create", name, "--cron", "0 0 1 1 *", "--application", name, "--preview")
    made = cli.document(*words, "--starts-at", "2096-12-24T18:00+01:00", "--ends-at", "2097-01-01T00:00+00:00")
    assert (made["startsAt"], made["endsAt"]) == ("2096-12-24T17:00:00.000Z", "2097-01-01T00:00:00.000Z")
    soon = cli.document(*words, "--starts-at", "+2h", "--ends-at", "never")
    assert (soon["startsAt"] is not None, soon["endsAt"]) == (True, None)
    assert "Use +2h, 2026-12-24T18:00" in cli.bad(2, *words, "--starts-at", "tomorrow")


def test_an_object_in_a_body_is_json_or_a_file(cli: Shell, tmp_path: Path) -> None:
    file = tmp_path / "bulk.yaml"
    file.write_text("act: resume\nselect: { lastStatus: Failed }\n", "utf-8")
    words = ("recurring-schedule", "create", tmp_path.name, "--cron", "0 4 * * *", "--preview", "--bulk")
    for bulk in ('{"act": "resume", "select": {"lastStatus": "Failed"}}', f"@{file}"):
        assert cli.document(*words, bulk)["act"] == "resume"
    assert "resume contains no object" in cli.bad(2, *words, "resume")
    assert "select" in cli.bad(9, *words, '{"act": "resume", "select": {"last": 1}}')
