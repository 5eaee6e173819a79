"""Manifests as people may write them, though few do: each is legal, and gives what the language page says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from launchbay.model.environment import EnvironmentView
from tests.support.runtime import instance


@dataclass
class Case:
    text: str
    values: Mapping[str, Any]
    commands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    environment: EnvironmentView = field(default_factory=EnvironmentView)


CASES = {
    "pins at two levels of composites, with wildcards and bindings at both": Case(
        """
        root:
          interfaces: {r: {"*": "bind(o#r.*)"}, i: {"*": "bind( o # i . * )"}}
          bindings: [[o.reader, o.deep.src]]
          configuration: {i.n: 4}
          components:
            o:
              interfaces: {r: {"*": "bind(reader#r.*)"}, i: {"*": "bind(deep#i.*)"}}
              configuration: {i.n: 9}
              bindings: [[reader#own, deep#outp]]
              components:
                reader:
                  type: workflow.Instance
                  required: [in, own]
                  interfaces:
                    in: {v: consume-signal(int)}
                    own: {w: consume-signal(int)}
                    r: {o: publish-signal(object)}
                  configuration:
                    configuration.workflows:
                      launch:
                        steps: [{g: {action: getSignals, output: {s: result}}}]
                        return: {o: {value: "{$.s}"}}
                deep:
                  interfaces: {i: {n: bind(src#i.n)}, outp: {w: bind(src#two.w)}}
                  components:
                    src:
                      type: workflow.Instance
                      interfaces:
                        i: {n: configuration(int)}
                        outp: {v: publish-signal(int)}
                        two: {w: publish-signal(int)}
                      configuration:
                        configuration.workflows:
                          launch: {steps: [], return: {v: {value: "{$.n}"}, w: {value: 7}}}
        """,
        {"r.o": {"in": {"v": 4}, "own": {"w": 7}}},
    ),
    "a required signal of type unit": Case(
        """
        application:
          interfaces: {r: {x: bind(b#r.x)}}
          bindings: [[b, a]]
          components:
            b:
              type: workflow.Instance
              required: [i]
              interfaces: {i: {ready: consume-signal(unit)}, r: {x: publish-signal(int)}, none: }
              configuration: {configuration.workflows: {launch: {return: {x: {value: 1}}}}}
            a:
              type: workflow.Instance
              interfaces: {o: {ready: publish-signal(unit)}}
              configuration: {configuration.workflows: {launch: {steps: , return: {ready: {value: null}}}}}
        """,
        {"r.x": 1},
    ),
    "lists where maps are usual, settings as texts and expressions": Case(
        """
        version: 1.0
        launch:
          parameters: [n: {default: "2", type: int}, flag: {default: "true"}]
          steps:
            - a: {action: effect, parameters: [fail: 1, retryCount: "{$.n}", value: 5], output: [x: value, y: attempt]}
            - b: {action: effect, precedingPhases: a, parameters: {fail: 9, ignoreFail: "{$.flag}"}}
          return:
            - x: {value: "{$.x}", description: d}
            - y: {value: ["{$.y}", {z: "${n}"}]}
        """,
        {"x": 5, "y": [2, {"z": 2}]},
    ),
    "phases among the parameters, and variables inside of macros": Case(
        """
        launch:
          steps:
            mid: {action: .two, precedingPhases: [start], parameters: {v: "{$.e}"}, output: {m: out}}
            early: {action: .one, parameters: {phase: start}, output: {e: out}}
          return: {m: {value: "{$.m}"}, inner: {value: "{$.mid~v}"}}
        .one: {steps: [], return: {out: {value: one}}}
        .two: {parameters: [v: {default: none}], steps: [], return: {out: {value: "two {$.v}"}}}
        """,
        {"m": "two one", "inner": "one"},
    ),
    "odd names and literal marks in expressions": Case(
        """
        launch:
          parameters: [d: {default: {a.b: {c-d: [1, {e: f}]}, "x y": {z: 1}}}]
          steps: []
          return:
            a: {value: "{$.d['a.b']['c-d'][1].e}"}
            b: {value: '{$.d["x y"].z}'}
            c: {value: "{$.d..e}"}
            d: {value: "$${{X}} {{}} $$5 { $.x } {x} ${X:-1}"}
        """,
        {"a": "f", "b": 1, "c": ["f"], "d": "${X} {} $5 { $.x } {x} ${X:-1}"},
    ),
    "needs in the header of a workflow manifest": Case(
        """
        version: "1.1"
        header: {services: {properties: {db-image: consume-signal(string)}, mk: {mk: consume-signal(unit)}}}
        launch:
          steps: [{e: {action: getEnvironmentProperties, output: {p: result}}}]
          return: {x: {value: "{$.p.properties.db-image}"}}
        """,
        {"x": "img"},
        environment=EnvironmentView(markers=["mk"], properties={"db-image": "img"}),
    ),
    "a command with intermediate results": Case(
        """
        application:
          interfaces: {act: {go: bind(a#act.go)}, r: {x: bind(a#r.x)}}
          bindings: [[a, b]]
          components:
            a:
              type: workflow.Instance
              interfaces:
                act: {go: "receive-command( => )"}
                s: {run: "send-command(string c => int pct => string out, int code)"}
                r: {x: publish-signal(object)}
              configuration:
                configuration.workflows:
                  go:
                    steps:
                      - s:
                          action: serviceCall
                          parameters: {service: s, command: run, arguments: {c: hi}, timeout: 10}
                          output: {o: result}
                    return: {x: {value: "{$.o}"}}
            b:
              type: workflow.Instance
              interfaces: {r: {run: "receive-command(string c => int pct => string out, int code)"}}
              configuration:
                configuration.workflows:
                  run: {steps: [], return: {out: {value: "{$.c}"}, code: {value: 0}}}
        """,
        {"r.x": {"out": "hi", "code": 0}},
        {"act.go": {}},
    ),
    "a composite inside of a Scaler whose quantity is a parameter": Case(
        """
        application:
          configuration: {s.n: 2}
          interfaces: {s: {n: bind(sc#configuration.quantity)}, r: {x: bind(w#r.x)}}
          bindings: [[w, sc.c]]
          components:
            w:
              type: workflow.Instance
              required: [i]
              interfaces: {i: {v: consume-signal(string)}, r: {x: publish-signal(object)}}
              configuration:
                configuration.workflows:
                  launch:
                    steps: [{g: {action: getSignals, parameters: {multi: "true"}, output: {s: result}}}]
                    return: {x: {value: "{$.s.i.*.v}"}}
            sc:
              type: composite.Scaler
              components:
                c:
                  interfaces: {o: {v: bind(m#o.v)}}
                  components:
                    m:
                      type: cobalt.common.Constants
                      interfaces: {o: {v: publish-signal(string)}}
                      configuration: {configuration.values: {o.v: hey}}
        """,
        {"r.x": ["hey", "hey"]},
    ),
    "a pin whose only value is the default of a workflow's parameter": Case(
        """
        application:
          interfaces: {i: {x: bind(w#i.x)}, r: {x: bind(w#r.x)}}
          components:
            w:
              type: workflow.Instance
              interfaces: {i: {x: configuration(list<int>)}, r: {x: publish-signal(list<int>)}}
              configuration:
                configuration.propagateStatus: launch
                configuration.workflows:
                  launch: {parameters: {x: {default: ["1", 2]}}, steps: [], return: {x: {value: "{$.x}"}}}
        """,
        {"r.x": [1, 2]},
    ),
    "whole components and steps by alias, with an anchor that is defined again": Case(
        """
        application:
          interfaces: {r: {a: bind(a#o.v), b: bind(b#o.v), c: bind(c#o.v), w: bind(w#r.w)}}
          components:
            a: &c
              type: cobalt.common.Constants
              interfaces: {o: {v: publish-signal(string)}}
              configuration: {configuration.values: {o.v: ! 80331}}
            b: *c
            c: &c
              type: cobalt.common.Constants
              interfaces: {o: {v: publish-signal(string)}}
              configuration: {configuration.values: {o.v: on}}
            w:
              type: workflow.Instance
              interfaces: {r: {w: publish-signal(string)}}
              configuration:
                configuration.workflows:
                  launch:
                    steps: [{one: &step {action: .m, output: {w: w}}}, {two: *step}]
                    return: {w: {value: "{$.w}"}}
                  .m: {steps: [], return: {w: {value: again}}}
        """,
        {"r.a": "80331", "r.b": "80331", "r.c": "on", "r.w": "again"},
    ),
    "signals that a macro looks at": Case(
        """
        application:
          interfaces: {r: {x: bind(w#r.x)}}
          bindings: [[w, c]]
          components:
            c:
              type: cobalt.common.Constants
              interfaces: {o: {v: publish-signal(string)}}
              configuration: {configuration.values: {o.v: hey}}
            w:
              type: workflow.Instance
              interfaces: {i: {v: consume-signal(string)}, r: {x: publish-signal(string)}}
              configuration:
                configuration.workflows:
                  launch: {steps: [{m: {action: .look, output: {v: v}}}], return: {x: {value: "{$.v}"}}}
                  .look:
                    steps: [{g: {action: getSignals, output: {s: result}}}]
                    return: {v: {value: "{$.s.i.v}"}}
        """,
        {"r.x": "hey"},
    ),
    "a command with some of its arguments": Case(
        """
        application:
          interfaces: {act: {"*": "bind(a#act.*)"}, r: {x: bind(a#r.x)}}
          components:
            a:
              type: workflow.Instance
              interfaces: {act: {go: "receive-command(string a, string b)"}, r: {x: publish-signal(string)}}
              configuration:
                configuration.workflows:
                  go: {parameters: [a: {description: A}, b: {default: bb}], return: {x: {value: "{$.a}{$.b}"}}}
        """,
        {"r.x": "1bb"},
        {"act.go": {"a": "1"}},
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_it_gives_what_the_language_says(name: str) -> None:
    case = CASES[name]
    live = instance(case.text, environment=case.environment)
    assert await live.launch() is None
    for command, arguments in case.commands.items():
        assert await live.command(command, **arguments) is None
    assert live.results == case.values
