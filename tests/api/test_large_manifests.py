"""Manifests with a thousand components (manifest-language §3): accepted, compiled quickly, launched and destroyed."""

import gc
import time

import pytest

from launchbay import limits
from launchbay.manifest.compiler import compile_manifest
from tests.support.databases import Databases
from tests.support.service import Api, accepted, refused, running_api

pytestmark = pytest.mark.slow
COMPONENTS, STEPS = 1_000, 5


def manifest(components: int = COMPONENTS, steps: int = STEPS) -> str:
    each = ", ".join(f"{{s{number}: {{action: wait, parameters: {{delay: 0}}}}}}" for number in range(steps))
    kind = "type: workflow.Instance"
    rows = (
        f"    c{number}: {{{kind}, configuration: {{configuration.workflows: {{launch: {{steps: [{each}]}}}}}}}}\n"
        for number in range(components)
    )
    return "application:\n  components:\n" + "".join(rows)


@pytest.fixture(scope="module")
def text() -> str:
    return manifest()


def test_a_thousand_components_compile_within_a_second(text: str) -> None:
    def seconds() -> float:
        gc.collect()
        start = time.process_time()
        compiled = compile_manifest(text.encode(), known_actions=frozenset({"wait"}))
        assert len(compiled.components) == COMPONENTS
        return time.process_time() - start

    assert min(seconds() for _ in range(3)) < 1.0


async def test_a_thousand_components_are_launched_and_destroyed(api: Api) -> None:
    steps = 2
    instance = await api.launch(await api.application(manifest(steps=steps)))
    document = await api.settled(instance, timeout_s=120)
    assert document["status"] == "Running", document["errorMessage"]
    assert len(document["components"]) == COMPONENTS
    [job] = document["workflowHistory"]
    assert [step["status"] for step in job["steps"]] == ["Succeeded"] * COMPONENTS * steps
    accepted(await api.post(f"instances/{instance}/destroy"))
    assert (await api.settled(instance, timeout_s=120))["status"] == "Destroyed"


async def test_what_is_beyond_a_bound_is_refused_naming_it(api: Api) -> None:
    values = "[" + "a," * limits.MANIFEST_NODES + "]"
    told = refused(await api.put_yaml(f"applications/{await api.application()}/manifest", values), 400)
    assert f"more than {limits.MANIFEST_NODES} values" in told
    long = "launch: {steps: []}\n" + "#" * limits.MANIFEST_BYTES
    assert "512 KiB" in refused(await api.put_yaml(f"applications/{await api.application()}/manifest", long), 413)


async def test_settings_raise_the_bounds(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, manifest_kib=2_048, manifest_values=200_000) as api:
        larger = manifest(components=3_000)
        assert len(larger) > limits.MANIFEST_BYTES
        accepted(await api.put_yaml(f"applications/{await api.application()}/manifest", larger))
    databases.drop(url)
