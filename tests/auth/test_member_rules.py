import pytest

from launchbay.auth.gate import ALL_GRANTS, NO_GRANTS, Grants, RoleGrants, can_evict, can_manage_roles, read_role_text
from launchbay.store.users import leaves_no_administrator


def holding(text: str) -> Grants:
    return Grants((RoleGrants("role", read_role_text(text)),))


ADMINISTRATOR = Grants((RoleGrants("Administrator", ALL_GRANTS),))


@pytest.mark.parametrize(
    ("grants", "manages", "evicts"),
    [
        (ADMINISTRATOR, True, True),
        (NO_GRANTS, False, False),
        (holding("- ManageRoles: [/users/*]"), True, False),
        (holding("- ManageUsers: [/users/*]"), False, True),
        (holding("- ManageUsers: [/users/bob]\n- ManageRoles: [/users/eve]"), False, True),
        (holding("- ManageRoles: [/roles/*]"), False, False),
    ],
)
def test_what_may_be_done_to_a_member_follows_from_two_permissions(grants: Grants, manages: bool, evicts: bool) -> None:
    assert can_manage_roles(grants, "bob") is manages
    assert can_evict(grants, "bob", {"ann"}) is evicts


def test_the_last_administrator_cannot_be_evicted() -> None:
    assert not can_evict(ADMINISTRATOR, "ann", {"ann"})
    assert can_evict(ADMINISTRATOR, "ann", {"ann", "bob"})


@pytest.mark.parametrize(
    ("administrators", "user_id", "expected"),
    [
        (["ann"], "ann", True),
        (["ann", "ann"], "ann", True),
        (["ann"], "bob", False),
        (["ann", "bob"], "ann", False),
        ([], "ann", False),
    ],
)
def test_an_organization_keeps_an_administrator(administrators: list[str], user_id: str, expected: bool) -> None:
    assert leaves_no_administrator(administrators, user_id) is expected
