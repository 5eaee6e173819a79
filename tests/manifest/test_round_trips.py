"""What functions and `serialize` write as text is read back as the same value, by ours and by real readers."""

import json
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from launchbay.actions.builtin import Serialize
from launchbay.manifest.expressions import compile_condition
from launchbay.manifest.paths import Scope
from launchbay.model.scalars import same
from tests.support.contexts import run

# Texts that some reader takes for a number, a time, a boolean or null.
_HOSTILE = (
    *("1e3", "81e3421", "1.10", "0400", "0o17", "0x1F", "1_000", "1:30", "2001-01-01", "no", "on", "~", "=", "<<"),
    *("null", "true", "-0", ".inf", ".5", "08", "9" * 30, "", " a", "a ", "a: b", "a\nb", "a\n\n", "\x85", "\u2028"),
)
_texts = st.sampled_from(_HOSTILE) | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


def of(formula: str, **variables: Any) -> Any:
    return compile_condition(formula).evaluate(Scope(variables, {}, 0))[0]


@given(_values)
@example("1e3")
@example({"<<": {"no": "1.10"}})
@example(2**63 - 1)
@example(1e16)
def test_yaml_is_read_as_the_same_value_and_by_pyyaml_too(value: Any) -> None:
    assert same(of("parseYaml(yaml($.v))", v=value), value)
    assert same(yaml.safe_load(of("yaml($.v)", v=value)), value)


@given(_values)
@example("1e3")
@example(2**63 - 1)
@example(1e16)
def test_json_is_read_as_the_same_value_and_by_python_too(value: Any) -> None:
    assert same(of("parseJson(json($.v))", v=value), value)
    assert same(json.loads(of("json($.v)", v=value)), value)


@given(_values)
@example("1e3")
@example(["0400", 2**53 + 1])
async def test_what_serialize_writes_is_the_same_value(value: Any) -> None:
    as_yaml = (await run(Serialize(), input=value, format="YAML"))["serialized"]
    as_json = (await run(Serialize(), input=value, format="JSON"))["serialized"]
    assert same(of("parseYaml($.t)", t=as_yaml), value)
    assert same(of("parseJson($.t)", t=as_json), value)
    assert same(yaml.safe_load(as_yaml), value)
