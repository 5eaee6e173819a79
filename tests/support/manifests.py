"""Small manifests for tests of the API."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest_tests.runner import CaseResult, SuiteRunner
from launchbay.manifest_tests.suite import read_suite
from launchbay.model.findings import Finding

# A workflow manifest. `pause` keeps the instance busy for as long as a test likes.
WORKFLOWS = """
launch:
  parameters: [{size: {default: 1}}, {label: {}}]
  steps: []
  return:
    shown: {value: "{$.size} of {$.label}"}
pause:
  parameters: [{seconds: {default: 60}}]
  steps:
    - first: {action: getInstanceContext}
    - rest: {action: wait, precedingPhases: [first], parameters: {delay: "{$.seconds}"}}
  return:
    shown: {value: "paused for {$.seconds}"}
echo:
  parameters: [{text: {default: nothing}}]
  steps: []
  return:
    shown: {value: "{$.text}"}
break:
  steps:
    - stop: {action: restcall, parameters: {command: "not a URL"}}
destroy:
  steps: []
"""

# Its `read` sends a secret of a provider to `url`.
READ_SECRET = """
launch: {steps: []}
read:
  parameters: [url: {default: ""}, reference: {default: ""}]
  steps:
    - send:
        action: restcall
        secrets: {wanted: "{$.reference}"}
        parameters: {command: "{$.url}", headers: {X-Password: "{$.secrets.wanted}"}}
        output: {said: content}
  return: {said: {value: "{$.said}"}}
"""
# Nothing but the command that keeps it busy; it launches without parameters.
PAUSING = """
launch: {steps: []}
pause:
  parameters: [{seconds: {default: 60}}]
  steps:
    - rest: {action: wait, parameters: {delay: "{$.seconds}"}}
