"""The manifests of tests/samples compile, and what is in them is linked as they say."""

from pathlib import Path

import pytest

from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import CompiledManifest, Peer, Target
from tests.support.manifests import ACTIONS, MANIFESTS, SAMPLES


def compiled(name: str) -> CompiledManifest:
    return compile_manifest(SAMPLES[name].read_bytes(), known_actions=ACTIONS)


def providers(manifest: CompiledManifest, component: str, interface: str) -> list[tuple[str, str]]:
    return [(peer.component, peer.interface) for peer in manifest.components[component].peers[interface]]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_has_nothing_to_find_fault_with(name: str) -> None:
    assert check(SAMPLES[name].read_bytes(), known_actions=ACTIONS) == []


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_can_be_launched_without_parameters(path: Path) -> None:
    manifest = compile_manifest(path.read_bytes(), known_actions=ACTIONS)
    assert manifest.required_parameters == ()
    for component, pins in configure(manifest, {}).items():
        assert set(pins) <= set(manifest.components[component].pins)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_everything_in_a_compiled_manifest_leads_to_pins_that_exist(path: Path) -> None:
    manifest = compile_manifest(path.read_bytes(), known_actions=ACTIONS)
    assert sorted(manifest.order) == sorted(manifest.components)
    shown = (manifest.parameters, manifest.results, manifest.commands, manifest.needs)
    targets = [target for pins in shown for pin in pins.values() for target in pin.targets]
    links = [
        (component.path, interface, peer)
        for component in manifest.components.values()
        for interface, peers in component.peers.items()
        for peer in peers
    ]
    targets += [target for _, _, peer in links for target in peer.pins.values()]
    for target in targets:
        assert target.pin in manifest.components[target.component].pins
    for path_of_need, interface, peer in links:
        for needed in peer.pins:
            assert manifest.components[path_of_need].pins[f"{interface}.{needed}"].type.kind.is_need


def test_a_composite_that_renames_a_pin_is_linked_to_the_pin_inside() -> None:
    [peer] = compiled("binding").components["press.printer"].peers["room"]
    assert peer == Peer("house", "room", {"key-holder": Target("house.caretaker", "result.host")})


def test_bindings_inside_and_outside_of_a_composite_add_up() -> None:
    manifest = compiled("binding")
    assert providers(manifest, "shop.seller", "room") == [("house", "room")]
    assert providers(manifest, "shop.seller", "prices") == [("shop.prices", "prices")]


def test_interfaces_are_connected_by_their_pins_whatever_their_names() -> None:
    manifest = compiled("binding")
    assert providers(manifest, "house.caretaker", "keys") == [("keys", "keypair-store")]
    assert providers(manifest, "binder.worker", "shop") == [("shop", "shop")]


def test_providers_of_required_interfaces_start_first() -> None:
    position = compiled("binding").order.index
    assert position("house.caretaker") < min(position("press.printer"), position("shop.seller"))


def test_the_service_that_once_ran_workflows_is_accepted_and_ignored() -> None:
    manifest = compiled("surroundings")
    assert set(manifest.components["clerk"].peers) == {"licence", "properties"}
    assert manifest.components["executor"].peers == {}


def test_a_machine_has_its_pins_without_declaring_them() -> None:
    manifest = compiled("reading-room")
    assert providers(manifest, "installer", "compute") == [("machine", "compute")]
    assert manifest.results["machine.networks"].targets == (Target("machine", "compute.networks"),)
    assert manifest.commands["machine.exec"].targets == (Target("machine", "compute.exec"),)
    assert configure(manifest, {})["machine"]["configuration.hardwareId"] == "c1.medium"


def test_a_wildcard_fans_out_to_every_component_that_it_names() -> None:
    configured = configure(compiled("reading-room"), {"room.port": "9090"})
    assert configured["installer"]["input.port"] == configured["deployer"]["input.port"] == 9090


def test_a_trigger_on_a_whole_interface_is_written_out() -> None:
    triggers = compiled("reading-room").components["deployer"].triggers
    watched = ("source.books", "source.nodes", "source.shelf", "news.edition")
    assert triggers == dict.fromkeys(watched, "deploy")


def test_needs_of_the_application_are_kept_apart_from_its_parameters() -> None:
    manifest = compiled("gate")
    assert list(manifest.needs) == ["rooms.uris"]
    assert manifest.needs["rooms.uris"].targets == (Target("porter", "rooms.uris"),)


def test_a_scaler_and_what_it_multiplies_are_components_of_their_own() -> None:
    manifest = compiled("stacks")
    assert manifest.components["rows.compute"].scaler == "rows"
    assert manifest.components["rows"].scaler is None
    assert manifest.commands["scale.set-quantity"].targets == (Target("rows", "scale.set-quantity"),)
    configured = configure(manifest, {"stacks.size": 5})
    assert configured["rows"]["configuration.quantity"] == configured["keeper"]["input.size"] == 5


def test_workflows_reached_by_alias_are_complete_on_their_own() -> None:
    workflows = compiled("gate").components["porter"].workflows
    assert [step.name for step in workflows["launch"].steps] == [step.name for step in workflows["open"].steps]
    assert (workflows["launch"].name, workflows["open"].name) == ("launch", "open")


def test_a_phase_among_the_parameters_counts_where_the_step_has_none() -> None:
    assert compiled("surroundings").components["clerk"].workflows["launch"].steps[0].phase == "asked"
    assert compiled("tiers").components["tier.workflow"].workflows["shrink"].steps[0].phase == "removed"


def test_a_submodule_below_composites_keeps_its_path() -> None:
    manifest = compiled("family")
    child = manifest.components["references.parts.child"]
    assert configure(manifest, {})[child.path] == {"__locator.application-id": "Card"}


def test_parameters_carry_labels_and_suggestions() -> None:
    parameter = compiled("card").parameters["card.note"]
    assert parameter.label == "Note"
    assert parameter.suggestions is not None
    assert parameter.suggestions["map"] == {"colour": "blue"}


def test_the_smallest_workflow_manifest_compiles() -> None:
    manifest = compiled("smallest")
    assert not manifest.is_component_manifest
    assert list(manifest.components["workflow"].workflows) == ["launch"]
