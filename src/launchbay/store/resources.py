"""Where the objects of resource paths belong (`queries/resources.sql`)."""

from launchbay.store.statements import load

_sql = load("resources")
# By the first segment of a path. Users belong to any number of organizations.
organization_of = {
    "applications": _sql.value("application", str),
    "environments": _sql.value("environment", str),
    "services": _sql.value("service", str),
    "roles": _sql.value("role", str),
}
instance_environment = _sql.value("instance_environment", str)
shared_organizations = _sql.value("shared_organizations", list)
