"""Plans and drift in the terminal: what each step would do, and what differs."""

import json
import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Any

import click
import msgspec

from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.output import CommandFailed, printable, show
from launchbay.model.price import Cost, Price, sum_of

_SIGNS = {"delete": "-", "create": "+", "change": "~", "run": "!", "unknown": "?"}
_VERBS = {"delete": "deletes", "create": "creates", "change": "changes", "run": "runs", "unknown": "unknown"}
_MOST = 200  # effects of a plan
_MOST_VALUES = 12  # of an effect
_VALUE_CHARS = 60
_POLL_S = 0.5
_UNMADE = frozenset({"Waiting", "Planning"})


def show_plan(plan: Mapping[str, Any], output: str) -> None:
    """Show a plan, in a table with what its steps would do."""
    if output != "table":
        show(plan, output)
        return
    hidden = {"steps", "counts", "deletes", "cost"}
    show({name: value for name, value in plan.items() if name not in hidden}, output)
    _print(_plan_lines("The plan", plan))


def show_change_set(found: Mapping[str, Any], output: str) -> None:
    """Show a change set, in a table with the plan of each instance."""
    if output != "table":
        show(found, output)
        return
    rows = found.get("plan") or ()
    plans = {each["instanceName"]: each["effects"] for each in rows if each.get("effects")}
    bare = [{name: value for name, value in each.items() if name not in {"effects", "followUp"}} for each in rows]
    # What a dry run would make has no status.
    status = {"status": f"{found['status']}, but stale"} if found.get("stale") else {}
    show({**found, **status, "plan": bare}, output)
    for name, plan in plans.items():
        _print(_plan_lines(name, plan))
    for each in rows:
        if (line := _follow_up(each.get("followUp"))) is not None:
            click.echo(printable(f"{each['instanceName']}: {line}"))
    deletes = list(dict.fromkeys(address for plan in plans.values() for address in plan["deletes"]))
    verb = {"Pending": "approve", "Ready": "" if found.get("needed") else "apply"}.get(found.get("status", ""))
    if deletes and verb:  # approvals have allowed what is deleted
        allowed = " ".join(f"--allow-deletes {shlex.quote(each)}" for each in deletes[:5])
        more = "" if len(deletes) <= 5 else f", and {len(deletes) - 5} more"
        click.echo(printable(f"To allow what is deleted, {verb} with {allowed}{more}"), err=True)


def _follow_up(found: Mapping[str, Any] | None) -> str | None:
    """Return what follows an instance whose job stopped, if anything does."""
    if found is None:
        return None
    if found["changeSetId"] is not None:
        return f"planned again by the change set {found['changeSetId']}, which waits for somebody"
    return f"not planned again: {found['problem']}"


def show_drift(found: Mapping[str, Any], output: str) -> None:
    """Show the drift of an instance, in a table with both values."""
    if output != "table":
        show(found, output)
        return
    show({name: value for name, value in found.items() if name not in {"findings", "checks", "schedules"}}, output)
    _print(_schedule_line(each) for each in found["schedules"])
    if found["findings"]:
        _print(line for each in found["findings"] for line in _finding_lines(each))


def _schedule_line(schedule: Mapping[str, Any]) -> str:
    """Return when an instance is checked, and where that comes from."""
    state = "paused" if schedule["paused"] else "replaced by another one" if schedule["replaced"] else ""
    mail = "owners get emails" if schedule["mail"] else ""
    notes = "".join(f"; {each}" for each in (state, mail, schedule["problem"]) if each)
    return f"checked by schedule of the {schedule['source']}: {schedule['cron']} ({schedule['zone']}){notes}"


def _finding_lines(finding: Mapping[str, Any]) -> Iterator[str]:
    yield f"{finding['address']}  ({finding['state']}, {finding['kind']}; {finding['step']})  {finding['id']}"
    described, there = finding["from"], finding["to"]
    names = list(dict.fromkeys([*described, *there]))
    for name in names[:_MOST_VALUES]:
        old, new = (_short(each[name]) if name in each else "nothing" for each in (described, there))
        yield f"    {name or 'value'}: {old} → {new}"
    if len(names) > _MOST_VALUES:
        yield f"    and {len(names) - _MOST_VALUES} more"
    ignored = f"ignored: {finding['reason']}" if finding["state"] == "ignored" else ""
    answer = f"change set {finding['changeSetId']}" if finding["changeSetId"] else ""
    yield from (f"    {each}" for each in (finding["note"], ignored, answer, finding["remedy"]) if each)


