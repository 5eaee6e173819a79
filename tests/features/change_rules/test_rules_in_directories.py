"""Directories and archives contain the rules about changes of applications and environments."""

from typing import Any

from tests.support.service import Api, accepted, fresh_name, own_service

api = own_service  # whose administrator administers the server

RULES = "# Kept.\n- name: keep\n  when: $.kind == 'destroy'\n  deny: It stays.\n"


async def test_an_archive_brings_rules_that_do_not_decide_about_its_import(api: Api) -> None:
    text = "- name: never\n  deny: Never.\n"
    environment, application = await api.offer(), await api.application("launch:\n  steps: []\n")
    accepted(await api.put(f"environments/{environment}/change-rules", {"rules": text}))
    accepted(await api.put(f"applications/{application}/change-rules", {"rules": RULES}))
    archive = accepted(await api.get(f"organizations/{api.organization}/archive"))
    name = fresh_name("copy")
    made = accepted(await api.post("archives", {"name": name, "archive": archive}))
    found: dict[str, Any] = {}
    for kind in ("environments", "applications"):
        listed = accepted(await api.get(f"organizations/{made['id']}/{kind}"))
        for each in listed:
            found[each["name"]] = accepted(await api.get(f"{kind}/{each['id']}/change-rules"))["rules"]
    assert sorted(filter(None, found.values())) == sorted([text, RULES])
