"""What migration 0003 gives to organizations that were there before it."""

import psycopg

from launchbay.ids import is_id, new_id
from launchbay.store.migrate import upgrade
from tests.store.test_migrate import MIGRATIONS


def test_an_older_organization_gets_its_zone_and_its_two_services(empty_database_url: str) -> None:
    organization, environment, old_service = new_id(), new_id(), new_id()
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for name in ("0001_initial.sql", "0002_access.sql"):
            connection.execute((MIGRATIONS / name).read_bytes())
        connection.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        connection.execute("INSERT INTO alembic_version VALUES ('0002')")
        connection.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Acme')", [organization])
        connection.execute(
            "INSERT INTO environments (id, organization_id, name, is_default) VALUES (%s, %s, 'default', true)",
            [environment, organization],
        )
        connection.execute(
            "INSERT INTO services (id, organization_id, zone_id, name, type_id) VALUES (%s, %s, 'x', 'mine', 'mine')",
            [old_service, organization],
        )
    assert upgrade(empty_database_url) is True
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        zones = connection.execute("SELECT id, organization_id, name FROM zones").fetchall()
        services = connection.execute("SELECT id, name, type_id, zone_id FROM services ORDER BY name").fetchall()
        offered = connection.execute("SELECT environment_id, service_id FROM environment_services").fetchall()
    assert [(row[1], row[2]) for row in zones] == [(organization, "Default")]
    zone = zones[0][0]
    assert [row[1:] for row in services] == [
        ("Default credentials service", "builtin:cobalt_secure_store", zone),
        ("Default workflow service", "builtin:workflow_service", zone),
        ("mine", "mine", zone),
    ]
    assert all(is_id(row[0]) for row in (*zones, *services))
    assert {row[1] for row in offered} == {row[0] for row in services if row[1] != "mine"}
    assert {row[0] for row in offered} == {environment}
