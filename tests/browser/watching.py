"""What a page must never do: break, run what somebody stored, or try what the content security policy forbids."""

from dataclasses import dataclass, field

from playwright.sync_api import BrowserContext

_LISTEN = """
document.addEventListener('securitypolicyviolation', event =>
    window.__violated(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ` +
        `${event.target.outerHTML?.slice(0, 200)} on ${location.pathname}`));
"""


@dataclass
class Watched:
    """What was seen so far."""

    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """Fail where anything was seen."""
        assert (self.violations, self.errors, self.dialogs) == ([], [], [])


def watch(context: BrowserContext) -> Watched:
    """Watch every page of a profile."""
    seen = Watched()

    def violated(text: str) -> None:
        seen.violations.append(text)

    context.expose_function("__violated", violated)
    context.add_init_script(_LISTEN)
    context.on("weberror", lambda error: seen.errors.append(str(error.error)))

    def note(dialog: object) -> None:
        seen.dialogs.append(str(dialog))
        dialog.dismiss()  # type: ignore[attr-defined]  # playwright's own Dialog

    context.on("dialog", note)
    return seen
