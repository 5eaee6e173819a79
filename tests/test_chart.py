"""The Helm chart: what it renders is valid for Kubernetes, is as restricted as it says, and starts what exists."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from launchbay.cli.main import main
from launchbay.settings import load
from tests.support.documentation import ROOT, blocks

pytestmark = pytest.mark.slow  # Helm and the schemas of Kubernetes are installed for make test-slow
CHART = ROOT / "integrations" / "helm" / "launchbay"
PAGE = ROOT / "docs" / "howto" / "kubernetes.md"
TOOLS = ROOT / ".venv" / "chart" / "bin"
NEWEST = "1.37"
REQUIRED = {"baseUrl": "https://bay.example.org", "existingSecret": "launchbay"}
FROM_SECRET = {
    "LAUNCHBAY_DATABASE_URL": "postgresql://bay:secret@db.example.org/bay",
    "LAUNCHBAY_DATABASE_DIRECT_URL": "",
    "LAUNCHBAY_ADMIN_PASSWORD": "a good password",
}


def helm(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    if not (TOOLS / "helm").exists():
        pytest.skip("Helm is not installed (requirements/chart)")
    return subprocess.run([TOOLS / "helm", *arguments], check=False, capture_output=True, text=True, timeout=60)


def rendered(tmp_path: Path, **values: Any) -> list[dict[str, Any]]:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(REQUIRED | values))
    done = helm("template", "bay", CHART, "--namespace", "apps", "--values", file)
    assert done.returncode == 0, done.stderr
    (tmp_path / "rendered.yaml").write_text(done.stdout)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def refusal(tmp_path: Path, **values: Any) -> str:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(REQUIRED | values))
    done = helm("template", "bay", CHART, "--values", file)
    assert done.returncode != 0
    return done.stderr


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the specification of each pod by its component."""
    templates = [each["spec"]["template"] for each in objects if each["kind"] in {"Deployment", "Job"}]
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"] for each in templates}


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]


