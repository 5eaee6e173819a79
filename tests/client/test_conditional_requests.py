"""The client keeps tags: it asks with If-None-Match, and changes with If-Match."""

import httpx
import pytest

from launchbay.client import Client, ConnectionFailed, Operations, PreconditionFailed, Retries, Tagged

ID = "5f" * 12


class Server:
    """Answers with a name and its tag, as the server does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.name = "a"
        self.asked: list[httpx.Request] = []
        self.is_lost = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        tag = f'"{self.name}"'
        if self.is_lost:
            raise httpx.ReadError("lost", request=request)
        if request.method == "PUT":
            if request.headers.get("if-match") not in {tag, None}:
                body = {"errors": ["Changed."], "code": "PreconditionFailed", "requestId": ID}
                return httpx.Response(412, json=body, headers={"ETag": tag})
            return httpx.Response(200, json={})
        if request.headers.get("if-none-match") == tag:
            return httpx.Response(304, headers={"ETag": tag})
        return httpx.Response(200, json={"id": ID, "name": self.name}, headers={"ETag": tag})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(server: Server) -> Client:
    return Client("http://server", transport=httpx.MockTransport(server), retries=Retries(first_pause_s=0.001))


def test_who_asks_again_sends_the_tag_and_gets_the_same_answer(server: Server, client: Client) -> None:
    assert [client.read_organization(ID).name for _ in range(3)] == ["a"] * 3
    assert [request.headers.get("if-none-match") for request in server.asked] == [None, '"a"', '"a"']
    server.name = "b"
    assert [client.read_organization(ID).name for _ in range(2)] == ["b"] * 2
    assert server.asked[-1].headers["if-none-match"] == '"b"'


def test_a_read_object_has_its_tag_also_when_nothing_has_changed(client: Client) -> None:
    read = Operations.read_organization.call(ID)
    first, again = client.tagged(read), client.tagged(read)
    assert first == again == Tagged(first.value, '"a"')


def test_a_change_for_an_old_tag_raises_with_the_present_one(server: Server, client: Client) -> None:
    client.rename_organization(ID, name="x", if_match='"a"')
    server.name = "b"
    with pytest.raises(PreconditionFailed) as refused:
        client.rename_organization(ID, name="x", if_match='"a"')
    assert refused.value.tag == '"b"'


def test_a_conditional_change_whose_answer_is_lost_is_not_repeated(server: Server, client: Client) -> None:
    server.is_lost = True
    with pytest.raises(ConnectionFailed):
        client.rename_organization(ID, name="x", if_match='"a"')
    assert len(server.asked) == 1
    with pytest.raises(ConnectionFailed):
        client.rename_organization(ID, name="x")
    assert len(server.asked) == 1 + Retries().attempts


def test_the_client_keeps_the_last_answers_only(server: Server, client: Client) -> None:
    for number in range(40):
        client.read_organization(f"{number:024x}")
    client.read_organization(f"{0:024x}")
    client.read_organization(f"{39:024x}")
    assert [request.headers.get("if-none-match") for request in server.asked[-2:]] == [None, '"a"']
