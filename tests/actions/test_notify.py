"""`notify`, against a real mail server on loopback."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.actions.notify import Notify
from launchbay.egress.mail import validate_address
from launchbay.errors import ActionFailed
from tests.support.contexts import RecordingContext, run
from tests.support.external_services import Postbox, made_certificate, postbox

NOTIFY = Notify()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return made_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def box() -> AsyncIterator[Postbox]:
    async with postbox() as box:
        yield box


def context(box: Postbox) -> RecordingContext:
    return RecordingContext(mail_server=box.server)


async def refusal(context: RecordingContext, **parameters: object) -> ActionFailed:
    with pytest.raises(ActionFailed) as caught:
        await run(NOTIFY, context, **parameters)
    return caught.value


async def test_a_letter_arrives_with_what_it_was_given(box: Postbox) -> None:
    at = context(box)

    outputs = await run(
        NOTIFY,
        at,
        to=["ann@example.org", "ann@example.org"],
        cc="ben@example.org",
        subject="Zürich läuft",
        text="Grüße\n.\nEnde",
        html="<p>Grüße</p>",
    )

    [letter] = box.letters
    assert box.receivers == [["ann@example.org", "ben@example.org"]]
    assert letter["From"] == "Launchbay <bay@example.org>"
    assert (letter["To"], letter["Cc"], letter["Subject"]) == ("ann@example.org", "ben@example.org", "Zürich läuft")
    assert letter["Message-ID"] == outputs["messageId"] == f"<{at.idempotency_key}@example.org>"
    body = letter.get_body(("plain",))
    assert body is not None
    assert body.get_content().replace("\r\n", "\n") == "Grüße\n.\nEnde\n"
    rich = letter.get_body(("html",))
    assert rich is not None
    assert "<p>Grüße</p>" in rich.get_content()
    assert outputs["refused"] == {}
    assert outputs["webhooks"] == 0


async def test_every_attempt_of_a_step_has_the_same_message_id_and_another_step_another(box: Postbox) -> None:
    for at in (context(box), replace(context(box), attempt=2), replace(context(box), step_path="web/launch/other")):
        await run(NOTIFY, at, to="ann@example.org", subject="s")

    first, second, other = (letter["Message-ID"] for letter in box.letters)
    assert first == second != other


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_an_encrypted_server_gets_it_after_the_sign_in(security: str, certificate: tuple[Path, Path]) -> None:
    async with postbox(security, certificate) as box:
        await run(NOTIFY, context(box), to="ann@example.org", subject="s", text="t")

        assert box.was_encrypted == [True]
        assert box.was_signed_in == [True]


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_server_with_a_certificate_of_nobody_known_gets_nothing(
    security: str, certificate: tuple[Path, Path]
) -> None:
    async with postbox(security, certificate) as box:
        box.server = replace(box.server, ca_file="")

        error = await refusal(context(box), to="ann@example.org", subject="s")

        assert "LAUNCHBAY_SMTP_CA_FILE" in str(error)
        assert not error.retryable
        assert box.letters == []


async def test_a_server_that_cannot_encrypt_gets_nothing_either(box: Postbox) -> None:
    box.server = replace(box.server, security="starttls")

    error = await refusal(context(box), to="ann@example.org", subject="s")

    assert "LAUNCHBAY_SMTP_SECURITY" in str(error)
    assert box.letters == []


async def test_a_wrong_password_is_told_without_showing_it(certificate: tuple[Path, Path]) -> None:
    async with postbox("starttls", certificate) as box:
        box.server = replace(box.server, password="wrong-password-7")

        error = await refusal(context(box), to="ann@example.org", subject="s")

        assert "refused the sign-in" in str(error)
        assert "wrong-password-7" not in str(error) + repr(box.server)
        assert not error.retryable


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subject", "Hello\r\nBcc: eve@example.org"),
        ("subject", "Hello\nX: y"),
        ("subject", "a\x00b"),
        ("subject", "a\u2028b"),
        ("subject", "x" * 301),
        ("to", "ann@example.org\r\nBcc: eve@example.org"),
        ("to", "ann@example.org, eve@example.org"),
        ("to", "Ann <ann@example.org>"),
        ("to", "ann"),
        ("to", "@example.org"),
        ("to", ["ann@example.org", ""]),
        ("to", [f"a{number}@example.org" for number in range(101)]),
        ("cc", "<eve@example.org>"),
    ],
)
async def test_nothing_that_would_begin_another_header_is_sent(box: Postbox, name: str, value: object) -> None:
    parameters: dict[str, object] = {"to": "ann@example.org", "subject": "s", "text": "t", name: value}

    error = await refusal(context(box), **parameters)

    assert f"'{name}' is wrong" in str(error)
    assert not error.retryable
    assert box.letters == []


@given(st.text(max_size=60))
def test_what_passes_for_an_address_is_one_and_nothing_else(text: str) -> None:
    try:
        address = validate_address(text)
    except ValueError:
        return
    assert address.count("@") >= 1
    assert address.isprintable()
    assert not set(address) & set(" ,;<>\r\n\t")


async def test_who_is_refused_is_told_and_the_others_get_it(box: Postbox) -> None:
    box.refuses = {"gone@example.org": "550 No such user"}
    at = context(box)

    outputs = await run(NOTIFY, at, to=["ann@example.org", "gone@example.org"], subject="s")

    assert outputs["refused"] == {"gone@example.org": "550 No such user"}
    assert box.receivers == [["ann@example.org"]]
    assert ("warning", "The mail server refused gone@example.org: 550 No such user") in at.lines


GREY = "451 4.7.1 Greylisted, try again in five minutes"


async def test_who_is_put_off_is_asked_again_alone(box: Postbox) -> None:
    box.puts_off = {"grey@example.org": [GREY, GREY]}
    box.refuses = {"gone@example.org": "550 No such user"}
    at = context(box)

    outputs = await run(NOTIFY, at, to=["ann@example.org", "grey@example.org"], cc="gone@example.org", subject="s")

    assert box.receivers == [["ann@example.org"], ["grey@example.org"]]
    first, second = box.letters
    assert (first["Message-ID"], first["To"], first["Cc"]) == (second["Message-ID"], second["To"], second["Cc"])
    assert outputs["refused"] == {"gone@example.org": "550 No such user"}
    assert at.naps == [60, 120]
    assert ("info", f"The mail server puts grey@example.org off: {GREY} Next attempt in 60 s.") in at.lines
    assert ("info", f"Sent the email {outputs['messageId']} to 2 recipients.") in at.lines


async def test_a_later_refusal_of_the_letter_doesnt_send_it_twice_to_those_who_have_it(box: Postbox) -> None:
    box.puts_off = {"grey@example.org": [GREY]}
    box.refuses_alone = "554 5.7.1 Message rejected"
    at = context(box)

    outputs = await run(NOTIFY, at, to=["ann@example.org", "ben@example.org", "grey@example.org"], subject="s")

    assert box.receivers == [["ann@example.org", "ben@example.org"]]
    assert "Message rejected" in outputs["refused"]["grey@example.org"]
    assert list(outputs["refused"]) == ["grey@example.org"]


@pytest.mark.parametrize("of_several", [True, False])
async def test_who_is_put_off_for_too_long_is_named(box: Postbox, of_several: bool) -> None:
    box.refuses = {"grey@example.org": GREY}
    at = context(box)
    parameters = {"to": "grey@example.org", "subject": "s", "timeout": "4 minutes"}

    if of_several:
        assert (await run(NOTIFY, at, cc="ann@example.org", **parameters))["refused"] == {"grey@example.org": GREY}
        assert ("warning", f"The mail server refused grey@example.org: {GREY}") in at.lines
    else:
        error = await refusal(at, **parameters)
        assert f"refused all recipients: grey@example.org: {GREY}" in str(error)
        assert error.retryable
    assert at.naps == [60, 120], "the next attempt would be after 7 minutes"


async def test_after_a_crash_only_the_rest_of_the_time_is_waited(box: Postbox) -> None:
    box.refuses = {"grey@example.org": GREY}
    at = context(box)
    at.clock.passed_s = 200

    await refusal(at, to="grey@example.org", subject="s", timeout=300)

    assert at.naps == [60]


async def test_a_letter_that_nobody_may_get_fails_the_step_at_once(box: Postbox) -> None:
    box.refuses = {"gone@example.org": "550 No such user"}
    at = context(box)

    error = await refusal(at, to="gone@example.org", subject="s")

    assert "550 No such user" in str(error)
    assert not error.retryable
    assert at.naps == []


@pytest.mark.parametrize("told", ["452 No space", "421 Too many connections"])
async def test_a_server_that_takes_nothing_now_is_asked_again_for_all(box: Postbox, told: str) -> None:
    box.puts_off = {"ben@example.org": [told]}
    box.refuses_all = told
    at = context(box)

    error = await refusal(at, to=["ann@example.org", "ben@example.org"], subject="s", timeout=60)

    assert all(f"{name}@example.org: {told}" in str(error) for name in ("ann", "ben"))
    assert error.retryable
    assert at.naps == [60]


async def test_a_server_that_hangs_up_amid_the_receivers_has_sent_nothing(box: Postbox) -> None:
    box.puts_off = {"ben@example.org": ["421 Shutting down"]}
    at = context(box)

    outputs = await run(NOTIFY, at, to=[f"{name}@example.org" for name in ("ann", "ben", "cat")], subject="s")

    assert outputs["refused"] == {}
    assert box.receivers == [["ann@example.org", "ben@example.org", "cat@example.org"]]


async def test_a_server_that_is_away_may_be_asked_again(box: Postbox) -> None:
    box.server = replace(box.server, port=1)

    assert (await refusal(context(box), to="ann@example.org", subject="s")).retryable


async def test_without_a_server_the_operator_is_named_and_without_receivers_the_parameters() -> None:
    assert "mail server" in str(await refusal(RecordingContext(), to="ann@example.org", subject="s"))
    assert "'to'" in str(await refusal(RecordingContext(), subject="s"))


async def test_webhooks_are_told_what_it_is_about_and_what_else_is_given() -> None:
    at = RecordingContext()

    outputs = await run(NOTIFY, at, subject="Shop is up", text="now", webhook=True, data={"version": "1.4"})

    assert at.told == [{"subject": "Shop is up", "text": "now", "data": {"version": "1.4"}}]
    assert outputs == {"messageId": None, "refused": {}, "webhooks": 1}