EVERYTHING = {
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a.example.org/b": "c"}},
    "imagePullSecrets": [{"name": "registry"}],
    "settings": {"log_level": "debug", "queue_limit": 1_000_000, "park_after_s": 2.5},
    "secretSettings": {"metrics_token": {"name": "metrics", "key": "token"}},
    "networkPolicy": {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "egress": [{"ports": [{"port": 5432}]}],
    },
    "podAnnotations": {"example.org/team": "bay"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_every_object_is_valid_in_the_oldest_and_the_newest_kubernetes(values: dict[str, Any], tmp_path: Path) -> None:
    objects = rendered(tmp_path, **values)
    kinds = {each["kind"] for each in objects}
    assert kinds >= {"Deployment", "Service", "Job", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"}
    oldest = re.findall(r">=(\d+\.\d+)", yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"])
    for version in (*oldest, NEWEST):
        done = subprocess.run(
            [TOOLS / "kubernetes-validate", "--strict", "-k", version, tmp_path / "rendered.yaml"],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count(" passed for resource ") == len(objects)


def test_an_invalid_object_would_be_noticed(tmp_path: Path) -> None:
    rendered(tmp_path)
    file = tmp_path / "rendered.yaml"
    file.write_text(file.read_text().replace("readOnlyRootFilesystem:", "readOnlyRootFileSystem:"))
    command: list[str | Path] = [TOOLS / "kubernetes-validate", "--strict", "-k", NEWEST, file]
    assert subprocess.run(command, check=False, capture_output=True, timeout=60).returncode != 0


def test_no_pod_may_more_than_it_needs(tmp_path: Path) -> None:
    found = pods(rendered(tmp_path))
    assert found.keys() == {"server", "worker", "migration"}
    for name, pod in found.items():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}
        probes = {key for key in container if key.endswith("Probe")}
        assert probes == (set() if name == "migration" else {"startupProbe", "livenessProbe", "readinessProbe"})
        [key] = [each for each in pod["volumes"] if "secret" in each]
        assert key["secret"]["defaultMode"] & 0o007 == 0, "the server refuses a key that everybody can read"


def test_the_user_of_the_pods_is_that_of_the_image(tmp_path: Path) -> None:
    image = (ROOT / "deploy" / "container" / "Containerfile").read_text()
    [user] = set(re.findall(r"useradd --uid (\d+)", image))
    directory = "/var/lib/launchbay"
    assert f"LAUNCHBAY_DATA_DIR={directory}" in image
    for pod in pods(rendered(tmp_path)).values():
        assert {pod["securityContext"][name] for name in ("runAsUser", "runAsGroup", "fsGroup")} == {int(user)}
        assert directory in {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}


def test_pods_run_commands_that_exist_with_settings_that_load(tmp_path: Path) -> None:
    for pod in pods(rendered(tmp_path, **EVERYTHING)).values():
        [container] = pod["containers"]
        command, *arguments = container["args"]
        shown = CliRunner().invoke(main, [command, "--help"])
        assert shown.exit_code == 0, shown.output
        assert {each for each in arguments if each.startswith("--")} <= set(re.findall(r"--[a-z-]+", shown.output))
        given = {each["name"]: each.get("value", FROM_SECRET.get(each["name"], "token")) for each in container["env"]}
        settings = load(environ=given)
        assert {name.removeprefix("LAUNCHBAY_").lower() for name in given} <= set(settings.__dataclass_fields__)
        assert (settings.log_level, settings.queue_limit, settings.park_after_s) == ("debug", 1_000_000, 2.5)
        assert settings.metrics_token == "token"
        assert settings.accepted_hosts() is None, "probes send the address of the pod as the name of the server"


def test_no_secret_is_in_an_object(tmp_path: Path) -> None:
    for pod in pods(rendered(tmp_path, **EVERYTHING)).values():
        for variable in pod["containers"][0]["env"]:
            if "value" not in variable:
                assert variable["valueFrom"]["secretKeyRef"]["name"] in {"launchbay", "metrics"}
    assert of_kind(rendered(tmp_path), "Secret") == []


def test_a_single_pod_has_no_budget_that_would_block_its_node(tmp_path: Path) -> None:
    budgets = of_kind(rendered(tmp_path), "PodDisruptionBudget")
    assert len(budgets) == 2
    assert of_kind(rendered(tmp_path, server={"replicas": 1}, worker={"replicas": 0}), "PodDisruptionBudget") == []


def test_the_database_is_migrated_before_new_pods_start(tmp_path: Path) -> None:
    [job] = of_kind(rendered(tmp_path), "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate"]
    assert "serviceAccountName" not in job["spec"]["template"]["spec"], "the account comes later"
    assert of_kind(rendered(tmp_path, migration={"enabled": False}), "Job") == []


def test_pods_reach_no_address_where_clouds_serve_credentials(tmp_path: Path) -> None:
    [policy] = of_kind(rendered(tmp_path), "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    [all_ipv4, _] = policy["spec"]["egress"][0]["to"]
    assert all_ipv4["ipBlock"]["except"] == ["169.254.0.0/16"]


def test_an_image_is_named_by_its_digest_or_else_its_tag(tmp_path: Path) -> None:
    digest = f"sha256:{'0a' * 32}"
    for image, named in (
        ({}, "launchbay:0.1.0"),
        ({"repository": "r.example.org/bay", "tag": "5"}, "r.example.org/bay:5"),
        ({"repository": "r.example.org/bay", "tag": "5", "digest": digest}, f"r.example.org/bay@{digest}"),
    ):
        found = {pod["containers"][0]["image"] for pod in pods(rendered(tmp_path, image=image)).values()}
        assert found == {named}
    assert "/image/digest" in refusal(tmp_path, image={"digest": "latest"})


def test_the_ingress_has_the_host_of_the_base_url(tmp_path: Path) -> None:
    [ingress] = of_kind(rendered(tmp_path, **EVERYTHING), "Ingress")
    assert ingress["spec"]["rules"][0]["host"] == "bay.example.org"
    assert ingress["spec"]["tls"] == [{"hosts": ["bay.example.org"], "secretName": "tls"}]
    [plain] = of_kind(rendered(tmp_path, baseUrl="http://bay.local:8080", ingress={"enabled": True}), "Ingress")
    assert plain["spec"]["rules"][0]["host"] == "bay.local"
    assert "tls" not in plain["spec"]


@pytest.mark.parametrize(("path", "served"), [("", "/"), ("/", "/"), ("/launchbay", "/launchbay"), ("/a/b/", "/a/b")])
def test_the_ingress_has_the_path_of_the_base_url(tmp_path: Path, path: str, served: str) -> None:
    values = {"baseUrl": f"https://bay.example.org{path}", "ingress": {"enabled": True}}
    [ingress] = of_kind(rendered(tmp_path, **values), "Ingress")
    assert ingress["spec"]["rules"][0]["http"]["paths"][0]["path"] == served


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"settings": {"log_levle": "debug"}}, "/settings"),
        ({"settings": {"metrics_token": "in the clear"}}, "/settings"),
        ({"settings": {"database_url": "postgresql://db"}}, "/settings"),
        ({"existingSecret": ""}, "/existingSecret"),
        ({"baseUrl": "bay.example.org"}, "/baseUrl"),
        ({"worker": {"replcas": 3}}, "/worker"),
        ({"server": {"replicas": 0}}, "/server/replicas"),
    ],
)
def test_wrong_values_are_refused_with_their_place(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert message in refusal(tmp_path, **values)


def sections(values: dict[str, Any], above: str = "") -> Iterator[str]:
    """Return the names of all sections and of all values in them."""
    for name, value in values.items():
        yield above + name
        if isinstance(value, dict):
            yield from sections(value, f"{above}{name}.")


SECTIONS = sorted(set(sections(yaml.safe_load((CHART / "values.yaml").read_text()))) - REQUIRED.keys())


@pytest.mark.parametrize("section", SECTIONS)
def test_any_section_may_be_null(section: str) -> None:
    given = [f"--set={name}={value}" for name, value in {**REQUIRED, section: "null"}.items()]
    done = helm("template", "bay", CHART, *given)
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_page_are_valid(tmp_path: Path) -> None:
    """`helm upgrade --install` of the page, as `helm template`, with the values of the page."""
    [values] = [each.text for each in blocks(PAGE) if each.language == "yaml" and "existingSecret" in each.text]
    (tmp_path / "values.yaml").write_text(values)
    text = "\n".join(each.text for each in blocks(PAGE) if each.language == "console").replace("\\\n", " ")
    [install] = re.findall(r"^\$ helm upgrade --install (.*)$", text, re.MULTILINE)
    words = [word for word in install.split() if word not in {"--wait", "--create-namespace"}]
    words[words.index("values.yaml")] = str(tmp_path / "values.yaml")
    words[words.index("integrations/helm/launchbay")] = str(CHART)
    done = helm("template", *words)
    assert done.returncode == 0, done.stderr
    [secret] = re.findall(r"create secret generic (\S+)", text)
    keys = set(re.findall(r"--from-(?:file|literal)=([\w.-]+)", text))
    assert secret == yaml.safe_load(values)["existingSecret"]
    assert keys == {"database-url", "secret.key", "admin-password"}
    references = re.findall(r"secretKeyRef:.*?key: ([\w.-]+)(, optional: true)?", done.stdout)
    assert {key for key, optional in references if not optional} <= keys


def test_the_chart_lints_and_packs_with_the_version_of_the_package(tmp_path: Path) -> None:
    done = helm("lint", CHART, "--strict", *(f"--set={name}={value}" for name, value in REQUIRED.items()))
    assert done.returncode == 0, done.stdout
    packed = helm("package", CHART, "--destination", tmp_path)
    assert packed.returncode == 0, packed.stderr
    version = re.findall(r'^__version__ = "(.*)"$', (ROOT / "src/launchbay/__init__.py").read_text(), re.MULTILINE)
    assert [each.name for each in tmp_path.iterdir()] == [f"launchbay-{version[0]}.tgz"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version[0]
