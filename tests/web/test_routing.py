from dataclasses import replace

import httpx
import pytest

from launchbay.web.routing import Endpoint, Router
from tests.support.routes import ID, SAMPLES, Streams


async def test_path_parameters_arrive_decoded(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"/api/1/things/{ID}/a%20b%C3%A9", json={})
    assert answer.json()["path"] == {"id": ID, "verb": "a bé"}


@pytest.mark.parametrize("slash", ["%2f", "%2F"])
async def test_an_encoded_slash_is_part_of_its_segment(client: httpx.AsyncClient, slash: str) -> None:
    answer = await client.post(f"/api/1/things/{ID}/a{slash}schedule", json={})
    assert answer.json()["path"]["verb"] == "a/schedule"


async def test_encoded_dots_do_not_climb(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"/api/1/things/{ID}/%2e%2e", json={})
    assert answer.json()["path"]["verb"] == ".."


async def test_a_segment_is_decoded_once(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"/api/1/things/{ID}/%252f", json={})
    assert answer.json()["path"]["verb"] == "%2f"


async def test_words_may_be_written_with_escapes(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/1/%6fpen")).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/1",
        "/api/1/nope",
        "/api/1/open//",
        "//api/1/open",
        "/api//1/open",
        "/API/1/open",
        "/api/2/open",
        f"/api/1/things/{ID}/%00",
        f"/api/1/things/{ID}/%ff/schedule",
        f"/api/1/things/{ID}/{'x' * 513}",
        f"/api/1/things/{ID}//schedule",
    ],
)
async def test_a_path_that_no_row_has_is_404_even_for_strangers(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(path, json={}, headers={"Authorization": "Bearer bad"})
    assert answer.status_code == 404
    assert answer.json()["code"] == "UnknownPath"


@pytest.mark.parametrize("text", ["nope", ID[:-1], ID + "0", "0" * 23 + "g", f"{ID[:-1]}%20"])
async def test_an_id_of_another_form_is_404(client: httpx.AsyncClient, text: str) -> None:
    answer = await client.get(f"/api/1/things/{text}")
    assert (answer.status_code, answer.json()["code"]) == (404, "NotFound")


async def test_an_id_in_upper_case_is_the_same_id(client: httpx.AsyncClient) -> None:
    for text in (ID.upper(), ID[:12] + ID[12:].upper()):
        answer = await client.get(f"/api/1/things/{text}")
        assert answer.status_code == 200
        assert answer.json()["path"] == {"id": ID}
    last = "00000000000000000000000A"
    assert (await client.get("/api/1/pages", params={"limit": 1, "after": last})).status_code == 200


async def test_a_slash_at_the_end_of_a_path_does_not_count(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/1/open/")).status_code == 200
    answer = await client.post(f"/api/1/things/{ID}/go/", json={})
    assert answer.json()["path"] == {"id": ID, "verb": "go"}
    assert (await client.post(f"/api/1/things/{ID}/", json={})).status_code == 405


async def test_a_word_is_only_a_word_for_the_methods_that_know_it(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"/api/1/things/{ID}/wheels")).json()["user"] == ID
    assert (await client.post(f"/api/1/things/{ID}/wheels", json={})).json()["path"]["verb"] == "wheels"


async def test_a_word_that_leads_nowhere_is_taken_as_a_parameter(client: httpx.AsyncClient) -> None:
    assert (await client.post(f"/api/1/things/{ID}/wheels/preview")).json() == {}
    answer = await client.post(f"/api/1/things/{ID}/wheels/schedule", json={})
    assert answer.json()["path"]["verb"] == "wheels"


async def test_another_method_is_405_and_told_which_ones_there_are(client: httpx.AsyncClient) -> None:
    answer = await client.patch(f"/api/1/things/{ID}")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PUT, OPTIONS"
    assert answer.json()["code"] == "MethodNotAllowed"


async def test_options_tells_the_methods(client: httpx.AsyncClient) -> None:
    answer = await client.options("/api/1/things")
    assert (answer.status_code, answer.headers["allow"]) == (200, "GET, HEAD, POST, OPTIONS")
    assert (await client.options("/api/1/nope")).status_code == 404


async def test_head_is_get_without_the_body(client: httpx.AsyncClient) -> None:
    get, head = await client.get("/api/1/open"), await client.head("/api/1/open")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


async def test_head_of_a_list_reads_one_chunk_which_may_refuse_and_claims_no_length(client: httpx.AsyncClient) -> None:
    made = Streams.rows_made
    head = await client.head("/api/1/things?count=1000")
    assert (head.status_code, head.headers["content-type"]) == (200, "application/json")
    assert "content-length" not in head.headers
    assert Streams.rows_made - made == 100


def row(path: str, method: str = "GET", name: str = "a") -> Endpoint:
    first = SAMPLES[0]
    return Endpoint(
        method=method,  # type: ignore[arg-type]  # any of them here
        path=path,
        operation_id=name,
        handler=first.handler,
        summary="",
        tags=(),
        public=True,
    )


@pytest.mark.parametrize(
    "rows",
    [
        (row("/a/{id}"), row("/a/{id}", name="b")),
        (row("/a"), row("/b")),
        (row("/a/{id}"), row("/a/{thingId}", "PUT", "b")),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(rows: tuple[Endpoint, ...]) -> None:
    with pytest.raises(AssertionError):
        Router(rows)


@pytest.mark.parametrize("path", ["", "a", "/a/", "/a/{id", "/{id}/{id}", "/a b"])
def test_a_row_with_an_impossible_path_is_refused(path: str) -> None:
    with pytest.raises(AssertionError):
        row(path)


def test_a_status_that_follows_from_the_rest_of_a_row_is_refused() -> None:
    assert replace(row("/things"), public=False, permission="Read").all_statuses() == (200, 401, 403, 429, 500, 503)
    with pytest.raises(AssertionError, match="what follows from the rest"):
        replace(row("/things"), public=False, permission="Read", statuses=(403,))
