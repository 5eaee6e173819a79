import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth.gate import ADMINISTRATOR_TEXT, ALL_GRANTS, GUEST_TEXT, Entry, read_role_text
from launchbay.auth.permissions import Pattern, Permission
from launchbay.errors import BadRequest
from launchbay.limits import ROLE_PATTERNS, ROLE_TEXT_BYTES


def entry(permission: Permission, *patterns: str) -> Entry:
    return Entry(permission, tuple(Pattern(text) for text in patterns))


def test_entries_come_in_their_order_with_their_patterns() -> None:
    text = """
    # Launch anything, but only in the environment for development.
    - CreateInstance:
      - /applications/*
      - "/environments/5f0c"
    - EditInstance: [/applications/*/instances/*]
    - CreateInstance: []
    """
    assert read_role_text(text) == (
        entry(Permission.CREATE_INSTANCE, "/applications/*", "/environments/5f0c"),
        entry(Permission.EDIT_INSTANCE, "/applications/*/instances/*"),
        entry(Permission.CREATE_INSTANCE),
    )


@pytest.mark.parametrize("text", ["", "   \n", "# nothing\n", "---\n", "[]", "--- []\n...\n", "''"])
def test_a_text_without_entries_grants_nothing(text: str) -> None:
    assert read_role_text(text) == ()


def test_environment_edit_is_another_spelling_of_edit_environment() -> None:
    assert read_role_text("- EnvironmentEdit: [/environments/*]") == (
        entry(Permission.EDIT_ENVIRONMENT, "/environments/*"),
    )


def test_the_texts_of_the_built_in_roles_say_what_those_roles_allow() -> None:
    assert read_role_text(ADMINISTRATOR_TEXT) == ALL_GRANTS
    assert read_role_text(GUEST_TEXT) == (entry(Permission.READ, "/*"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- Fly: [/applications/*]", "Line 1, column 3: 'Fly' is not a permission. Permissions: Read, "),
        ("- createInstance: []", "Line 1, column 3: 'createInstance' is not a permission"),
        (
            "- Read: []\n- EditInstance:\n    - applications/*",
            "Line 3, column 7: the resource path pattern 'applications/\\*' must",
        ),
        ("- Read: [/a, /b//c]", "Line 1, column 14: .* empty segment"),
        ("- Read: [/a\n", "Line 1, column 12: "),
        ("- Read: [/a]\n  x", "Line 2, column 4: "),
        ("Read: [/a]", "Line 1, column 1: a role is a list"),
        ("Read", "Line 1, column 1: a role is a list"),
        ("- Read", "Line 1, column 3: an entry is a permission name"),
        ("- [Read]", "Line 1, column 3: an entry is a permission name"),
        ("- Read: /a", "Line 1, column 9: 'Read' needs a list"),
        ("- Read:", "Line 1, column 8: 'Read' needs a list"),
        ("- Read: [[/a]]", "Line 1, column 10: a resource path pattern is a text"),
        ("- Read: [{/a: 1}]", "Line 1, column 10: a resource path pattern is a text"),
        ("- ? [Read]\n  : [/a]", "Line 1, column 5: a permission name must stand here"),
        ("- Read: [/a]\n  Read: [/b]", "Line 2, column 3: 'Read' stands twice"),
        ("- Read: &x [/a]", "Line 1, column 9: anchors"),
        ("- Read: [/a]\n- *x", "Line 2, column 3: anchors"),
        ("- Read: [!!python/name:os.system /a]", "Line 1, column 10: tags"),
        ("--- []\n--- []", "Line 2, column 1: a role is one YAML document"),
        ("- Read: [/a]\n- Ed\x07it: []", "Line 2, column 5: this character"),
        ("- Read: [/a]\n- \ud800: []", "Line 2, column 3: half of a surrogate"),
        ("- Read: [/a]\n\t- Read: []", "Line 2, column 1: "),
    ],
)
def test_what_is_wrong_is_refused_with_line_and_column(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message) as caught:
        read_role_text(text)
    assert caught.value.code == "InvalidRole"


def test_all_errors_in_meaning_are_told_at_once() -> None:
    with pytest.raises(BadRequest) as caught:
        read_role_text("- Fly: []\n- Swim: [x]")
    assert [sentence[:17] for sentence in caught.value.messages] == [
        "Line 1, column 3:",
        "Line 2, column 3:",
        "Line 2, column 10",
    ]


def test_a_hundred_errors_are_counted_not_listed() -> None:
    with pytest.raises(BadRequest) as caught:
        read_role_text("- Fly: []\n" * 100)
    assert len(caught.value.messages) == 21
    assert caught.value.messages[-1] == "There are 80 more errors like these."


def test_a_text_beyond_its_bounds_is_refused() -> None:
    with pytest.raises(BadRequest, match="at most 65536 bytes"):
        read_role_text("#" * (ROLE_TEXT_BYTES + 1))
    with pytest.raises(BadRequest, match="at most 1000 patterns"):
        read_role_text("- Read: [" + "/a," * (ROLE_PATTERNS + 1) + "]")


@pytest.mark.parametrize(
    "text", ["[" * 60_000, "{" * 60_000, "- " * 30_000, "? " * 30_000, "- Read: [" + "{a: " * 10_000]
)
def test_a_document_made_to_nest_is_refused_quickly(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(BadRequest, match="Line 1, column"):
        read_role_text(text)
    assert time.process_time() - begin < 1.0


@given(st.text(max_size=60) | st.text(alphabet="-: []{}\n'\"/*&!?Readx|>%#,", max_size=60))
def test_any_text_is_either_read_or_refused_cleanly(text: str) -> None:
    try:
        entries = read_role_text(text)
    except BadRequest as error:
        first = error.messages[0]
    else:
        first = "Line 0"
        assert all(isinstance(found, Entry) for found in entries)
    assert first.startswith("Line ")
