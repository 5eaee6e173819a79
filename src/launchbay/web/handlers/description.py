"""The OpenAPI document of the table, itself a row of the table."""

from functools import cache
from typing import Any

import msgspec

from launchbay.web.answers import HTML, Answer, Html, RawJson
from launchbay.web.api_page import api_page
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, Returns
from launchbay.web.openapi import document


def description_rows(described: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Return the rows that describe the others and themselves."""

    @cache
    def described_now() -> dict[str, Any]:
        return document((*described, *rows))

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(described_now())

    @cache
    def shown() -> Html:
        return api_page(described_now())

    async def openapi(_: Call[None, None]) -> Answer:
        return RawJson(encoded())

    async def browse(_: Call[None, None]) -> Answer:
        return shown()

    rows = (
        Endpoint(
            method="GET",
            path="/api/1/openapi.json",
            operation_id="openapi",
            handler=openapi,
            summary="Describes this API: an OpenAPI 3.1 document.",
            tags=("Description",),
            public=True,
            returns=Returns(dict[str, Any], "The document."),
            addition=True,
        ),
        Endpoint(
            method="GET",
            path="/docs",
            operation_id="browse_api",
            handler=browse,
            summary="Shows this API as a page: calls by family, parameters, answers, and command lines to try.",
            tags=("Description",),
            public=True,
            returns=Returns(str, "The page.", media_type=HTML),
            addition=True,
        ),
    )
    return rows
