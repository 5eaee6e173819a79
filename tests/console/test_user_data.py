"""User data that is shown covered and comes back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.console.forms import restore_hidden
from launchbay.console.rendering import redact

NAMES = st.sampled_from(["a", "b", "password", "api_key", "tokenId"])
LEAVES = st.none() | st.booleans() | st.integers() | st.text() | st.just("https://u:secret@example.org")
DATA = st.dictionaries(NAMES, st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)))


@pytest.mark.slow
@given(DATA)
def test_what_comes_back_as_it_was_shown_stays(data: dict[str, Any]) -> None:
    assert restore_hidden(redact(data), data) == data


@pytest.mark.slow
@given(DATA, DATA)
def test_whatever_is_sent_is_what_is_kept_but_for_covers(data: dict[str, Any], sent: dict[str, Any]) -> None:
    assert redact(restore_hidden(sent, data)) == redact(sent)


def test_a_secret_stays_while_something_beside_it_is_changed() -> None:
    before = {"owner": "Ada", "ci": {"password": "hidden", "run": 1}}
    assert restore_hidden({"owner": "Bo", "ci": {"password": "********", "run": 2}}, before) == {
        "owner": "Bo",
        "ci": {"password": "hidden", "run": 2},
    }


def test_a_secret_that_was_written_anew_is_the_new_one() -> None:
    assert restore_hidden({"password": "newer"}, {"password": "old"}) == {"password": "newer"}
