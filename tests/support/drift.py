"""Infrastructure that somebody changes behind Launchbay's back, and the checks that find it."""

from typing import Any

import msgspec

from launchbay.actions.opentofu import read_module
from launchbay.auth.secret_key import KeyFile, SecretKey
from launchbay.features.drift.rules import Finding
from launchbay.store.instances import document_purpose
from tests.support.eventually import eventually
from tests.support.service import Api, accepted

MODULE = """
variable "size" { default = 1 }
variable "key" { sensitive = true }
resource "terraform_data" "box" { input = var.size }
resource "terraform_data" "lock" { input = var.key }
resource "terraform_data" "clock" { input = plantimestamp() }
output "size" { value = terraform_data.box.output }
"""
KEY = "canary-5512-key"


def boxes(module: str = MODULE, more: str = "") -> str:
    """Return a manifest whose component has a box of a size, a lock, and a clock that always differs."""
    text = module.replace("{", "{{").replace("}", "}}")  # as braces are written in parameters
    block = "\n".join(f"{' ' * 22}{line}" for line in text.strip().splitlines())
    return f"""\
application:
  configuration: {{ input.size: 1 }}
  interfaces: {{ input: {{ size: bind(web#input.size) }} }}
  components:
    web:
      type: workflow.Instance
      interfaces: {{ input: {{ size: configuration(int) }} }}
      configuration:
        configuration.triggers: {{ input.size: launch }}
        configuration.workflows:
          launch:
            steps:
              - infra:
                  action: opentofu
                  parameters:
                    name: shop
                    variables: {{ size: "${{size}}", key: "{KEY}" }}
                    module: |
{block}
{more}"""


async def running_boxes(api: Api, manifest: str = boxes()) -> str:
    """Return an instance whose clock differs already, as a check may come in the second of its launch."""
    instance = await api.running(manifest)
    await change_outside(api, instance, clock="yesterday")
    return instance


async def change_outside(api: Api, instance: str, **changed: Any) -> None:
    """Change the boxes of a state as somebody without Launchbay would; None removes one, a map names attributes."""
    key = SecretKey(KeyFile(api.settings.key_file()).lines()[0][1])
    async with api.database.transaction() as connection:
        statement = "SELECT id, sealed FROM kept_documents WHERE instance_id = %s"
        [[document, sealed]] = await (await connection.execute(statement, [instance])).fetchall()
        module = read_module(key.open(bytes(sealed), document_purpose(document)))
        state = msgspec.json.decode(module.state)
        for name, value in changed.items():
            [found] = [each for each in state["resources"] if each["name"] == name]
            if value is None:
                state["resources"].remove(found)
            else:
                new = value if isinstance(value, dict) else {"input": value, "output": value}
                found["instances"][0]["attributes"] |= {attribute: _typed(each) for attribute, each in new.items()}
        state["serial"] += 1
        module = msgspec.structs.replace(module, state=msgspec.json.encode(state).decode())
        await connection.execute(
            "UPDATE kept_documents SET sealed = %s, version = version + 1 WHERE id = %s",
            [key.seal(module.encoded(), document_purpose(document)), document],
        )


def _typed(value: str | int) -> dict[str, Any]:
    """Return a value as states have it whose schema leaves the type open."""
    return {"value": value, "type": "string" if isinstance(value, str) else "number"}


async def break_state(api: Api, instance: str) -> None:
    """Leave a state that no program can read."""
    key = SecretKey(KeyFile(api.settings.key_file()).lines()[0][1])
    async with api.database.transaction() as connection:
        statement = "SELECT id, sealed FROM kept_documents WHERE instance_id = %s"
        [[document, sealed]] = await (await connection.execute(statement, [instance])).fetchall()
        module = read_module(key.open(bytes(sealed), document_purpose(document)))
        broken = key.seal(msgspec.structs.replace(module, state="{").encoded(), document_purpose(document))
        await connection.execute("UPDATE kept_documents SET sealed = %s WHERE id = %s", [broken, document])


async def checked(api: Api, instance: str, **body: Any) -> Any:
    """Check an instance, and return its drift when that is done."""
    accepted(await api.post(f"instances/{instance}/drift/check", body))
    return await drift_of(api, instance)


async def drift_of(api: Api, instance: str) -> Any:
    """Return the drift of an instance when no check waits."""
    return await eventually(
        lambda: api.read(f"instances/{instance}/drift/report"),
        lambda found: found["status"] not in {"Waiting", "Checking"},
        within_s=90,
    )


async def planned(api: Api, change_set: str) -> Any:
    """Return a change set whose plans are made."""
    return await eventually(
        lambda: api.read(f"change-sets/{change_set}"),
        lambda found: all(each["effects"]["status"] not in {"Waiting", "Planning"} for each in found["plan"]),
        within_s=90,
    )


async def applied(api: Api, change_set: str) -> Any:
    """Apply a change set, and return it when its jobs have ended."""
    accepted(await api.post(f"change-sets/{change_set}/apply"))
    return await eventually(
        lambda: api.read(f"change-sets/{change_set}"), lambda found: found["finishedAt"] is not None, within_s=90
    )


def open_findings(drift: Any) -> dict[str, Any]:
    """Return the findings that still differ, by address."""
    return {each["address"]: each for each in drift["findings"] if each["state"] in {"new", "ignored"}}


async def found_by_hand(api: Api, finding: Finding) -> str:
    """Return an instance of which a check seems to have found this."""
    instance = await api.running("launch: {steps: []}\n")
    await find_by_hand(api, instance, finding)
    return instance


async def find_by_hand(api: Api, instance: str, finding: Finding) -> None:
    """Note what a check seems to have found of an instance."""
    text = msgspec.json.encode([finding]).decode()
    async with api.database.transaction() as connection:
        made = "INSERT INTO drift_reports (instance_id, organization_id, checked_at) VALUES (%s, %s, now())"
        await connection.execute(made, [instance, api.organization])
        noted = "UPDATE drift_reports SET findings = %s, new_findings = 1 WHERE instance_id = %s"
        await connection.execute(noted, [text, instance])
