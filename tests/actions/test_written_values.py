"""What authors wrote without quotes reaches tools as they wrote it, through whole workflows."""

from dataclasses import replace

import pytest

from launchbay.actions.kubernetes_client import read_documents
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import InvalidManifest
from tests.support.machines import Lab, on_lab, workflow
from tests.support.network import answer, loopback_server
from tests.support.runtime import Instance, instance

WEB = "web: {action: provisionVms, parameters: {roleName: web, targetQuantity: 1}, output: {ips: ips}}"
WRITTEN = ["1.10", "1.00", "7.0", "1e3", "0400", "0x1F", "9007199254740993"]


def online(text: str) -> Instance:
    """Return an instance that may call this machine."""
    live = instance(text)
    return replace(live, surroundings=replace(live.surroundings, egress=EgressClient(Allowlist.parse("127.0.0.1"))))


@pytest.mark.parametrize("written", WRITTEN)
async def test_an_argument_of_a_command(written: str) -> None:
    lab = Lab()
    run = f"run: {{action: execrun, parameters: {{roles: [web], command: [echo, {written}]}}}}"
    assert await on_lab(workflow(WEB, run), lab).launch() is None
    assert [command for _, command in lab.ran] == [f"echo {written}"]


@pytest.mark.parametrize("written", WRITTEN)
async def test_a_header_and_the_default_of_a_workflow_parameter(written: str) -> None:
    async with loopback_server() as server:
        server.routes["/"] = answer(body=b"ok")
        live = online(f"""\
launch:
  parameters: [version: {{default: {written}, type: string}}]
  steps:
    - a:
        action: restcall
        parameters: {{command: "{server.url()}", headers: {{X-Version: {written}, X-Default: "{{$.version}}"}}}}
""")
        assert await live.launch() is None
        headers = server.received[0].headers
        assert (headers["x-version"], headers["x-default"]) == (written, written)


async def test_a_commit_that_looks_like_a_number_beyond_all_doubles_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidManifest, match=r"Line 4, column \d+: The number 81e3421 .* Quote it"):
        instance(workflow(WEB, "run: {action: execrun, parameters: {roles: [web], command: [echo, 81e3421]}}"))


@pytest.mark.parametrize("body", ["1e400", '{"a": [-1e400]}'])
async def test_a_number_in_an_answer_that_no_double_holds_is_never_null(body: str) -> None:
    async with loopback_server() as server:
        server.routes["/"] = answer(body=body.encode(), headers=[("Content-Type", "application/json")])
        live = online(f"""\
launch:
  steps: [a: {{action: restcall, parameters: {{command: "{server.url()}"}}, output: {{found: content}}}}]
  return: {{found: {{value: "{{$.found}}"}}}}
""")
        assert await live.launch() is None
        assert f'"{body}"'.replace('{"a"', '{\\"a\\"') in live.state


def test_a_mode_of_kubernetes_is_octal() -> None:
    assert read_documents("volume: { defaultMode: 0400 }\n") == [{"volume": {"defaultMode": 0o400}}]
