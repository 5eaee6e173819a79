"""Each form of each page, refused: it keeps what was typed, and the problem stands at its field."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace

import httpx
import pytest
from starlette.responses import Response

from launchbay.console.request import PageRequest, PageRoute
from launchbay.errors import BadRequest
from tests.support.forms import SentForm, forms_of, open_form
from tests.support.page_world import one_of_everything, pages_of
from tests.support.service import Api

BOXES = {"checkbox", "radio"}
TYPED = {"number": "7", "datetime-local": "2031-01-02T03:04:05", "textarea": "typed <&>\nin lines"}
LISTS = {"event", "role"}  # of boxes, of which a problem marks the first
NAMED = (
    "/console/organizations/{id}/webhooks",
    "/console/organizations/{id}/webhooks/{webhook}",
    "/console/organizations/{id}/recurring",
    "/console/organizations/{id}/recurring/{recurring}",
    "/console/instances/{id}/reschedule",
    "/console/environments/{id}/changePolicy",
    "/console/environments/{id}/freeze",
    "/console/applications/{id}/freeze",
    "/console/organizations/{id}/bulk",
    "/console/applications/{id}/rollouts",
    "/console/applications/{id}/promotion/order",
)
LONG = "n" * 300
WRONG = "Wrong for a test."


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service with an engine, since these pages show jobs."""
    return working_service


@dataclass
class Refusal:
    """What refuses each form that a page shows again: an error about a field."""

    about: str = ""
    refused: str = ""
    all: set[str] = field(default_factory=set)


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch) -> Refusal:
    refusal = Refusal()
    answer = PageRoute.answer

    async def refuse(route: PageRoute, request: PageRequest) -> Response:
        if not refusal.about or route.method == "GET":
            return await answer(route, request)
        if route.again is None:
            return Response()  # nothing happens
        refusal.refused = route.path
        refusal.all.add(route.path)

        async def wrong(_: PageRequest) -> Response:
            raise BadRequest(WRONG, field=refusal.about)

        return await answer(replace(route, handler=wrong, refusals=(BadRequest,)), request)

    monkeypatch.setattr(PageRoute, "answer", refuse)
    return refusal


def _typed(form: SentForm) -> SentForm:
    """Change every control as a person may. The row of an object, which is hidden, stays."""
    radios = {each.name: each for each in form.controls if each.kind == "radio" and "disabled" not in each.attributes}
    for each in form.controls:
        if "readonly" in each.attributes or "disabled" in each.attributes or each.kind == "hidden":
            continue
        if each.kind == "radio":
            each.is_sent = radios[each.name] is each
        elif each.kind == "checkbox":
            each.is_sent = not each.is_sent
        elif each.kind == "select":
            each.values = (each.options[1:] or each.options)[:1]
        else:
            each.values = [TYPED.get(each.kind, f"typed <{each.name}>")]
    return form


def _shown(form: SentForm) -> Counter[tuple[str, bool, str]]:
    """Return the controls with what they hold. A password is shown to nobody."""
    return Counter(
        (each.name, each.is_sent, "" if each.kind == "password" else each.values[-1])
        for each in form.controls
        if each.kind != "hidden" and (each.kind in BOXES or each.is_sent)
    )


def _names(form: SentForm) -> list[str]:
    """Return the names of the controls that people fill in. A box alone, which can't be wrong, comes twice."""
    return [each.name for each in form.controls if each.kind != "hidden" for _ in range(1 + (each.kind in BOXES))]


def _row(form: SentForm) -> tuple[str, list[tuple[str, list[str]]]]:
    hidden = [(each.name, each.values) for each in form.controls if each.kind == "hidden"]
    return form.action, [each for each in hidden if each[0] not in {"formToken", "seen"}]


@pytest.mark.slow
async def test_a_refused_form_keeps_what_was_typed_and_marks_its_field(
    api: Api, visitor: httpx.AsyncClient, refusal: Refusal
) -> None:
    world = await one_of_everything(api)
    seen: set[str] = set()
    wrong: list[str] = []
    for path in [*pages_of(world), "/console/account"]:
        refusal.about = ""
        page = await visitor.get(path)
        for number, form in enumerate(forms_of(page) if page.status_code == 200 else []):
            names = _names(form)
            # A problem of a row, or of a box by itself, has no mark.
            lone = [name for name in names if names.count(name) == 1] + [name for name in names if name in LISTS][:1]
            for name in lone or names[:1]:
                sent = _typed(forms_of(page)[number])
                key = f"{re.sub('[0-9a-f]{24}', '{}', form.action)} {name}"
                refusal.about, refusal.refused = name, ""
                if (
                    key in seen
                    or not (answer := await sent.send(visitor, **dict(sent.buttons[:1])))
                    or not refusal.refused
                ):
                    break
                seen.add(key)
                assert WRONG in answer.text, (path, key, answer.text)
                again = [each for each in forms_of(answer) if _row(each) == _row(sent) and name in _names(each)]
                assert again, f"{path}: the form to {form.action} isn't shown again"
                if lost := _shown(sent) - _shown(again[0]):  # there may be one more row, to add to a list
                    wrong.append(f"{path}: the form to {form.action} lost {list(lost)}")
                marked = [each for each in again[0].controls if "aria-invalid" in each.attributes]
                if [each.name for each in marked] != [name] * (name in lone):
                    wrong.append(f"{path}: {name} of {form.action} has marks at {[each.name for each in marked]}")
                for each in marked[:1]:
                    element = each.attributes["id"]
                    assert each.attributes["aria-describedby"].split()[-1] == f"{element}-error"
                    assert re.search(f'id="{element}-error">(<p>)?{WRONG}<', answer.text), (path, key)
                    assert f'href="#{element}">' in answer.text
    assert not wrong, "\n".join(wrong)
    assert set(NAMED) <= refusal.all
    assert len(seen) > 100


# Forms that their own pages refuse: page, address, button, the field that is wrong, and what is typed there.
OWN = {
    "run of a workflow": ("{instances}/run", "{instances}/run", "schedule", "minutes", "soon"),
    "launch": ("{applications}/launch", "{applications}/launch", "launch", "instanceName", LONG),
    "revision": ("{applications}/revisions/new", "{applications}/revisions", "", "name", LONG),
    "another revision": ("{revisions}", "{revisions}", "", "name", LONG),
    "change set": (
        "{instances}/configuration",
        "{instances}/configuration",
        "save change set",
        "instanceName",
        LONG,
    ),
    "service": ("{services}", "{services}", "", "name", LONG),
    "source of a manifest": ("{applications}/manifest", "{applications}/source", "", "url", "ftp://typed.example/"),
    "manifest": ("{applications}/manifest", "{applications}/manifest", "", "message", LONG * 2),
}
UNMARKED = {"change set"}  # what is wrong with it is said of each instance


@pytest.mark.slow
async def test_a_form_that_refuses_by_itself_keeps_what_was_typed_and_marks_its_field(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    world = await one_of_everything(api)
    ids = {kind: f"/console/{kind}/{world[kind]}" for kind in ("instances", "applications", "revisions", "services")}
    for what, (path, action, button, name, text) in OWN.items():
        sent = _typed(await open_form(visitor, path.format(**ids), action.format(**ids))).fill(name, text)
        answer = await sent.send(visitor, do=button)
        assert answer.status_code in {400, 409}, (what, answer.status_code, answer.text)
        [again] = [each for each in forms_of(answer) if _row(each) == _row(sent)]
        assert not _shown(sent) - _shown(again), what
        marked = [each.name for each in again.controls if "aria-invalid" in each.attributes]
        assert marked == [name] * (what not in UNMARKED), what
