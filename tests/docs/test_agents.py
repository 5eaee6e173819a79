"""The page for agents works: its token, its connections and its example, against a server."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.documentation import DOCS, blocks
from tests.support.servers import Bay
from tests.support.shell import Shell

PAGE = DOCS / "howto" / "agents.md"


@pytest.fixture
def environ(bay: Bay, tmp_path: Path) -> dict[str, str]:
    """The variables of the page, with the token that it makes."""
    shell = Shell.of(bay, tmp_path / "config")
    lines = [line for block in blocks(PAGE) if block.language == "console" for line in block.text.splitlines()]
    [words] = [shlex.split(line)[2:] for line in lines if line.startswith("$ launchbay token create")]
    # Lines of the server's log may be before it, for the server runs in this process.
    printed = ("\n" + shell.good(*words, "-o", "json")).partition("\n{")[2]
    return {"LAUNCHBAY_URL": bay.url, "LAUNCHBAY_TOKEN": json.loads("{" + printed)["token"]}


@pytest.mark.slow  # starts a program
async def test_a_program_serves_the_tools_on_standard_input(environ: dict[str, str]) -> None:
    [config] = [text for block in blocks(PAGE) if '"command"' in (text := block.text)]
    [server] = json.loads(config)["mcpServers"].values()
    assert server["command"] == "launchbay"
    assert set(server["env"]) == set(environ)
    source = str(DOCS.parent / "src")
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "launchbay.cli.main", *server["args"]],
        env={**environ, "PYTHONPATH": source},
    )
    async with Client(stdio_client(parameters)) as client:
        made = await client.call_tool("create_application", {"name": "from a program"})
        assert not made.is_error, made.content
        proposed = await client.call_tool("propose_change", {"act": "destroy", "instances": ["nothing"], "reason": "x"})
        assert proposed.is_error


TYPED = """
application:
  interfaces: {input: {release: bind(worker#input.release)}}
  components:
    worker:
      type: workflow.Instance
      interfaces: {input: {release: configuration(string)}}
      configuration: {configuration.workflows: {launch: {steps: []}}}
"""


@pytest.mark.slow  # starts a program
def test_a_number_keeps_its_text_over_standard_input(bay: Bay, environ: dict[str, str]) -> None:
    bay.application("versioned", TYPED)
    about = '{"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}'
    launch = (
        '{"name": "preview_launch", "arguments": {"application": "versioned", "parameters": {"input.release": 1.10}}}'
    )
    lines = [
        f'{{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {about}}}',
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        f'{{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {launch}}}',
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "launchbay.cli.main", "mcp"],
        env={**{name: value for name, value in os.environ.items() if "proxy" not in name.lower()}, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("\n".join(lines) + "\n")
        program.stdin.flush()
        answers = [json.loads(program.stdout.readline()) for _ in range(2)]
        program.stdin.close()
    [content] = answers[1]["result"]["content"]
    assert '"1.10"' in content["text"], content["text"]


@pytest.mark.slow  # starts a program
def test_the_example_finds_an_application(bay: Bay, environ: dict[str, str]) -> None:
    bay.application("lighthouse", "application: {components: {}}\n")
    [example] = [block.text for block in blocks(PAGE) if block.language == "python"]
    found = subprocess.run(
        [sys.executable, "-c", example],
        env={**{name: value for name, value in os.environ.items() if "proxy" not in name.lower()}, **environ},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "lighthouse" in [each["name"] for each in json.loads(found.stdout)["applications"]]


async def test_without_a_server_the_command_says_how_to_get_one(tmp_path: Path) -> None:
    told = Shell(tmp_path).bad(2, "mcp")
    assert "launchbay login" in told
