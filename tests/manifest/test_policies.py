from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launchbay.errors import BadRequest
from launchbay.manifest.policies import PolicyValue, read_policies, write_policies

segments = st.text("abcXYZ019_-", min_size=1, max_size=8)
names = st.lists(segments, min_size=2, max_size=4).map(".".join)
identifiers = st.text("abzAZ019äλ_-./:@+=,%~?&#*!$", min_size=1, max_size=30)
numeric_words = st.sampled_from(["1.10", "012", "0x1F", "1e3", "+5", "-0", "yes", "null", "true", "~", "1:30", "1_000"])
values = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), identifiers, numeric_words)


def refused(text: str) -> tuple[str, ...]:
    with pytest.raises(BadRequest) as caught:
        read_policies(text)
    assert caught.value.code == "InvalidPolicies"
    return caught.value.messages


@given(st.dictionaries(names, values, max_size=8))
def test_what_is_written_reads_as_the_same_policies_in_the_same_order(policies: dict[str, PolicyValue]) -> None:
    read = read_policies(write_policies(policies))
    assert read == policies
    assert [type(value) for value in read.values()] == [type(value) for value in policies.values()]
    assert list(read) == list(policies)


@given(st.dictionaries(names, values, max_size=8))
def test_other_yaml_readers_understand_what_is_written(policies: dict[str, PolicyValue]) -> None:
    assert yaml.safe_load(write_policies(policies)) == {"policies": policies}


@given(st.text())
def test_any_text_is_read_or_refused_with_sentences(text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        return  # no UTF-8 text can hold it
    with suppress(BadRequest):
        read_policies(text)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("true", True),
        ("False", False),
        ("'true'", "true"),
        ("2", 2),
        ("-7", -7),
        ("1.10", "1.10"),
        ("012", "012"),
        ("0x10", "0x10"),
        ("m1.small", "m1.small"),
        ("us-east-1/ami-d0f89fb9", "us-east-1/ami-d0f89fb9"),
        ("https://cloud.example:8443/v2?zone=a", "https://cloud.example:8443/v2?zone=a"),
        ("no", "no"),
        ("508e1234", "508e1234"),
        ("1" * 30, "1" * 30),
        (".inf", ".inf"),
    ],
)
def test_scalars_keep_what_was_meant(value: str, read: PolicyValue) -> None:
    found = read_policies(f"policies:\n  provisionVms.x: {value}\n")
    assert found == {"provisionVms.x": read}
    assert type(found["provisionVms.x"]) is type(read)


def test_a_policy_without_a_value_is_none() -> None:
    assert read_policies("policies:\n  a.b:\n  a.c: null\n  a.d: ~\n  a.e: 1\n") == {"a.e": 1}


@pytest.mark.parametrize("flow", [False, None], ids=["since 5.1", "before 5.1"])
def test_a_yaml_1_1_writer_quotes_strings_that_it_would_read_as_booleans(flow: bool | None) -> None:
    """PyYAML 3.13 and 5.4.1 quote the same strings, and 3.13 writes the innermost maps on one line."""
    policies = {"a.text": "yes", "a.off": "off", "a.letter": "y", "a.id": "508e1234", "a.time": "1:30", "a.flag": True}
    written = yaml.safe_dump({"policies": policies}, default_flow_style=flow)
    assert "'yes'" in written
    assert read_policies(written) == policies


def test_an_action_with_a_dot_in_its_name_may_have_policies() -> None:
    assert read_policies("policies: {compute.shrink-all.roleName: web}") == {"compute.shrink-all.roleName": "web"}


def test_a_section_whose_entries_are_commented_out_is_empty() -> None:
    assert read_policies("policies:\n  # a.b: c\n") == {}
    assert write_policies({}) == "policies: {}\n"


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", "Line 1, column 1", "The document is empty"),
        ("[]", "Line 1, column 1", "The document must be a map with the key 'policies', not a list."),
        ("{}", "Line 1, column 1", "The key 'policies' is missing"),
        ("policies: {}\nmarkers: []", "Line 2, column 1", "Unknown key 'markers'. Valid keys: policies."),
        ("policies: [a.b]", "Line 1, column 11", "'policies' must be a map, not a list."),
        ("policies:\n  a: b", "Line 2, column 3", "Invalid policy name 'a'. Write ACTION.PARAMETER."),
        ("policies:\n  .a.b: c", "Line 2, column 3", "Invalid policy name '.a.b'"),
        (
            "policies:\n  a.b: [c]",
            "Line 2, column 8",
            "a number or an identifier, not a list",
        ),
        ("policies:\n  a.b: two words", "Line 2, column 8", "must be 1 to 1024 letters"),
        ("policies:\n  a.b: ''", "Line 2, column 8", "must be 1 to 1024 letters"),
        ("policies:\n  a.b: 1\n  a.b: 2", "Line 3, column 3", "Duplicate key 'a.b'"),
        ("policies:\n  a.b: *c", "Line 2, column 8", "has no anchor"),
        ("policies:\n\ta.b: c", "Line 2, column 1", "Invalid YAML"),
        ("policies: {}\n---\npolicies: {}", "Line 2, column 1", "A second YAML document"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, place: str, says: str) -> None:
    [sentence] = refused(text)
    assert sentence.startswith(f"{place}: ")
    assert says in sentence


def test_everything_that_is_wrong_is_named_at_once() -> None:
    assert len(refused("policies:\n  a: b\n  c.d: [1]\n  e.f: g h\nmore: 1\n")) == 4


def test_a_huge_or_deep_document_is_refused_quickly() -> None:
    assert "more than 64 levels" in refused("policies: " + "[" * 100_000)[0]
    many = "policies:\n" + "".join(f"  a.b{number}: 1\n" for number in range(15_000))
    assert "more than 20000 values" in refused(many)[0]
