"""Applications for what the families do not do: a schedule of their own, and signals given to a submodule."""

CLOCK = """
application:
  components:
    clock:
      type: workflow.Instance
      configuration:
        configuration.schedule: {tick: "* * * * * ?"}
        configuration.workflows:
          tick: {steps: [{a1: {action: probe}}]}
"""

GUEST = """
application:
  interfaces:
    food: {word: bind(mouth#food.word)}
    result: {eaten: bind(mouth#result.eaten)}
  components:
    mouth:
      type: workflow.Instance
      required: [food]
      interfaces:
        food: {word: consume-signal(string)}
        result: {eaten: publish-signal(string)}
      configuration:
        configuration.triggers: {food.word: eat}
        configuration.workflows:
          launch: &eat
            steps:
              - a1: {action: getSignals, output: {seen: result}}
              - a2: {action: probe, precedingPhases: [a1],
                   parameters: {seconds: 0.1, value: "{$.seen.food.word}"}, output: {v: value}}
            return: {eaten: {value: "{$.v}"}}
          eat: *eat
"""

COOK = """
application:
  interfaces:
    result: {said: bind(cook#food.word), eaten: bind(guest#result.eaten)}
    actions: {say: bind(cook#actions.say)}
  bindings: [[guest, cook]]
  components:
    cook:
      type: workflow.Instance
      interfaces:
        food: {word: publish-signal(string)}
        actions: {say: receive-command(string word)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {word: {value: first}}}
          say:
            steps: [{a1: {action: probe, parameters: {seconds: 0.1}}}]
            return: {word: {value: "{$.word}"}}
    guest:
      type: reference.Submodule
      configuration: {__locator.application-id: guest}
      interfaces:
        food: {word: consume-signal(string)}
        result: {eaten: publish-signal(string)}
"""
