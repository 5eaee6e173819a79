"""The provider of Terraform, with the real `terraform`, by the example of its page (docs/howto/terraform.md)."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launchbay.client import ApiError, Basic, Client
from tests.support.external_services import TERRAFORM
from tests.support.servers import Bay
from tests.support.service import EMAIL, PASSWORD, fresh_name

ROOT = Path(__file__).parents[2]
PROVIDER = ROOT / "integrations" / "terraform"
PYTHON = ROOT / ".venv" / "terraform" / "bin" / "python"

pytestmark = [
    pytest.mark.slow,  # each command of Terraform starts the provider several times
    pytest.mark.timeout(300),
    pytest.mark.skipif(TERRAFORM is None, reason="requirements/tofu could not install Terraform"),
    pytest.mark.skipif(not PYTHON.exists(), reason="requirements/terraform could not install the framework"),
]

MORE = """
terraform {
  required_providers {
    launchbay = { source = "launchbay.local/launchbay/launchbay", version = "0.1.0" }
  }
}

variable "organization" { type = string }

data "launchbay_organization" "ours" { name = var.organization }

data "launchbay_role" "theirs" {
  organization_id = data.launchbay_organization.ours.id
  name            = "Theirs"
}

resource "launchbay_service" "colors" {
  organization_id = data.launchbay_organization.ours.id
  name            = "colors"
  type            = "builtin:static_resource_pool"
  parameters      = jsonencode({ "configuration.resources" = ["blue", "green"] })
}

resource "launchbay_environment" "painted" {
  organization_id = data.launchbay_organization.ours.id
  name            = "painted"
  policies        = "policies:\\n  provisionVms.hardwareId: m1.small\\n"
  services        = [launchbay_service.colors.id]
}

data "launchbay_environment" "same" {
  organization_id = data.launchbay_organization.ours.id
  name            = launchbay_environment.painted.name
}

data "launchbay_service" "same" {
  organization_id = data.launchbay_organization.ours.id
  name            = launchbay_service.colors.name
}

