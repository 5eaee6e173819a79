"""The README's example works as it is shown, and its commands exist."""

import json
import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, blocks
from tests.docs.served import served

PAGE = ROOT / "README.md"
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))


@pytest.mark.parametrize("page", [PAGE, DOCS / "howto" / "install.md"], ids=lambda page: str(page.name))
def test_every_make_command_of_the_page_exists(page: Path) -> None:
    used = re.findall(r"\bmake ([a-z-]+)", "".join(block.text for block in blocks(page) if block.language == "console"))
    assert used
    assert set(used) <= TARGETS


def test_the_example_answers_what_the_readme_shows() -> None:
    (manifest,) = (block.text for block in blocks(PAGE) if block.language == "yaml")
    (calls,) = (block.text for block in blocks(PAGE) if "/launch" in block.text and block.language == "console")
    sent = re.search(r"-d '(\{.*\})'", calls)
    shown = re.search(r'"status":"(\w+)","returnValues":(\{.*?\})', calls)
    assert sent is not None
    assert shown is not None
    with served() as bay:
        application = bay.application("greeter", manifest)
        launched = bay.call("POST", f"applications/{application}/launch", json.loads(sent[1]))
        seen = bay.settled(launched["id"])
    assert (seen["status"], seen["returnValues"]) == (shown[1], json.loads(shown[2]))
