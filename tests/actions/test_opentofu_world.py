"""Approved plans of `opentofu`, and a world that somebody changes before, with a provider of our own."""

from pathlib import Path
from typing import Any

import pytest

from launchbay.actions.contract import ActionCall
from launchbay.actions.opentofu import OpenTofu
from launchbay.actions.plan import ActionPlan, plan_action
from launchbay.errors import NotApproved
from launchbay.processes.run import Programs
from tests.support import disk_provider
from tests.support.contexts import RecordingContext, run
from tests.support.external_services import needs_tofu

pytestmark = [
    needs_tofu,
    pytest.mark.slow,  # each command of Terraform starts the provider
    pytest.mark.skipif(not disk_provider.HAS_FRAMEWORK, reason="requirements/terraform has no framework"),
]
TOFU = OpenTofu()
MODULE = f"""{disk_provider.REQUIRED}
variable "place" {{}}
variable "text" {{}}
resource "disk_file" "motd" {{
  path    = var.place
  content = var.text
}}
resource "terraform_data" "clock" {{
  input = plantimestamp()
}}
"""


@pytest.fixture(autouse=True)
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(disk_provider.install(tmp_path)))


def given(file: Path, text: str) -> dict[str, Any]:
    return {"module": MODULE, "variables": {"place": str(file), "text": text}}


async def plan(context: RecordingContext, **parameters: Any) -> ActionPlan:
    return await plan_action(TOFU, ActionCall(parameters, context), "web#launch/infra")


async def apply(context: RecordingContext, approved: ActionPlan, **parameters: Any) -> None:
    begun = [False]

    async def begin() -> None:
        begun[0] = True

    try:
        await TOFU.run(ActionCall(parameters, context, approved=approved.artifact, begin=begin))
    except NotApproved:
        assert not begun[0], "it looks before it notes that it has begun"
        raise
    assert begun[0]


async def made(file: Path) -> RecordingContext:
    context = RecordingContext(programs=Programs(["opentofu"]))
    await run(TOFU, context, **given(file, "welcome"))
    return context


async def test_a_file_that_somebody_changed_since_the_plan_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "motd"
    context = await made(file)
    approved = await plan(context, **given(file, "hello"))
    assert any(each.address == "disk_file.motd" and each.kind == "change" for each in approved.effects)
    file.write_text("changed by hand")

    with pytest.raises(NotApproved, match=r'disk_file.motd: content is "changed by hand" instead of "welcome"'):
        await apply(context, approved, **given(file, "hello"))

    assert file.read_text() == "changed by hand"
    again = await plan(context, **given(file, "hello"))
    await apply(context, again, **given(file, "hello"))
    assert file.read_text() == "hello"


async def test_a_file_that_is_gone_since_the_plan_is_not_made_again(tmp_path: Path) -> None:
    file = tmp_path / "motd"
    context = await made(file)
    approved = await plan(context, **given(file, "hello"))
    file.unlink()

    with pytest.raises(NotApproved, match=r"disk_file.motd: it is created instead of it is changed"):
        await apply(context, approved, **given(file, "hello"))

    assert not file.exists()


async def test_a_file_that_was_to_stay_is_not_put_back(tmp_path: Path) -> None:
    file = tmp_path / "motd"
    context = await made(file)
    approved = await plan(context, **given(file, "welcome"))
    file.write_text("changed by hand")

    with pytest.raises(NotApproved, match=r"disk_file.motd: it is changed instead of nothing happens"):
        await apply(context, approved, **given(file, "welcome"))

    assert file.read_text() == "changed by hand"


async def test_what_was_approved_to_be_put_back_is_not_put_back_after_another_change(tmp_path: Path) -> None:
    file = tmp_path / "motd"
    context = await made(file)
    file.write_text("first")
    approved = await plan(context, **given(file, "welcome"))
    file.write_text("second")

    with pytest.raises(NotApproved, match=r'content is "second" instead of "first"'):
        await apply(context, approved, **given(file, "welcome"))

    assert file.read_text() == "second"


async def test_a_changed_file_is_not_destroyed_and_an_unchanged_one_is(tmp_path: Path) -> None:
    file = tmp_path / "motd"
    context = await made(file)
    approved = await plan(context, operation="destroy")
    file.write_text("changed by hand")

    with pytest.raises(NotApproved, match=r"disk_file.motd: content is"):
        await apply(context, approved, operation="destroy")

    file.write_text("welcome")
    await apply(context, approved, operation="destroy")
    assert not file.exists()
