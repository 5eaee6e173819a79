"""Lifetimes, sleep windows and limits on the settings of applications and environments."""

import httpx
import pytest

from launchbay.console.request import HOME
from tests.support.pages import get
from tests.support.second_factors import post, shown
from tests.support.service import Api, accepted, fresh_name

pytestmark = pytest.mark.features("concurrency_limits", "lifetimes", "sleep_windows")
MANIFEST = "launch: {steps: []}\n"
NIGHT = {"sleepAt": "20:00", "wakeAt": "07:00", "zone": "Europe/Berlin"}
NO_LIMIT = {"key": "application", "of": "", "limit": "", "when": "queue"}


async def _owner(api: Api, kind: str) -> str:
    if kind == "applications":
        return await api.application(MANIFEST)
    body = {"name": fresh_name("quay")}
    return str(accepted(await api.post(f"organizations/{api.organization}/environments", body))["id"])


@pytest.mark.parametrize("kind", ["applications", "environments"])
async def test_lifetimes_are_set_in_words_and_shown_as_they_are(
    api: Api, visitor: httpx.AsyncClient, kind: str
) -> None:
    owner = await _owner(api, kind)
    here = f"{HOME}/{kind}/{owner}"
    sent = {"default": "8 hours", "greatest": "7 days", "extend": "1 hour 30 minutes", "extensions": "3", "mail": "1"}
    sent["if_exists"] = "fail"
    assert isinstance(await post(visitor, f"{here}/lifetime", must_end="1", grace="10 min", **sent), httpx.Response)
    rules = accepted(await api.get(f"{kind}/{owner}/lifetime"))
    assert rules["defaultMs"] == 8 * 3_600_000
    assert (rules["extendMs"], rules["graceMs"]) == (90 * 60_000, 600_000)
    assert (rules["mayNever"], rules["mail"], rules["extensions"]) == (False, True, 3)
    page = await get(visitor, f"{here}/settings")
    fields = page.fields
    assert (fields["default"], fields["greatest"], fields["grace"]) == ("8 hours", "7 days", "10 minutes")
    assert rules["ifExists"] == "fail"
    assert '<option value="fail" selected>Refuse the launch' in page.answer.text
    # An empty field takes the rule away.
    assert isinstance(await post(visitor, f"{here}/lifetime", default="never"), httpx.Response)
    rules = accepted(await api.get(f"{kind}/{owner}/lifetime"))
    assert (rules["defaultMs"], rules["greatestMs"], rules["mayNever"]) == (-1, None, True)
    assert "ifExists" not in rules


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("greatest", "90", "Longest lifetime: Add a unit"),
        ("default", "soon", "is not a duration"),
        ("grace", "0 s", "give milliseconds above 0"),
        ("extensions", "some", "Extensions: Give a whole number"),
    ],
)
async def test_a_lifetime_that_makes_no_sense_is_refused_and_stays_in_the_form(
    api: Api, visitor: httpx.AsyncClient, name: str, text: str, message: str
) -> None:
    owner = await _owner(api, "applications")
    sent = {"default": "", "greatest": "", name: text}
    page = await shown(visitor, f"{HOME}/applications/{owner}/lifetime", **sent)
    assert page.status == 400
    assert message in page.text
    assert page.fields[name] == text


