"""What the list of an organization's users says about each of them (reference §2, User)."""

from collections.abc import Collection

from launchbay.access import gate, resources
from launchbay.access.grants import Grants
from launchbay.access.permissions import Permission
from launchbay.store.users import leaves_no_administrator


def can_manage_roles(grants: Grants, user_id: str) -> bool:
    """Tell whether who holds these grants may assign roles to the user and revoke them."""
    return gate.decide(grants, Permission.MANAGE_ROLES, (resources.user(user_id),)).allowed


def can_evict(grants: Grants, user_id: str, administrators: Collection[str]) -> bool:
    """Tell whether who holds these grants may remove the user, who must not be the last administrator."""
    permitted = gate.decide(grants, Permission.MANAGE_USERS, (resources.user(user_id),)).allowed
    return permitted and not leaves_no_administrator(administrators, user_id)
