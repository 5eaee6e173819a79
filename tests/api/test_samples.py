"""The manifests of tests/samples through the API, on machines that run nothing."""

from typing import Any

import pytest

from tests.support.applications import destroyed, environment, finished, given_to_chef, is_public, reconfigured
from tests.support.applications import with_stand_ins as make_stand_ins
from tests.support.manifests import SAMPLES
from tests.support.service import YAML, Api, accepted, refused

CITY: list[dict[str, Any]] = [
    {"name": "name", "type": "string", "value": "Alexandria"},
    {"name": "readers", "type": "int", "value": 42},
    {"name": "address", "type": "object", "value": {"street": "Canopic Way", "rooms": [1, None]}},
]


def text_of(name: str) -> str:
    return SAMPLES[name].read_text("utf-8")


async def running(api: Api, name: str, **body: Any) -> Any:
    await make_stand_ins(api, text_of(name))
    return await api.settled(await api.running(text_of(name), **body))


async def succeeded(api: Api, instance: str, command: str, /, **arguments: str) -> Any:
    document = await api.run(instance, command, **arguments)
    last = document["workflowHistory"][0]
    assert last["status"] == "Succeeded", last["errorMessage"]
    return document


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_sample_is_accepted_without_a_warning(api: Api, name: str) -> None:
    content = SAMPLES[name].read_bytes()
    answer = await api.send("POST", "manifests/validate", content, **{"Content-Type": YAML["Content-Type"]})
    assert accepted(answer) == {"errors": [], "warnings": []}


async def test_a_greeting_follows_its_parameter_and_its_command(dry: Api) -> None:
    document = await running(dry, "greeting")
    assert document["returnValues"] == {"desk.sentence": "Good morning, reader"}
    document = await reconfigured(dry, document["id"], 2, **{"who.name": "Ada"})
    assert document["returnValues"] == {"desk.sentence": "Good morning, Ada"}
    document = await succeeded(dry, document["id"], "desk.welcome")
    assert [job["name"] for job in document["workflowHistory"]] == ["desk.welcome", "reconfigure", "launch"]
    await destroyed(dry, document["id"])


async def test_a_card_has_parameters_and_arguments_of_every_type(dry: Api) -> None:
    document = await running(dry, "card", parameters={"card.loans": "12"})
    assert document["returnValues"] == {"office.loans": 12, "office.titles": ["Emma", "Ulysses"]}
    arguments = {"name": "Bo", "rights": '{"a": "b"}', "titles": '["Walden"]', "loans": "1", "note": "5"}
    document = await succeeded(dry, document["id"], "office.print", **arguments)
    assert document["returnValues"] == {"office.loans": 1, "office.titles": ["Walden"]}
    await destroyed(dry, document["id"])


async def test_markers_and_properties_of_the_environment_reach_the_instance(dry: Api) -> None:
    application = await dry.application(text_of("surroundings"))
    where = await environment(dry)
    sentences = refused(await dry.post(f"applications/{application}/launch", {"environmentId": where}), 400)
    for name in ("licence", "name", "readers", "address"):
        assert name in sentences
    accepted(await dry.put(f"environments/{where}/markers", {"markers": [{"name": "licence"}]}))
    accepted(await dry.put(f"environments/{where}/properties", {"properties": CITY}))
    document = await dry.settled(await dry.launch(application, environmentId=where))
    assert (document["status"], document["errorMessage"]) == ("Running", None)
    assert document["returnValues"] == {f"city.{each['name']}": each["value"] for each in CITY}


async def test_a_catalogue_gives_its_address_and_makes_schemas(dry: Api) -> None:
    document = await running(dry, "catalogue")
    instance, host = document["id"], document["returnValues"]["catalogue.host"]
    assert is_public(host)
    assert document["returnValues"]["catalogue.access"] == {"uri": f"catalogue://root:pa55@{host}:3306", "port": 3306}
    first = document["returnValues"]
    document = await reconfigured(dry, instance, 2, **{"catalogue.port": 3307})
    assert document["returnValues"] == first, "nothing has a trigger"
    await succeeded(dry, instance, "catalogue.schema", user="ada", password="pa55", privileges='["all"]')
    assert (await given_to_chef(dry, instance, "create"))["schema"]["privileges"] == ["all"]
    await succeeded(dry, instance, "catalogue.query", files='["a.sql", "b.sql"]', connection='{"name": "library"}')
    document = await dry.run(instance, "launch")
    assert document["returnValues"]["catalogue.access"]["port"] == 3307
    await destroyed(dry, instance)


async def test_a_reading_room_follows_its_port_and_takes_commands(dry: Api) -> None:
    document = await running(dry, "reading-room")
    instance, values = document["id"], document["returnValues"]
    host = values["desk.host"]
    assert is_public(host)
    assert (values["desk.port"], values["desk.uri"]) == (8080, [f"http://{host}:8080/"])
    document = await reconfigured(dry, instance, 2, **{"room.port": 9090})
    assert (document["returnValues"]["desk.host"], document["returnValues"]["desk.port"]) == (host, 9090)
    assert (await given_to_chef(dry, instance, "furnish"))["room"] == {"port": 9090, "light": ""}
    await succeeded(dry, instance, "desk.open", hour="nine", books='["Emma"]')
    await succeeded(dry, instance, "machine.exec", command="ls", timeout="5")
    await succeeded(dry, instance, "machine.put-file", filename="/books", payload="RW1tYQ==")
    await succeeded(dry, instance, "machine.get-file", filename="/books")
    await destroyed(dry, instance)