@pytest.mark.parametrize("kind", ["applications", "environments"])
async def test_limits_are_set_in_rows_and_rows_without_a_number_are_none(
    api: Api, visitor: httpx.AsyncClient, kind: str
) -> None:
    owner = await _owner(api, kind)
    here = f"{HOME}/{kind}/{owner}"
    sent = {"key": ["lock:", "label:", "application"], "of": ["database", "team", ""]}
    more = {"limit": ["1", "4", ""], "when": ["refuse", "queue", "queue"]}
    assert isinstance(await post(visitor, f"{here}/concurrency", **sent, **more), httpx.Response)  # type: ignore[arg-type]  # several of a name
    limits = accepted(await api.get(f"{kind}/{owner}/concurrency"))["limits"]
    assert limits == [
        {"key": "lock:database", "limit": 1, "when": "refuse"},
        {"key": "label:team", "limit": 4, "when": "queue"},
    ]
    page = await get(visitor, f"{here}/settings")
    assert 'value="database"' in page.answer.text
    assert isinstance(await post(visitor, f"{here}/concurrency", **NO_LIMIT), httpx.Response)
    assert accepted(await api.get(f"{kind}/{owner}/concurrency"))["limits"] == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"limit": "many"}, "isn't a number of runs"),
        ({"limit": "0"}, "whole number from 1"),
        ({"key": "lock:", "limit": "1"}, "must be application, environment, label:NAME or lock:NAME"),
        ({"when": "perhaps", "limit": "1"}, "queue, refuse or cancel-older"),
    ],
)
async def test_a_limit_that_makes_no_sense_is_refused_and_stays_in_the_form(
    api: Api, visitor: httpx.AsyncClient, row: dict[str, str], message: str
) -> None:
    owner = await _owner(api, "applications")
    page = await shown(visitor, f"{HOME}/applications/{owner}/concurrency", **{**NO_LIMIT, **row})
    assert page.status == 400
    assert message in page.text
    assert f'value="{row["limit"]}"' in page.answer.text


