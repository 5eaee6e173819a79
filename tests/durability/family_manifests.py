"""Applications in three levels whose workflows all leave lines in the ledger."""

LEAF = """
application:
  configuration: {input.size: 0}
  interfaces:
    input: {size: bind(worker#input.wanted)}
    result: {size: bind(worker#result.size)}
    actions: {grow: bind(worker#actions.grow)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {wanted: configuration(int)}
        result: {size: publish-signal(int)}
        actions: {grow: receive-command(int by => int size)}
      configuration:
        configuration.triggers: {input.wanted: resize}
        configuration.workflows:
          launch: &set
            steps:
              - a1: {action: probe, parameters: {seconds: 0.05}}
              - a2: {action: probe, precedingPhases: [a1],
                   parameters: {seconds: 0.1, value: "{$.wanted}"}, output: {v: value}}
            return: {size: {value: "{$.v}"}}
          resize: *set
          grow:
            steps: [{a1: {action: probe, parameters: {seconds: 0.1, value: "{$.by}"}, output: {v: value}}}]
            return: {size: {value: "{$.v}"}}
          destroy:
            steps: [{a1: {action: probe, parameters: {seconds: 0.1}}}]
"""

MIDDLE = """
application:
  interfaces:
    input: {size: bind(leaf#input.size)}
    result: {size: bind(leaf#result.size), heard: bind(ear#out.heard)}
    actions: {grow: bind(leaf#actions.grow)}
  bindings: [[ear, leaf]]
  components:
    leaf:
      type: reference.Submodule
      configuration: {__locator.application-id: leaf}
      interfaces:
        input: {size: configuration(int)}
        result: {size: publish-signal(int)}
        actions: {grow: receive-command(int by => int size)}
    ear:
      type: workflow.Instance
      required: [result]
      interfaces:
        result: {size: consume-signal(int)}
        out: {heard: publish-signal(int)}
      configuration:
        configuration.triggers: {result.size: hear}
        configuration.workflows:
          launch: &hear
            steps:
              - a1: {action: getSignals, output: {seen: result}}
              - a2: {action: probe, precedingPhases: [a1],
                   parameters: {seconds: 0.05, value: "{$.seen.result.size}"}, output: {v: value}}
            return: {heard: {value: "{$.v}"}}
          hear: *hear
          destroy:
            steps: [{a1: {action: probe, parameters: {seconds: 0.05}}}]
"""

# Offered as a service to all families.
BELL = """
application:
  interfaces: {bell: {ring: bind(bell#bell.ring), rung: bind(bell#bell.rung)}}
  components:
    bell:
      type: workflow.Instance
      interfaces: {bell: {ring: receive-command(int by => int heard), rung: publish-signal(int)}}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {rung: {value: 0}}}
          ring:
            steps:
              - a1: {action: probe, parameters: {seconds: 0.05, value: "{$.by}"}, output: {v: value}}
              - a2: {action: probe, precedingPhases: [a1], parameters: {seconds: 0.05}}
            return: {rung: {value: "{$.v}"}, heard: {value: "{$.v}"}}
"""

# CHILD is the name of the component that stands for the child, PART that of one without children: other names in
# another version make a reconfiguration take down what there is and launch what there is not.
TOP = """
application:
  configuration: {input.size: 0}
  interfaces:
    input: {size: bind(CHILD#input.size)}
    result: {size: bind(CHILD#result.size), heard: bind(CHILD#result.heard), echo: bind(ear#out.echo)}
    actions: {grow: bind(CHILD#actions.grow), ask: bind(ear#actions.ask)}
  bindings: [[ear, CHILD], [ear, tower]]
  components:
    tower:
      type: reference.Service
      interfaces: {bell: {ring: receive-command(int by => int heard)}}
    CHILD:
      type: reference.Submodule
      configuration: {__locator.application-id: middle}
      interfaces:
        input: {size: configuration(int)}
        result: {size: publish-signal(int), heard: publish-signal(int)}
        actions: {grow: receive-command(int by => int size)}
    PART:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch: {steps: [{a1: {action: probe, parameters: {seconds: 0.1}}}]}
          destroy: {steps: [{a1: {action: probe, parameters: {seconds: 0.1}}}]}
    ear:
      type: workflow.Instance
      required: [result]
      interfaces:
        result: {heard: consume-signal(int)}
        bell: {ring: send-command(int by => int heard)}
        actions: {grow: send-command(int by => int size), ask: receive-command(int by)}
        out: {echo: publish-signal(int)}
      configuration:
        configuration.triggers: {result.heard: hear}
        configuration.workflows:
          launch: &hear
            steps:
              - a1: {action: getSignals, output: {seen: result}}
              - a2: {action: probe, precedingPhases: [a1],
                   parameters: {seconds: 0.05, value: "{$.seen.result.heard}"}, output: {v: value}}
            return: {echo: {value: "{$.v}"}}
          hear: *hear
          ask:
            steps:
              - a1: {action: probe, parameters: {seconds: 0.05, value: "{$.by}"}, output: {v: value}}
              - a2: {action: actions.grow, precedingPhases: [a1], parameters: {by: "{$.v}"}}
              - a3: {action: bell.ring, precedingPhases: [a2], parameters: {by: "{$.v}"}, output: {v: heard}}
              - a4: {action: actions.grow, precedingPhases: [a3], parameters: {by: "{$.v}"}}
          destroy:
            steps: [{a1: {action: probe, parameters: {seconds: 0.05}}}]
"""


def top(child: str, part: str) -> str:
    """A manifest of the top level with these components."""
    return TOP.replace("CHILD", child).replace("PART", part)
