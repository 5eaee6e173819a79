"""`opentofu`, with the real program where this machine has one (tofu or terraform); it needs no network here."""

import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchbay.actions.contract import ActionCall
from launchbay.actions.opentofu import OpenTofu, StateSaver, StoredModule, read_module
from launchbay.egress.http import EgressClient
from launchbay.egress.proxy import OutgoingProxy
from launchbay.errors import ActionFailed
from launchbay.manifest.reader import read
from launchbay.manifest.tree import written_data
from launchbay.processes.run import Programs
from tests.support.contexts import KeptInMemory, RecordingContext, run
from tests.support.eventually import eventually
from tests.support.external_services import MODULE, needs_tofu
from tests.support.network import answer, loopback_server, packed
from tests.support.servers import is_alive, pids

TOFU = OpenTofu()
NOTHING = dict.fromkeys(("add", "change", "remove", "import", "forget", "move", "outputs"), 0)
BEFORE = """
variable "name" { default = "a" }
resource "terraform_data" "old" { input = var.name }
resource "terraform_data" "gone" { input = 1 }
"""
AFTER = """
variable "name" { default = "a" }
resource "terraform_data" "new" { input = var.name }
moved {
  from = terraform_data.old
  to   = terraform_data.new
}
removed {
  from = terraform_data.gone
  lifecycle { destroy = false }
}
check "name" {
  assert {
    condition     = var.name == "b"
    error_message = "The name isn't b."
  }
}
"""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Private directories are made here, so that a test sees what is left of them."""
    directory = tmp_path / "places"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def here() -> RecordingContext:
    return RecordingContext(programs=Programs(["opentofu"]))


def state_of(context: RecordingContext, name: str = "default") -> Any:
    return json.loads(read_module(context.documents.documents[name].data).state)


async def refusal(context: RecordingContext, **parameters: Any) -> ActionFailed:
    with pytest.raises(ActionFailed) as caught:
        await run(TOFU, context, **parameters)
    return caught.value


@needs_tofu
@pytest.mark.slow
async def test_a_module_is_applied_and_its_state_is_kept_and_destroyed(tmp_path: Path, places: Path) -> None:
    context, file = here(), tmp_path / "made"

    applied = await run(TOFU, context, module=MODULE, variables={"place": str(file)})

    assert file.read_text() == "1\n"
    assert applied["outputs"] == {"place": str(file)}
    assert applied["secrets"] == {"password": "hunter22-1"}
    assert context.learned == [{"password": "hunter22-1"}]
    assert applied["changes"] == {**NOTHING, "add": 1, "outputs": applied["changes"]["outputs"]}
    assert [each["type"] for each in state_of(context)["resources"]] == ["terraform_data"]
    assert any("Apply complete" in text for _, text in context.lines)
    assert "hunter22" not in str(context.lines)
    assert list(places.iterdir()) == []

    await run(TOFU, context, operation="destroy")

    assert not file.exists()
    assert context.documents.documents == {}


@pytest.mark.slow
@needs_tofu
@pytest.mark.slow
async def test_the_next_step_goes_on_from_the_state_that_is_kept(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "made"
    variables = {"place": str(file)}
    await run(TOFU, context, module=MODULE, variables=variables)

    again = await run(TOFU, context, module=MODULE, variables=variables)
    planned = await run(TOFU, context, operation="plan", module=MODULE, variables={**variables, "size": 2})
    changed = await run(TOFU, context, module=MODULE, variables={**variables, "size": 2})

    assert again["changes"] == NOTHING
    # The password is made of the size, and the place is known after the apply.
    assert planned["changes"] == {**NOTHING, "add": 1, "remove": 1, "outputs": 2}
    assert planned["hasChanges"]
    assert changed["changes"] == {**NOTHING, "add": 1, "remove": 1, "outputs": changed["changes"]["outputs"]}
    assert file.read_text() == "2\n"


@pytest.mark.slow
@needs_tofu
@pytest.mark.slow
async def test_what_is_kept_is_taken_down_with_all_that_it_needs(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "made"
    module = {
        "main.tf": 'module "inner" {\n  source = "./inner"\n  place = var.place\n}\n',
        "variables.tf": 'variable "place" {}\n',
        "inner/main.tf": MODULE,
    }
    await run(TOFU, context, module=module, name="shop", environment={"TF_VAR_place": str(file)})
    assert file.exists()

    await TOFU.teardown(ActionCall({}, replace(context, lines=[])), "shop")
    await TOFU.teardown(ActionCall({}, context), "shop")  # a recovery may do it again

    assert not file.exists()
    assert context.documents.documents == {}


@needs_tofu
@pytest.mark.slow
async def test_what_a_failed_apply_has_made_is_in_the_state(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "made"
    failing = """
    resource "terraform_data" "bad" {
      depends_on = [terraform_data.file]
      provisioner "local-exec" {
        command = "echo no room; exit 3"
      }
    }
    """

    error = await refusal(context, module=MODULE + failing, variables={"place": str(file)})

    assert "exit status 3" in str(error)
    assert error.retryable
    assert len(state_of(context)["resources"]) == 2
    await TOFU.teardown(ActionCall({}, context), "default")
    assert not file.exists()


@needs_tofu
@pytest.mark.slow
async def test_a_backend_of_the_module_does_not_take_the_state_away(tmp_path: Path) -> None:
    context = here()
    backend = f'terraform {{\n  backend "local" {{\n    path = "{tmp_path}/elsewhere"\n  }}\n}}\n'

    await run(TOFU, context, module=backend + MODULE, variables={"place": str(tmp_path / "made")})

    assert not (tmp_path / "elsewhere").exists()
    assert len(state_of(context)["resources"]) == 1


@needs_tofu
@pytest.mark.slow
async def test_a_module_comes_from_a_directory_of_an_archive(tmp_path: Path) -> None:
    async with loopback_server() as server:
        server.routes["/m.tgz"] = answer(body=packed({"top/README": b"", "top/infra/main.tf": MODULE.encode()}))
        url = server.url("/m.tgz")

        found = await run(TOFU, here(), url=url, directory="infra", variables={"place": str(tmp_path / "made")})
        error = await refusal(here(), url=url, variables={"place": "x"})

    assert found["outputs"] == {"place": str(tmp_path / "made")}
    assert "no module in this directory" in str(error)


@needs_tofu
@pytest.mark.slow
async def test_variables_reach_the_module_as_they_are(tmp_path: Path) -> None:
    hostile = {"text": "$(touch pwned) ${path.module} %{ if true } '\" \n", "list": [1, True, None], "name": "ä"}
    module = 'variable "value" {}\noutput "value" { value = var.value }\n'

    found = await run(TOFU, here(), module=module, variables={"value": hostile})

    assert found["outputs"] == {"value": hostile}


@needs_tofu
@pytest.mark.slow
async def test_cancelling_ends_the_program_and_keeps_what_it_has_made(tmp_path: Path, places: Path) -> None:
    context, file, numbers = here(), tmp_path / "made", tmp_path / "pids"
    waiting = f"""
    resource "terraform_data" "slow" {{
      depends_on = [terraform_data.file]
      provisioner "local-exec" {{
        command = "echo $$ >> {numbers}; sleep 600"
      }}
    }}
    """
    call = ActionCall({"module": MODULE + waiting, "variables": {"place": str(file)}}, context)
    running = asyncio.create_task(TOFU.run(call))
    await eventually(lambda: len(pids(numbers)) == 1 or running.done())

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert not any(map(is_alive, pids(numbers)))
    assert "file" in [each["name"] for each in state_of(context)["resources"]]
    assert list(places.iterdir()) == []


@needs_tofu
@pytest.mark.slow
async def test_the_state_is_kept_while_the_program_works(tmp_path: Path) -> None:
    context, file, go_on = here(), tmp_path / "made", tmp_path / "go-on"
    waiting = f"""
    resource "terraform_data" "slow" {{
      depends_on = [terraform_data.file]
      provisioner "local-exec" {{
        command = "until [ -e {go_on} ]; do sleep 0.1; done"
      }}
    }}
    """
    call = ActionCall({"module": MODULE + waiting, "variables": {"place": str(file)}}, context)
    running = asyncio.create_task(TOFU.run(call))

    def knows_the_file() -> bool:
        kept = context.documents.documents.get("default")
        return kept is not None and '"name": "file"' in read_module(kept.data).state

    await eventually(lambda: knows_the_file() or running.done())
    assert not running.done()
    go_on.touch()
    await running
    assert len(state_of(context)["resources"]) == 2


async def test_a_look_that_is_still_writing_does_not_stand_in_the_way_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.actions.opentofu.POLL_S", 0.001)
    begun = asyncio.Event()

    class Slow(KeptInMemory):
        async def write(self, name: str, data: bytes, version: int) -> int:
            if read_module(data).state:
                begun.set()
                await asyncio.sleep(0.05)
            return await super().write(name, data, version)

    documents, state = Slow(), tmp_path / "state"
    async with StateSaver(documents, "default", StoredModule(b""), 0).saving_changes(state):
        state.write_text('{"serial": 1}')
        await begun.wait()
        state.write_text('{"serial": 2}')

    assert read_module(documents.documents["default"].data).state == '{"serial": 2}'


@needs_tofu
@pytest.mark.slow
async def test_a_plan_tells_moves_forgets_and_outputs_from_nothing_to_do() -> None:
    context = here()
    await run(TOFU, context, module=BEFORE)
    same = await run(TOFU, context, operation="plan", module=BEFORE)
    assert (same["changes"], same["hasChanges"]) == (NOTHING, False)

    moved = await run(TOFU, context, operation="plan", module=AFTER)
    output = await run(TOFU, context, operation="plan", module=BEFORE + 'output "name" { value = var.name }\n')
    imported = BEFORE + 'resource "terraform_data" "more" {}\nimport {\n  to = terraform_data.more\n  id = "x"\n}\n'
    taken = await run(TOFU, context, operation="plan", module=imported)

    assert (moved["changes"], moved["hasChanges"]) == ({**NOTHING, "move": 1, "forget": 1}, True)
    assert (output["changes"], output["hasChanges"]) == ({**NOTHING, "outputs": 1}, True)
    assert (taken["changes"], taken["hasChanges"]) == ({**NOTHING, "import": 1}, True)
    assert 'Warning: check "name": Check block assertion failed: The name isn\'t b. (main.tf, line 14)' in [
        text for _, text in context.lines
    ]


@needs_tofu
@pytest.mark.slow
async def test_a_failed_init_tells_its_first_error() -> None:
    calls = "".join(f'module "m{number}" {{ source = "./nowhere-{number}" }}\n' for number in range(40))

    error = await refusal(here(), module=calls)

    assert "terraform init ended with exit code 1: Error: Unreadable module directory" in str(error).replace(
        "tofu ", "terraform "
    )
    assert "nowhere-0" in str(error)


@needs_tofu
@pytest.mark.slow
async def test_an_output_loses_its_mark_in_terraform_data() -> None:
    """As the page says: `sensitive = true` on the output keeps it."""
    module = """
    variable "password" { sensitive = true }
    resource "terraform_data" "kept" { input = var.password }
    output "marked" {
      value     = terraform_data.kept.output
      sensitive = true
    }
    output "lost" { value = nonsensitive(terraform_data.kept.output) }
    """
    found = await run(TOFU, here(), module=module, variables={"password": "hunter22"})
    assert found["secrets"] == {"marked": "hunter22"}
    assert found["outputs"] == {"lost": "hunter22"}


EPHEMERAL = {
    "main.tf": """