async def test_of_two_people_who_change_limits_the_second_sees_what_the_first_saved(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    owner = await _owner(api, "applications")
    here = f"{HOME}/applications/{owner}/concurrency"
    text = (await get(visitor, f"{HOME}/applications/{owner}/settings")).answer.text.partition(f'action="{here}"')[2]
    seen = {"seen": text.partition('name="seen" value="')[2].partition('"')[0]}
    assert isinstance(await post(visitor, here, **NO_LIMIT | {"limit": "2"}, **seen), httpx.Response)
    late = await shown(visitor, here, **NO_LIMIT | {"limit": "9"}, **seen)
    assert late.status == 412
    assert "application: 2, queue" in late.text
    assert accepted(await api.get(f"applications/{owner}/concurrency"))["limits"][0]["limit"] == 2


async def test_the_jobs_that_have_and_want_places_are_named(api: Api, visitor: httpx.AsyncClient) -> None:
    owner = await _owner(api, "applications")
    accepted(await api.put(f"applications/{owner}/concurrency", {"limits": [{"limit": 1}]}))
    instances = [await api.launch(owner) for _ in range(2)]
    page = await get(visitor, f"{HOME}/applications/{owner}/settings")
    assert "1 of 1 taken, 1 waiting" in page.text
    for instance in instances:
        assert f'href="{HOME}/instances/{instance}/jobs/' in page.answer.text


@pytest.mark.parametrize("kind", ["applications", "environments"])
async def test_sleep_windows_are_set_and_shown_and_removed(api: Api, visitor: httpx.AsyncClient, kind: str) -> None:
    owner = await _owner(api, kind)
    here = f"{HOME}/{kind}/{owner}"
    two = {
        "sleepAt": ["20:00", "0 20 * * FRI", ""],
        "wakeAt": ["07:00", "0 7 * * MON", ""],
        "zone": ["Europe/Berlin", "UTC", "UTC"],
    }
    more = {"days-0": ["MON", "TUE"], "whenBusy": "skip", "stop": "rest", "start": "rise"}
    saved = await post(visitor, f"{here}/sleep", **two, **more)  # type: ignore[arg-type]  # several of a name
    assert isinstance(saved, httpx.Response)
    rules = accepted(await api.get(f"{kind}/{owner}/sleep"))
    assert rules == {
        "windows": [
            {"sleepAt": "20:00", "wakeAt": "07:00", "days": ["MON", "TUE"], "zone": "Europe/Berlin"},
            {"sleepAt": "0 20 * * FRI", "wakeAt": "0 7 * * MON", "days": [], "zone": "UTC"},
        ],
        "stop": "rest",
        "start": "rise",
        "whenBusy": "skip",
    }
    page = (await get(visitor, f"{here}/settings")).answer.text
    assert 'value="0 20 * * FRI"' in page
    assert page.count('name="days-0" value="MON" checked') == 1
    assert 'name="days-0" value="WED" checked' not in page
    # Empty rows remove the rule.
    assert isinstance(await post(visitor, f"{here}/sleep", sleepAt="", wakeAt="", zone="UTC"), httpx.Response)
    assert accepted(await api.get(f"{kind}/{owner}/sleep"))["windows"] is None


async def test_an_application_may_stay_awake_where_its_environment_sleeps(api: Api, visitor: httpx.AsyncClient) -> None:
    owner = await _owner(api, "applications")
    here = f"{HOME}/applications/{owner}"
    sent = {"sleepAt": "", "wakeAt": "", "zone": "UTC", "never": "1"}
    assert isinstance(await post(visitor, f"{here}/sleep", **sent), httpx.Response)
    assert accepted(await api.get(f"applications/{owner}/sleep"))["windows"] == []
    page = await get(visitor, f"{here}/settings")
    assert "The instances never sleep." in page.text
    both = await shown(visitor, f"{here}/sleep", **NIGHT, never="1")
    assert both.status == 400
    assert "either sleep in windows or never" in both.text


async def test_the_next_turns_are_shown_on_the_clock_of_the_zone(api: Api, visitor: httpx.AsyncClient) -> None:
    owner = await _owner(api, "environments")
    page = await shown(visitor, f"{HOME}/environments/{owner}/sleep", **NIGHT, do="preview")
    assert page.status == 200
    turns = page.answer.text.partition('id="sleep-turns"')[2].partition("</section>")[0]
    assert turns.count("20:00:00 CE") == turns.count("07:00:00 CE") == 3
    assert turns.count("<span>Stop</span>") == turns.count("<span>Start</span>") == 3
    assert 'value="Europe/Berlin"' in page.answer.text, "of two forms with a zone"
    assert accepted(await api.get(f"environments/{owner}/sleep"))["windows"] is None, "nothing is saved"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({**NIGHT, "sleepAt": "25:00"}, "isn't a time of day"),
        ({**NIGHT, "zone": "Atlantis/Harbor"}, "Atlantis/Harbor"),
        ({**NIGHT, "wakeAt": "20:00"}, "are the same time"),
        ({**NIGHT, "stop": "rest"}, "Name both workflows"),
        ({"sleepAt": "", "wakeAt": "", "zone": "UTC", "stop": "rest", "start": "rise"}, "Add a window"),
    ],
)
async def test_a_sleep_window_that_makes_no_sense_is_refused_and_stays_in_the_form(
    api: Api, visitor: httpx.AsyncClient, sent: dict[str, str], message: str
) -> None:
    owner = await _owner(api, "environments")
    page = await shown(visitor, f"{HOME}/environments/{owner}/sleep", **sent)
    assert page.status == 400
    assert message in page.text
    for name in ("zone", "stop"):
        assert f'value="{sent.get(name, "")}"' in page.answer.text
    assert accepted(await api.get(f"environments/{owner}/sleep"))["windows"] is None


async def test_of_two_people_who_change_windows_the_second_sees_what_the_first_saved(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    owner = await _owner(api, "environments")
    here = f"{HOME}/environments/{owner}"
    text = (await get(visitor, f"{here}/settings")).answer.text.partition(f'action="{here}/sleep"')[2]
    seen = {"seen": text.partition('name="seen" value="')[2].partition('"')[0]}
    assert isinstance(await post(visitor, f"{here}/sleep", **NIGHT, **seen), httpx.Response)
    late = await shown(visitor, f"{here}/sleep", **{**NIGHT, "sleepAt": "22:15"}, **seen)
    assert late.status == 412
    assert "20:00 to 07:00" in late.text, "theirs"
    assert 'value="22:15"' in late.answer.text, "mine"
    assert accepted(await api.get(f"environments/{owner}/sleep"))["windows"][0]["sleepAt"] == "20:00"
    after = late.answer.text.partition(f'action="{here}/sleep"')[2]
    again = {"seen": after.partition('name="seen" value="')[2].partition('"')[0]}
    assert isinstance(await post(visitor, f"{here}/sleep", **{**NIGHT, "sleepAt": "22:15"}, **again), httpx.Response)
