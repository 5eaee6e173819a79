"""What Helm's dry runs say, and which definitions a chart has, without the program."""

from typing import Any

import pytest

from launchbay import limits
from launchbay.actions.helm_plan import (
    NO_REVISION,
    ApprovedRelease,
    Revision,
    chart_definitions,
    held_objects,
    shown_value,
)
from launchbay.errors import ActionFailed, NotApproved
from launchbay.model.redaction import REDACTED
from tests.support.network import packed


def definition(name: str) -> bytes:
    return f"kind: CustomResourceDefinition\napiVersion: v1\nmetadata: {{name: {name}}}\n".encode()


def test_definitions_are_found_in_the_chart_and_in_subcharts_of_either_form() -> None:
    archive = packed(
        {
            "shop/crds/a.yaml": definition("a"),
            "shop/crds/more/b.yml": definition("b"),
            "shop/crds/README.md": b"not one",
            "shop/templates/crds/x.yaml": definition("x"),
            "shop/charts/db/crds/c.yaml": definition("c"),
            "shop/charts/web-1.0.0.tgz": packed({"web/crds/d.yaml": definition("d")}),
            "shop/charts/_old.tgz": packed({"old/crds/y.yaml": definition("helm-ignores-it")}),
            "shop/charts/.old/crds/z.yaml": definition("helm-ignores-it-too"),
        }
    )
    assert [each["metadata"]["name"] for each in chart_definitions(archive)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("content", [b"kind: 3\n  x", b"[1]", b"kind: CustomResourceDefinition\n"])
def test_a_definition_that_cannot_be_read_fails_the_plan(content: bytes) -> None:
    with pytest.raises(ActionFailed):
        chart_definitions(packed({"shop/crds/a.yaml": content}))
    with pytest.raises(ActionFailed, match="Can't read the definitions of the chart"):
        chart_definitions(b"no archive")


def test_subcharts_in_subcharts_cannot_unpack_to_more_than_one_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ARCHIVE_FILES", 50)
    chart = packed({"c/crds/a.yaml": definition("a")})
    for _ in range(3):
        chart = packed({f"c/charts/{number}.tgz": chart for number in range(5)})

    with pytest.raises(ActionFailed, match="it unpacks to more than 256 MiB or 50 files"):
        chart_definitions(chart)


def test_a_release_that_changed_is_described() -> None:
    approved = ApprovedRelease("install", Revision(3, "deployed", "2026-11-30T10:00:00Z"))
    with pytest.raises(NotApproved, match=r"the release changed \(none instead of revision 3, deployed, of 2026-11-30"):
        approved.require("install", NO_REVISION)
    with pytest.raises(NotApproved, match="Helm now renders v1 ConfigMap new otherwise"):
        approved.require_objects({"v1 ConfigMap new": {}})


def test_objects_with_random_names_cannot_be_held() -> None:
    with pytest.raises(ActionFailed, match="names objects at random: v1 Job x-1, v1 Job x-2"):
        held_objects({"v1 Job x-1": {}}, {"v1 Job x-2": {}})


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("replicas", 3, 3),
        ("tls.enabled", True, True),
        ("nodeSelector", {}, {}),
        ("image.tag", "1.0", "(text)"),
        ("dsn", "postgres://u:pw@h/db", "(text)"),
        ("tls.key", "-----BEGIN", "(text)"),
        ("env", [{"name": "DB_PASSWORD", "value": "pw"}], "(list)"),
        ("secrets.x", 4711, REDACTED),
        ("pass.pin", 4711, REDACTED),
        ("app.adminPin", 4711, REDACTED),
        ("size", 815, REDACTED),
    ],
)
def test_of_a_value_that_may_be_a_secret_only_its_type_is_shown(path: str, value: Any, shown: Any) -> None:
    def redact(text: str) -> str:
        return text.replace("815", REDACTED)

    assert shown_value(path, value, redact) == shown
    assert shown_value(path, shown, redact) == shown
