"""Small manifests for tests of the API."""

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
