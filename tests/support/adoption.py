"""Infrastructure that somebody made with the program itself, and its adoption."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.drift import KEY, MODULE, boxes, drift_of
from tests.support.external_services import TERRAFORM
from tests.support.service import Api, accepted

STEADY = "\n".join(line for line in MODULE.splitlines() if "plantimestamp" not in line)  # without what always differs


def applied(directory: Path, module: str = STEADY, **variables: Any) -> str:
    """Apply a module as somebody without Launchbay does, and return the state that this leaves."""
    assert TERRAFORM is not None
    directory.mkdir(exist_ok=True)
    (directory / "main.tf").write_text(module)
    (directory / "given.auto.tfvars.json").write_text(json.dumps({"key": KEY, **variables}))
    for command in (["init"], ["apply", "-auto-approve"]):
        subprocess.run(
            [TERRAFORM, *command, "-input=false", "-no-color"], cwd=directory, check=True, capture_output=True
        )
    return (directory / "terraform.tfstate").read_text()


async def adopted(api: Api, state: str, *, manifest: str = "", **launch: Any) -> str:
    """Adopt a state as an instance whose component has it, and return its ID when the first check is done."""
    application = await api.application(manifest or boxes(STEADY))
    body = {"launch": launch, "states": [{"component": "web", "state": state}]}
    instance = accepted(await api.post(f"applications/{application}/adoptions", body))["instanceId"]
    await drift_of(api, instance)
    return str(instance)


def state_text(lineage: str, *names: str, **more: Any) -> str:
    """Return a state as the program writes it, with a resource of each name."""
    resources = [
        {
            "mode": "managed",
            "type": "terraform_data",
            "name": name,
            "provider": 'provider["terraform.io/builtin/terraform"]',
            "instances": [{"schema_version": 0, "attributes": {"id": name, "input": None, "output": None}}],
        }
        for name in names or ("box",)
    ]
    return json.dumps({"version": 4, "lineage": lineage, "serial": 3, "resources": resources, **more})