variable "token" {
  type      = string
  ephemeral = true
}
variable "place" {}
module "inner" {
  source = "./inner"
  token  = var.token
}
resource "terraform_data" "used" {
  input = var.place
  provisioner "local-exec" {
    command     = "echo used $TOKEN; printf %s $TOKEN > '${var.place}'"
    environment = { TOKEN = module.inner.made }
  }
  provisioner "local-exec" {
    when    = destroy
    command = "rm '${self.input}'"
  }
}
output "nothing" { value = ephemeralasnull(var.token) }
""",
    "inner/main.tf": """
variable "token" { ephemeral = true }
output "made" {
  value     = "${var.token}-inner"
  ephemeral = true
}
""",
}


@needs_tofu
@pytest.mark.slow
async def test_ephemeral_values_reach_what_uses_them_and_no_state_log_or_output(tmp_path: Path) -> None:
    context, file = here(), tmp_path / "used"
    variables = {"place": str(file), "token": "hunter22"}

    applied = await run(TOFU, context, module=EPHEMERAL, variables=variables)
    changed = await run(TOFU, context, operation="plan", module=EPHEMERAL, variables={**variables, "token": "other"})

    assert file.read_text() == "hunter22-inner"
    assert (applied["outputs"], applied["secrets"]) == ({}, {})
    assert "hunter22" not in json.dumps(state_of(context))
    assert "hunter22" not in str(context.lines)
    assert (changed["changes"], changed["hasChanges"]) == (NOTHING, False), "it isn't in the state to differ from"

    await run(TOFU, context, operation="destroy")  # needs the variable again

    assert not file.exists()
    assert context.documents.documents == {}


@needs_tofu
@pytest.mark.slow
async def test_an_ephemeral_value_in_a_place_that_is_kept_is_refused_in_the_words_of_the_program() -> None:
    module = 'variable "token" { ephemeral = true }\nresource "terraform_data" "kept" { input = var.token }\n'
    error = await refusal(here(), module=module, variables={"token": "hunter22"})
    assert "terraform_data.kept: Invalid use of ephemeral value" in str(error)
    assert "hunter22" not in str(error)


@needs_tofu
@pytest.mark.slow
async def test_a_module_that_cannot_be_read_says_where() -> None:
    error = await refusal(here(), module='resource "terraform_data" "x" {\n')

    assert "main.tf" in str(error)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({}, "'module' or 'url'"),
        ({"module": "x", "url": "http://127.0.0.1/"}, "'module' or 'url'"),
        ({"module": {"../main.tf": "x"}}, "'module' is wrong"),
        ({"module": {"a/../../main.tf": "x"}}, "'module' is wrong"),
        ({"module": {"main.tf": 1}}, "'module' is wrong"),
        ({"module": "x", "operation": "import"}, "'operation' is wrong"),
        ({"module": "x", "name": "a/b"}, "'name' is wrong"),
        ({"module": "x", "environment": {"LD_PRELOAD": "x.so"}}, "'environment.LD_PRELOAD' is wrong"),
        ({"module": "x", "environment": {"PATH": "/"}}, "'environment.PATH' is wrong"),
        ({"module": "x", "environment": {"A B": "x"}}, "'environment.A B' is wrong"),
        ({"module": "x", "variables": {"x": float("nan")}}, "'variables' is wrong"),
    ],
)
async def test_a_wrong_parameter_is_named(parameters: dict[str, Any], named: str) -> None:
    context = here()
    context.programs.require = lambda *_, **__: "tofu"  # type: ignore[method-assign] # it is not started

    error = await refusal(context, **parameters)

    assert named in str(error)
    assert not error.retryable


async def test_nothing_runs_where_the_operator_does_not_allow_it() -> None:
    error = await refusal(RecordingContext(), module="x")

    assert "LAUNCHBAY_SERVER_PROGRAMS=opentofu" in str(error)


async def test_without_the_program_the_operator_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchbay.processes.run.search_path", lambda: "/nonexistent")

    error = await refusal(here(), module="x")

    assert "no tofu or terraform on this server" in str(error)


async def test_where_nothing_is_kept_there_is_nothing_to_destroy() -> None:
    context = here()
    context.programs.require = lambda *_, **__: "tofu"  # type: ignore[method-assign] # it is not started

    assert (await run(TOFU, context, operation="destroy"))["changes"] == {}


@needs_tofu
@pytest.mark.slow
async def test_variables_are_texts_or_exact_numbers_as_the_module_declares_them() -> None:
    module = """
    variable "release" { type = string }
    variable "commits" { type = list(string) }
    variable "count_of" { type = number }
    variable "free" {}
    output "release" { value = var.release }
    output "commits" { value = var.commits }
    output "exact" { value = tostring(var.count_of) }
    output "next" { value = tostring(var.count_of + 1) }
    output "free" { value = [tostring(var.free.id), var.free.text, tostring(var.free.version)] }
    """
    given = written_data(
        read(
            b"{ release: 1.10, commits: [1e3, 0x1F, 0400, no], count_of: 9007199254740993,"
            b" free: { id: 9223372036854775807, text: '1.10', version: 1.10 } }"
        )
    )

    applied = await run(OpenTofu(), here(), module=module, variables=given)

    assert applied["outputs"] == {
        "release": "1.10",
        "commits": ["1e3", "0x1F", "0400", "no"],
        "exact": "9007199254740993",
        "next": "9007199254740994",
        "free": ["9223372036854775807", "1.10", "1.1"],
    }


@needs_tofu
@pytest.mark.slow
async def test_the_program_gets_the_proxy_of_the_settings(tmp_path: Path) -> None:
    """It fetches providers by itself. A module may state another proxy."""
    context, file = here(), tmp_path / "made"
    context.egress = EgressClient(proxy=OutgoingProxy.load("http://proxy.example:3128", "", "*.example.org,10.0.0.0/8"))
    module = (
        'resource "terraform_data" "shown" {\n'
        f'  provisioner "local-exec" {{ command = "env | grep -i _proxy | sort >{file}" }}\n}}\n'
    )

    await run(TOFU, context, module=module, environment={"https_proxy": "http://other.example:1"})

    found = dict(line.split("=", 1) for line in file.read_text().splitlines())
    assert found["HTTPS_PROXY"] == found["HTTP_PROXY"] == found["http_proxy"] == "http://proxy.example:3128"
    assert found["NO_PROXY"] == found["no_proxy"] == "localhost,127.0.0.1,127.0.0.0/8,::1,[::1],.example.org,10.0.0.0/8"
    assert found["https_proxy"] == "http://other.example:1"
