"""Everything that is sealed with the server's secret key, to be sealed anew (`queries/resealing.sql`)."""

from typing import NamedTuple

from launchbay.store.statements import Change, Rows, load


class SealedRow(NamedTuple):
    """Something sealed; `id` and `part` say where it stands."""

    id: str
    part: str
    sealed: bytes


class TextRow(NamedTuple):
    """A text with something sealed in it; `owner_id` is the organization or service that it is sealed for."""

    id: str
    part: str
    owner_id: str
    text: str


class SealedColumn(NamedTuple):
    """A column of sealed bytes: how its rows are read and written."""

    name: str
    rows: Rows[SealedRow]
    put: Change


class TextColumn(NamedTuple):
    """A column of texts with sealed tokens in them."""

    name: str
    rows: Rows[TextRow]
    put: Change


_sql = load("resealing")


def _sealed(name: str, put: str) -> SealedColumn:
    return SealedColumn(name, _sql.rows(name, SealedRow), _sql.change(put))


def _text(name: str, put: str) -> TextColumn:
    return TextColumn(name, _sql.rows(name, TextRow), _sql.change(put))


parameters = _sealed("parameters", "put_parameter")
vault = _sealed("vault", "put_vault")
webhook_secrets = _sealed("webhook_secrets", "put_webhook_secret")
webhook_urls = _sealed("webhook_urls", "put_webhook_url")
sources = _sealed("sources", "put_source")
session_keys = _sealed("session_keys", "put_session_key")
answers = _sealed("answers", "put_answer")
sign_ins = _sealed("sign_ins", "put_sign_in")
step_documents = _sealed("kept_documents", "put_kept_document")
bindings = _text("bindings", "put_binding")
documents = (
    _text("outputs", "put_output"),
    _text("plans", "put_plan"),
    _text("results", "put_result"),
    _text("states", "put_state"),
    _text("values", "put_value"),
    _text("fed", "put_fed"),
)

_server_keys_sql = load("server_keys")
get_server_key = _server_keys_sql.value("get", bytes)
propose_server_key = _server_keys_sql.change("propose")


class SessionKeyRow(NamedTuple):
    """One key; `sealed` opens with the server's secret key only."""

    id: str
    sealed: bytes
    age_s: float


_session_keys_sql = load("session_keys")
lock_session_keys = _session_keys_sql.value("lock", str)
list_session_keys = _session_keys_sql.rows("all", SessionKeyRow)
insert_session_key = _session_keys_sql.change("insert")
delete_session_key = _session_keys_sql.change("delete")
