"""The OpenAPI document of the table, itself a row of the table."""

from functools import cache
from typing import Any

import msgspec

from launchbay.web.answers import Answer, RawJson
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, Returns
from launchbay.web.openapi import document


def description_rows(described: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Return the rows that describe the others and themselves."""

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(document((*described, *rows)))

    async def openapi(_: Call[None, None]) -> Answer:
        return RawJson(encoded())

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
    )
    return rows
