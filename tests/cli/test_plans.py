"""What the terminal shows of plans: each effect with its values, and what an approval must allow."""

import json
from typing import Any

import pytest

from launchbay.cli.plans import show_change_set, show_drift
from tests.support.shell import Shell

LAUNCH = """
launch:
  steps:
    - sail: { action: restcall, parameters: { url: "http://127.0.0.1:1/" } }
destroy: { steps: [] }
"""


def plan(*effects: dict[str, Any], **more: Any) -> dict[str, Any]:
    counts = {kind: len([each for each in effects if each["kind"] == kind]) for kind in ("delete", "create", "change")}
    step = {"path": "infra#update/apply", "component": "infra", "action": "opentofu", "effects": list(effects)}
    deletes = [each["address"] for each in effects if each["kind"] == "delete"]
    return {"status": "Planned", "counts": counts, "deletes": deletes, "steps": [step], "problem": None, **more}


def shown(capsys: pytest.CaptureFixture[str], *plans: dict[str, Any], **more: Any) -> tuple[str, str]:
    rows = [{"instanceName": f"shop-{place}", "effects": each} for place, each in enumerate(plans, 1)]
    show_change_set({"id": "6a1f0c9d2b7e4a5083d6c1f2", "status": "Pending", "plan": rows, **more}, "table")
    found = capsys.readouterr()
    return found.out, found.err


def test_each_effect_is_shown_with_what_changes_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(
        capsys,
        plan(
            {"kind": "delete", "address": "box.a[0]", "note": "replaced"},
            {
                "kind": "change",
                "address": "box.b",
                "before": {"size": 1, "same": "x"},
                "after": {"size": 2, "same": "x", "id": "(known after apply)"},
                "certainty": "estimated",
            },
        ),
    )

    assert out.partition("shop-1: ")[2].splitlines() == [
        "deletes 1, changes 1",
        "  infra#update/apply  (opentofu)",
        "    - box.a[0]  (replaced)",
        "    ~ box.b  (estimated)",
        "        size: 1 → 2",
        "        id: (known after apply)",
    ]
    assert err == "To allow what is deleted, approve with --allow-deletes 'box.a[0]'\n"


@pytest.mark.parametrize(
    ("needed", "hint"), [(0, "To allow what is deleted, apply with --allow-deletes box.a\n"), (1, "")]
)
def test_what_is_deleted_is_allowed_by_who_applies_if_nobody_approves(
    capsys: pytest.CaptureFixture[str], needed: int, hint: str
) -> None:
    _, err = shown(capsys, plan({"kind": "delete", "address": "box.a"}), status="Ready", needed=needed)
    assert err == hint


def test_a_stale_change_set_is_not_shown_as_one_that_can_be_applied(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shown(capsys, status="Ready", stale=["shop-1: Since then, the version changed."])

    assert "Ready, but stale" in out
    assert "Since then, the version changed." in out


def test_plans_that_are_not_there_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    unmade, failed = plan(status="Planning"), plan(status="Failed", problem="Step 'apply': tofu isn't installed.")
    out, err = shown(capsys, unmade, failed, plan())

    assert "shop-1: the plan is being made; show it again" in out
    assert "shop-2: no plan: Step 'apply': tofu isn't installed." in out
    assert "shop-3: does nothing" in out
    assert err == ""


def test_numbers_in_the_sides_of_a_finding_stay_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    side = {"expiresAt": 1_798_761_600_000}
    show_drift(
        {"checkedAt": 1_798_761_600_000, "findings": [{"lastSeen": 1_798_761_600_000, "from": side, "to": side}]},
        "json",
    )
    time = "2027-01-01T00:00:00.000Z"
    found = {"checkedAt": time, "findings": [{"lastSeen": time, "from": side, "to": side}]}
    assert json.loads(capsys.readouterr().out) == found


def test_a_rule_about_drift_is_set_and_removed_by_its_addresses(cli: Shell) -> None:
    cli.good("application", "create", "kept")
    cli.good("application", "set-put-back-rule", "kept", "--addresses", "box.*", "--addresses", "disk")
    assert "box.*, disk" in cli.good("application", "put-back-rule", "kept")
    cli.good("application", "set-put-back-rule", "kept")
    assert "box.*" not in cli.good("application", "put-back-rule", "kept")


def test_a_plan_of_thousands_of_effects_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    many = [{"kind": "create", "address": f"box.b[{number}]"} for number in range(5_000)]
    out, _ = shown(capsys, plan(*many))

    assert "shop-1: creates 5000" in out
    assert "and 4800 more; all of them: --output json" in out
    assert len(out.splitlines()) < 300


def test_a_plan_is_waited_for_and_shown_by_its_command(cli: Shell) -> None:
    cli.good("application", "create", "planned")
    cli.good("manifest", "upload", "planned", "-", stdin=LAUNCH)
    out = cli.good("plan", "create", "launch", "--application", "planned", "--wait")
    assert "The plan: unknown 1" in out
    assert "launch/sail  (restcall)" in out


@pytest.mark.parametrize(
    ("follow_up", "line"),
    [
        (
            {"changeSetId": "6a1f0c9d2b7e4a5083d6c1f3", "problem": None},
            "shop-1: planned again by the change set 6a1f0c9d2b7e4a5083d6c1f3, which waits for somebody",
        ),
        ({"changeSetId": None, "problem": "You may not."}, "shop-1: not planned again: You may not."),
    ],
)
def test_what_follows_an_instance_that_stopped_is_shown(
    capsys: pytest.CaptureFixture[str], follow_up: dict[str, Any], line: str
) -> None:
    rows = [{"instanceName": "shop-1", "effects": None, "followUp": follow_up}]
    show_change_set({"id": "6a1f0c9d2b7e4a5083d6c1f2", "status": "Failed", "plan": rows}, "table")
    assert capsys.readouterr().out.splitlines()[-1] == line
