from collections.abc import Mapping
from typing import Any

import pytest

from launchbay.errors import FieldErrors
from launchbay.service_types.contract import (
    REDACTED,
    ParameterScope,
    ServiceParameters,
    changed_parameters,
    validate_arguments,
)
from tests.support.services import Oracle

ORACLE = Oracle()
OLD = ServiceParameters({"place": "Delphi", "hours": [1]}, {"riddle": "hard"})


async def changed(old: ServiceParameters, given: Mapping[str, Any]) -> ServiceParameters:
    connection: Any = None  # this type asks nothing of the database
    scope = ParameterScope(connection=connection, organization_id="", previous=old.everything())
    return await changed_parameters(ORACLE, scope, old, given)


async def refused(old: ServiceParameters, given: Mapping[str, Any]) -> dict[str, list[str]]:
    with pytest.raises(FieldErrors) as caught:
        await changed(old, given)
    return caught.value.fields


async def test_new_parameters_are_coerced_and_secret_ones_kept_apart() -> None:
    given = {"place": "Dodona", "riddle": 42, "keys": {"a": [1]}, "hours": ["7", 8.0]}
    found = await changed(ServiceParameters(), given)
    assert found.open == {"place": "Dodona", "hours": [7, 8]}
    assert found.secret == {"riddle": "42", "keys": {"a": [1]}}


async def test_what_is_not_named_stays() -> None:
    assert await changed(OLD, {"hours": []}) == ServiceParameters({"place": "Delphi", "hours": []}, OLD.secret)
    assert await changed(OLD, {}) == OLD


async def test_null_takes_a_parameter_away() -> None:
    assert await changed(OLD, {"hours": None, "riddle": None}) == ServiceParameters({"place": "Delphi"}, {})


async def test_the_mask_leaves_a_secret_as_it_is() -> None:
    assert (await changed(OLD, {"riddle": REDACTED})).secret == {"riddle": "hard"}


async def test_the_mask_is_no_secret_of_its_own() -> None:
    assert "Send the secret itself" in (await refused(OLD, {"keys": REDACTED}))["keys"][0]


async def test_the_mask_is_an_ordinary_text_for_what_is_not_secret() -> None:
    assert "no oracle" in (await refused(OLD, {"place": REDACTED}))["place"][0]


async def test_a_list_may_come_as_json_inside_a_text() -> None:
    assert (await changed(OLD, {"hours": "[1, 2]"})).open["hours"] == [1, 2]


async def test_everything_wrong_is_told_at_once_by_its_parameter() -> None:
    found = await refused(ServiceParameters(), {"hours": "x", "riddle": ["a"], "nope": 1})
    assert set(found) == {"place", "hours", "riddle", "nope"}
    assert found["place"] == ["This parameter is required."]
    assert found["nope"] == ["Unknown parameter. This type of service has: place, riddle, keys, hours."]


async def test_a_required_parameter_cannot_be_taken_away() -> None:
    assert await refused(OLD, {"place": None}) == {"place": ["This parameter is required."]}


async def test_the_types_own_rules_count_and_see_secrets_and_what_was_before() -> None:
    assert await refused(OLD, {"place": "Rome"}) == {"place": ["There is no oracle there."]}
    assert await refused(OLD, {"place": "Dodona", "riddle": "easy"}) == {"riddle": ["Too easy."]}
    assert (await changed(ServiceParameters({"place": "Rome"}), {"hours": [1]})).open["place"] == "Rome"


async def test_no_refusal_repeats_a_value() -> None:
    found = await refused(OLD, {"hours": "hunter2", "riddle": ["hunter2"]})
    assert "hunter2" not in str(found)


def test_arguments_have_their_types_and_null_is_left_out() -> None:
    ask = ORACLE.commands["ask"]
    given = {"question": 7, "aloud": "true", "to": '["a"]'}
    assert validate_arguments(ask, given) == {"question": "7", "aloud": True, "to": ["a"]}
    assert validate_arguments(ask, {"question": "", "aloud": None}) == {"question": ""}


def test_wrong_arguments_are_told_at_once_by_their_names() -> None:
    with pytest.raises(FieldErrors) as caught:
        validate_arguments(ORACLE.commands["ask"], {"aloud": "loudly", "why": 1, "question": None})
    assert set(caught.value.fields) == {"aloud", "why", "question"}
    assert caught.value.fields["why"] == ["Unknown argument. This command has: question, aloud, to."]


def test_a_command_is_a_pin_of_its_interface() -> None:
    assert list(ORACLE.interfaces) == ["oracle"]
    assert str(ORACLE.interfaces["oracle"]["ask"]) == (
        "receive-command(string question, bool aloud, list<string> to => string murmur => object answer)"
    )
