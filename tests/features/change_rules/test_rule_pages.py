"""A form that a rule refuses stays as it was filled in, with the message of the rule."""

import httpx
import pytest

from tests.support.pages import get
from tests.support.service import Api, accepted

MANIFEST = """
launch:
  parameters: { size: { type: string, default: small } }
  steps: []
greet:
  parameters: { whom: { type: string, default: you } }
  steps: []
destroy: { steps: [] }
"""
RULES = "- name: calm\n  when: $.kind != 'edit'\n  deny: Not while we are calm.\n"


@pytest.mark.parametrize("page", ["launch", "run", "lifetime", "end"])
async def test_a_refused_form_keeps_what_was_typed(api: Api, visitor: httpx.AsyncClient, page: str) -> None:
    application = await api.application(MANIFEST)
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.put(f"applications/{application}/change-rules", {"rules": RULES}))
    at = {"launch": f"/console/applications/{application}"}.get(page, f"/console/instances/{instance}")
    form = "settings" if page == "lifetime" else page
    typed = {
        "launch": {"parameter:size": "enormous", "lifetime": "3600000", "do": "launch"},
        "run": {"workflow": "greet", "argument:greet:whom": "everybody", "do": "run"},
        "lifetime": {"lifetime": "other", "minutes": "5"},  # sooner than it would; later ends are allowed
        "end": {"do": "destroy"},
    }[page]
    token = (await get(visitor, f"{at}/{form}")).fields["formToken"]
    answer = await visitor.post(f"{at}/{page}", data={"formToken": token, **typed})
    assert answer.status_code == 403
    assert "Not while we are calm." in answer.text
    assert "You may not do this" not in answer.text
    assert f'action="{at}/{page}"' in answer.text
    for word in ("enormous", "everybody"):
        assert (word in answer.text) == (word in typed.values())
