"""Forms of pages as a browser without scripts reads, shows and sends them (HTML, "Constructing the entry list")."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

import httpx

from tests.support.pages import ORIGIN

_LINE_END = re.compile(r"\r\n?|\n")
_UNSENT = {"submit", "button", "reset", "image", "file"}


@dataclass
class _Control:
    """A control that is sent: its name, and its values as the browser holds them."""

    name: str
    kind: str  # a type of input, "textarea" or "select"
    values: list[str] = field(default_factory=list)
    is_sent: bool = True
    attributes: dict[str, str] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)

    def typed(self, text: str) -> str:
        """Return what the control holds of a text: one of a single line has no line ends."""
        return _LINE_END.sub("\n" if self.kind == "textarea" else "", text)


@dataclass
class SentForm:
    """A form of a page. Its controls can be filled in, and it can be sent."""

    action: str
    controls: list[_Control] = field(default_factory=list)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def fill(self, name: str, text: str, place: int = 0) -> "SentForm":
        """Type a text into the control with this name, or the one in its `place` among several."""
        control = [each for each in self.controls if each.name == name][place]
        control.values = [control.typed(text)]
        control.is_sent = True
        return self

    def value(self, name: str, place: int = 0) -> str:
        return [each for each in self.controls if each.name == name][place].values[0]

    @property
    def entries(self) -> list[tuple[str, str]]:
        """The fields as they are sent, with CRLF as the line end."""
        return [
            (each.name, _LINE_END.sub("\r\n", value)) for each in self.controls if each.is_sent for value in each.values
        ]

    async def send(self, client: httpx.AsyncClient, **button: str) -> httpx.Response:
        """Send the form with the name and value of the button that is pressed."""
        headers = {"Origin": ORIGIN, "Content-Type": "application/x-www-form-urlencoded"}
        content = urlencode([*self.entries, *button.items()])
        return await client.post(self.action, content=content, headers=headers)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[SentForm] = []
        self._open: SentForm | None = None
        self._area: _Control | None = None
        self._select: _Control | None = None
        self._first_option: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = SentForm(given.get("action", ""))
            self.forms.append(self._open)
        if tag == "button" and self._open is not None and given.get("name"):
            self._open.buttons.append((given["name"], given.get("value", "")))
        if tag == "option" and self._select is not None:
            self._select.options += [] if "disabled" in given else [given["value"]]
            if "selected" in given:
                self._select.values = [given["value"]]
            elif self._first_option is None:
                self._first_option = given["value"]
        if tag not in {"input", "textarea", "select"} or self._open is None or not given.get("name"):
            return
        kind = given.get("type", "text") if tag == "input" else tag
        if kind in _UNSENT:
            return
        is_choice = kind in {"checkbox", "radio"}
        control = _Control(given["name"], kind, attributes=given)
        control.is_sent = "disabled" not in given and (not is_choice or "checked" in given)
        if tag == "input":
            control.values = [control.typed(given.get("value", "on" if is_choice else ""))]
        elif tag == "textarea":
            self._area, control.values = control, [""]
        else:
            self._select, self._first_option = control, None
        self._open.controls.append(control)

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self._area.values[0] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            text = _LINE_END.sub("\n", self._area.values[0])
            self._area.values = [text.removeprefix("\n")]  # a line end behind the tag is no text
            self._area = None
        if tag == "select" and self._select is not None:
            if not self._select.values and self._first_option is not None:
                self._select.values = [self._first_option]
            self._select = None
        if tag == "form":
            self._open = None


def forms_of(answer: httpx.Response) -> list[SentForm]:
    """Return the forms of a page in their order."""
    reader = _Reader()
    reader.feed(answer.text)
    reader.close()
    return reader.forms


def form_to(answer: httpx.Response, action: str) -> SentForm:
    """Return the first form of a page that is sent to an address, with or without a query."""
    return next(each for each in forms_of(answer) if each.action.partition("?")[0] == action)


async def open_form(client: httpx.AsyncClient, path: str, action: str) -> SentForm:
    """Return a form of the page at a path."""
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return form_to(answer, action)
