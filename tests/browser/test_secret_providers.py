"""The page of a provider of secrets, against a real OpenBao: it is tested, and shows who has read from it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support import bao as bao_server
from tests.support.bao import MISSING, PROGRAM, Bao
from tests.support.browser import Site, fresh_name

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
CANARY = "canary-5512-of-the-harbor"


@pytest.fixture
def bao(tmp_path: Path) -> Iterator[Bao]:
    with bao_server.started(tmp_path) as started:
        started.ask("POST", "secret/data/shop", {"data": {"password": CANARY}})
        rule = (
            'path "secret/data/shop" {capabilities=["read", "update"]} path "secret/data/gone" {capabilities=["read"]}'
        )
        started.ask("POST", "sys/policies/acl/shop", {"policy": rule})
        started.ask("POST", "sys/auth/approle", {"type": "approle"})
        started.ask("POST", "auth/approle/role/shop", {"token_policies": ["shop"], "token_ttl": "60s"})
        yield started


def provider(site: Site, bao: Bao) -> str:
    """Make a service, and an environment that offers it."""
    given: dict[str, Any] = {
        "configuration.address": bao.url,
        "configuration.sign-in": "approle",
        "configuration.role-id": bao.ask("GET", "auth/approle/role/shop/role-id")["data"]["role_id"],
        "configuration.secret-id": bao.ask("POST", "auth/approle/role/shop/secret-id", {})["data"]["secret_id"],
    }
    root = f"organizations/{site.organization}"
    body = {"name": fresh_name("Bao"), "typeId": "builtin:openbao", "parameters": given}
    service: str = site.ask("POST", f"{root}/services", body)["id"]
    environment = site.ask("POST", f"{root}/environments", {"name": fresh_name("Quay")})["id"]
    site.ask("PUT", f"environments/{environment}/services", {"services": [service]})
    return service


def test_a_provider_is_tested_without_a_value_on_the_page(page: Page, site: Site, bao: Bao) -> None:
    service = provider(site, bao)
    page.goto(f"/console/services/{service}")
    expect(page.get_by_text("No step has read from it yet.")).to_be_visible()
    page.get_by_label("Paths").fill("secret/shop#password\nsecret/gone\nsecret/other")
    page.get_by_role("button", name="Test", exact=True).click()
    rows = page.locator("#provider-test tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("Readable")
    expect(rows.nth(0)).to_contain_text("May write")
    expect(rows.nth(1)).to_contain_text("Missing")
    expect(rows.nth(1)).to_contain_text("has no secret at 'secret/gone'")
    expect(rows.nth(2)).to_contain_text("Forbidden")
    expect(rows.nth(2)).to_contain_text("Can't write")
    expect(page.get_by_label("Paths")).to_have_value("secret/shop#password\nsecret/gone\nsecret/other")
    assert CANARY not in page.content()
    page.get_by_label("Paths").fill("nothing#")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("isn't a path of the provider")
    bao.ask("PUT", "sys/seal", {})
    page.get_by_label("Paths").fill("secret/shop")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.locator("#provider-test")).to_contain_text("Its operator must unseal it.")
