"""`apply` makes an organization what a directory says, and `export` writes the directory that makes it again."""

import json
import re
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.features.directories.files import file_name, object_name
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from launchbay.model.yaml_text import yaml_text
from tests.support.documentation import DOCS, blocks
from tests.support.service import GREETER, fresh_name
from tests.support.shell import Shell


@pytest.mark.slow
def test_an_organization_goes_into_a_file_and_comes_out_under_another_name(cli: Shell, tmp_path: Path) -> None:
    cli.environ["LAUNCHBAY_ORGANIZATION"] = cli.good("organization", "create", "Packed").strip()
    cli.good("environment", "create", "lab")
    file = tmp_path / "packed.json"
    cli.good("organization", "export", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(json.loads(file.read_text())["environments"]) == {"default", "lab"}
    assert "packed.json: File exists" in cli.bad(2, "organization", "export", str(file))

    planned = cli.document("organization", "import", str(file), "--plan", "--name", "Unpacked")
    assert (planned["id"], planned["created"]["environments"]) == (None, 2)
    made = cli.document("organization", "import", str(file), "--name", "Unpacked")
    cli.environ["LAUNCHBAY_ORGANIZATION"] = made["id"]
    assert cli.document("organization", "show")["name"] == "Unpacked"
    assert {each["name"] for each in cli.document("environment", "list")} == {"default", "lab"}


@pytest.mark.slow  # 17 MB of manifests
def test_a_large_organization_goes_into_a_file_of_lines(cli: Shell, tmp_path: Path) -> None:
    cli.environ["LAUNCHBAY_ORGANIZATION"] = cli.good("organization", "create", "Large").strip()
    manifest = tmp_path / "manifest.yaml"
    cli.good("application", "create", "large")
    for number in range(35):
        manifest.write_text(f"launch: {{steps: []}}\n# {number} {'x' * 500_000}\n")
        cli.good("manifest", "upload", "large", str(manifest))
    file = tmp_path / "large.archive"
    cli.good("organization", "export", str(file))
    first, *lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert (first["version"], first["applications"]["large"]["versions"]) == (3, len(lines))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    planned = cli.document("organization", "import", str(file), "--plan", "--name", "Copy")
    assert (planned["id"], planned["created"]["manifests"]) == (None, 36)
    made = cli.document("organization", "import", str(file), "--name", "Copy")
    assert made["created"] == planned["created"]
    with file.open("rb+") as opened:
        opened.truncate(file.stat().st_size - 1)
    assert "line 37: the archive is cut off" in cli.run("organization", "import", str(file)).stderr


def test_what_is_no_archive_is_refused(cli: Shell, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("launch: {}")
    assert "is not JSON" in cli.bad(2, "organization", "import", str(file))
    file.write_text('{"format": "other"}')
    assert "The document isn't an archive of an organization" in cli.run("organization", "import", str(file)).stderr


OLDER = GREETER.replace("Hello", "Good day")
OUTER = """
application:
  components:
    inner:
      type: reference.Submodule
      configuration:
        __locator.application-id: "{application}"
"""
FILES = {
    "roles/Developer.yaml": "# What developers may do.\n- CreateInstance: [/applications/*, /environments/*]\n",
    "environments/lab.yaml": (
        "policies:\n  execrun.ignoreFail: true\nmarkers: [blue, green]\n"
        "properties:\n- {name: mirrors, type: list<string>, value: ['http://m.example', '1e3']}\n"
        "services: [Default workflow service]\nlabels: {tier: test}\n"
    ),
    "applications/greeter/manifest.yaml": GREETER,
    "applications/greeter/labels.yaml": "team: web\n",
    "applications/greeter/rules.yaml": (
        "lifetime: {defaultMs: 7200000, idleMs: 86400000}\n"
        "sleep: {windows: [{sleepAt: '20:00', wakeAt: '07:00', days: [MON], zone: Europe/Berlin}]}\n"
        "concurrency: [{limit: 3}]\n"
    ),
    "applications/greeter/revisions/stable/revision.yaml": "parameters: {input.who: all}\nenvironment: lab\n",
    "applications/greeter/revisions/stable/manifest.yaml": OLDER,
    "applications/greeter/revisions/current/revision.yaml": "",
}


def test_the_warnings_of_an_applied_manifest_are_printed(organization: Shell, tmp_path: Path) -> None:
    file = tmp_path / "applications" / "shop" / "manifest.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("launch: {steps: [{one: {action: wait, parameters: {dealy: 1, delay: 0}}}]}\n")
    told = organization.run("apply", str(tmp_path), "--yes")
    assert told.exit_code == 0
    assert "Warning: shop, line 1, column " in told.stderr
    assert "[UnknownStepParameter]" in told.stderr


@pytest.fixture
def organization(cli: Shell, request: pytest.FixtureRequest) -> Shell:
    """Commands in an organization of its own, named after the test."""
    name = f"{request.node.name} {id(request)}"
    cli.environ["LAUNCHBAY_ORGANIZATION"] = cli.good("organization", "create", name).strip()
    return cli


def written(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return directory


def read_back(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text("utf-8") for path in directory.rglob("*.yaml")}


def signs(told: str) -> list[str]:
    return re.findall(r"^[-+~] .*$", told, flags=re.MULTILINE)


def test_a_directory_is_applied_once_and_then_there_is_nothing_to_do(organization: Shell, tmp_path: Path) -> None:
    directory = str(written(tmp_path / "wanted", FILES))
    planned = organization.good("apply", directory, "--dry-run", "--diff")
    assert re.search(r"\+ revision greeter/stable\n.*\n +\+.*parameters:", planned)
    told = organization.good("apply", directory, "--yes")
    assert signs(told) == [
        "+ role Developer",
        "+ environment lab",
        "+ policies of environment lab",
        "+ markers of environment lab",
        "+ properties of environment lab",
        "+ services of environment lab",
        "+ labels of environment lab",
        "+ application greeter",
        "+ labels of application greeter",
        "+ rules of application greeter",
        "+ older manifest of application greeter",
        "+ manifest of application greeter",
        "+ revision greeter/current",
        "+ revision greeter/stable",
    ]
    again = organization.run("apply", directory)
    assert (again.exit_code, signs(again.stdout)) == (0, [])
    assert "No changes." in again.stderr
    assert organization.good("manifest", "show", "greeter") == GREETER
    assert organization.document("application", "labels", "greeter") == {"team": "web"}
    assert organization.document("environment", "labels", "lab") == {"tier": "test"}
    stable = organization.document("revision", "show", "greeter/stable")
    assert (stable["version"], stable["parameters"]) == (2, {"input.who": "all"})
    launched = organization.good("launch", "greeter", "--revision", "greeter/stable").strip()
    organization.good("instance", "wait", launched)
    assert "Good day, all!" in organization.good("instance", "show", launched)


def test_the_how_to_has_a_directory_approved_as_it_says(
    organization: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "bay", FILES)
    [commands] = [
        block.text for block in blocks(DOCS / "howto" / "apply-a-directory.md") if "--change-set" in block.text
    ]
    change_set = ""
    for line in commands.splitlines():
        words = shlex.split(line.removeprefix("$ launchbay ").replace("CHANGE_SET", change_set))
        told = organization.good(*words)
        change_set = change_set or told.strip()
    assert organization.document("change-set", "show", change_set)["status"] == "Succeeded"


@pytest.mark.slow
def test_a_directory_becomes_a_change_set_that_says_the_same_and_is_applied_whole(
    organization: Shell, tmp_path: Path
) -> None:
    directory = written(tmp_path / "wanted", FILES)
    (directory / ".git").mkdir()
    (directory / ".git" / "index").write_bytes(b"\xff")  # as everywhere, names with a dot don't count
    wanted = signs(organization.good("apply", str(directory), "--dry-run"))
    told = organization.run("apply", str(directory), "--change-set", "--comment", "OPS-18", "--expires", "2d", "--diff")
    assert told.exit_code == 0, told.stderr
    change_set = told.stdout.strip()
    assert [line.replace(" (version none → 3)", "") for line in signs(told.stderr)] == wanted
    assert "    +markers:\n    +- blue" in told.stderr
    assert f"launchbay change-set apply {change_set}" in told.stderr
    shown = organization.document("change-set", "show", change_set)
    assert (shown["status"], shown["comment"]) == ("Ready", "OPS-18")
    drawn = organization.good("change-set", "show", change_set)
    assert "directory.objects" in drawn
    assert re.search(r"what +markers of environment lab\n", drawn)
    assert signs(organization.good("apply", str(directory), "--dry-run")) == wanted
    applied = organization.document("change-set", "apply", change_set)
    assert (applied["status"], applied["directory"]["differences"]) == ("Succeeded", [])
    assert signs(organization.good("apply", str(directory), "--dry-run")) == []
    assert "there is nothing to do" in organization.run("apply", str(directory), "--change-set").stderr
    assert "add --change-set" in organization.bad(2, "apply", str(directory), "--comment", "why")
    document = organization.run("apply", str(directory), "--change-set", "--dry-run")
    assert (document.exit_code, "Leave --dry-run out" in document.stderr) == (2, True)


@pytest.mark.slow
def test_changes_are_planned_shown_line_by_line_and_done(organization: Shell, tmp_path: Path) -> None:
    directory = written(tmp_path / "wanted", FILES)
    organization.good("apply", str(directory), "--yes")
    written(
        directory,
        {
            "roles/Developer.yaml": "- Read: [/*]\n",
            "environments/lab.yaml": "default: true\nmarkers: [green]\n",
            "applications/greeter/manifest.yaml": GREETER.replace("Hello", "Welcome"),
            "applications/greeter/revisions/stable/revision.yaml": "parameters: {input.who: some}\n",
        },
    )
    planned = organization.good("apply", str(directory), "--dry-run", "--diff")
    assert signs(planned) == [
        "~ role Developer",
        "~ markers of environment lab",
        "~ environment lab (becomes the default)",
        "~ manifest of application greeter",
        "~ revision greeter/current (another manifest)",
        "~ revision greeter/stable",
    ]
    assert "    +- Read: [/*]" in planned
    assert organization.good("role", "show", "Developer", "-o", "json").count("CreateInstance") == 1
    organization.good("apply", str(directory), "--yes")
    assert signs(organization.good("apply", str(directory))) == []
    stable = organization.document("revision", "show", "greeter/stable")
    assert (stable["parameters"], stable["environmentId"]) == ({"input.who": "some"}, None)


@pytest.mark.slow
def test_labels_are_changed_removed_and_kept_if_the_directory_has_none(organization: Shell, tmp_path: Path) -> None:
    organization.good("apply", str(written(tmp_path / "wanted", FILES)), "--yes")
    silent = {name: text for name, text in FILES.items() if not name.endswith("labels.yaml")}
    silent["environments/lab.yaml"] = "markers: [blue, green]\n"
    assert signs(organization.good("apply", str(written(tmp_path / "silent", silent)), "--yes")) == []

    other = {**silent, "applications/greeter/labels.yaml": "team: db\n", "environments/lab.yaml": "labels: {}\n"}
    told = organization.good("apply", str(written(tmp_path / "other", other)), "--yes", "--diff")
    assert signs(told) == ["~ labels of environment lab", "~ labels of application greeter"]
    assert "+team: db" in told
    assert organization.document("application", "labels", "greeter") == {"team": "db"}
    assert organization.document("environment", "labels", "lab") == {}

    directory = tmp_path / "exported"
    organization.good("export", str(directory))
    assert read_back(directory)["applications/greeter/labels.yaml"] == "team: db\n"
    organization.good("application", "set-labels", "greeter", "{}")
    organization.good("export", str(directory), "--overwrite")
    assert signs(organization.good("apply", str(directory), "--yes")) == []


@pytest.mark.slow
def test_rules_are_changed_removed_and_kept_if_the_directory_has_none(organization: Shell, tmp_path: Path) -> None:
    organization.good("apply", str(written(tmp_path / "wanted", FILES)), "--yes")
    assert organization.document("application", "lifetime", "greeter")["idleMs"] == 86_400_000
    [window] = organization.document("application", "sleep", "greeter")["windows"]
    assert (window["days"], window["zone"]) == (["MON"], "Europe/Berlin")
    [limit] = organization.document("application", "concurrency", "greeter")["limits"]
    assert (limit["key"], limit["limit"]) == ("application", 3)
    silent = {name: text for name, text in FILES.items() if not name.endswith("rules.yaml")}
    assert signs(organization.good("apply", str(written(tmp_path / "silent", silent)), "--yes")) == []

    silent["environments/lab.yaml"] = "rules: {sleep: {}}\n"
    other = {**silent, "applications/greeter/rules.yaml": "lifetime: {graceMs: 60000}\n"}
    told = organization.good("apply", str(written(tmp_path / "other", other)), "--yes", "--diff")
    assert signs(told) == ["~ rules of environment lab", "~ rules of application greeter"]
    assert organization.document("application", "sleep", "greeter")["windows"] is None
    assert organization.document("application", "concurrency", "greeter")["limits"] == []
    assert organization.document("environment", "sleep", "lab")["windows"] == []

    other["applications/greeter/rules.yaml"] = "lifetime: {idle: 3}\n"
    assert "unknown field 'idle'" in organization.run("apply", str(written(tmp_path / "wrong", other)), "--yes").stderr


@pytest.mark.slow
def test_rules_about_changes_stay_unless_a_file_says_them(organization: Shell, tmp_path: Path) -> None:
    rules = "- name: keep  # always\n  when: $.kind == 'destroy'\n  deny: It stays.\n"
    indented = "".join(f"    {line}\n" for line in rules.splitlines())
    wanted = {**FILES, "environments/lab.yaml": f"rules:\n  changes: |\n{indented}"}
    organization.good("apply", str(written(tmp_path / "wanted", wanted)), "--yes")
    assert organization.document("environment", "rules", "lab")["rules"] == rules
    directory = tmp_path / "exported"
    organization.good("export", str(directory))
    assert "# always" in read_back(directory)["environments/lab.yaml"]
    assert signs(organization.good("apply", str(directory), "--yes")) == []
    silent = {**FILES, "environments/lab.yaml": "rules: { lifetime: { graceMs: 60000 } }\n"}
    organization.good("apply", str(written(tmp_path / "silent", silent)), "--yes")
    assert organization.document("environment", "rules", "lab")["rules"] == rules
    gone = {**FILES, "environments/lab.yaml": "rules: { changes: '' }\n"}
    told = organization.good("apply", str(written(tmp_path / "gone", gone)), "--yes")
    assert "~ rules of environment lab" in signs(told)
    assert organization.document("environment", "rules", "lab")["rules"] == ""
    assert signs(organization.good("apply", str(tmp_path / "gone"), "--yes")) == []


@pytest.mark.slow
def test_audiences_stay_unless_a_file_says_them(organization: Shell, tmp_path: Path) -> None:
    wanted = {**FILES, "environments/lab.yaml": "rules: { audiences: [vault, 'https://sts.example.org'] }\n"}
    organization.good("apply", str(written(tmp_path / "wanted", wanted)), "--yes")
    assert organization.document("environment", "audiences", "lab")["audiences"] == ["vault", "https://sts.example.org"]
    directory = tmp_path / "exported"
    organization.good("export", str(directory))
    assert "vault" in read_back(directory)["environments/lab.yaml"]
    assert signs(organization.good("apply", str(directory), "--yes")) == []
    silent = {**FILES, "environments/lab.yaml": "rules: { lifetime: { graceMs: 60000 } }\n"}
    organization.good("apply", str(written(tmp_path / "silent", silent)), "--yes")
    assert organization.document("environment", "audiences", "lab")["audiences"] != []
    gone = {**FILES, "environments/lab.yaml": "rules: { audiences: [] }\n"}
    changed = organization.good("apply", str(written(tmp_path / "gone", gone)), "--yes")
    assert "~ rules of environment lab" in signs(changed)
    assert organization.document("environment", "audiences", "lab")["audiences"] == []
    assert signs(organization.good("apply", str(tmp_path / "gone"), "--yes")) == []


ORDER = "stages:\n- environment: lab\n- environment: live\n  soak: 3600000\n  workflows:\n  - smoke\n  approvals: 1\n"


@pytest.mark.slow
@pytest.mark.features("promotion")
def test_promotion_orders_stay_unless_a_file_says_them(organization: Shell, tmp_path: Path) -> None:
    own = "stages: [{ environment: live }, { environment: lab, soak: 1500 }]\n"
    wanted = {
        **FILES, "environments/live.yaml": "", "promotion.yaml": ORDER, "applications/greeter/promotion.yaml": own,
    }  # fmt: skip
    directory = str(written(tmp_path / "wanted", wanted))
    assert "promotion order of application greeter" in organization.good("apply", directory, "--dry-run", "--diff")
    told = signs(organization.good("apply", directory, "--yes"))
    assert told[-2:] == ["+ promotion order of organization", "+ promotion order of application greeter"]
    ids = {each["name"]: each["id"] for each in organization.document("environment", "list")}
    first, second = organization.document("organization", "promotion-order")["stages"]
    assert (first["environmentId"], second["environmentId"]) == (ids["lab"], ids["live"])
    assert (second["soak"], second["workflows"], second["approvals"]) == (3_600_000, ["smoke"], 1)
    assert organization.document("application", "promotion-order", "greeter")["stages"][1]["soak"] == 2_000
    assert signs(organization.good("apply", directory)) == []

    exported = tmp_path / "exported"
    organization.good("export", str(exported))
    assert read_back(exported)["promotion.yaml"] == ORDER
    organization.good("export", str(exported), "--check")
    assert signs(organization.good("apply", str(written(tmp_path / "silent", FILES)), "--yes")) == []
    assert organization.document("organization", "promotion-order")["stages"] != []

    gone = {"promotion.yaml": "stages: []\n", "applications/greeter/promotion.yaml": "stages: null\n"}
    told = signs(organization.good("apply", str(written(tmp_path / "gone", {**FILES, **gone})), "--yes"))
    assert told == ["- promotion order of organization", "- promotion order of application greeter"]
    assert organization.document("organization", "promotion-order")["stages"] == []
    assert not organization.document("application", "promotion-order", "greeter")["own"]
    assert organization.run("export", str(exported), "--check").exit_code == 10
    organization.good("export", str(exported), "--overwrite")
    assert signs(organization.good("apply", str(exported), "--yes")) == []

    none = {"applications/greeter/promotion.yaml": "stages: []\n"}
    organization.good("apply", str(written(tmp_path / "none", {**FILES, **none})), "--yes")
    assert organization.document("application", "promotion-order", "greeter")["own"]
    assert signs(organization.good("apply", str(tmp_path / "none"), "--yes")) == []


@pytest.mark.features("promotion")
def test_an_order_with_an_unknown_environment_is_refused_with_its_place(organization: Shell, tmp_path: Path) -> None:
    files = {"environments/lab.yaml": "", "promotion.yaml": "stages:\n- environment: lab\n- environment: nowhere\n"}
    directory = str(written(tmp_path / "wrong", files))
    refused = organization.run("apply", directory, "--yes")
    assert refused.exit_code != 0
    assert "promotion.yaml:3:16: Unknown environment 'nowhere'." in refused.stderr
    assert "lab" not in [each["name"] for each in organization.document("environment", "list")]


@pytest.mark.features("promotion")
def test_an_order_of_a_deleted_environment_is_not_exported(organization: Shell, tmp_path: Path) -> None:
    files = {"environments/lab.yaml": "", "environments/live.yaml": "", "promotion.yaml": ORDER}
    organization.good("apply", str(written(tmp_path / "wanted", files)), "--yes")
    organization.good("environment", "delete", "live", "--yes")
    said = organization.run("export", str(tmp_path / "exported")).stderr
    assert "Not in the directory: the promotion order of the organization: it names an environment" in said
    assert "promotion.yaml" not in read_back(tmp_path / "exported")


@pytest.mark.features("promotion")
def test_a_change_set_sets_an_order(organization: Shell, tmp_path: Path) -> None:
    files = {"environments/lab.yaml": "", "environments/live.yaml": "", "promotion.yaml": ORDER}
    made = organization.run("apply", str(written(tmp_path / "wanted", files)), "--change-set")
    assert "+ promotion order of organization" in made.stderr
    organization.good("change-set", "apply", made.stdout.strip())
    assert len(organization.document("organization", "promotion-order")["stages"]) == 2


def test_nothing_is_deleted_without_prune(organization: Shell, tmp_path: Path) -> None:
    organization.good("apply", str(written(tmp_path / "all", FILES)), "--yes")
    less = written(
        tmp_path / "less",
        {"roles/Guest.yaml": "- Read: [/*]\n", "applications/greeter/revisions/current/revision.yaml": ""},
    )
    kept = organization.run("apply", str(less), "--yes")
    assert "unchanged: revision greeter/stable, role Developer" in kept.stderr
    assert organization.document("revision", "show", "greeter/stable")
    pruned = organization.good("apply", str(less), "--yes", "--prune")
    assert [sign for sign in signs(pruned) if sign.startswith("-")] == ["- revision greeter/stable", "- role Developer"]
    organization.bad(3, "revision", "show", "greeter/stable")
    assert organization.document("environment", "show-markers", "lab"), "there was no folder of environments"


@pytest.mark.slow
def test_an_export_makes_the_same_organization_elsewhere(organization: Shell, tmp_path: Path) -> None:
    organization.good("apply", str(written(tmp_path / "wanted", FILES)), "--yes")
    inner = next(each["id"] for each in organization.document("application", "list"))
    outer = tmp_path / "outer.yaml"
    outer.write_text(OUTER.replace("{application}", inner), "utf-8")
    organization.good("application", "create", "odd / name: 100%")
    organization.good("manifest", "upload", "odd / name: 100%", str(outer))
    stable = organization.document("revision", "show", "greeter/stable")["id"]
    submodules = f'{{"inner": {{"revisionId": "{stable}", "parameters": {{"input.who": "them"}}}}}}'
    organization.good("revision", "create", "odd / name: 100%", "nested", "--version", "2", "--submodules", submodules)
    first, second = tmp_path / "first", tmp_path / "second"
    organization.good("export", str(first))
    files = read_back(first)
    assert "applications/odd %2F name%3A 100%25/revisions/nested/revision.yaml" in files
    assert "revision: greeter/stable" in files["applications/odd %2F name%3A 100%25/revisions/nested/revision.yaml"]
    assert files["roles/Developer.yaml"] == FILES["roles/Developer.yaml"]
    assert signs(organization.good("apply", str(first))) == []
    organization.environ["LAUNCHBAY_ORGANIZATION"] = organization.good(
        "organization", "create", f"copy of {organization.environ['LAUNCHBAY_ORGANIZATION']}"
    ).strip()
    organization.good("apply", str(first), "--yes")
    organization.good("export", str(second))
    assert read_back(second) == files


def test_a_plan_says_in_its_exit_code_whether_anything_differs(organization: Shell, tmp_path: Path) -> None:
    directory = written(tmp_path / "wanted", FILES)
    plan = ("apply", str(directory), "--dry-run", "--detailed-exitcode")
    assert signs(organization.run(*plan).stdout) != []
    assert organization.run(*plan).exit_code == 10
    assert organization.run("apply", str(directory), "--dry-run").exit_code == 0
    assert "--dry-run" in organization.bad(2, "apply", str(directory), "--yes", "--detailed-exitcode")
    organization.good("apply", str(directory), "--yes")
    assert organization.run(*plan).exit_code == 0


@pytest.mark.features("change_rules")
def test_a_dry_run_says_what_a_rule_would_refuse(organization: Shell, tmp_path: Path) -> None:
    name = fresh_name("lab")
    directory = written(tmp_path / "wanted", {f"environments/{name}.yaml": "markers: [blue]\n"})
    organization.good("environment", "create", name)
    rules = "[{{name: closed, when: \"$.kind == 'edit'\", {then}}}]"
    organization.good("environment", "set-rules", name, rules.format(then="deny: Nothing changes here."))
    for more in ((), ("--detailed-exitcode",)):
        said = organization.bad(9, "apply", str(directory), "--dry-run", *more)
        assert f"markers of environment {name}: would be refused. Nothing changes here. That is the rule" in said
        assert said.rstrip().endswith("Rules would refuse 1 of these changes.")
    said = organization.bad(5, "environment", "rename", name, fresh_name("other"))
    assert "the rule 'closed', version 1 of the rules of the environment" in said
    assert 'The facts were kind: "edit".' in said
    assert "EditRules is held there by Administrator." in said
    needs = "require: {approvals: 1}, because: Ask somebody."
    organization.good("environment", "set-rules", name, rules.format(then=needs))
    said = organization.bad(9, "apply", str(directory), "--dry-run")
    assert said.rstrip().endswith("Rules would refuse 1 of these changes. --change-set makes a change set.")
    organization.good("environment", "set-rules", name, rules.format(then="warn: Careful."))
    planned = organization.run("apply", str(directory), "--dry-run", "--detailed-exitcode")
    assert planned.exit_code == 10
    assert f"markers of environment {name}: warning. Careful." in planned.stderr


def test_an_export_is_checked_without_being_written(organization: Shell, tmp_path: Path) -> None:
    organization.good("apply", str(written(tmp_path / "wanted", FILES)), "--yes")
    directory = tmp_path / "exported"
    organization.good("export", str(directory))
    files = read_back(directory)
    organization.good("export", str(directory), "--check")
    organization.good("role", "create", "New", "--permissions", "- Read: [/*]")
    differing = organization.run("export", str(directory), "--check")
    assert (differing.exit_code, signs(differing.stdout)) == (10, ["- role New"])
    assert read_back(directory) == files
    assert "--overwrite" in organization.bad(2, "export", str(directory), "--check", "--overwrite")


def test_without_a_terminal_somebody_must_have_said_yes(organization: Shell, tmp_path: Path) -> None:
    directory = written(tmp_path / "wanted", {"roles/New.yaml": "- Read: [/*]\n"})
    assert "--yes" in organization.bad(2, "apply", str(directory))
    organization.bad(3, "role", "show", "New")


def test_a_directory_that_is_not_empty_is_not_written_into(organization: Shell, tmp_path: Path) -> None:
    written(tmp_path / "used", {"notes.yaml": "mine"})
    assert "--overwrite" in organization.bad(2, "export", str(tmp_path / "used"))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"environments/a.yaml": "markers: [a"}, r"a\.yaml:2:1: "),
        ({"environments/a.yaml": "policys: {}"}, "policys: unknown field"),
        ({"environments/a.yml": ""}, "Rename it to a.yaml"),
        ({"roles/a%zz.yaml": "", "things/x.yaml": ""}, "things: unexpected name"),
        ({"applications/a/manifest.yml": ""}, "Valid names: manifest.yaml"),
        ({"applications/a/manifest.yaml": "", "applications/a/source.yaml": "url: http://x"}, "Delete one of them"),
        ({"applications/a/source.yaml": "uri: x"}, "source.yaml"),
        ({"applications/a/labels.yaml": "a b: x"}, "labels.yaml:1:6: 'a b' can't be the name of a label"),
        ({"applications/a/labels.yaml": "tier: true"}, "tier: expected a string, got true or false."),
        ({"environments/a.yaml": "labels: {team: '-'}"}, "The label team can't have the value '-'"),
        ({"applications/a/revisions/r/other.yaml": ""}, "Valid names: revision.yaml"),
    ],
)
def test_what_is_wrong_with_a_directory_is_told_with_its_file(
    shell: Shell, tmp_path: Path, files: dict[str, str], told: str
) -> None:
    written(tmp_path / "bad", files)
    assert re.search(told, shell.bad(9, "apply", str(tmp_path / "bad")))


