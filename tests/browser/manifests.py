"""Manifests that the tests of pages launch."""

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
              - fall: { action: serialize, precedingPhases: [walk], parameters: { input: 1, format: NOTHING } }
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
