"""Objects of an organization by name: read and put as the files of a directory describe them."""

import asyncio
from typing import Any

import pytest

from tests.support.service import GREETER, Api, accepted, fresh_name, refused

YEARLY = "cron: 0 0 1 1 *\n"


def path(api: Api) -> str:
    return f"organizations/{api.organization}/directory"


async def put(api: Api, kind: str, name: str, content: str) -> Any:
    return await api.put(path(api), {"kind": kind, "name": name, "content": content})


async def test_an_ended_schedule_with_its_own_content_is_unchanged(api: Api) -> None:
    app, name = fresh_name("app"), fresh_name("schedule")
    await api.application(GREETER, app)
    content = f"{YEARLY}endsAt: 4102444800000\napplication: {app}\n"
    number = accepted(await put(api, "schedule", name, content))["id"]
    async with api.database.transaction() as connection:
        statement = "UPDATE recurring_schedules SET ends_at = now(), due_at = NULL, fires_at = NULL WHERE id = %s"
        await connection.execute(statement, [number])
    found = accepted(await api.get(path(api)))
    assert name not in [each["name"] for each in found["objects"]]
    (ended,) = (each for each in found["unexported"] if each["name"] == name)
    assert ended["reason"] == "it has ended"
    assert accepted(await put(api, "schedule", name, ended["content"])) == {"id": number}
    shown = await api.post(
        f"organizations/{api.organization}/change-sets",
        {"act": "apply", "files": {f"schedules/{name}.yaml": ended["content"]}},
    )
    assert "nothing to do" in refused(shown, 400)
    assert accepted(await put(api, "schedule", name, content)) == {"id": number}  # it begins again


async def test_a_schedule_that_no_file_describes_is_refused_by_plan_and_put(api: Api) -> None:
    app, name = fresh_name("app"), fresh_name("schedule")
    application = await api.application(GREETER, app)
    body = {"name": name, "cron": "0 0 1 1 *", "applicationId": application, "launch": {"version": 2}}
    accepted(await api.post(f"organizations/{api.organization}/recurring-schedules", body))
    content = f"{YEARLY}application: {app}\n"
    assert (
        f"The schedule '{name}' exists, and a file can't describe it, since it names a version of the manifest. "
        "Let it launch a revision."
    ) in refused(await put(api, "schedule", name, content), 400, "InvalidDirectory")
    shown = await api.post(
        f"organizations/{api.organization}/change-sets",
        {"act": "apply", "files": {f"schedules/{name}.yaml": content}},
    )
    assert "a file can't describe it" in refused(shown, 400)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("service", "type: builtin:cobalt_secure_store\n"),
        ("service-account", "description: Deploys\n"),
        ("schedule", f"{YEARLY}bulk: {{ act: label, labels: {{ a: b }} }}\n"),
    ],
)
async def test_puts_of_one_name_at_once_make_one_object(api: Api, kind: str, content: str) -> None:
    name = fresh_name("same")
    made = await asyncio.gather(*(put(api, kind, name, content) for _ in range(4)))
    assert len({accepted(each)["id"] for each in made}) == 1


@pytest.mark.parametrize(
    ("kind", "content", "code"),
    [
        ("schedule", "cron: 5\n", "InvalidDirectory"),
        ("git-source", "account: a\nurl: https://x.example\nintervalMs: 1\n", "InvalidDirectory"),
        ("service", "type: builtin:cobalt_secure_store\nparameters: { nope: 1 }\n", "InvalidParameters"),
    ],
)
async def test_errors_of_contents_have_the_form_of_all_errors(api: Api, kind: str, content: str, code: str) -> None:
    name = fresh_name("form")
    if kind == "service":
        accepted(await put(api, kind, name, "type: builtin:cobalt_secure_store\n"))
    answer = await put(api, kind, name, content)
    assert refused(answer, 400, code)
    assert answer.json()["docs"] == f"/docs/codes/{code}"


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("services/x.yaml", "type: nope\n", "services/x.yaml:1:7: Unknown service type 'nope'."),
        (
            "services/x.yaml",
            "type: builtin:cloud_account\nparameters:\n  configuration.credential: { fromVault: a, vault: No }\n",
            "services/x.yaml:3:52: Unknown service 'No'.",
        ),
        (
            "schedules/x.yaml",
            f"{YEARLY}application: shop\nlaunch: {{ revision: zz/nope }}\n",
            "schedules/x.yaml:3:21: Unknown revision 'zz/nope'.",
        ),
        ("schedules/x.yaml", f"{YEARLY}application: zz\n", "schedules/x.yaml:2:14: Unknown application 'zz'."),
        (
            "schedules/x.yaml",
            f"{YEARLY}bulk: {{ act: destroy, select: {{ environments: [zz] }} }}\n",
            "schedules/x.yaml:2:48: Unknown environment 'zz'.",
        ),
        (
            "git-sources/x.yaml",
            "account: Nobody\nurl: https://git.example.org/a.git\n",
            "git-sources/x.yaml:1:10: Unknown service account 'Nobody'.",
        ),
    ],
)
async def test_unknown_names_in_files_are_refused_by_the_plan_with_their_place(
    api: Api, path: str, text: str, said: str
) -> None:
    files = {"applications/shop/manifest.yaml": GREETER, path: text}
    answer = await api.post(f"organizations/{api.organization}/change-sets", {"act": "apply", "files": files})
    assert refused(answer, 400, "InvalidDirectory") == said


async def test_what_an_account_lacks_is_named_as_the_file_names_it(api: Api) -> None:
    app, account, vault = fresh_name("app"), fresh_name("robot"), fresh_name("vault")
    await api.application(GREETER, app)
    accepted(await put(api, "service-account", account, ""))
    accepted(await put(api, "service", vault, "type: builtin:cobalt_secure_store\n"))
    base = f"account: {account}\nurl: https://git.example.org/a.git\n"
    for more, permission, path_of in (
        (f"application: {app}\npath: m.yaml\n", "EditApplication", f"/applications/{app}"),
        (f"vault: {vault}\ncredential: key\n", "RunServiceCommand", f"/services/{vault}"),
    ):
        said = f"You need the permission {permission} for {path_of}."
        put_answer = await put(api, "git-source", fresh_name("source"), base + more)
        assert said in refused(put_answer, 400, "AccountNotAllowed")
        files = {"git-sources/x.yaml": base + more}
        planned = await api.post(f"organizations/{api.organization}/change-sets", {"act": "apply", "files": files})
        assert said in refused(planned, 400)
