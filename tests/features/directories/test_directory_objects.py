"""Objects of an organization by name: read and put as the files of a directory describe them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar, copy_context
from types import ModuleType
from typing import Any

import pytest

from launchbay.usecases import service_accounts, services
from tests.support.service import GREETER, Api, accepted, fresh_name, own_service, refused

api = own_service  # whose administrator creates organizations

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
        ("schedule", f"{YEARLY}bulk: {{ act: label, labels: {{ a: b }}, select: {{ all: true }} }}\n"),
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


async def test_who_may_only_read_sees_no_reference_and_no_name_of_a_secret(api: Api) -> None:
    vault, cloud = fresh_name("vault"), fresh_name("cloud")
    made = accepted(await put(api, "service", vault, "type: builtin:cobalt_secure_store\n"))["id"]
    arguments = {"name": "aws-key", "value": "open sesame"}
    accepted(await api.post(f"services/{made}/set-secret", {"arguments": arguments}))
    text = (
        "type: builtin:cloud_account\nparameters:\n  configuration.provider: aws-ec2\n  configuration.identity: x\n"
        f"  configuration.credential: {{ fromVault: aws-key, vault: {vault} }}\n"
    )
    accepted(await put(api, "service", cloud, text))

    async def names_the_secret(*permissions: str) -> tuple[bool, bool]:
        """Return whether the file of the cloud does, and the list of what a directory can't hold."""
        member = await api.member("Read: [/*]", *permissions)
        found = accepted(await member.get(path(api)))
        [shown] = [each["content"] for each in found["objects"] if each["name"] == cloud]
        return "aws-key" in shown, any(vault in each and "aws-key" in each for each in found["omitted"])

    assert await names_the_secret() == (False, False)
    assert await names_the_secret("EditService: [/*]") == (True, False)
    assert await names_the_secret("RunServiceCommand: [/*]") == (False, True)


def objects_of_each_kind(name: str, app: str) -> list[tuple[str, str]]:
    """Return kinds and contents of objects that a directory holds, with all that needs a look elsewhere."""
    return [
        ("service", "type: builtin:cobalt_secure_store\n"),
        ("service-account", "description: Deploys\n"),
        ("user", f"name: {name}\n"),
        ("git-source", f"account: {name}\nurl: https://git.example.org/a.git\npaused: true\n"),
        ("schedule", f"{YEARLY}application: {app}\nlaunch: {{ revision: {app}/{name} }}\n"),
        ("schedule", f"{YEARLY}bulk: {{ act: label, labels: {{ a: b }}, select: {{ applications: [{app}] }} }}\n"),
    ]


@pytest.mark.slow  # makes objects by the hundred
async def test_reading_a_directory_costs_the_same_statements_for_one_object_and_for_many(
    api: Api, exchanges: ContextVar[list[list[bytes]]]
) -> None:
    organization = accepted(await api.post("organizations", {"name": fresh_name()}))["id"]
    directory = f"organizations/{organization}/directory"

    async def make(count: int) -> None:
        for _ in range(count):
            name, app = fresh_name("many").replace(" ", "-"), fresh_name("app")
            made = accepted(await api.post(f"organizations/{organization}/applications", {"name": app}))["id"]
            accepted(await api.put_yaml(f"applications/{made}/manifest", GREETER))
            accepted(await api.post(f"applications/{made}/revisions", {"name": name, "version": 1}))
            for number, (kind, content) in enumerate(objects_of_each_kind(name, app)):
                address = f"{name}@x.example" if kind == "user" else f"{name}-bulk" if number == 5 else name
                accepted(await api.put(directory, {"kind": kind, "name": address, "content": content}))

    async def read() -> tuple[int, int]:
        collected: list[list[bytes]] = []
        exchanges.set(collected)
        found = accepted(await api.get(directory))
        exchanges.set([])
        return len(found["objects"]), sum(map(len, collected))

    await make(1)
    await read()  # the first one fills what is kept in memory
    few, few_statements = await read()
    await make(29)
    many, many_statements = await read()
    assert many == few + 29 * 6
    assert few_statements == many_statements


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType, str, Callable[[], Awaitable[Any]]], None]:
    """Makes a change by another request, before a function of a module goes on."""
    outside = copy_context()  # of the transaction under way

    def arrange(module: ModuleType, name: str, change: Callable[[], Awaitable[Any]]) -> None:
        function = getattr(module, name)

        async def after_change(*arguments: Any, **more: Any) -> Any:
            async def changed() -> None:
                await change()

            monkeypatch.setattr(module, name, function)
            await asyncio.get_running_loop().create_task(changed(), context=outside)
            return await function(*arguments, **more)

        monkeypatch.setattr(module, name, after_change)

    return arrange


def named(found: Sequence[Any]) -> set[str]:
    return {each["name"] for each in found}


async def test_a_directory_is_of_one_point_in_time(
    api: Api, meanwhile: Callable[[ModuleType, str, Callable[[], Awaitable[Any]]], None]
) -> None:
    name = fresh_name("late")

    async def change() -> None:
        accepted(await put(api, "service-account", name, ""))
        accepted(await put(api, "git-source", name, f"account: {name}\nurl: https://x.example/a\npaused: true\n"))

    meanwhile(service_accounts, "list_service_accounts", change)
    assert name not in named(accepted(await api.get(path(api)))["objects"])
    assert name in named(accepted(await api.get(path(api)))["objects"])


async def test_an_archive_is_of_one_point_in_time(
    api: Api, meanwhile: Callable[[ModuleType, str, Callable[[], Awaitable[Any]]], None]
) -> None:
    name = fresh_name("late")

    async def change() -> None:
        accepted(await put(api, "service-account", name, ""))
        accepted(await put(api, "service", name, "type: builtin:cobalt_secure_store\n"))

    meanwhile(services, "describe_services", change)
    archive = f"organizations/{api.organization}/archive"
    found = accepted(await api.get(archive))
    assert name not in found["objects"].get("service-account", {})
    assert name not in found["services"]
    found = accepted(await api.get(archive))
    assert name in found["objects"]["service-account"]
    assert name in found["services"]
