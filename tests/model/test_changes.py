"""Rules about changes: no operation is forgotten, and the matrix of what they say to whom."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from launchbay.model.changes import EXEMPT, GOVERNED

SOURCES = Path("src/launchbay")
# What a part of a name stands for.
PARTS = {"kind": ("application", "environment")}  # what has labels is an instance too


# Operations on what no rule is about, with the reason.
OF_OTHERS = {
    "each change that it makes asks": (
        *("create_bulk", "continue_bulk", "pause_bulk", "cancel_bulk"),
        *("create_change_set", "replan_change_set", "apply_change_set", "delete_change_set", "supersede_change_set"),
        *("create_recurring_schedule", "update_recurring_schedule", "delete_recurring_schedule"),
        *("pause_recurring_schedule", "resume_recurring_schedule"),
        *("create_git_source", "update_git_source", "delete_git_source", "sync_git_source", "apply_git_source"),
        "import_organization",
    ),
    "it asks as the operation that it is a plan of": ("create_plan",),
    "nothing changes": ("delete_plan", "test_webhook", "retry_deliveries", "replace_views"),
    "it is an answer about a change, which asks itself": ("approve_change_set", "reject_change_set"),
    "it is about people and programs, whom roles govern": (
        *("accept_membership", "create_user", "update_user", "remove_user", "reset_second_factors"),
        *("create_role", "update_role", "delete_role", "assign_roles", "revoke_roles", "replace_group_roles"),
        *("provision_user", "update_provisioned_user", "delete_provisioned_user", "synchronize_roles"),
        *("create_provisioned_group", "update_provisioned_group", "delete_provisioned_group"),
        *("create_service_account", "update_service_account", "delete_service_account"),
        *("create_access_token", "revoke_access_token", "lift_sign_in_block", "write_sign_in_policy"),
    ),
    "it is about the organization itself": (
        *("create_organization", "rename_organization", "forget_host_key"),
        *("create_webhook", "update_webhook", "delete_webhook"),
    ),
}


@cache
def audited() -> frozenset[tuple[str, str]]:
    """Return the names of all operations that are audited, with the file of each."""
    texts = {path: path.read_text("utf-8") for path in SOURCES.rglob("*.py")}
    return frozenset(
        (name, str(path.relative_to(SOURCES)))
        for path, text in texts.items()
        if ".audit(" in text  # parsing all files takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "audit"
        for name in names_of(node.args[0])
    )


def names_of(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(name)):
            yield name
        case ast.IfExp():
            yield from (*names_of(node.body), *names_of(node.orelse))
        case ast.Subscript(value=ast.Dict(values=values)):
            for value in values:
                yield from names_of(value)
        case ast.JoinedStr(
            values=[ast.Constant(value=str(before)), ast.FormattedValue(value=ast.Name(id=part)), *rest]
        ):
            after = "".join(str(each.value) for each in rest if isinstance(each, ast.Constant))
            yield from (f"{before}{each}{after}" for each in PARTS[part])


def test_each_operation_says_whether_rules_govern_it() -> None:
    known = {*GOVERNED, *EXEMPT, *(name for names in OF_OTHERS.values() for name in names)}
    forgotten = {f"{name} ({path})" for name, path in audited() if name not in known}
    assert forgotten == set(), "write it into model/changes.py, or above if it changes nothing that rules are about"


def test_no_row_is_left_of_an_operation_that_is_gone() -> None:
    known = (
        {name for name, _ in audited()}
        | {"replace_manifest", "set_manifest_source", "refresh_manifest"}
        | {"put_instance_labels"}
    )
    of_others = {name for names in OF_OTHERS.values() for name in names}
    assert {*GOVERNED, *EXEMPT, *of_others} - known == set()


def test_no_operation_is_both() -> None:
    assert GOVERNED.keys() & EXEMPT.keys() == set()
