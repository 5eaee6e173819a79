"""Instances that offer something, and instances that use it."""

from typing import Any

from tests.api.running import Api, accepted, fresh_name, refused

# Offers a signal and a command that changes it.
SPEAKER = """
application:
  interfaces:
    input: {first: bind(speaker#input.first)}
    voice: {word: bind(speaker#voice.word)}
    orders: {say: bind(speaker#orders.say)}
  components:
    speaker:
      type: workflow.Instance
      interfaces:
        input: {first: configuration(string)}
        voice: {word: publish-signal(string)}
        orders: {say: receive-command(string word => string said)}
      configuration:
        input.first: first
        configuration.workflows:
          launch: {steps: [], return: {word: {value: "{$.first}"}}}
          say: {steps: [], return: {word: {value: "{$.word}"}, said: {value: "said {$.word}"}}}
"""

# Stands on a speaker: shows its word, is triggered by it, and asks it to say something.
LISTENER = """
application:
  interfaces:
    result: {word: bind(service#voice.word), heard: bind(main#out.heard), told: bind(main#out.told)}
    actions: {ask: bind(main#actions.ask), wait: bind(main#actions.wait)}
  bindings: [[main, service]]
  components:
    service:
      type: reference.Service
      interfaces:
        voice: {word: publish-signal(string)}
        orders: {say: receive-command(string word => string said)}
    main:
      type: workflow.Instance
      required: REQUIRED
      interfaces:
        voice: {word: consume-signal(string)}
        orders: {say: send-command(string word => string said)}
        actions: {ask: receive-command(string word), wait: receive-command()}
        out: {heard: publish-signal(string), told: publish-signal(string)}
      configuration:
        configuration.triggers: {voice.word: hear}
        configuration.workflows:
          launch: &hear
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {heard: {value: "heard {$.seen.voice}"}}
          hear: *hear
          ask:
            steps: [{say: {action: orders.say, parameters: {word: "{$.word}"}, output: {answer: said}}}]
            return: {told: {value: "{$.answer}"}}
          wait: {steps: [], return: {told: {value: waited}}}
"""
NEEDY = LISTENER.replace("REQUIRED", "[voice]")
EASY = LISTENER.replace("REQUIRED", "[]")


async def environment(api: Api) -> str:
    """Make an environment that offers nothing."""
    created = await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    return str(accepted(created)["id"])


async def offer(api: Api, instance: str, *environments: str) -> None:
    """Offer an instance in exactly these environments."""
    accepted(await api.put(f"instances/{instance}/environments", {"environments": list(environments)}))


async def offered(api: Api, manifest: str = SPEAKER, **body: Any) -> tuple[str, str]:
    """Launch an instance and offer it in an environment of its own; return both ids."""
    instance = await api.running(manifest, **body)
    where = await environment(api)
    await offer(api, instance, where)
    return instance, where


def heard(word: str) -> str:
    return f'heard {{"word": "{word}"}}'


def behind(document: Any, component: str = "service") -> str | None:
    """Return the id of the instance that the API shows behind a component."""
    [found] = [part.get("instanceId") for part in document["components"] if part["name"] == component]
    return None if found is None else str(found)


async def launched(api: Api, manifest: str, where: str, **body: Any) -> Any:
    instance = await api.launch(await api.application(manifest), environmentId=where, **body)
    return await api.settled(instance)


async def refusal(api: Api, manifest: str, where: str) -> str:
    """Launch what cannot be launched there; return why not, and see that nothing came of it."""
    application = await api.application(manifest)
    told = refused(await api.post(f"applications/{application}/launch", {"environmentId": where}), 400, "CannotLaunch")
    assert accepted(await api.get(f"applications/{application}/instances")) == []
    return told
