"""`cobalt.common.HttpEndpoint`: whoever reads it reads its source, at once."""

from tests.support.runtime import instance

APPLICATION = """
    application:
      interfaces:
        out: {url: bind(END#endpoint.url), seen: bind(reader#result.seen)}
        in: {url: bind(source#input.url), own: bind(first#configuration.url)}
        do: {again: bind(source#actions.again), look: bind(reader#actions.look)}
      configuration: {in.url: http://one, in.own: http://own}
      bindings: BINDINGS
      components:
        source:
          type: workflow.Instance
          interfaces:
            input: {url: configuration(string)}
            actions: {again: receive-command(string url)}
            result: {url: publish-signal(string)}
          configuration:
            configuration.workflows:
              launch: {steps: [], return: {url: {value: "{$.url}"}}}
              again: {steps: [], return: {url: {value: "{$.url}"}}}
        first: {type: cobalt.common.HttpEndpoint}
        second: {type: cobalt.common.HttpEndpoint}
        reader:
          type: workflow.Instance
          REQUIRED
          interfaces:
            in: {url: consume-signal(string)}
            actions: {look: receive-command()}
            result: {seen: publish-signal(object)}
          configuration:
            configuration.workflows:
              launch: &look
                steps: [{s: {action: getSignals, parameters: {multi: true}, output: {s: result}}}]
                return: {seen: {value: "{$.s}"}}
              look: *look
"""


def application(bindings: str, end: str, required: str = "required: [in]") -> str:
    return APPLICATION.replace("BINDINGS", bindings).replace("END", end).replace("REQUIRED", required)


async def test_an_endpoint_relays_its_source_and_a_later_change_of_it() -> None:
    live = instance(application("[[reader, first], [first, source]]", "first"))
    assert await live.launch() is None
    assert live.results["out.url"] == "http://one"
    assert live.results["out.seen"] == {"in": {"first": {"url": "http://one"}}}
    assert await live.command("do.again", url="http://two") is None
    assert live.results["out.url"] == "http://two"
    assert await live.command("do.look") is None
    assert live.results["out.seen"] == {"in": {"first": {"url": "http://two"}}}


async def test_endpoints_relay_endpoints() -> None:
    live = instance(application("[[reader, second], [second#source, first#endpoint], [first, source]]", "second"))
    assert await live.launch() is None
    assert live.results["out.url"] == "http://one"
    assert live.results["out.seen"] == {"in": {"second": {"url": "http://one"}}}


async def test_an_endpoint_that_is_bound_to_nothing_publishes_its_configuration() -> None:
    live = instance(application("[[reader, first]]", "first"))
    assert await live.launch() is None
    assert live.results["out.url"] == "http://own"
    assert live.results["out.seen"] == {"in": {"first": {"url": "http://own"}}}


async def test_endpoints_that_only_relay_each_other_have_no_value() -> None:
    circle = "[[reader, first], [first#source, second#endpoint], [second#source, first#endpoint]]"
    live = instance(application(circle, "second", required=""))
    assert await live.launch() is None
    assert live.results["out.seen"] == {"in": {"first": {"url": "http://own"}}}