def test_a_missing_directory_is_a_wrong_argument(shell: Shell, tmp_path: Path) -> None:
    assert "isn't a directory" in shell.bad(2, "apply", str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"applications/a/manifest.yaml": "launch:\n  steps:\n    - a: {action: nothing}\n"}, "line 3, column 19"),
        ({"environments/a.yaml": "services: [None such]"}, "Unknown service 'None such'"),
        ({"roles/Administrator.yaml": ""}, "can't be changed"),
        ({"applications/a/revisions/r/revision.yaml": "environment: none"}, "Unknown environment 'none'"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_is_done(
    organization: Shell, tmp_path: Path, files: dict[str, str], told: str
) -> None:
    directory = written(tmp_path / "bad", {"roles/First.yaml": "- Read: [/*]\n", **files})
    assert told in organization.bad(3, "apply", str(directory), "--yes")
    organization.bad(3, "role", "show", "First")


def test_what_fails_on_the_way_tells_what_is_done(organization: Shell, tmp_path: Path) -> None:
    wrong = "type: builtin:cloud_account\nparameters: { configuration.nothing: 1 }\n"  # the server alone knows it
    files = {"roles/A.yaml": "- Read: [/*]\n", "services/B.yaml": wrong}
    told = organization.bad(1, "apply", str(written(tmp_path / "half", files)), "--yes")
    assert "1 applied, 1 left" in told
    written(tmp_path / "half", {"services/B.yaml": "type: builtin:cobalt_secure_store\n"})
    assert signs(organization.good("apply", str(tmp_path / "half"), "--yes")) == ["+ service B"]


TEXTS = st.text(st.characters(blacklist_categories=["Cs", "Cc"], whitelist_characters="\n\t"), max_size=12)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_what_is_written_as_yaml_reads_back_the_same(value: Any) -> None:
    assert plain(read(yaml_text({"value": value}).encode())) == {"value": value}


@pytest.mark.parametrize(
    "text", ["1e3", "0o17", "on", "yes", "~", "null", "1_000", "0x1f", "", " a", "a ", "a\nb", "'", '"']
)
def test_texts_that_look_like_something_else_stay_texts(text: str) -> None:
    assert plain(read(yaml_text({"value": text}).encode())) == {"value": text}


@pytest.mark.slow
@given(st.text(min_size=1))
def test_any_name_is_a_file_name_and_back(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    stem = file_name(name)
    assert object_name(stem) == name
    assert "/" not in stem
    assert stem not in {".", ".."}