async def test_stacks_scale_by_command_and_by_configuration(dry: Api) -> None:
    document = await running(dry, "stacks")
    instance, values = document["id"], document["returnValues"]
    hosts = values["stacks.hosts"]
    assert len(hosts) == len(values["stacks.nodes"]) == 3
    assert values["stacks.pages"] == [f"http://{ip}:2181/" for ip in hosts]
    assert values["stacks.index"] == "index of all for $1"
    await dry.run(instance, "scale.set-quantity", quantity="5")
    document = await finished(dry, instance, 3)  # the new machines trigger a workflow
    assert document["returnValues"]["stacks.hosts"][:3] == hosts
    assert len(document["returnValues"]["stacks.hosts"]) == 5
    document = await reconfigured(dry, instance, 4, **{"stacks.size": 2})
    assert len(document["returnValues"]["stacks.hosts"]) == 2
    await destroyed(dry, instance)


async def test_a_gate_gives_its_entries_and_follows_its_port(dry: Api) -> None:
    document = await running(dry, "gate")
    host = document["returnValues"]["gate.figures"]["host"]
    assert document["returnValues"]["gate.entries"] == ["http://gate.example:80"]
    document = await reconfigured(dry, document["id"], 2, **{"gate.port": 2000})
    assert document["returnValues"]["gate.figures"]["url"] == f"http://porter@{host}:2000/figures"
    await succeeded(dry, document["id"], "gate.add-rooms", hosts='["h"]', port="80", door="http://")
    await destroyed(dry, document["id"])


async def test_a_library_launches_over_its_three_submodules(dry: Api) -> None:
    document = await running(dry, "library")
    assert document["returnValues"]["library.entry"] == "the entry"
    assert document["returnValues"]["library.hosts"] == ["the room-hosts"]
    assert {each["name"] for each in document["components"]} == {"builder", "catalogue", "room", "gate"}
    document = await reconfigured(dry, document["id"], 2, **{"books.branch": "next"})
    assert document["workflowHistory"][0]["name"] == "reconfigure"
    await succeeded(dry, document["id"], "library.rebuild")
    await destroyed(dry, document["id"])


async def test_a_gate_below_a_library_gets_the_signals_of_the_room(dry: Api) -> None:
    text = text_of("library")
    for name in ("Catalogue", "Reading room", "Gate"):
        text = text.replace(f"id: {name}", f"id: {name} of the gate")
    await make_stand_ins(dry, text.replace("id: Gate of", "id: No gate of"))
    await dry.application(text_of("gate"), name="Gate of the gate")
    document = await dry.settled(await dry.running(text))
    child = next(each["instanceId"] for each in document["components"] if each["name"] == "gate")
    # The gate requires no room, so its launch waited for none; it heard of the room later.
    heard = await finished(dry, child, 3)
    assert {job["name"] for job in heard["workflowHistory"]} == {"launch", "gate.add-rooms", "open"}
    assert (await given_to_chef(dry, child, "install", job="open"))["gate"]["rooms"] == ["the room-uris"]
    document = await reconfigured(dry, document["id"], 2, **{"building.size": 3})
    await destroyed(dry, document["id"])


async def test_a_family_hands_its_command_down_to_a_submodule_below_composites(dry: Api) -> None:
    await dry.application(text_of("card"), name="Card")
    document = await dry.settled(await dry.running(text_of("family")))
    assert document["returnValues"] == {"parts.loans": 9}
    arguments = {"name": "Bo", "rights": "{}", "titles": "[]", "loans": "3", "note": "n"}
    document = await succeeded(dry, document["id"], "parts.print", **arguments)
    assert document["returnValues"] == {"parts.loans": 3}
    await destroyed(dry, document["id"])


async def test_tiers_grow_and_shrink_by_workflows_that_call_workflows(dry: Api) -> None:
    document = await running(dry, "tiers")
    instance, values = document["id"], document["returnValues"]
    [host] = values["server.hosts"]
    assert is_public(host)
    assert values["endpoint.figures"] == values["endpoint.url"] + ":22002/"
    document = await succeeded(dry, instance, "manage.grow", size="2", fork="library")
    assert len(set(document["returnValues"]["server.hosts"])) == 2 + 1
    await succeeded(dry, instance, "manage.shrink", size="1")
    await destroyed(dry, instance)


async def test_binding_takes_one_machine_and_commands_of_other_components(dry: Api) -> None:
    document = await running(dry, "binding")
    assert document["returnValues"] == {"chart.progress": 0}
    document = await succeeded(dry, document["id"], "work.bind", title="Emma")
    assert document["returnValues"] == {"chart.progress": 100}
    await destroyed(dry, document["id"])


async def test_shelves_are_made_and_lent_again_and_enlarged(dry: Api) -> None:
    document = await running(dry, "shelves")
    instance, hosts = document["id"], document["returnValues"]["places.hosts"]
    assert len(set(hosts)) == 3
    assert document["returnValues"]["places.doors"] == [f"http://{ip}:2379/" for ip in hosts]
    assert document["returnValues"]["places.key"] == ["ssh-rsa AAAA"] * 3
    document = await reconfigured(dry, instance, 2, **{"shelves.number": 4})
    assert document["returnValues"]["places.hosts"][:3] == hosts
    assert len(document["returnValues"]["places.hosts"]) == 4
    await destroyed(dry, instance)
