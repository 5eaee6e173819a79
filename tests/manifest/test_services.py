"""Which service fits a component, by the shape of its interfaces alone (manifest-language §8)."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from launchbay.manifest.services import (
    OfferedPin,
    ServiceMatch,
    ServiceOffer,
    ServiceOffers,
    choose,
    required_providers,
    service_shape,
)
from launchbay.model.instance import LinkKind
from launchbay.model.types import PinKind
from tests.support.manifests import compiled

SIGNAL, COMMAND = PinKind.PUBLISH_SIGNAL, PinKind.RECEIVE_COMMAND
Interfaces = Mapping[str, Mapping[str, PinKind]]


def offer(name: str, interfaces: Interfaces, unusable: str | None = None) -> ServiceOffer:
    pins = {
        interface: {pin: OfferedPin(kind, f"{interface}.{pin}") for pin, kind in found.items()}
        for interface, found in interfaces.items()
    }
    return ServiceOffer(name, f"the instance {name!r}", LinkKind.SERVICE, pins, unusable)


def chosen(shape: Interfaces, *offers: ServiceOffer, former: str | None = None) -> ServiceMatch | str:
    return choose("service", shape, ServiceOffers(offers).matching(shape), former)


def chosen_id(shape: Interfaces, *offers: ServiceOffer, former: str | None = None) -> str:
    found = chosen(shape, *offers, former=former)
    assert isinstance(found, ServiceMatch), found
    return found.offer.id


def refusal(shape: Interfaces, *offers: ServiceOffer) -> str:
    found = chosen(shape, *offers)
    assert isinstance(found, str)
    return found


VOICE = {"voice": {"word": SIGNAL, "say": COMMAND}}


def test_a_service_fits_that_offers_every_pin_with_its_kind() -> None:
    whole = offer("whole", {"voice": {"word": SIGNAL, "say": COMMAND, "more": SIGNAL}})
    half = offer("half", {"voice": {"word": SIGNAL}})
    mixed_up = offer("mixed up", {"voice": {"word": COMMAND, "say": SIGNAL}})
    torn = offer("torn", {"voice": {"word": SIGNAL}, "orders": {"say": COMMAND}})
    assert chosen_id(VOICE, half, mixed_up, whole, torn) == "whole"


def test_the_names_of_interfaces_need_not_match_and_pins_are_mapped() -> None:
    found = chosen(VOICE, offer("choir", {"song": {"word": SIGNAL, "say": COMMAND}}))
    assert isinstance(found, ServiceMatch)
    assert found.pins == {"voice.word": "song.word", "voice.say": "song.say"}


def test_an_interface_of_the_same_name_is_preferred_within_a_service_and_among_services() -> None:
    both = offer("both", {"song": VOICE["voice"], "voice": VOICE["voice"]})
    found = chosen(VOICE, both)
    assert isinstance(found, ServiceMatch)
    assert found.pins["voice.word"] == "voice.word"
    assert chosen_id(VOICE, offer("other", {"song": VOICE["voice"]}), both) == "both"


def test_several_services_that_fit_are_all_named() -> None:
    told = refusal(VOICE, offer("one", VOICE), offer("two", VOICE), offer("other", {"song": VOICE["voice"]}))
    assert "'service'" in told
    assert "'voice' (word, say)" in told
    assert "the instance 'one', the instance 'two'." in told


def test_a_service_that_fits_in_several_ways_is_told_with_its_interfaces() -> None:
    told = refusal(VOICE, offer("both", {"song": VOICE["voice"], "talk": VOICE["voice"]}))
    assert "match: song, talk" in told


def test_what_cannot_be_used_does_not_count_but_is_told_when_nothing_else_fits() -> None:
    gone = offer("gone", VOICE, unusable="that is Destroyed")
    assert chosen_id(VOICE, gone, offer("here", VOICE)) == "here"
    assert "the instance 'gone', but that is Destroyed." in refusal(VOICE, gone)


def test_a_service_that_is_in_use_stays_while_it_fits() -> None:
    offers = offer("one", VOICE), offer("two", VOICE)
    assert chosen_id(VOICE, *offers, former="two") == "two"
    assert chosen_id(VOICE, *offers[:1], former="two") == "one"


def test_one_service_fills_all_interfaces_of_a_component() -> None:
    shape = {"a": {"x": SIGNAL}, "b": {"y": COMMAND}}
    halves = offer("first", {"a": {"x": SIGNAL}}), offer("second", {"b": {"y": COMMAND}})
    assert "the interfaces 'a' (x), 'b' (y)" in refusal(shape, *halves)
    assert chosen_id(shape, *halves, offer("whole", shape)) == "whole"


REFERENCE = """
    application:
      bindings: [[w, s#need], [child, other]]
      components:
        s:
          type: reference.Service
          interfaces:
            gpu: {gpu: publish-signal(unit)}
            properties: {region: publish-signal(string)}
            executor: {execute-workflow: receive-command(object request => object status)}
            input: {size: configuration(int)}
            need: {word: publish-signal(string), say: receive-command()}
        other:
          type: reference.Service
          interfaces: {fed: {x: publish-signal(int)}}
        unbound:
          type: reference.Service
          interfaces: {loose: {z: publish-signal(int)}}
        w:
          type: workflow.Instance
          REQUIRED
          interfaces: {need: {word: consume-signal(string)}}
        child:
          type: reference.Submodule
          configuration: {__locator.application-id: c}
          interfaces: {fed: {x: consume-signal(int)}}
"""


def test_markers_properties_the_executor_and_parameters_are_no_part_of_the_shape() -> None:
    component = compiled(REFERENCE.replace("REQUIRED", "required: []")).components["s"]
    assert service_shape(component) == {"need": {"word": SIGNAL, "say": COMMAND}}


def test_a_service_is_required_by_a_required_interface_or_by_a_submodule() -> None:
    assert required_providers(compiled(REFERENCE.replace("REQUIRED", "required: [need]"))) == {"s", "other"}
    assert required_providers(compiled(REFERENCE.replace("REQUIRED", "required: []"))) == {"other"}


NAMES = st.sampled_from(["a", "b", "c"])
INTERFACES = st.dictionaries(
    NAMES, st.dictionaries(NAMES, st.sampled_from([SIGNAL, COMMAND]), min_size=1, max_size=3), min_size=1, max_size=3
)


@given(INTERFACES, st.lists(INTERFACES, max_size=5))
def test_what_fits_is_what_a_plain_search_finds(shape: Interfaces, offered: list[Interfaces]) -> None:
    offers = [offer(str(number), interfaces) for number, interfaces in enumerate(offered)]
    found = {fit.offer.id for fit in ServiceOffers(offers).matching(shape)}
    plainly = {
        str(number)
        for number, interfaces in enumerate(offered)
        if all(any(wanted.items() <= pins.items() for pins in interfaces.values()) for wanted in shape.values())
    }
    assert found == plainly


@given(INTERFACES, st.lists(INTERFACES, min_size=1, max_size=5))
def test_every_pin_is_mapped_to_one_of_the_same_name_and_kind(shape: Interfaces, offered: list[Interfaces]) -> None:
    offers = [offer(str(number), interfaces) for number, interfaces in enumerate(offered)]
    for fit in ServiceOffers(offers).matching(shape):
        assert set(fit.pins) == {f"{interface}.{pin}" for interface, pins in shape.items() for pin in pins}
        for own, theirs in fit.pins.items():
            interface, _, pin = own.partition(".")
            their_interface, _, their_pin = theirs.partition(".")
            assert their_pin == pin
            assert fit.offer.interfaces[their_interface][pin].kind is shape[interface][pin]
