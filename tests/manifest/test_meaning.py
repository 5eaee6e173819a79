"""Manifests that mean the same are equal, however they are written; what changes the meaning makes them differ."""

import random
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launchbay.manifest.code_changes import compare_manifests
from launchbay.manifest.digests import component_changes, digests, read_digests
from launchbay.manifest.meaning import digest
from launchbay.model.manifest_difference import ComponentChange, DefaultChange
from tests.support.manifests import compiled

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


def test_a_text_that_is_compiled_twice_gives_equal_manifests() -> None:
    assert compiled(SHOP) == compiled(SHOP)
    assert hash(compiled(SHOP)) == hash(compiled(SHOP))


@given(st.integers(0, 2**32))
def test_comments_quotes_and_the_order_of_keys_mean_nothing(seed: int) -> None:
    other = compiled(written_otherwise(SHOP, seed))
    assert other == compiled(SHOP)
    assert digests(other) == digests(compiled(SHOP))


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
    old, new = compiled(SHOP), compiled(SHOP.replace(before, after, 1))
    assert compare_manifests(old, new)
    one, other = digests(old), digests(new)
    assert one.application != other.application or list(component_changes(one, other))
    assert not compare_manifests(old, compiled(SHOP))


def test_stored_digests_of_another_form_are_computed_again() -> None:
    kept = msgspec.json.encode(digests(compiled(SHOP)))
    assert read_digests(kept.decode()) == digests(compiled(SHOP))
    assert read_digests(kept.decode().replace('"form":1', '"form":0')) is None
    assert read_digests("{}") is None
    assert read_digests(None) is None
