"""The public manifests: they are the language's test, so each of them compiles, with the warnings that it deserves."""

from pathlib import Path

import pytest

from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import CompiledManifest, Peer, Target
from tests.support.manifests import (
    ACTIONS,
    PUBLIC,
)
from tests.support.public_manifests import (
    DESERVED,
)


def compiled(name: str) -> CompiledManifest:
    [path] = [path for stem, path in PUBLIC.items() if stem.endswith(f"--{name}")]
    return compile_manifest(path.read_bytes(), known_actions=ACTIONS)


def providers(manifest: CompiledManifest, component: str, interface: str) -> list[tuple[str, str]]:
    return [(peer.component, peer.interface) for peer in manifest.components[component].peers[interface]]


@pytest.mark.parametrize("path", PUBLIC.values(), ids=PUBLIC)
def test_a_public_manifest_has_no_errors_and_only_the_warnings_that_it_deserves(path: Path) -> None:
    found = [(finding.code, finding.line) for finding in check(path.read_bytes(), known_actions=ACTIONS)]
    assert found == DESERVED.get(path.stem, [])


def test_a_composite_that_renames_a_pin_is_linked_to_the_pin_inside() -> None:
    manifest = compiled("functional_tester")
    [peer] = manifest.components["git.gitter"].peers["vm"]
    assert peer == Peer("java-vm", "vm", {"single-host": Target("java-vm.provisioner", "result.host")})


def test_inner_and_outer_bindings_add_up() -> None:
    manifest = compiled("functional_tester")
    assert providers(manifest, "s3.s3processor", "vm") == [("java-vm", "vm")]
    assert providers(manifest, "s3.s3processor", "s3-options") == [("s3.s3-properties", "properties")]


def test_interfaces_are_connected_by_their_pins_whatever_their_names() -> None:
    manifest = compiled("functional_tester")
    assert providers(manifest, "tester.functional", "reporter") == [("reporter", "report")]
    assert providers(manifest, "tester.functional", "selenium") == [("selenium", "endpoints")]
    assert providers(manifest, "tester.functional", "keystore") == [("keystore", "keypair-store")]


def test_providers_of_required_interfaces_start_first() -> None:
    manifest = compiled("functional_tester")
    position = manifest.order.index
    tester = position("tester.functional")
    assert all(position(path) < tester for path in ("git.gitter", "maven.mavenizer", "selenium", "s3.s3processor"))
    assert position("java-vm.provisioner") < position("git.gitter")


def test_the_workflow_service_is_accepted_and_ignored() -> None:
    manifest = compiled("qm-hierarchical-db")
    assert set(manifest.components["workflow"].peers) == {"keypair-store"}
    assert manifest.components["wfService"].peers == {}


def test_a_machine_has_its_pins_without_declaring_them() -> None:
    manifest = compiled("component-tomcat-dev")
    assert providers(manifest, "installer", "compute") == [("compute", "compute")]
    assert manifest.results["compute.networks"].targets == (Target("compute", "compute.networks"),)
    assert manifest.commands["compute.exec"].targets == (Target("compute", "compute.exec"),)
    assert configure(manifest, {})["compute"]["configuration.hardwareId"] == "c1.medium"


def test_a_wildcard_fans_out_to_every_component_that_it_names() -> None:
    manifest = compiled("component-tomcat-dev")
    configured = configure(manifest, {"configuration.app-port": "9090"})
    assert configured["installer"]["input.app-port"] == configured["deployer"]["input.app-port"] == 9090


def test_a_trigger_on_a_whole_interface_is_written_out() -> None:
    triggers = compiled("component-tomcat-dev").components["deployer"].triggers
    assert triggers == {
        **dict.fromkeys(
            [f"source.{pin}" for pin in ("lib-uri", "context-nodes", "context-attrs", "uri", "path", "java-opts")],
            "update",
        ),
        "update-indicator.war-update": "update",
    }


def test_needs_of_the_application_are_told_apart() -> None:
    manifest = compiled("component-haproxy")
    assert list(manifest.needs) == ["servers.app-uri"]
    assert manifest.needs["servers.app-uri"].targets == (Target("workflow", "servers.app-uri"),)


def test_a_scaler_and_what_it_multiplies_are_components_of_their_own() -> None:
    manifest = compiled("component-zookeeper-dev")
    assert manifest.components["cluster.compute"].scaler == "cluster"
    assert manifest.components["cluster"].scaler is None
    assert manifest.commands["scale.set-quantity"].targets == (Target("cluster", "scale.set-quantity"),)
    assert providers(manifest, "zookeeper", "compute") == [("cluster.compute", "compute")]
    configured = configure(manifest, {"configuration.clusterSize": 5})
    assert configured["cluster"]["configuration.quantity"] == configured["zookeeper"]["input.clusterSize"] == 5


def test_workflows_reached_by_alias_are_complete_on_their_own() -> None:
    workflows = compiled("component-haproxy").components["workflow"].workflows
    assert [step.name for step in workflows["launch"].steps] == [step.name for step in workflows["update"].steps]
    assert workflows["launch"].name == "launch"


def test_a_phase_among_the_parameters_counts_where_the_step_has_none() -> None:
    step = (
        compiled("qubellclient-tests-environment-marker-property").components["workflow"].workflows["launch"].steps[0]
    )
    assert step.phase == "get-env-props"
    scale_down = compiled("qm-hierarchical-main").components["web.workflow"].workflows["scale-down"]
    assert scale_down.steps[0].phase == "destroy"


def test_nested_submodules_keep_their_path() -> None:
    manifest = compiled("manifests-root")
    child = manifest.components["references.submodules.monitor-child"]
    assert child.configuration == {"__locator.application-id": "child"}
    assert configure(manifest, {})[child.path] == {"__locator.application-id": "child"}


def test_parameters_carry_labels_and_suggestions() -> None:
    parameter = compiled("manifests-child").parameters["init.e"]
    assert parameter.label == "input.e - object, please select one of suggested values"
    assert parameter.suggestions is not None
    assert parameter.suggestions["map"] == {"a": "A", "b": "B"}


def test_the_smallest_workflow_manifest_compiles() -> None:
    manifest = compiled("stories-test_filters-0")
    assert not manifest.is_component_manifest
    assert list(manifest.components) == ["workflow"]
    assert list(manifest.components["workflow"].workflows) == ["launch"]