destroy: {steps: []}
"""
# A component manifest with a command that takes one argument of every type, and shows all of them.
TYPED = """
application:
  interfaces:
    input:
      size: bind(worker#input.size)
      tags: bind(worker#input.tags)
    actions:
      show.all: bind(worker#actions.show.all)
      default: bind(worker#actions.default)
    result:
      seen: bind(worker#result.seen)
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input:
          size: configuration(int)
          tags: configuration(list<string>)
        actions:
          show.all: >-
            receive-command(string s, int i, bool b, double d, object o, list<int> l, map<string,bool> m, unit u)
          default: receive-command()
        result:
          seen: publish-signal(object)
      configuration:
        input.size: 1
        input.tags: []
        configuration.workflows:
          launch:
            steps: []
            return: {seen: {value: {size: "{$.size}", tags: "{$.tags}"}}}
          show.all:
            parameters: [{s: {default: none}}, {i: {default: 0}}, {b: {default: false}}, {d: {default: 0.5}},
                         {o: {default: {}}}, {l: {default: []}}, {m: {default: {}}}, {u: {default: null}}]
            steps: []
            return:
              seen: {value: {s: "{$.s}", i: "{$.i}", b: "{$.b}", d: "{$.d}", o: "{$.o}", l: "{$.l}", m: "{$.m}"}}
          default:
            steps: []
            return: {seen: {value: "the default"}}
"""
# A component manifest that asks for what has no default.
DEMANDING = """
application:
  interfaces:
    input:
      port: bind(worker#input.port)
      host: bind(worker#input.host)
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {port: configuration(int), host: configuration(string)}
      configuration:
        configuration.workflows: {launch: {steps: []}}
"""
# Fails at launch: before any step with an effect, or in one.
FAILING_EARLY = """
launch:
  steps:
    - look: {action: serialize, parameters: {}}
"""
FAILING_LATE = """
launch:
  steps:
    - call: {action: restcall, parameters: {command: "not a URL"}}
"""


def waits_in_a_row(*delays_s: float) -> str:
    """Return a component manifest whose launch waits so long in each of its steps, one after the other."""
    phases = [f"[wait{number - 1}]" if number else "[]" for number in range(len(delays_s))]
    steps = ", ".join(
        f"{{wait{number}: {{action: wait, precedingPhases: {phases[number]}, parameters: {{delay: {delay_s:g}}}}}}}"
        for number, delay_s in enumerate(delays_s)
    )
    return f"""
application:
  interfaces: {{}}
  components:
    worker:
      type: workflow.Instance
      interfaces: {{}}
      configuration:
        configuration.workflows:
          launch: {{steps: [{steps}]}}
          destroy: {{steps: []}}
"""


GREETER = """\
application:
  configuration: { input.who: world }
  interfaces:
    input:
      who: bind(greeter#input.who)
      times: bind(greeter#input.times)
      settings: bind(greeter#input.settings)
      loud: bind(greeter#input.loud)
    result: { greeting: bind(greeter#result.greeting), page: bind(greeter#result.page) }
    actions: { greet: bind(greeter#actions.greet), stumble: bind(greeter#actions.stumble) }
  components:
    greeter:
      type: workflow.Instance
      interfaces:
        input:
          who: { type: configuration(string), name: Whom to greet, suggestions: { The harbour: harbour, The bay: bay } }
          times: configuration(int)
          settings: configuration(object)
          loud: configuration(bool)
        result: { greeting: publish-signal(string), page: publish-signal(string) }
        actions: { greet: "receive-command(string name => string greeting)", stumble: receive-command() }
      configuration:
        input.settings: { tone: calm }
        input.loud: false
        configuration.workflows:
          launch:
            steps:
              - breathe: { action: wait, parameters: { delay: 1 } }
              - speak: { action: wait, precedingPhases: [breathe], parameters: { delay: 1 } }
            return:
              greeting: { value: "Hello, {$.who}!" }
              page: { value: "https://greetings.example.org/{$.who}" }
          greet:
            parameters:
              - name: { description: "Whom to greet now", default: you }
            steps:
              - bow: { action: wait, parameters: { delay: 1 } }
            return: { greeting: { value: "Good day, {$.name}!" } }
          stumble:
            steps:
              - walk: { action: wait, parameters: { delay: 0 } }
              - fall: { action: serialize, precedingPhases: [walk], parameters: { input: 1, format: "{$.who}" } }
"""
BROKEN = GREETER.replace("action: wait, parameters: { delay: 1 } }", "action: weit, parameters: { delay: 1 } }", 1)
FAMILY = """\
application:
  interfaces:
    result: { greeting: bind(child#result.greeting) }
  components:
    child:
      type: reference.Submodule
      interfaces: { result: { greeting: publish-signal(string) } }
      configuration: { __locator.application-id: "%s" }
"""
# A shop, with a depot in it, with a shelf in it. The depot gives the shelf its size, and leaves the rest to the launch.
SHELF = """\
application:
  configuration: { input.wood: oak }
  interfaces:
    input:
      size: bind(shelf#input.size)
      wood: bind(shelf#input.wood)
      label: bind(shelf#input.label)
      password: bind(shelf#input.password)
    result: { told: bind(shelf#result.told) }
  components:
    shelf:
      type: workflow.Instance
      interfaces:
        input:
          size: configuration(int)
          wood: { type: configuration(string), name: The wood, suggestions: { Oak: oak, Pine: pine } }
          label: configuration(string)
          password: configuration(string)
        result: { told: publish-signal(string) }
      configuration:
        input.password: none
        configuration.workflows:
          launch: { steps: [], return: { told: { value: "{$.label}: {$.size} of {$.wood}, {$.password}" } } }
"""
DEPOT = """\
application:
  configuration: { input.shelves: 2 }
  interfaces:
    input: { shelves: bind(shelf#input.size) }
    result: { told: bind(shelf#result.told) }
  components:
    shelf:
      type: reference.Submodule
      configuration: { __locator.application-id: "%s" }
      interfaces:
        input: { size: configuration(int) }
        result: { told: publish-signal(string) }
"""
SHOP = """\
application:
  interfaces:
    input: { shelves: bind(depot#input.shelves) }
    result: { told: bind(depot#result.told) }
  components:
    depot:
      type: reference.Submodule
      configuration: { __locator.application-id: "%s" }
      interfaces:
        input: { shelves: configuration(int) }
        result: { told: publish-signal(string) }
"""

ACTIONS = frozenset(
    {
        *(
            "chefsolo",
            "chefrun",
            "provisionVms",
            "provisionAmazonVm",
            "execrun",
            "getSignals",
            "getEnvironmentProperties",
        ),
        *("serviceCall", "commandCall", "serialize", "restcall", "undeployEnv", "destroyVms", "compute.shrink-all"),
        *("wait", "waitPeers", "getInstanceContext", "registerLogPath"),
    }
)
# Manifests written for these tests; together they use all that public ones use.
SAMPLES = {path.stem: path for path in sorted((Path(__file__).parents[1] / "samples").glob("*.yml"))}
# `make test-public DIR=…` runs the tests below tests/public, and those of the samples with these manifests as well.
PUBLIC = {
    path.stem: path for path in sorted(Path(os.environ.get("LAUNCHBAY_PUBLIC_MANIFESTS", os.devnull)).glob("*.yml"))
}
# What their recipes and commands would answer, so that their return values make sense.
SAMPLE_ANSWERS = """
answers:
  - { action: chefsolo, component: porter, give: { chefState: { gate: { entries: ["http://gate.example:80"] } } } }
  - { action: chefrun, component: keeper, give: { chefState: { stacks: { index: "index of all" } } } }
  - { step: key, give: { stdout: '{"key": "ssh-rsa AAAA"}' } }
"""
MANIFESTS = [*SAMPLES.values(), *PUBLIC.values()]


def compiled(text: str) -> CompiledManifest:
    return compile_manifest(dedent(text).encode(), known_actions=ACTIONS)


def findings(text: str) -> list[Finding]:
    return check(dedent(text).encode(), known_actions=ACTIONS)


def errors(text: str) -> list[tuple[str, int]]:
    """Code and line of each error."""
    return [(finding.code, finding.line) for finding in findings(text) if finding.severity == "error"]


def warnings(text: str) -> list[tuple[str, int]]:
    """Code and line of each warning; there must be no errors."""
    found = findings(text)
    assert not [finding for finding in found if finding.severity == "error"], found
    return [(finding.code, finding.line) for finding in found]


def message(text: str) -> str:
    """The sentence of the only finding."""
    [finding] = findings(text)
    return finding.message


def workflow_component(workflows: str, *, pins: str = "", more: str = "") -> str:
    """A manifest with the one component `w`, a workflow.Instance.

    `pins` are the lines of its interfaces, `workflows` those of its workflows and `more` further lines of its
    configuration; each block is dedented and put in its place. With two lines of pins and no more the workflows start
    at line 10.
    """
    lines = ["application:", "  components:", "    w:", "      type: workflow.Instance", "      interfaces:"]
    lines += [f"        {line}" for line in dedent(pins).strip("\n").splitlines()] or ["        none: {}"]
    lines += ["      configuration:"]
    lines += [f"        {line}" for line in dedent(more).strip("\n").splitlines()]
    lines += ["        configuration.workflows:"]
    lines += [f"          {line}" for line in dedent(workflows).strip("\n").splitlines()] or ["          {}"]
    return "\n".join(lines) + "\n"


WORKBENCH = SuiteRunner()


def outcomes(folder: Path, manifest: str, tests: str, others: Mapping[str, str] | None = None) -> list[CaseResult]:
    """Write a manifest, its tests and other files into a folder, and run the tests."""
    for name, text in {"app.yml": manifest, **(others or {})}.items():
        (folder / name).write_text(dedent(text))
    path = folder / "app.test.yml"
    path.write_text(dedent(tests))
    WORKBENCH.compiled.cache_clear()
    return list(WORKBENCH.results(read_suite(path, path.read_bytes()), lambda _: True))


def told(folder: Path, manifest: str, tests: str, others: Mapping[str, str] | None = None) -> list[str]:
    """Return what differs, each with its line."""
    return [
        f"{difference.line}: {difference.text}"
        for outcome in outcomes(folder, manifest, tests, others)
        for difference in outcome.differences
    ]


def many_components(
    number: int, group_size: int = 0, steps: Mapping[str, Any] | None = None, layer_size: int = 6
) -> str:
    """Return a manifest of so many components in layers, each bound to two before it; with a size, in composites.

    `steps` has the only step of the launch of components, by name.
    """
    names = [f"part-{place}" for place in range(number)]
    needs = {name: [names[place - back] for back in (layer_size, layer_size + 1) if place >= back]
             for place, name in enumerate(names)}  # fmt: skip

    def component(name: str) -> dict[str, Any]:
        step = (steps or {}).get(name)
        launch = {"steps": [{"act": step}] if step else [], "return": {"url": {"value": f"https://{name}.example"}}}
        return {
            "type": "workflow.Instance",
            "required": needs[name],
            "interfaces": {name: {"url": "publish-signal(string)"}}
            | {each: {"url": "consume-signal(string)"} for each in needs[name]},
            "configuration": {"configuration.workflows": {"launch": launch}},
        }

    pairs = [(name, need) for name in names for need in needs[name]]
    group = {name: f"group-{place // (group_size or number)}" for place, name in enumerate(names)}
    if not group_size:
        body: dict[str, Any] = {
            "bindings": [(f"{a}#{b}", f"{b}#{b}") for a, b in pairs],
            "components": {name: component(name) for name in names},
        }
        return json.dumps({"application": body})
    composites: dict[str, Any] = {}
    for name in names:
        composite = composites.setdefault(group[name], {"interfaces": {}, "bindings": [], "components": {}})
        composite["components"][name] = component(name)
        composite["interfaces"][name] = {"url": f"bind({name}#{name}.url)"}
    bindings = []
    for name, need in pairs:
        if group[name] == group[need]:
            composites[group[name]]["bindings"].append((f"{name}#{need}", f"{need}#{need}"))
        else:
            composites[group[name]]["interfaces"][f"{name}-{need}"] = {"url": f"bind({name}#{need}.url)"}
            bindings.append((f"{group[name]}#{name}-{need}", f"{group[need]}#{need}"))
    return json.dumps({"application": {"bindings": bindings, "components": composites}})


# Each workflow takes as long as its parameter says, and fails for one that is no time.
FERRY = """
application:
  configuration: { input.at-launch: "0", input.at-destroy: "0", input.at-change: "0" }
  interfaces:
    input:
      at-launch: bind(ferry#input.at-launch)
      at-destroy: bind(ferry#input.at-destroy)
      at-change: bind(ferry#input.at-change)
    manage: { move: bind(ferry#manage.move) }
  components:
    ferry:
      type: workflow.Instance
      interfaces:
        input:
          at-launch: configuration(string)
          at-destroy: configuration(string)
          at-change: configuration(string)
        manage: { move: receive-command(string delay => string moved) }
      configuration:
        configuration.triggers: { input.at-change: change }
        configuration.workflows:
          launch: { steps: [{ sail: { action: wait, parameters: { delay: "{$.at-launch}" } } }] }
          move:
            steps: [{ turn: { action: wait, parameters: { delay: "{$.delay}" } } }]
            return: { moved: { value: "after {$.delay}" } }
          change: { steps: [{ refit: { action: wait, parameters: { delay: "{$.at-change}" } } }] }
          destroy: { steps: [{ scrap: { action: wait, parameters: { delay: "{$.at-destroy}" } } }] }
"""

# Warned of when it is uploaded. `ask` waits for people, `hold` for a time, `break` fails.
EXTENDED = """
header: {concurrency: 2}
launch:
  parameters: [{size: {default: 1}}]
  steps:
    - one: {action: getInstanceContext, precedingPhases: [never]}
  return: {shown: {value: "{$.size}"}}
greet: {parameters: [{name: {default: x}}], steps: [], return: {shown: {value: "{$.name}"}}}
ask: {steps: [{sign: {action: approval, parameters: {text: "Go on?"}}}]}
hold: {steps: [{rest: {action: wait, parameters: {delay: 60 sec}}}]}
break: {steps: [{stop: {action: restcall, parameters: {command: "not a URL"}}}]}
stop: {steps: []}
start: {steps: []}
rollback: {steps: []}
extend: {steps: []}
destroy: {steps: []}
"""

# A schedule of the manifest.
HOURLY = """
application:
  interfaces: {input: {size: bind(web#input.size)}, result: {count: bind(web#result.count)}}
  components:
    web:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int)}
        actions: {tick: receive-command()}
        result: {count: publish-signal(int)}
      configuration:
        input.size: 1
        configuration.schedule: {tick: "0 0 * * * ?"}
        configuration.workflows:
          launch: {steps: [], return: {count: {value: 0}}}
          tick: {steps: [], return: {count: {value: 1}}}
          destroy: {steps: []}
"""

# Two are done at once, `answers` publishes without a step, `late` waits for `ask`, which waits for a person.
WAITING_COMPONENTS = """
application:
  components:
    first:
      type: workflow.Instance
      configuration: {configuration.workflows: {launch: {steps: [{go: {action: wait, parameters: {delay: 0}}}]}}}
    second:
      type: workflow.Instance
      configuration: {configuration.workflows: {launch: {steps: [{go: {action: wait, parameters: {delay: 0}}}]}}}
    ask:
      type: workflow.Instance
      interfaces: {out: {ready: publish-signal(string)}}
      configuration:
        configuration.workflows:
          launch:
            steps: [{sure: {action: approval, parameters: {text: Sure?}}}]
            return: {ready: {value: "yes"}}
    late:
      type: workflow.Instance
      interfaces: {in: {ready: consume-signal(string)}}
      required: [in]
      configuration: {configuration.workflows: {launch: {steps: [{go: {action: wait, parameters: {delay: 0}}}]}}}
  bindings:
    - [ask#out, late#in]
"""
