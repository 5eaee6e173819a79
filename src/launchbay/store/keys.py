"""Keys of the servers, and every column encrypted with the secret key, so that a new key can re-encrypt it."""

from typing import Generic, NamedTuple, TypeVar

from launchbay.store.statements import Change, Rows, Statements, load

_sql = load("keys")


class KeyUserRow(NamedTuple):
    """A process, and the mark of its key if that is the newest."""

    name: str
    mark: bytes | None


get_key_marks = _sql.value("get_key_marks", bytes)
propose_key_marks = _sql.change("propose_key_marks")
lock_key_marks = _sql.value("lock_key_marks", bool)
set_key_marks = _sql.change("set_key_marks")
report_key = _sql.value("report_key", bytes)
remove_key_users = _sql.change("remove_key_users")
list_key_users = _sql.rows("list_key_users", KeyUserRow)


class SigningKeyRow(NamedTuple):
    """A key that signs tokens, encrypted with the secret key."""

    id: str
    sealed: bytes
    age_s: float


class SigningKeyTable(NamedTuple):
    """Where keys of a kind are: the newest first."""

    list: Rows[SigningKeyRow]
    insert: Change
    delete: Change


lock_keys = _sql.value("lock_keys", str)
list_session_keys = _sql.rows("list_session_keys", SigningKeyRow)
SESSION_KEYS = SigningKeyTable(list_session_keys, _sql.change("insert_session_key"), _sql.change("delete_session_key"))
IDENTITY_KEYS = SigningKeyTable(
    _sql.rows("list_identity_keys", SigningKeyRow),
    _sql.change("insert_identity_key"),
    _sql.change("delete_identity_key"),
)


class SealedRow(NamedTuple):
    """An encrypted value. `id` and `part` identify it in its column."""

    id: str
    part: str
    sealed: bytes


class AddressRow(NamedTuple):
    """A URL that an older version stored unencrypted."""

    id: str
    url: str


class TextRow(NamedTuple):
    """A string with encrypted tokens in it.

    `owner_id` is the organization or service that they are encrypted for.
    """

    id: str
    part: str
    owner_id: str
    text: str


R = TypeVar("R", SealedRow, TextRow)


class EncryptedColumn(NamedTuple, Generic[R]):
    """A column of encrypted bytes, or of strings with encrypted tokens, with the statements that read and write it."""

    name: str
    rows: Rows[R]
    put: Change


def sealed_column(sql: Statements, name: str, rows: str, put: str) -> EncryptedColumn[SealedRow]:
    """Return a column of sealed bytes.

    `name` is a word for people; the others are statements of `sql`.
    """
    return EncryptedColumn(name, sql.rows(rows, SealedRow), sql.change(put))


def _sealed(name: str, put: str) -> EncryptedColumn[SealedRow]:
    return sealed_column(_sql, name, name, put)


def _text(name: str, put: str) -> EncryptedColumn[TextRow]:
    return EncryptedColumn(name, _sql.rows(name, TextRow), _sql.change(put))


parameters = _sealed("parameters", "put_parameter")
vault = _sealed("vault", "put_vault")
sources = _sealed("sources", "put_source")
session_keys = _sealed("session_keys", "put_session_key")
identity_keys = _sealed("identity_keys", "put_identity_key")
answers = _sealed("answers", "put_answer")
second_factors = _sealed("second_factors", "put_second_factor")
sign_ins = _sealed("sign_ins", "put_sign_in")
step_documents = _sealed("step_documents", "put_step_document")
passing_values = _sealed("passing_values", "put_passing_value")
bindings = _text("bindings", "put_binding")
documents = (
    _text("outputs", "put_output"),
    _text("plans", "put_plan"),
    _text("results", "put_result"),
    _text("states", "put_state"),
    _text("values", "put_value"),
    _text("fed_signals", "put_fed_signals"),
)