def wait_for_plan(client: Any, plan: str, timeout_s: float | None) -> dict[str, Any]:
    """Return a plan once it is made.

    Raises CommandFailed if it failed, or isn't made in time.
    """
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    while (found := client.read_plan(plan)).status in _UNMADE:
        if until_s is not None and time.monotonic() >= until_s:
            raise CommandFailed(f"The plan isn't made within {timeout_s:g} s.", ExitCode.TIMED_OUT)
        time.sleep(_POLL_S)
    if found.status == "Failed":
        raise CommandFailed(f"The plan failed: {found.problem}", ExitCode.FAILED)
    made: dict[str, Any] = msgspec.to_builtins(found)
    return made


def wait_for_plans(client: Any, change_set: str, timeout_s: float | None) -> dict[str, Any]:
    """Return a change set once its plans are made or have failed.

    Raises CommandFailed if they aren't in time.
    """
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        found = client.read_change_set(change_set, compare=False)
        if not any(each.effects is not None and each.effects.status in _UNMADE for each in found.plan):
            document: dict[str, Any] = msgspec.to_builtins(client.read_change_set(change_set))
            return document
        if until_s is not None and time.monotonic() >= until_s:
            raise CommandFailed(f"Its plans aren't made within {timeout_s:g} s.", ExitCode.TIMED_OUT)
        time.sleep(_POLL_S)


def _plan_lines(name: str, plan: Mapping[str, Any]) -> Iterator[str]:
    if plan["status"] in _UNMADE:
        yield f"{name}: the plan is being made; show it again"
        return
    if plan["status"] == "Failed":
        yield f"{name}: no plan: {plan['problem']}"
        return
    counts = [f"{verb} {plan['counts'][kind]}" for kind, verb in _VERBS.items() if plan["counts"].get(kind)]
    cost = msgspec.convert(plan["cost"], Cost).text() if plan.get("cost") else ""  # a server of the version before
    yield f"{name}: {', '.join(counts) or 'does nothing'}{f'; new machines: {cost}' if cost else ''}"
    left = _MOST
    for step in plan["steps"]:
        where = f"{step['instance']}.{step['path']}" if step.get("instance") else step["path"]
        yield f"  {where}  ({step['action']})"
        for effect in step["effects"][:left]:
            yield from _effect_lines(effect)
        left -= len(step["effects"])
        if left < 0:
            yield f"    and {-left} more; all of them: --output json"
            left = 0
        for warning in step.get("warnings", ()):
            yield f"    warning: {warning}"


def _effect_lines(effect: Mapping[str, Any]) -> Iterator[str]:
    price = effect.get("price")
    cost = sum_of([msgspec.convert(price, Price)]).text() if price is not None else ""
    notes = [each for each in (cost, effect.get("note"), effect.get("certainty")) if each and each != "exact"]
    about = f"  ({'; '.join(dict.fromkeys(notes))})" if notes else ""
    yield f"    {_SIGNS[effect['kind']]} {effect['address']}{about}"
    before, after = effect.get("before"), effect.get("after")
    if isinstance(before, dict) or isinstance(after, dict):
        old, new = before or {}, after or {}
        names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
        for name in names[:_MOST_VALUES]:
            yield f"        {name}: {_change(old, new, name)}"
        if len(names) > _MOST_VALUES:
            yield f"        and {len(names) - _MOST_VALUES} more"
    elif before is not None or after is not None:
        yield f"        {_change({'': before}, {'': after}, '')}"


def _change(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> str:
    texts = [_short(each[name]) for each in (old, new) if each.get(name) is not None]
    return " → ".join(texts)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}…"


def _print(lines: Iterator[str]) -> None:
    click.echo("")
    for line in lines:
        click.echo(printable(line))
