"""A value stays what its author wrote: through files, an editor, an export and an apply, against a real server."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launchbay.features.directories.contents import KINDS
from launchbay.model.yaml_text import yaml_text
from tests.support.directories import exported, new_organization, written
from tests.support.service import GREETER
from tests.support.shell import Shell, editor

pytestmark = pytest.mark.slow  # a real server, many commands


@pytest.fixture
def organization(cli: Shell) -> Shell:
    new_organization(cli)
    return cli


@pytest.fixture
def greeting(organization: Shell, tmp_path: Path) -> Callable[..., str]:
    """Launches the greeter with options, and returns what it says."""
    files = {"applications/greeter/manifest.yaml": GREETER}
    organization.good("apply", str(written(tmp_path / "greeter", files)), "--yes")

    def said(*options: str) -> str:
        shown = json.dumps(organization.document("launch", "greeter", "--wait", *options))
        found = re.search(r"Hello, ([^!]*)!", shown)
        assert found is not None, shown
        return found[1]

    return said


@pytest.mark.parametrize("text", ["1.10", "1.00", "0.00", "7.0", "1e3", "12345678e9", "0400", "no"])
def test_a_parameter_in_a_file_that_is_a_string(greeting: Callable[..., str], tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"input.who: {text}\n")
    assert greeting("-p", f"@{file}") == text
    assert greeting("-p", f"input.who={text}") == text


def test_an_application_of_a_directory_keeps_what_its_revision_says(organization: Shell, tmp_path: Path) -> None:
    files = {
        "applications/a/manifest.yaml": GREETER,
        "applications/a/revisions/r/revision.yaml": "parameters: { input.who: 1.10 }\n",
        "environments/e.yaml": (
            "policies: { a.b: 1e3, a.c: 81e3421, a.d: 1.10, a.e: 508e1234, a.f: 0x1F }\n"
            "properties: [{ name: p, type: string, value: 12345678e9 }, { name: q, type: int, value: 0x1F }]\n"
            "labels: { version: 1.10 }\n"
        ),
    }
    directory = written(tmp_path / "given", files)
    organization.good("apply", str(directory), "--yes")
    assert organization.document("revision", "show", "a/r")["parameters"] == {"input.who": "1.10"}
    found = organization.document("environment", "show-properties", "e")["properties"]
    assert [(each["name"], each["value"]) for each in found] == [("p", "12345678e9"), ("q", 31)]
    assert organization.document("environment", "labels", "e") == {"version": "1.10"}
    policies = organization.good("environment", "show-policies", "e")
    assert policies == "policies:\n  a.b: '1e3'\n  a.c: '81e3421'\n  a.d: '1.10'\n  a.e: '508e1234'\n  a.f: '0x1F'\n"
    assert "No changes." in organization.run("apply", str(directory)).stderr

    first = exported(organization, tmp_path / "first")
    new_organization(organization)
    organization.good("apply", str(tmp_path / "first"), "--yes")
    assert exported(organization, tmp_path / "second") == first


@pytest.mark.parametrize("text", ["81e3421", "1e3", "1234e56", "0400", "no", "1.10", "1:30", "1_000", "0o17", "~x"])
def test_policies_that_are_shown_can_be_set(organization: Shell, tmp_path: Path, text: str) -> None:
    (tmp_path / "policies.yaml").write_text(f"policies: {{ a.b: '{text}' }}\n")
    organization.good("environment", "set-policies", "default", str(tmp_path / "policies.yaml"))
    shown = organization.good("environment", "show-policies", "default")
    (tmp_path / "shown.yaml").write_text(shown)
    organization.good("environment", "set-policies", "default", str(tmp_path / "shown.yaml"))
    assert organization.good("environment", "show-policies", "default") == shown
    editor(organization, tmp_path, "")
    assert "Nothing has changed." in organization.run("edit", "policies", "default").stderr


def test_an_editor_changes_one_line_of_user_data_alone(
    greeting: Callable[..., str], organization: Shell, tmp_path: Path
) -> None:
    greeting("--name", "ship")
    hostile = {f"k{number}": text for number, text in enumerate(_HOSTILE)}
    (tmp_path / "data.json").write_text(json.dumps({"commit": "1234e56", "other": "one", **hostile}))
    organization.good("instance", "set-user-data", "ship", f"@{tmp_path / 'data.json'}")
    editor(organization, tmp_path, "path.write_text(path.read_text().replace('other: one', 'other: two'))\n")
    organization.good("edit", "user-data", "ship")
    found = organization.document("instance", "show", "ship")["userData"]
    assert found == {"commit": "1234e56", "other": "two", **hostile}


_HOSTILE = [
    *("1e3", "81e3421", "1234e56", "0400", "0o17", "0x1F", "1_000", "1:30", "190:20:30", "2001-01-01", "no", "on", "~"),
    *("=", "<<", "null", "true", "1.10", "7.0", "-0", ".inf", ".5", "08", "9" * 30, "", " a", "a ", "a: b", "- a"),
    *(
        "a\nb",
        "a\n\n",
        "\ta",
        "a #b",
        "é",
        "😀",
        "a\u2028b",
        "a\x85b",
        "'",
        '"',
        "{$.a}",
        "${a}",
        "*a",
        "&a",
        "!a",
        "%",
    ),
]
_text = st.sampled_from(_HOSTILE) | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)
_name = st.text("abcdefghij-._ %éA1", min_size=1, max_size=8).map(lambda text: f"n{text}n")
_policy = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([each for each in _HOSTILE if re.fullmatch(r"[\w./:@+=,%~?&#*!$-]+", each)])
)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)
_properties = st.one_of(
    st.tuples(st.just("string"), _text),
    st.tuples(st.just("int"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("bool"), st.booleans()),
    st.tuples(st.just("object"), _json),
    st.tuples(st.just("list<string>"), st.lists(_text, max_size=3)),
    st.tuples(st.just("map<string,int>"), st.dictionaries(_text, st.integers(-9, 9), max_size=3)),
)
_labels = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.sampled_from(["1.10", "1e3", "no", "a", "0400"]), max_size=2
)


@st.composite
def _objects(draw: st.DrawFn) -> dict[str, str]:
    """Return files of services, accounts, people, a Git source and schedules."""
    files: dict[str, str] = {}
    for name in draw(st.lists(_name, max_size=2, unique_by=str.casefold)):
        resources = draw(st.dictionaries(_name, _json, min_size=1, max_size=2))
        pool = {"type": "builtin:static_resource_pool", "parameters": {"configuration.resources": resources}}
        files[f"services/{_file(name)}.yaml"] = yaml_text(pool)
    accounts = draw(st.lists(_name, max_size=2, unique_by=str.casefold))
    for name in accounts:
        account = {
            "description": draw(_text),
            "enabled": name == accounts[0] or draw(st.booleans()),
            "roles": draw(_some_roles),
        }
        files[f"service-accounts/{_file(name)}.yaml"] = yaml_text(account)
    if accounts:
        source = {"account": accounts[0], "url": "https://git.example.org/a.git", "branch": "1.10", "paused": True}
        files[f"git-sources/{_file(accounts[0])}.yaml"] = yaml_text(source)
    if draw(st.booleans()):
        files["users/pat@example.org.yaml"] = yaml_text({"name": draw(_name), "roles": draw(_some_roles)})
    for name in draw(st.lists(_name, max_size=2, unique_by=str.casefold)):
        bulk = {"act": "label", "labels": {"v": "1.10", "w": None}, "select": {"name": draw(_name)}}
        files[f"schedules/{_file(name)}.yaml"] = yaml_text({"cron": "0 0 1 1 *", "zone": "UTC", "bulk": bulk})
    return files


_some_roles = st.sampled_from([[], ["Guest"]])


@st.composite
def organizations(draw: st.DrawFn) -> dict[str, str]:
    """Return the directory of an organization with objects of every kind that a directory holds."""
    files: dict[str, str] = {}
    environments = draw(st.lists(_name, min_size=1, max_size=2, unique_by=str.casefold))
    for name in environments:
        properties = draw(st.dictionaries(_name, _properties, max_size=4))
        files[f"environments/{_file(name)}.yaml"] = yaml_text(
            {
                "policies": draw(st.dictionaries(st.sampled_from([f"a.p{each}" for each in range(6)]), _policy)),
                "markers": draw(st.lists(_name, max_size=2, unique=True)),
                "properties": [
                    {"name": each, "type": type_, "value": value} for each, (type_, value) in properties.items()
                ],
                "services": draw(st.sampled_from([[], ["Default workflow service"]])),
                "labels": draw(_labels),
                "rules": draw(
                    st.sampled_from([{}, {"lifetime": {"defaultMs": 7200000}}, {"concurrency": [{"limit": 3}]}])
                ),
            }
        )
    for name in draw(st.lists(_name, max_size=2, unique_by=str.casefold)):
        folder = f"applications/{_file(name)}"
        files[f"{folder}/manifest.yaml"] = draw(
            st.sampled_from([GREETER, GREETER.replace("\n", "\r\n"), f"# é\n{GREETER}"])
        )
        if labels := draw(_labels):
            files[f"{folder}/labels.yaml"] = yaml_text(labels)
        for revision in draw(st.lists(_name, max_size=2, unique_by=str.casefold)):
            files[f"{folder}/revisions/{_file(revision)}/revision.yaml"] = yaml_text(
                {"parameters": {"input.who": draw(_text)}, "environment": draw(st.sampled_from(environments))}
            )
            if draw(st.booleans()):
                files[f"{folder}/revisions/{_file(revision)}/manifest.yaml"] = GREETER.replace("Hello", "Good day")
    files |= draw(_objects())
    for name in draw(st.lists(_name, max_size=1)):
        files[f"roles/{_file(name)}.yaml"] = "# A comment stays.\n- Read: [/*]\n"
    return files


def _file(name: str) -> str:
    return name.replace("%", "%25")


def test_an_export_applied_elsewhere_is_the_same_export_and_so_is_an_archive(
    cli: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    done: list[int] = []
    kinds: set[str] = set()

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(organizations())
    def check(files: dict[str, str]) -> None:
        place = tmp_path_factory.mktemp("organization")
        new_organization(cli)
        cli.good("apply", str(written(place / "given", files)), "--yes")
        assert "No changes." in cli.run("apply", str(place / "given")).stderr
        first = exported(cli, place / "first")
        cli.good("organization", "export", str(place / "archive.json"))

        new_organization(cli)
        cli.good("apply", str(place / "first"), "--yes")
        assert exported(cli, place / "second") == first

        made = cli.document("organization", "import", str(place / "archive.json"), "--name", "again")
        cli.environ["LAUNCHBAY_ORGANIZATION"] = made["id"]
        assert exported(cli, place / "third") == first
        done.append(len(first))
        kinds.update(name.partition("/")[0] for name in files)

    check()
    assert len(done) >= 12
    folders = {"applications", "environments", "roles", *(each.folder for each in KINDS.values())}
    assert kinds == folders
