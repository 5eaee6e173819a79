"""Writing into the YAML editor."""

from playwright.sync_api import Page, expect


def ready(page: Page) -> None:
    """Wait until the editor stands in the place of its text area."""
    expect(page.locator("[data-editor]").first).to_have_attribute("data-ready", "yes")


def paste(page: Page, text: str) -> None:
    """Replace the whole text by pasting another one, as users do."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+v")
