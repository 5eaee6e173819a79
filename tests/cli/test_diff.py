"""`launchbay diff`: versions, files, instances and directories."""

from pathlib import Path

import pytest

from tests.support.shell import Shell

MANIFEST = """
launch:
  steps:
    - say: {action: wait, parameters: {delay: "0"}}
destroy: {steps: []}
"""
CHANGED = MANIFEST.replace('delay: "0"', 'delay: "0.01"')


@pytest.fixture
def shop(cli: Shell, tmp_path: Path) -> str:
    """Return the name of an application with two versions that differ in a step: 2 and 3."""
    name = f"shop of {tmp_path.name}"
    cli.good("application", "create", name)
    for number, text in enumerate((MANIFEST, CHANGED)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text, "utf-8")
        cli.good("manifest", "upload", name, str(file))
    return name


def test_two_versions_differ_in_the_lines_of_a_step(cli: Shell, shop: str) -> None:
    shown = cli.good("diff", f"{shop}@2", f"{shop}@3")
    assert "step say" in shown
    assert '    - - say: {action: wait, parameters: {delay: "0"}}' in shown
    assert '    + - say: {action: wait, parameters: {delay: "0.01"}}' in shown
    assert cli.good("diff", f"{shop}@3") == shown
    assert cli.good("diff", f"{shop}@newest") == shown


def test_the_exit_code_says_whether_anything_differs(cli: Shell, shop: str) -> None:
    assert cli.run("diff", f"{shop}@2", f"{shop}@3", "--detailed-exitcode").exit_code == 10
    same = cli.run("diff", f"{shop}@2", f"{shop}@2", "--detailed-exitcode")
    assert (same.exit_code, same.stdout) == (0, "")
    assert "mean the same" in same.stderr


def test_a_file_is_compared_with_a_version(cli: Shell, shop: str, tmp_path: Path) -> None:
    assert "step say" in cli.good("diff", f"{shop}@newest", str(tmp_path / "0.yaml"))
    assert cli.document("diff", f"{shop}@newest", str(tmp_path / "1.yaml"))["isSame"]


def test_instances_are_compared_with_versions_and_each_other(cli: Shell, shop: str) -> None:
    one = cli.good("launch", shop, "--version", "2", "--name", f"{shop} one").strip()
    other = cli.good("launch", shop, "--name", f"{shop} two").strip()
    for instance in (one, other):
        cli.good("wait", instance)
    assert "step say" in cli.good("diff", f"{shop} one")
    assert "step say" in cli.good("diff", f"{shop} one", f"{shop}@3")
    assert cli.run("diff", f"{shop} two", "--detailed-exitcode").exit_code == 0
    shown = cli.good("diff", f"{shop} one", f"{shop} two")
    assert "version: 2 → 3" in shown
    ends = {cli.document("instance", "show", each)["destroyAt"] for each in (one, other)}
    assert {end for end in ends if f'"{end}"' in shown} == ends
    assert "step say" in shown
    twin = cli.good("launch", shop, "--name", f"{shop} three").strip()
    cli.good("wait", twin)
    found = cli.run("diff", f"{shop} two", f"{shop} three", "--detailed-exitcode")
    assert (found.exit_code, found.stdout.splitlines()[0]) == (0, "Each has its own:")
    assert f'name: "{shop} two" → "{shop} three"' in found.stdout
    assert "They were given the same" in found.stderr
    cli.good("destroy", twin, "--yes", "--wait")
    used = cli.good("diff", f"{shop}@3", "--used")
    assert "version 2, 1 instance: workflow: workflow launch" in used
    assert "version 3, 1 instance: nothing changes" in used


COMPONENTS = """
application:
  components:
    worker:
      type: workflow.Instance
      configuration: {configuration.workflows: {launch: {steps: []}, destroy: {steps: []}}}
"""


def test_a_limit_of_the_application_differs_for_an_instance_too(cli: Shell, tmp_path: Path) -> None:
    name = f"team/{tmp_path.name}"
    cli.good("application", "create", tmp_path.name)
    file = tmp_path / "manifest.yaml"
    file.write_text(COMPONENTS, "utf-8")
    cli.good("manifest", "upload", tmp_path.name, str(file))
    cli.good("wait", cli.good("launch", tmp_path.name, "--name", name).strip())
    assert cli.run("diff", name, "--detailed-exitcode").exit_code == 0
    file.write_text(f"{COMPONENTS}  concurrency: {{limit: 2}}\n", "utf-8")
    cli.good("manifest", "upload", tmp_path.name, str(file))
    found = cli.run("diff", name, "--detailed-exitcode")
    assert (found.exit_code, "limits of concurrent jobs" in found.stdout) == (10, True), found.output
    assert cli.document("diff", name)["difference"]["concurrency"] is True
    # So it is where a component differs too.
    file.write_text(f"{COMPONENTS.replace('destroy:', 'more: {steps: []}, destroy:')}  concurrency: {{limit: 2}}\n")
    cli.good("manifest", "upload", tmp_path.name, str(file))
    shown = cli.good("diff", name)
    assert "workflow more" in shown
    assert "limits of concurrent jobs" in shown


def test_a_directory_is_compared_with_the_server(cli: Shell, shop: str, tmp_path: Path) -> None:
    organization = cli.good("organization", "create", f"of {shop}").strip()
    folder = tmp_path / "wanted" / "applications" / "web"
    folder.mkdir(parents=True)
    (folder / "manifest.yaml").write_text(MANIFEST, "utf-8")
    found = cli.run("diff", str(tmp_path / "wanted"), "--organization", organization, "--detailed-exitcode")
    assert (found.exit_code, "+ application web" in found.stdout) == (10, True), found.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.yaml",), "doesn't exist"),
        (("{shop}@2", "./"), "Name a directory"),
        (("./", "{shop}@2"), "Name a directory"),
        (("{shop}@2", "./", "--used"), "--used takes one version"),
    ],
)
def test_what_cannot_be_compared_is_refused(cli: Shell, shop: str, words: tuple[str, ...], message: str) -> None:
    assert message in cli.bad(2, "diff", *(word.replace("{shop}", shop) for word in words))


def test_an_unknown_version_is_refused(cli: Shell, shop: str) -> None:
    assert "no manifest version 9" in cli.bad(9, "diff", f"{shop}@9")
