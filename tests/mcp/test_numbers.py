"""Numbers of agents on their way through the protocol's package."""

import json

import msgspec
import pytest

from launchbay.mcp.numbers import marked, restored


def call(arguments: str, method: str = "tools/call") -> bytes:
    return f'{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {{"arguments": {arguments}}}}}'.encode()


def through(arguments: str) -> str:
    """Return arguments as a tool sends them to the API."""
    message = json.loads(marked(call(arguments)))
    return msgspec.json.encode(restored(message["params"]["arguments"])).decode()


@pytest.mark.parametrize(
    "arguments",
    ['{"a":{"b":1.10}}', '{"a":[1e3,0.00,{"c":-1.50}]}', '{"a":{"b":1.5,"c":7,"d":12345678901234567890}}'],
)
def test_nested_numbers_keep_their_text(arguments: str) -> None:
    assert through(arguments) == arguments


def test_a_string_that_looks_like_a_mark_stays_a_string() -> None:
    assert through('{"a":{"b":"number 0123 1.10"},"c":"1.10"}') == '{"a":{"b":"number 0123 1.10"},"c":"1.10"}'


def test_arguments_that_are_numbers_themselves_have_a_type_of_their_own() -> None:
    assert json.loads(marked(call('{"seconds": 1.50}')))["params"]["arguments"] == {"seconds": 1.5}


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1.10',
        b"\xff 1.5",
        b'{"method": "tools/call", "params": {"arguments": {"a": {"b": NaN, "c": 1.10}}}}',
        call('{"a": {"b": 1.10}}', method="tools/list"),
        b"[1.10]",
        b"[" * 100_000 + b"1.10",
        call("[1.10]"),
    ],
)
def test_what_is_no_call_with_decimal_numbers_comes_back_as_it_is(data: bytes) -> None:
    assert marked(data) is data
