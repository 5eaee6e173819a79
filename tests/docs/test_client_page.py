"""The examples of the page about the client run, in their order, against a real server."""

from typing import Any

import pytest

from launchbay.client import errors
from tests.support.documentation import DOCS, blocks
from tests.support.servers import Bay
from tests.support.service import EMAIL, PASSWORD

PAGE = DOCS / "reference" / "client.md"
EXAMPLES = [block for block in blocks(PAGE) if block.language == "python"]


@pytest.mark.slow
def test_the_examples_run_in_their_order(bay: Bay) -> None:
    assert len(EXAMPLES) > 8
    told = {"https://launchbay.example.org": bay.url, "ann@example.org": EMAIL, "a good password": PASSWORD}
    names: dict[str, Any] = {}
    for block in EXAMPLES:
        text = block.text
        for shown, real in told.items():
            text = text.replace(shown, real)
        exec(compile("\n" * block.line + text, str(PAGE), "exec"), names)
    assert names["document"].return_values == {"greeting": "Hello, harbour!"}
    assert names["job"].results == {"welcome": "Welcome, Ben!"}
    assert f"# {names['job'].results}" in PAGE.read_text("utf-8")


def test_every_error_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ClientError)]
    assert [kind.__name__ for kind in kinds if kind.__name__ not in text] == []