output "found" {
  value = [data.launchbay_environment.same.id, data.launchbay_service.same.id, data.launchbay_role.theirs.name]
}
"""


@dataclass
class Workspace:
    """A directory with a configuration, and the program run in it."""

    directory: Path
    environ: Mapping[str, str]

    def run(self, *arguments: str, expected: int | None = 0) -> str:
        """Run a command, and return what it prints."""
        assert TERRAFORM is not None
        command = [TERRAFORM, *arguments, "-no-color"]
        ran = subprocess.run(command, cwd=self.directory, env=self.environ, check=False, capture_output=True, text=True)
        assert expected is None or ran.returncode == expected, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def apply(self, *more: str, expected: int = 0) -> str:
        return self.run("apply", "-auto-approve", "-input=false", *more, expected=expected)

    def write(self, name: str, change: tuple[str, str]) -> None:
        """Replace a text of a file, which must have it."""
        path = self.directory / name
        text = path.read_text("utf-8")
        assert change[0] in text
        path.write_text(text.replace(*change), "utf-8")

    def value(self, resource: str) -> dict[str, Any]:
        """Return the attributes of a resource. They are read from the file: `terraform show` starts the provider."""
        kind, name = resource.split(".")
        state = json.loads((self.directory / "terraform.tfstate").read_text("utf-8"))
        managed = [each for each in state["resources"] if each["mode"] == "managed"]
        [found] = [each for each in managed if (each["type"], each["name"]) == (kind, name)]
        return dict(found["instances"][0]["attributes"])


@pytest.fixture(scope="module")
def client(bay: Bay) -> Client:
    return Client(bay.url, Basic(EMAIL, PASSWORD))


@pytest.fixture
def organization(client: Client) -> str:
    return client.create_organization(name=fresh_name("ours")).id


@pytest.fixture
def workspace(bay: Bay, client: Client, organization: str, tmp_path: Path) -> Workspace:
    """The example of the page, with the provider installed as the page says."""
    for path in (PROVIDER / "examples").iterdir():
        shutil.copy(path, tmp_path)
    plugins = tmp_path / "plugins"
    program = [str(PYTHON), "-m", "launchbay_terraform.provider", "install", str(plugins)]
    subprocess.run(program, check=True, env={**os.environ, "PYTHONPATH": f"{PROVIDER}:{ROOT / 'src'}"})
    config = tmp_path / "terraform.rc"
    config.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{plugins}"\n  }}\n}}\n', "utf-8")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TF_CLI_CONFIG_FILE": str(config),
        "CHECKPOINT_DISABLE": "1",
        "LAUNCHBAY_URL": bay.url,
        "LAUNCHBAY_TOKEN": client.create_access_token(organization, name="terraform", days=1).token,
        "TF_VAR_organization": client.read_organization(organization).name,
    }
    workspace = Workspace(tmp_path, environ)
    workspace.run("init", "-input=false")
    return workspace


def test_the_program_shows_its_usage_to_a_person_instead_of_waiting_for_terraform() -> None:
    environ = {**os.environ, "PYTHONPATH": f"{PROVIDER}:{ROOT / 'src'}"}
    for arguments, code in ((["--help"], 0), ([], 2), (["instal"], 2)):
        program = [str(PYTHON), "-m", "launchbay_terraform.provider", *arguments]
        ran = subprocess.run(program, env=environ, check=False, capture_output=True, text=True, timeout=60)
        assert ran.returncode == code
        assert "terraform-provider-launchbay install" in (ran.stderr if code else ran.stdout)


def test_an_application_is_launched_changed_and_destroyed(workspace: Workspace, client: Client) -> None:
    assert "5 to add" in workspace.run("plan", "-input=false")
    assert "Launching 'greeter-staging'" in workspace.apply()
    instance = workspace.value("launchbay_instance.greeter")
    shown = client.read_instance(instance["id"])
    assert (shown.status, shown.parameters, shown.labels) == ("Running", {"input.size": 2}, {"team": "web"})
    assert json.loads(workspace.run("output", "-json", "greeting")) == shown.return_values
    assert workspace.run("plan", "-input=false", "-detailed-exitcode")

    again = workspace.run("plan", "-input=false", "-var=size=5")
    assert "Reconfiguring 'greeter-staging'" in again, "the plan says what the preview says"
    assert "input.size: 2 → 5" in again
    workspace.apply("-var=size=5")
    assert client.read_instance(instance["id"]).parameters == {"input.size": 5}

    workspace.write("greeter.yaml", ("Hello from", "Good day from"))
    workspace.apply("-var=size=5")
    version = workspace.value("launchbay_application.greeter")["version"]
    assert client.read_instance(instance["id"]).version == version == instance["version"] + 1

    workspace.run("destroy", "-auto-approve", "-input=false")
    with pytest.raises(ApiError):
        client.read_instance(instance["id"])


@pytest.mark.packages
def test_what_changed_outside_is_shown_and_put_right(workspace: Workspace, client: Client) -> None:
    workspace.apply()
    instance = workspace.value("launchbay_instance.greeter")["id"]
    role = workspace.value("launchbay_role.deployer")["id"]
    environment = workspace.value("launchbay_environment.staging")["id"]
    client.reconfigure_instance(instance, parameters={"input.size": 9})
    client.wait(instance)
    client.update_role(role, name="Renamed", permissions="- Read: [/*]\n")
    client.replace_policies(environment, "policies:\n  provisionVms.hardwareId: m1.small\n")
    planned = workspace.run("plan", "-input=false")
    assert "0 to add, 3 to change, 0 to destroy" in planned
    assert "input.size: 9 → 2" in planned
    workspace.apply()
    assert client.read_instance(instance).parameters == {"input.size": 2}
    assert client.read_role(role).name == "Deployer"
    assert "m1.small" not in client.read_policies(environment)

    client.run(instance, "destroy").wait()
    client.delete_instance(instance)
    assert "launchbay_instance.greeter will be created" in workspace.run("plan", "-input=false")
    workspace.run("destroy", "-auto-approve", "-input=false")


@pytest.mark.packages
def test_what_exists_is_imported(workspace: Workspace, organization: str) -> None:
    workspace.apply()
    for name in ("environment.staging", "role.deployer", "schedule.nightly", "application.greeter", "instance.greeter"):
        resource = f"launchbay_{name}"
        id_ = workspace.value(resource)["id"]
        in_organization = resource.startswith(("launchbay_environment", "launchbay_role", "launchbay_schedule"))
        workspace.run("state", "rm", resource)
        workspace.run("import", "-input=false", resource, f"{organization}/{id_}" if in_organization else id_)
    assert workspace.run("plan", "-input=false", "-detailed-exitcode")
    refused = workspace.run("import", "-input=false", "launchbay_role.other", f"{organization}/nothing", expected=1)
    assert "launchbay_role.other" in refused
    workspace.run("destroy", "-auto-approve", "-input=false")


@pytest.mark.packages
def test_errors_say_what_to_change_and_nothing_is_lost(workspace: Workspace, client: Client) -> None:
    workspace.write("greeter.yaml", ("type: workflow.Instance", "typo: workflow.Instance"))
    refused = workspace.apply(expected=1)
    assert "Line " in refused
    assert "Code InvalidManifest, request" in refused
    workspace.write("greeter.yaml", ("typo: workflow.Instance", "type: workflow.Instance"))
    workspace.apply()

    assert "input.size" in workspace.run("plan", "-input=false", "-var=size=1.5", expected=1)
    workspace.write(
        "greeter.yaml",
        ("- prepare: {action: wait, parameters: {delay: 0}}", "- prepare: {action: serialize, parameters: {}}"),
    )
    failed = workspace.apply("-replace=launchbay_instance.greeter", expected=1)
    instance = workspace.value("launchbay_instance.greeter")["id"]
    assert instance in failed
    assert client.read_instance(instance).status == "Failed"
    assert "must be replaced" in workspace.run("plan", "-input=false"), "it is tainted, not forgotten"
    workspace.run("destroy", "-auto-approve", "-input=false")
    assert [each.id for each in client.list_applications(client.list_organizations()[-1].id)] == []


def test_services_and_what_others_made_are_used(workspace: Workspace, client: Client, organization: str) -> None:
    client.create_role(organization, name="Theirs", permissions="- Read: [/*]\n")
    (workspace.directory / "main.tf").unlink()
    (workspace.directory / "more.tf").write_text(MORE, "utf-8")
    workspace.apply()
    service = workspace.value("launchbay_service.colors")
    environment = workspace.value("launchbay_environment.painted")["id"]
    assert [each.id for each in client.read_environment_services(environment).services] == [service["id"]]
    assert client.read_policies(environment).count("m1.small") == 1
    assert json.loads(workspace.run("output", "-json", "found")) == [environment, service["id"], "Theirs"]
    workspace.run("plan", "-input=false", "-detailed-exitcode")
    client.update_service(service["id"], parameters={"configuration.resources": ["red"]})
    assert "0 to add, 1 to change, 0 to destroy" in workspace.run("plan", "-input=false")
    workspace.run("state", "rm", "launchbay_service.colors")
    workspace.run("import", "-input=false", "launchbay_service.colors", service["id"])
    assert "0 to add, 1 to change, 0 to destroy" in workspace.run("plan", "-input=false"), "it is not replaced"
    workspace.run("destroy", "-auto-approve", "-input=false")


def test_labels_change_while_a_job_runs(workspace: Workspace, client: Client) -> None:
    """The status is another one after the apply than in the plan."""
    workspace.write(
        "greeter.yaml", ("say: {action: wait, parameters: {delay: 0}}", "say: {action: wait, parameters: {delay: 40}}")
    )
    workspace.apply()
    instance = workspace.value("launchbay_instance.greeter")
    [file] = [each for each in workspace.directory.glob("*.tf") if '"web"' in each.read_text("utf-8")]
    workspace.write(file.name, ('"web"', '"ops"'))
    client.run(instance["id"], "greeter.greet")
    workspace.run("plan", "-input=false", "-out=plan")
    assert client.read_instance(instance["id"]).status == "Executing", "the job takes longer than the plan"

    workspace.run("apply", "-input=false", "plan")

    shown = client.read_instance(instance["id"])
    assert shown.labels == {"team": "ops"}
    assert workspace.value("launchbay_instance.greeter")["status"] == shown.status == "Running"


@dataclass(frozen=True)
class Meanwhile:
    """What changes a computed attribute between a plan and its application.

    `edit` is the change of the configuration that the plan is for, which concerns something else of the resource.
    `left` is what the next plan wants to change back.
    """

    resource: str
    attribute: str
    edit: tuple[str, str]
    change: Callable[[Client, Workspace], None]
    left: str = "No changes"


def _policies(client: Client, workspace: Workspace) -> None:
    policies = "policies:\n  provisionVms.hardwareId: m1.small\n"
    client.replace_policies(workspace.value("launchbay_environment.staging")["id"], policies)


def _manifest(client: Client, workspace: Workspace) -> None:
    text = (workspace.directory / "greeter.yaml").read_text("utf-8").replace("Hello", "Good day")
    client.replace_manifest(workspace.value("launchbay_application.greeter")["id"], text)


def _version(client: Client, workspace: Workspace) -> None:
    _manifest(client, workspace)
    instance = workspace.value("launchbay_instance.greeter")
    client.reconfigure_instance(
        instance["id"], manifest_version=int(instance["version"]) + 1, parameters={"input.size": 2}
    )
    client.wait(instance["id"])


def _parameters(client: Client, workspace: Workspace) -> None:
    instance = workspace.value("launchbay_instance.greeter")["id"]
    client.reconfigure_instance(instance, parameters={"input.size": 9})
    client.wait(instance)


def _zone(client: Client, workspace: Workspace) -> None:
    schedule = workspace.value("launchbay_schedule.nightly")
    client.update_recurring_schedule(schedule["id"], name=schedule["name"], cron=schedule["cron"], zone="Asia/Tokyo")


CONFIGURED_VERSION = "  version        = launchbay_application.greeter.version\n"


@pytest.mark.packages
@pytest.mark.parametrize(
    "case",
    [
        Meanwhile("launchbay_environment.staging", "exported_policies", ('"test"', '"live"'), _policies, "1 to change"),
        Meanwhile(
            "launchbay_application.greeter",
            "version",
            ('name            = "greeter"\n', 'name            = "renamed"\n'),
            _manifest,
            "2 to change",
        ),
        Meanwhile("launchbay_instance.greeter", "version", ('"web"', '"ops"'), _version, "1 to change"),
        Meanwhile("launchbay_instance.greeter", "return_values", ('"web"', '"ops"'), _parameters, "1 to change"),
        Meanwhile("launchbay_schedule.nightly", "zone", ('"0 3 * * *"', '"0 4 * * *"'), _zone),
    ],
    ids=lambda case: f"{case.resource}.{case.attribute}",
)
def test_a_computed_attribute_changes_between_plan_and_apply(
    workspace: Workspace, client: Client, case: Meanwhile
) -> None:
    if case.change is _version:
        workspace.write("main.tf", (CONFIGURED_VERSION, ""))
    if case.change is _zone:
        workspace.write("main.tf", ('  zone            = "Europe/Berlin"\n', ""))
    workspace.apply()
    workspace.write("main.tf", case.edit)
    workspace.run("plan", "-input=false", "-out=plan")
    case.change(client, workspace)

    workspace.run("apply", "-input=false", "plan")

    assert case.left in workspace.run("plan", "-input=false")
    workspace.apply()
    workspace.run("plan", "-input=false", "-detailed-exitcode")
    workspace.run("destroy", "-auto-approve", "-input=false")
