"""Plans of `ansible`: what tasks of the real program say in check mode, and that what runs is what was approved."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launchbay import limits
from launchbay.actions.ansible import Ansible, AnsibleReport
from launchbay.actions.ansible_plan import ApprovedCheck, Checked, Difference, Outcome
from launchbay.actions.contract import ActionCall
from launchbay.actions.plan import ActionPlan, plan_action
from launchbay.errors import ActionFailed, NotApproved
from launchbay.model.effect import NOT_SHOWN
from launchbay.processes.run import Programs
from tests.support.contexts import RecordingContext

ANSIBLE = Ansible()


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lb") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


def here() -> RecordingContext:
    return RecordingContext(programs=Programs(["ansible"]))


def step(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"playbook": [{"hosts": "all", "gather_facts": False, "tasks": list(tasks)}], "onServer": True, **more}


async def plan(context: RecordingContext, **parameters: Any) -> ActionPlan:
    return await plan_action(ANSIBLE, ActionCall(parameters, context), "web#launch/configure")


async def apply(context: RecordingContext, approved: ActionPlan, **parameters: Any) -> Any:
    return await ANSIBLE.run(ActionCall(parameters, context, approved=approved.artifact))


async def refusal(context: RecordingContext, approved: ActionPlan, **parameters: Any) -> str:
    with pytest.raises(NotApproved) as refused:
        await apply(context, approved, **parameters)
    return str(refused.value)


def copy(file: Path, content: str, name: str = "Write it") -> dict[str, Any]:
    return {"name": name, "ansible.builtin.copy": {"dest": str(file), "content": content}}


@pytest.mark.slow
async def test_a_plan_warns_of_a_playbook_that_matches_no_host(tmp_path: Path) -> None:
    given = step(copy(tmp_path / "file", "x"))
    given["playbook"][0]["hosts"] = "web-server"

    made = await plan(here(), **given)

    assert made.effects == ()
    assert made.warnings == ("The playbook ran no task on any host. The 'hosts' of its plays may match none of all.",)


@pytest.mark.slow
async def test_a_plan_changes_nothing_and_exactly_it_is_applied(tmp_path: Path, places: Path) -> None:
    file, old = tmp_path / "file", tmp_path / "old"
    old.write_text("x")
    given = step(
        copy(file, "port=1\n"),
        {"name": "Remove {{{{ old }}}}", "ansible.builtin.file": {"path": str(old), "state": "absent"}},
        {"name": "Touch nothing", "ansible.builtin.debug": {"msg": "hello"}},
        {"name": "Not here", "ansible.builtin.copy": {"dest": "/x", "content": ""}, "when": False},
    )
    given["playbook"][0]["tasks"][1]["name"] = "Remove the old one"
    context = here()

    made = await plan(context, **given)

    assert [(each.kind, each.address, each.certainty) for each in made.effects] == [
        ("change", "localhost: Write it", "estimated"),
        ("delete", "localhost: Remove the old one", "estimated"),
    ]
    assert made.effects[0].after == "port=1\n"
    assert "hello" not in str(context.lines)
    assert (file.exists(), old.exists()) == (False, True)
    await apply(context, made, **given)
    assert (file.read_text(), old.exists()) == ("port=1\n", False)
    assert (await plan(context, **given)).effects == ()
    assert list(places.iterdir()) == []


@pytest.mark.slow
async def test_what_somebody_changed_since_the_plan_stays_as_it_is(tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("port=1\n")
    given = step(copy(other, "x", "Write the other"), copy(file, "port=2\n"))
    context = here()
    made = await plan(context, **given)
    assert (made.effects[1].before, made.effects[1].after) == ("port=1\n", "port=2\n")
    file.write_text("port=1\nby hand\n")

    told = await refusal(context, made, **given)

    assert "on localhost, the task 'Write it' would do something else" in told
    assert "Nothing was done" in told
    assert file.read_text() == "port=1\nby hand\n"
    assert not other.exists()
    with pytest.raises(NotApproved, match="This step began before to do what was approved"):
        await ANSIBLE.run(ActionCall(given, context, approved=made.artifact, has_begun=True))


@pytest.mark.slow
async def test_tasks_that_cannot_say_what_they_would_do_are_unknown_and_named(tmp_path: Path) -> None:
    file, ran = tmp_path / "file", tmp_path / "ran"
    given = step(
        {"name": "A command", "ansible.builtin.command": f"touch {file}"},
        {"name": "A shell", "ansible.builtin.shell": f"touch {file}", "loop": [1, "two"]},
        {"name": "Raw", "ansible.builtin.raw": f"touch {file}"},
        {"name": "A request", "ansible.builtin.uri": {"url": "http://127.0.0.1:1/"}},
        {"name": "Once", "ansible.builtin.command": {"cmd": f"touch {file}", "creates": str(file)}},
        {"name": "Made already", "ansible.builtin.command": {"cmd": "false", "creates": str(tmp_path)}},
        {"name": "Only reads", "ansible.builtin.command": f"touch {ran}", "check_mode": False},
        {"name": "Skipped", "ansible.builtin.command": "false", "when": "1 == 2"},
    )

    made = await plan(here(), **given)

    assert [(each.kind, each.address) for each in made.effects] == [
        ("unknown", "localhost: A command"),
        ("unknown", "localhost: A shell (1)"),
        ("unknown", "localhost: A shell (two)"),
        ("unknown", "localhost: Raw"),
        ("unknown", "localhost: A request"),
        ("change", "localhost: Once"),
        ("unknown", "localhost: Only reads"),
    ]
    assert "ansible.builtin.command can't say what it would do" in made.effects[0].note
    assert not file.exists()
    assert not ran.exists(), "nobody knows whether the task only reads"
    assert "check_mode: false" in made.effects[-1].note


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["linear", "free"])
async def test_a_check_runs_nothing_that_a_playbook_exempts_from_check_mode(tmp_path: Path, strategy: str) -> None:
    touched, written = tmp_path / "touched", tmp_path / "written"
    tasks = [
        {"block": [{"name": "In a block", "ansible.builtin.command": f"touch {touched}"}], "check_mode": False},
        {"name": "In a loop", "ansible.builtin.shell": f"touch {touched}", "loop": [1], "check_mode": "no"},
        {"name": "By a variable", "ansible.builtin.command": f"touch {touched}", "check_mode": "{{ never }}"},
        {**copy(written, "text"), "check_mode": False, "notify": "Handle"},
        {"name": "Flush", "ansible.builtin.meta": "flush_handlers"},
        {"name": "Reads", "ansible.builtin.command": "cat /etc/hostname", "check_mode": False, "register": "read"},
        {"name": "Needs it", "ansible.builtin.debug": {"msg": "{{ read.stdout }}"}},
    ]
    handler = {"name": "Handle", "ansible.builtin.command": f"touch {touched}", "check_mode": False}
    play = {
        "hosts": "all", "gather_facts": False, "strategy": strategy, "vars": {"never": False}, "tasks": tasks,
        "handlers": [handler], "check_mode": False,
    }  # fmt: skip

    made = await plan(here(), onServer=True, playbook=[play])

    assert not touched.exists()
    assert not written.exists()
    assert {each.address.removeprefix("localhost: "): each.kind for each in made.effects} == {
        "In a block": "unknown",
        "In a loop (1)": "unknown",
        "By a variable": "unknown",
        "Write it": "change",
        "Handle": "unknown",
        "Reads": "unknown",
    }


@pytest.mark.slow
async def test_tasks_that_only_a_check_skips_or_lets_fail_are_unknown(tmp_path: Path) -> None:
    file = tmp_path / "file"
    fails = {"ansible.builtin.assert": {"that": "not ansible_check_mode"}}
    given = step(
        {"name": "Not in a check", "ansible.builtin.command": f"touch {file}", "when": "not ansible_check_mode"},
        {"name": "Ignored", **fails, "ignore_errors": True},
        {"block": [{"name": "Rescued", **fails, "loop": [1, 2]}], "rescue": [{"ansible.builtin.debug": {"msg": "so"}}]},
    )

    made = await plan(here(), **given)

    assert [(each.kind, each.address) for each in made.effects] == [
        ("unknown", "localhost: Not in a check"),
        ("unknown", "localhost: Ignored"),
        ("unknown", "localhost: Rescued"),
    ]
    assert "skips it" in made.effects[0].note
    assert "fails in the check" in made.effects[1].note
    await apply(here(), made, **given)
    assert file.exists()


@pytest.mark.slow
async def test_hidden_results_and_secrets_are_in_no_effect(tmp_path: Path) -> None:
    hidden = {**copy(tmp_path / "a", "canary-1"), "no_log": True, "name": "Hidden"}
    listed = {**copy(tmp_path / "b", "{{ item }}"), "no_log": True, "loop": ["canary-2"], "name": "Listed"}
    long = copy(tmp_path / "c", "z" * 20_000, "Long")
    context = here()

    made = await plan(context, **step(hidden, listed, long, variables={"password": "canary-3"}))

    assert [(each.kind, each.address) for each in made.effects] == [
        ("change", "localhost: Hidden"),
        ("change", "localhost: Listed"),
        ("change", "localhost: Long"),
    ]
    assert "hidden by no_log" in made.effects[0].note
    assert "canary" not in str(made.effects) + str(context.lines)
    assert ["canary-3"] in context.learned
    assert made.effects[2].after == NOT_SHOWN
    (tmp_path / "c").write_text("y" * 20_000)
    assert "'Long' would do something else" in await refusal(
        context, made, **step(hidden, listed, long, variables={"password": "canary-3"})
    )


@pytest.mark.slow
async def test_other_variables_tags_or_playbooks_are_refused_before_any_check(tmp_path: Path) -> None:
    task = {"name": "Say it", "ansible.builtin.command": "touch {{ place }}"}
    context, given = here(), step(task, variables={"place": str(tmp_path / "a")})
    made = await plan(context, **given)

    for other in (
        step(task, variables={"place": str(tmp_path / "b")}),
        step(task, task, variables={"place": str(tmp_path / "a")}),
        given | {"tags": ["x"]},
        given | {"isSudo": True},
    ):
        assert "the playbook, its variables or its hosts changed" in await refusal(context, made, **other)

    assert list(tmp_path.glob("*")) == []
    await apply(context, made, **given)
    assert (tmp_path / "a").exists()


@pytest.mark.slow
async def test_times_of_files_are_no_difference(tmp_path: Path) -> None:
    (tmp_path / "touched").write_text("")
    given = step({"name": "Touch", "ansible.builtin.file": {"path": str(tmp_path / "touched"), "state": "touch"}})
    context = here()
    await apply(context, await plan(context, **given), **given)


@pytest.mark.slow
async def test_a_task_that_fails_because_an_earlier_one_did_nothing_leaves_the_rest_unknown(tmp_path: Path) -> None:
    given = step(
        {"name": "Ask", "ansible.builtin.command": "echo 5", "register": "found"},
        {"name": "Need it", "ansible.builtin.assert": {"that": "found.stdout | int == 5"}},
        copy(tmp_path / "file", "x"),
    )
    context = here()

    made = await plan(context, **given)

    assert [(each.kind, each.address) for each in made.effects] == [
        ("unknown", "localhost: Ask"),
        ("unknown", "localhost: what follows"),
    ]
    assert "The check ends here: localhost: the task 'Need it' failed" in made.effects[1].note
    await apply(context, made, **given)
    assert (tmp_path / "file").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"playbook": "- hosts: all\n  tasks: 7\n"}, "Ansible ended with exit code"),
        (step({"name": "Broken", "ansible.builtin.assert": {"that": False}}), "the task 'Broken' failed"),
        (
            step({"ansible.builtin.wait_for": {"path": "/nonexistent", "timeout": 60}}, timeout=0.5),
            "took longer than 0.5 s",
        ),
    ],
)
async def test_a_playbook_that_cannot_be_checked_fails_the_plan(parameters: dict[str, Any], named: str) -> None:
    with pytest.raises(ActionFailed, match=named):
        await plan(here(), **{"onServer": True, **parameters})


@pytest.mark.slow
async def test_a_check_that_reports_too_much_is_refused_and_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSIBLE_CHECK_BYTES", 1_000)
    sizes: list[int] = []
    checked = AnsibleReport.checked

    def measured(report: AnsibleReport) -> list[Checked]:
        sizes.append(report._checked.stat().st_size)
        return checked(report)

    monkeypatch.setattr(AnsibleReport, "checked", measured)
    files = {**copy(tmp_path / "file{{ item }}", "x" * 500), "loop": list(range(30))}

    with pytest.raises(ActionFailed, match="Split the playbook or its hosts"):
        await plan(here(), **step(files))

    assert sizes[0] < 3_000


async def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchbay.processes.run.search_path", lambda: "/nonexistent")
    with pytest.raises(ActionFailed, match="There is no ansible-runner on this server"):
        await plan(here(), **step())


def checked(**more: Any) -> Checked:
    return Checked(**{"host": "h", "task": "t", "status": "changed", "digest": "d", **more})


def test_a_task_deletes_if_its_parameter_or_its_difference_says_so() -> None:
    absent, file = {"path": "/x", "state": "absent"}, {"path": "/x", "state": "file"}
    assert checked(state="absent").effect().kind == "delete"
    assert checked(differences=[Difference(before=file, after=absent)]).effect().kind == "delete"
    assert checked(differences=[Difference(before=absent, after=file)]).effect().kind == "create"
    assert checked(state="present").effect().kind == "change"


def test_tasks_that_went_came_or_changed_are_named_by_host() -> None:
    approved = ApprovedCheck(b"", [Outcome("h", "a", "", "changed", "1"), Outcome("h", "b", "", "unknown", "2")])
    approved.require(approved.outcomes)
    with pytest.raises(NotApproved, match=r"on h, the task 'a' would.*on h, the task 'c' would"):
        approved.require([Outcome("h", "b", "", "unknown", "2"), Outcome("h", "c", "", "changed", "3")])
