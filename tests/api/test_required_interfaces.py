"""Required interfaces at launch (manifest-language §3): somebody must be bound to each, or the launch is refused."""

from typing import Any

from tests.support.service import YAML, Api, accepted, fresh_name, refused

WEB = """
application:
  interfaces:
    page: {text: bind(web#page.text)}
  components:
    web:
      type: workflow.Instance
      required: [db]
      interfaces:
        db: {host: consume-signal(string), port: consume-signal(int)}
        page: {text: publish-signal(string)}
      configuration:
        configuration.workflows:
          launch:
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {text: {value: "at {$.seen.db.host}"}}
"""
EXPOSED = WEB.replace(
    "interfaces:\n", "interfaces:\n    store: {host: bind(web#db.host), port: bind(web#db.port)}\n", 1
)
COMMANDING = """
application:
  interfaces:
    need: {say: bind(web#need.say)}
  components:
    web:
      type: workflow.Instance
      required: [need]
      interfaces:
        need: {say: send-command(string word)}
      configuration: {configuration.workflows: {launch: {steps: []}}}
"""
STORE = """
    store:
      type: cobalt.common.Constants
      interfaces: {address: {host: publish-signal(string), port: publish-signal(int)}}
      configuration: {configuration.values: {address.host: db.example, address.port: 5432}}
"""
PARENT = """
application:
  interfaces:
    child: {"*": bind(child#page.*)}
  bindings: BINDINGS
  components:
    child:
      type: reference.Submodule
      interfaces:
        page: {text: publish-signal(string)}
        store: {host: consume-signal(string), port: consume-signal(int)}
      configuration: {__locator.application-id: "CHILD"}
"""
# Has the child's need itself, for its own parent.
MIDDLE = PARENT.replace("BINDINGS", "[]").replace(
    "interfaces:\n", "interfaces:\n    store: {host: bind(child#store.host), port: bind(child#store.port)}\n", 1
)
OUTER = PARENT.replace("page:", "child:").replace("child#page", "child#child")


async def child(api: Api, manifest: str = EXPOSED) -> str:
    """Make an application and return its name."""
    name = fresh_name("child")
    await api.application(manifest, name=name)
    return name


async def refusal(api: Api, manifest: str) -> str:
    application = await api.application(manifest)
    told = refused(await api.post(f"applications/{application}/launch", {}), 400, "CannotLaunch")
    preview = accepted(await api.post(f"applications/{application}/launch/preview", {}))
    assert preview["errors"] == [told]
    assert accepted(await api.get(f"applications/{application}/instances")) == []
    return told


async def warnings(api: Api, manifest: str) -> list[Any]:
    checked = await api.send("POST", "manifests/validate", manifest.encode(), content_type=YAML["Content-Type"])
    return [(each["code"], each["message"]) for each in accepted(checked)["warnings"]]


async def test_a_launch_is_refused_when_nothing_is_bound_to_a_required_interface(api: Api) -> None:
    told = await refusal(api, WEB)
    assert told == (
        "Component 'web' requires the interface 'db' (host, port), but nothing is bound to it. Bind a component to it."
    )
    assert [code for code, _ in await warnings(api, WEB)] == ["UnboundInterface"]


async def test_a_child_that_is_launched_alone_is_refused_and_its_upload_warned_of_it(api: Api) -> None:
    told = await refusal(api, EXPOSED)
    assert "requires the interface 'db' (host, port), but nothing is bound to it." in told
    assert "Launch the application as a submodule whose parent binds 'store'" in told
    [(code, message)] = await warnings(api, EXPOSED)
    assert code == "NeedsParent"
    assert "A parent must provide it" in message
    assert "requires the interface 'need' (say)" in await refusal(api, COMMANDING)


async def test_what_is_bound_in_the_application_needs_no_parent(api: Api) -> None:
    bound = f"{EXPOSED}  bindings: [[web, store]]\n".replace("  components:\n", f"  components:{STORE}", 1)
    assert await warnings(api, bound) == []
    document = await api.document(await api.running(bound))
    assert document["returnValues"] == {"page.text": "at db.example"}


async def test_a_child_is_judged_with_what_its_parent_binds(api: Api) -> None:
    parent = PARENT.replace("CHILD", await child(api))
    told = await refusal(api, parent.replace("BINDINGS", "[]"))
    assert told.startswith("Submodule child: Component 'web' requires the interface 'db'")
    document = await api.document(await api.running(parent.replace("BINDINGS", "[[child, store]]") + STORE))
    assert document["returnValues"] == {"child.text": "at db.example"}


async def test_a_need_may_be_passed_on_over_several_levels(api: Api) -> None:
    middle = await child(api, MIDDLE.replace("CHILD", await child(api)))
    outer = OUTER.replace("CHILD", middle)
    told = await refusal(api, outer.replace("BINDINGS", "[]"))
    assert told.startswith("Submodule child.child: Component 'web' requires the interface 'db'")
    document = await api.document(await api.running(outer.replace("BINDINGS", "[[child, store]]") + STORE))
    assert document["returnValues"] == {"child.text": "at db.example"}


async def test_a_reconfiguration_to_a_version_with_an_unbound_interface_is_refused(api: Api) -> None:
    free = WEB.replace("[db]", "[]")
    application = await api.application(free)
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", WEB))
    body = {"manifestVersion": 3}
    told = refused(await api.put(f"instances/{instance}/configuration", body), 400, "CannotLaunch")
    assert "requires the interface 'db'" in told
