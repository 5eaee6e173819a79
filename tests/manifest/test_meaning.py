"""Manifests that mean the same are equal, however they are written; what changes the meaning makes them differ."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from launchbay.errors import BadRequest
from launchbay.manifest.code_changes import code_changes, compare_manifests
from launchbay.manifest.compiler import check
from launchbay.manifest.configuration import Change, Configured, configure, difference
from launchbay.manifest.digests import NoDigests, component_changes, digests, is_of_later_form, read_digests
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.meaning import DIGEST_FORM, digest
from launchbay.model.manifest_difference import NO_DIFFERENCE, ComponentChange, DefaultChange
from tests.support.manifests import ACTIONS, compiled

SHOP = """
application:
  configuration: {input.size: 3, input.note: "7"}
  interfaces:
    input: {size: bind(shop#input.size), note: bind(shop#input.note), host: bind(store#input.host)}
    result: {url: bind(shop#result.url)}
    actions: {greet: bind(shop#actions.greet), stop: bind(shop#actions.stop)}
  bindings: [[shop, store]]
  components:
    store:
      type: workflow.Instance
      interfaces:
        input: {host: configuration(string)}
        db: {port: publish-signal(int)}
      configuration:
        input.host: db.example
        configuration.workflows:
          launch: {steps: [], return: {port: {value: 5432}}}
    shop:
      type: workflow.Instance
      required: [db]
      interfaces:
        input: {size: configuration(int), note: configuration(string)}
        db: {port: consume-signal(int)}
        result: {url: publish-signal(string)}
        actions: {greet: "receive-command(string who => string said)", stop: receive-command()}
      configuration:
        configuration.triggers: {input.size: grow}
        configuration.workflows:
          launch:
            steps:
              - look: {action: restcall, phase: first, parameters: {url: "https://a.example/{$.size}", retryCount: 2}}
              - rest: {action: wait, precedingPhases: [first], parameters: {delay: 0}}
            return: {url: {value: "https://{$.note}.example/?n={$.size + 1}"}}
          grow: {steps: [{rest: {action: wait, parameters: {delay: "{$.size * 2}"}}}]}
          greet:
            parameters: [{who: {default: you}}]
            steps: [{bow: {action: wait, when: "$.who == 'you'", parameters: {delay: 0}}}]
            return: {said: {value: "hi {$.who}"}}
          stop: {timeout: 60, steps: [{rest: {action: wait, parameters: {delay: 1}}}]}
"""


# Parameters must be given, and outer values win over inner ones.
OPEN = """
application:
  configuration: {input.level: 1}
  concurrency: {limit: 2, key: application}
  interfaces:
    input:
      host: bind(web#at.host)
      region: bind(web#at.region)
      count: "bind(web#at.count, store#input.count)"
      level: bind(web#in.level)
      options: bind(store#input.options)
      secret: bind(inner#in.secret)
    result: {url: bind(web#out.url)}
    actions: {restart: bind(web#out.restart)}
  bindings: [[web#db, store#db]]
  components:
    inner:
      type: reference.Submodule
      interfaces: {in: {secret: configuration(string)}}
      configuration: {__locator.application-id: other, __locator.revision: stable}
    names:
      type: cobalt.common.Constants
      interfaces: {names: {first: publish-signal(string)}}
      configuration: {configuration.values: {names.first: Ada}}
    web:
      interfaces:
        in: {level: bind(server#input.level)}
        at: {host: bind(server#input.host), region: bind(server#input.region), count: bind(server#input.count)}
        db: {port: bind(server#db.port)}
        out: {url: bind(server#result.url), restart: bind(server#actions.restart)}
      configuration: {in.level: 2}
      components:
        server:
          type: workflow.Instance
          required: [db]
          interfaces:
            input:
              host: configuration(string)
              region: {type: configuration(string), name: Region, suggestions: {North: n, South: s}}
              count: configuration(int)
              level: configuration(int)
            db: {port: consume-signal(int)}
            result: {url: publish-signal(string)}
            actions: {restart: "receive-command(int delay)"}
          configuration:
            input.level: 3
            configuration.triggers: {input.count: grow}
            configuration.schedule: {grow: "0 0 3 * * ?"}
            configuration.workflows:
              launch:
                steps: [{look: {action: wait, parameters: {delay: "{$.count}"}}}]
                return: {url: {value: "http://{$.host}/{$.url}"}}
              grow: {steps: [{rest: {action: wait, parameters: {delay: 1}}}]}
              restart:
                parameters: [{delay: {}}]
                steps: [{rest: {action: wait, parameters: {delay: "{$.delay}"}}}]
                finally: [{tell: {action: wait, parameters: {delay: 0}}}]
    store:
      type: workflow.Instance
      interfaces:
        input: {count: configuration(int), options: configuration(object)}
        db: {port: publish-signal(int)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {port: {value: 5432}}}
"""


def written_otherwise(text: str, seed: int) -> str:
    """Return the same document with other comments, quotes, styles and orders of keys."""
    choose = random.Random(seed)

    class Writer(yaml.SafeDumper):
        def represent_str(self, data: str) -> yaml.ScalarNode:
            return self.represent_scalar("tag:yaml.org,2002:str", data, style=choose.choice("'\""))

        def represent_dict(self, data: Any) -> yaml.MappingNode:
            items = list(data.items())
            choose.shuffle(items)
            return self.represent_mapping("tag:yaml.org,2002:map", items, flow_style=choose.random() < 0.3)

    Writer.add_representer(str, Writer.represent_str)
    Writer.add_representer(dict, Writer.represent_dict)
    lines = yaml.dump(yaml.safe_load(text), Dumper=Writer, sort_keys=False, width=100_000).splitlines()
    return "".join(f"{'# a remark' + chr(10) if choose.random() < 0.2 else ''}{line}\n" for line in lines)


def previewed(old: CompiledManifest, new: CompiledManifest) -> dict[str, set[str]] | None:
    """Return what a preview says of each component that doesn't stay as it is; None if it is refused.

    The instance was given what the old version demands.
    """
    given = dict.fromkeys(old.required_parameters, "7")
    try:
        before, after = [Configured(each, configure(each, given), {}, frozenset(given)) for each in (old, new)]
    except BadRequest:
        return None
    found: dict[str, set[str]] = {}
    for change in difference(before, after):
        if change.change is not Change.KEEPS:
            found.setdefault(change.path, set()).add(change.change.value)
    for path in code_changes(old, new):
        found.setdefault(path, set()).add("changes")
    return found


def agreed(old: CompiledManifest, new: CompiledManifest) -> bool:
    """Return whether two manifests differ, after all that says so has said the same."""
    compared, one, other = compare_manifests(old, new), digests(old), digests(new)
    changes = {each.path: each for each in component_changes(one, other)}
    assert bool(compared) == (old != new) == (one != other)
    assert one.application != other.application or compared == msgspec.structs.replace(
        NO_DIFFERENCE, components=compared.components, defaults=compared.defaults, code=compared.code
    )
    for kind in ("added", "removed", "changed"):
        paths = {path for path, each in changes.items() if each.change == kind}
        assert set(getattr(compared.components, kind)) == paths
    code, defaults = {each.path: each for each in compared.code}, {each.component for each in compared.defaults}
    for path in compared.components.changed:
        change = code.get(path)
        assert changes[path].other == bool(path in defaults or (change and change.parts))
        assert set(changes[path].workflows) == ({each.name for each in change.workflows} if change else set())
    shown = previewed(old, new)
    if shown is not None:
        for path in changes.keys() | shown.keys():
            # Given values win over defaults, and another parameter gives them to other components.
            is_hidden = path in defaults and path not in code
            assert path in shown or is_hidden, path
            assert path in changes or compared.parameters, path
    return bool(compared)


def test_a_text_that_is_compiled_twice_gives_equal_manifests() -> None:
    assert compiled(SHOP) == compiled(SHOP)
    assert hash(compiled(SHOP)) == hash(compiled(SHOP))


@given(st.sampled_from([SHOP, OPEN]), st.integers(0, 2**32))
def test_comments_quotes_and_the_order_of_keys_mean_nothing(text: str, seed: int) -> None:
    one, other = compiled(text), compiled(written_otherwise(text, seed))
    assert one == other
    assert digests(one) == digests(other)
    assert not compare_manifests(one, other)
    assert previewed(one, other) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{$.size + 1}", "{$.size+1}"),
        ("{$.size * 2}", "{$.size  *  2}"),
        ("$.who == 'you'", "$.who=='you'"),
        ("[[shop, store]]", "[[shop#db, store]]"),
        ("bind(shop#input.size)", "bind( shop#input.size )"),
        ("delay: 0}", "delay: 0x0}"),
    ],
)
def test_spaces_and_other_forms_of_the_same_mean_nothing(before: str, after: str) -> None:
    assert before in SHOP
    assert compiled(SHOP.replace(before, after)) == compiled(SHOP)


CHANGES = [
    ("input.size: 3", "input.size: 4"),
    ('input.note: "7"', 'input.note: "07"'),
    ("input.host: db.example", "input.host: db2.example"),
    ("value: 5432", "value: 5433"),
    ("value: 5432", 'value: "5432"'),
    ("[[shop, store]]", "[]"),
    ("required: [db]", "required: []"),
    ("{input.size: grow}", "{input.note: grow}"),
    ("{input.size: grow}", "{}"),
    ("https://a.example/{$.size}", "https://b.example/{$.size}"),
    ("https://a.example/{$.size}", "https://a.example/{$.note}"),
    ("phase: first, ", "phase: other, "),
    ("retryCount: 2", "retryCount: 3"),
    (", retryCount: 2", ""),
    ("precedingPhases: [first], ", ""),
    ("- rest: {action: wait, precedingPhases", "- sleep: {action: wait, precedingPhases"),
    ("{$.size + 1}", "{$.size + 2}"),
    ("{$.size + 1}", "{$.size - 1}"),
    ("{$.size + 1}", "{$.size + 1.0}"),
    ("{$.size * 2}", "{2 * $.size}"),
    ("{default: you}", "{default: me}"),
    ("{default: you}", "{default: 1}"),
    ("{default: you}", "{default: true}"),
    ("{default: you}", '{default: "1"}'),
    ("$.who == 'you'", "$.who != 'you'"),
    (""", when: "$.who == 'you'\"""", ""),
    ("hi {$.who}", "ho {$.who}"),
    ("timeout: 60", "timeout: 61"),
    ("timeout: 60, ", ""),
    ("parameters: {delay: 1}", "parameters: {delay: 1.0}"),
    ("parameters: {delay: 1}", 'parameters: {delay: "1"}'),
    ("action: wait, parameters: {delay: 1}", "action: wait, parameters: {delay: 1, ignoreFail: true}"),
    ("size: configuration(int)", "size: configuration(double)"),
    ("string who => string said", "string who => object said"),
    ("url: bind(shop#result.url)", "link: bind(shop#result.url)"),
    ("stop: bind(shop#actions.stop)", "end: bind(shop#actions.stop)"),
]


# Of OPEN. The last ones are what a manifest hides in which everything has a default.
OPEN_CHANGES = [
    ("{input.level: 1}", "{input.level: 4}"),
    ("{input.level: 1}", "{}"),
    ("{input.level: 1}", "{input.level: 1, input.count: 3}"),
    ("limit: 2", "limit: 3"),
    ("  concurrency: {limit: 2, key: application}\n", ""),
    ("secret: bind(inner#in.secret)", "hidden: bind(inner#in.secret)"),
    ("name: Region", "name: Place"),
    ("South: s", "South: so"),
    ("revision: stable", "revision: newest"),
    ("id: other", "id: another"),
    ("first: Ada", "first: Bea"),
    ('"bind(web#at.count, store#input.count)"', '"bind(web#at.count)"'),
    ("0 0 3 * * ?", "0 0 4 * * ?"),
    ("{input.count: grow}", "{input.level: grow}"),
    ("required: [db]", "required: []"),
    ("int delay", "int delay, int more"),
    ("{delay: {}}", "{delay: {default: {}}}"),
    ("finally: ", "onFailure: "),
    ("level: configuration(int)", "level: configuration(double)"),
    (
        "options: bind(store#input.options)",
        "options: bind(store#input.options)\n      extra: bind(store#input.options)",
    ),
    (
        "configuration.workflows:\n          launch: {steps: [], return",
        "input.options: null\n        configuration.workflows:\n          launch: {steps: [], return",
    ),
]
# Each of them in one place of the same text: nothing, an empty map and an empty list as a default.
DEFAULTS = ["{}", "{default: null}", "{default: {}}", "{default: []}", "{default: false}", "{default: 0}"]


@pytest.mark.parametrize(("before", "after"), OPEN_CHANGES)
def test_a_change_where_values_must_be_given_is_seen_by_all(before: str, after: str) -> None:
    assert OPEN.count(before) == 1
    assert agreed(compiled(OPEN), compiled(OPEN.replace(before, after)))
    assert agreed(compiled(OPEN.replace(before, after)), compiled(OPEN))


@pytest.mark.parametrize("before", DEFAULTS)
@pytest.mark.parametrize("after", DEFAULTS)
def test_empty_defaults_differ_from_none_and_each_other(before: str, after: str) -> None:
    one, other = [compiled(OPEN.replace("{delay: {}}", f"{{delay: {each}}}")) for each in (before, after)]
    assert agreed(one, other) == (before != after)


@pytest.mark.parametrize("inner", ["input.level: 3", "in.level: 2"])
def test_a_value_that_an_outer_one_replaces_is_no_difference(inner: str) -> None:
    assert OPEN.count(f" {inner}") + OPEN.count(f"{{{inner}") == 1
    assert not agreed(compiled(OPEN), compiled(OPEN.replace(inner, inner.replace(inner[-1], "9"))))
    # Without the outer values, the inner one counts.
    bare = OPEN.replace("{input.level: 1}", "{}").replace("{in.level: 2}" if "3" in inner else "input.level: 3", "{}")
    if "3" in inner:
        assert agreed(compiled(bare), compiled(bare.replace(inner, "input.level: 9")))


def test_a_workflow_whose_results_build_on_a_variable_is_no_other_change() -> None:
    """What return values hide follows from the workflow, and is no change of the component apart from it."""
    before, after = "{$.host}/{$.url}", "{$.host}/{$.count}"
    with_url = OPEN.replace(
        "host: configuration(string)\n", "host: configuration(string)\n              url: configuration(string)\n"
    )
    old, new = compiled(with_url), compiled(with_url.replace(before, after))
    assert old.components["web.server"].always_configured != new.components["web.server"].always_configured
    assert list(component_changes(digests(old), digests(new))) == [
        ComponentChange("web.server", "changed", ["launch"], other=False)
    ]


def test_the_order_of_parameters_means_something_only_where_it_decides_which_value_wins() -> None:
    one, other = "      host: bind(web#at.host)\n", "      region: bind(web#at.region)\n"
    assert one + other in OPEN
    assert not agreed(compiled(OPEN), compiled(OPEN.replace(one + other, other + one)))
    second = one.replace("host:", "machine:")
    first, reversed_ = [compiled(OPEN.replace(one, order)) for order in (one + second, second + one)]
    assert agreed(first, reversed_)
    assert compare_manifests(first, reversed_).parameters.changed == ["input.machine", "input.host"]


def test_a_parameter_that_must_be_given_from_now_on_is_a_change_of_it() -> None:
    old, new = compiled(OPEN.replace("{input.level: 1}", "{input.level: 1, input.host: h}")), compiled(OPEN)
    assert compare_manifests(old, new).parameters.changed == ["input.host"]
    assert digests(old).application != digests(new).application
    [change] = compare_manifests(old, new).defaults
    assert (change.pin, change.from_, change.change) == ("input.host", "h", "removed")


def test_a_workflow_manifest_differs_from_a_component_manifest_with_the_same_content() -> None:
    old = compiled("launch: {steps: []}")
    assert agreed(old, replace(old, is_component_manifest=True))
    assert compare_manifests(old, replace(old, is_component_manifest=True)).kind


@given(st.sampled_from([SHOP, OPEN]), st.data())
def test_all_that_say_whether_manifests_differ_agree_after_any_edit(text: str, data: st.DataObject) -> None:
    document = yaml.safe_load(text)
    places = list(_places(document))
    for _ in range(data.draw(st.integers(1, 2))):
        parent, key = data.draw(st.sampled_from(places))
        try:
            _edit(parent, key, data.draw(st.sampled_from(["replace", "remove", "copy", "reverse"])))
        except (KeyError, IndexError):
            assume(False)  # an earlier edit removed it
    edited = yaml.safe_dump(document, sort_keys=False).encode()
    assume(not any(each.severity == "error" for each in check(edited, known_actions=ACTIONS)))
    agreed(compiled(text), compiled(edited.decode()))


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each map and list with each of its keys."""
    for key, child in list(tree.items()) if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(child, dict | list):
            yield from _places(child)


def _edit(parent: Any, key: Any, what: str) -> None:
    value = parent[key]
    if what == "remove":
        del parent[key]
    elif what == "copy":
        if isinstance(parent, dict):
            parent[f"{key}2"] = value
        else:
            parent.append(value)
    elif what == "reverse" and isinstance(value, dict | list):
        parent[key] = dict(reversed(value.items())) if isinstance(value, dict) else value[::-1]
    elif isinstance(value, str):
        parent[key] = f"{value}0"
    elif isinstance(value, int):
        parent[key] = value + 1
    else:
        parent[key] = type(value)()


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_change_of_the_meaning_makes_manifests_differ(before: str, after: str) -> None:
    assert before in SHOP
    changed = SHOP.replace(before, after, 1)
    if after == "{default: 1}":  # Python's 1, 1.0 and True are equal: each differs from the others
        assert compiled(SHOP.replace(before, "{default: true}", 1)) != compiled(changed)
        assert compiled(SHOP.replace(before, "{default: 1.0}", 1)) != compiled(changed)
    assert compiled(changed) != compiled(SHOP)


def test_all_single_changes_differ_from_each_other() -> None:
    found = [compiled(SHOP.replace(before, after, 1)) for before, after in CHANGES]
    assert len(set(map(digest, found))) == len(CHANGES)


def test_the_order_of_steps_and_of_list_items_means_something() -> None:
    look, rest = [line for line in SHOP.splitlines() if line.lstrip().startswith(("- look", "- rest"))]
    assert compiled(SHOP.replace(f"{look}\n{rest}", f"{rest}\n{look}")) != compiled(SHOP)


def test_the_digest_of_a_workflow_changes_with_that_workflow_alone() -> None:
    before, after = digests(compiled(SHOP)), digests(compiled(SHOP.replace("timeout: 60", "timeout: 61")))
    assert list(component_changes(before, after)) == [ComponentChange("shop", "changed", ["stop"])]
    assert before.application == after.application


def test_the_default_of_a_pin_is_a_change_of_its_component() -> None:
    old, new = compiled(SHOP), compiled(SHOP.replace("input.size: 3", "input.size: 4"))
    assert list(component_changes(digests(old), digests(new))) == [ComponentChange("shop", "changed", other=True)]
    assert compare_manifests(old, new).defaults == [DefaultChange("shop", "input.size", 3, 4)]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_digests_differ_exactly_where_manifests_do(before: str, after: str) -> None:
    assert agreed(compiled(SHOP), compiled(SHOP.replace(before, after, 1)))
    assert not agreed(compiled(SHOP), compiled(SHOP))


def test_stored_digests_of_another_form_are_computed_again() -> None:
    kept = msgspec.json.encode(digests(compiled(SHOP))).decode()
    assert read_digests(kept, "any") == digests(compiled(SHOP))
    for form in (DIGEST_FORM - 1, DIGEST_FORM + 1):
        other = kept.replace(f'"form":{DIGEST_FORM}', f'"form":{form}')
        assert read_digests(other, "any") is None
        assert is_of_later_form(other) == (form > DIGEST_FORM)
    for text in ("{}", None):
        assert read_digests(text, "any") is None
        assert not is_of_later_form(text)


def test_only_the_compiler_that_refused_a_version_is_believed() -> None:
    kept = msgspec.json.encode(NoDigests(DIGEST_FORM, "It has no launch.", "this")).decode()
    assert read_digests(kept, "this") == NoDigests(DIGEST_FORM, "It has no launch.", "this")
    assert read_digests(kept, "another") is None
