"""Key pairs of the credentials service: made and taken in through the API, sealed at rest, given to machines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import ANY

import pytest

from launchbay.auth.secret_key import read_secret_key
from launchbay.errors import ActionFailed
from launchbay.limits import VAULT_ENTRIES
from launchbay.model.secret_reference import SecretReference
from launchbay.service_types import key_pairs
from launchbay.service_types.key_pairs import POLICY, KeyPair, KeyPairs
from tests.support.service import UNKNOWN, Api, accepted
from tests.support.services import made_vault, told

MADE_FIELDS = {"id", "name", "algorithm", "publicKey", "fingerprint"}


async def test_a_made_key_pair_comes_back_by_its_name_and_by_its_id(api: Api) -> None:
    vault = await made_vault(api)
    made = await told(api, vault, "generate-keypair", name="web")
    assert set(made) == MADE_FIELDS
    assert (made["name"], made["algorithm"]) == ("web", "ed25519")
    for name in ("web", made["id"]):
        private = (await told(api, vault, "get-keypair", id=name))["privateKey"]
        assert key_pairs.read(private, "web").public == made["publicKey"]
        assert await told(api, vault, "get-public-key", id=name) == made
    listed = (await told(api, vault, "list-keypairs"))["keypairs"]
    assert [{name: entry[name] for name in MADE_FIELDS} for entry in listed] == [made]
    assert "PRIVATE" not in str(listed)


async def test_the_intermediate_result_of_get_keypair_is_the_public_half(api: Api) -> None:
    vault = await made_vault(api)
    made = await told(api, vault, "generate-keypair", name="web", algorithm="rsa", bits=2048)
    body = {"arguments": {"id": "web"}, "includeIntermediate": True}
    [public, final] = accepted(await api.post(f"services/{vault}/get-keypair", body))
    assert public == made
    assert list(final) == ["privateKey"]
    [only] = accepted(await api.post(f"services/{vault}/get-keypair", {"arguments": {"id": "web"}}))
    assert only == final


async def test_a_private_key_is_taken_in(api: Api) -> None:
    vault = await made_vault(api)
    own = key_pairs.generate("ed25519", None, "own")
    taken = await told(api, vault, "import-keypair", name="own", privateKey=own.private)
    assert taken["publicKey"] == own.public
    private = (await told(api, vault, "get-keypair", id="own"))["privateKey"]
    assert key_pairs.read(private, "own") == KeyPair("ed25519", ANY, own.public)


async def test_private_keys_are_sealed_in_the_database_and_absent_from_the_audit_log(api: Api) -> None:
    vault = await made_vault(api)
    own = key_pairs.generate("ed25519", None, "own")
    await told(api, vault, "import-keypair", name="own", privateKey=own.private)
    private = (await told(api, vault, "get-keypair", id="own"))["privateKey"]
    async with api.database.connection() as connection:
        rows = await (await connection.execute("SELECT * FROM vault_entries")).fetchall()
        audit = await (await connection.execute("SELECT operation, after FROM audit_entries ORDER BY id")).fetchall()
    key_lines = [*own.private.splitlines()[1:-1], *private.splitlines()[1:-1]]
    assert rows
    assert not any(line in repr(rows) + repr(audit) for line in key_lines)
    assert [row for row in audit if "get-keypair" in repr(row)], "that somebody read a private key belongs into the log"


async def test_a_deleted_key_pair_is_gone_and_its_name_free(api: Api) -> None:
    vault = await made_vault(api)
    await told(api, vault, "generate-keypair", name="web")
    assert await told(api, vault, "delete-keypair", id="web") == {"removed": True}
    assert await told(api, vault, "delete-keypair", id="web") == {"removed": False}
    assert (await api.post(f"services/{vault}/get-keypair", {"arguments": {"id": "web"}})).status_code == 409
    await told(api, vault, "generate-keypair", name="web")


@pytest.mark.parametrize(
    ("command", "arguments", "status", "says"),
    [
        ("get-keypair", {}, 400, "required"),
        ("get-keypair", {"id": "nothing"}, 409, "no key pair 'nothing'"),
        ("generate-keypair", {"name": " "}, 400, "printable"),
        ("generate-keypair", {"name": "a\nb"}, 400, "printable"),
        ("generate-keypair", {"name": "x", "algorithm": "dsa"}, 400, "ed25519 or rsa"),
        ("generate-keypair", {"name": "x", "algorithm": "rsa", "bits": 512}, 400, "2048 to 4096"),
        ("generate-keypair", {"name": "taken"}, 409, "already"),
        ("import-keypair", {"name": "x", "privateKey": "open sesame"}, 400, "OpenSSH"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    api: Api, command: str, arguments: dict[str, Any], status: int, says: str
) -> None:
    vault = await made_vault(api)
    await told(api, vault, "generate-keypair", name="taken")
    answer = await api.post(f"services/{vault}/{command}", {"arguments": arguments})
    assert answer.status_code == status, answer.text
    assert says in answer.text
    assert "sesame" not in answer.text


async def test_a_vault_has_a_bound(api: Api) -> None:
    vault = await made_vault(api)
    async with api.database.connection() as connection:
        await connection.execute(
            "INSERT INTO vault_entries (id, service_id, kind, name, sealed)"
            " SELECT %(vault)s || n, %(vault)s, 'secret', 'filler ' || n, '' FROM generate_series(1, %(most)s) AS n",
            {"vault": vault, "most": VAULT_ENTRIES},
        )
    answer = await api.post(f"services/{vault}/generate-keypair", {"arguments": {"name": "one more"}})
    assert (answer.status_code, "The vault is full" in answer.text) == (409, True)


async def test_reading_a_private_key_needs_the_permission_for_commands(api: Api) -> None:
    vault = await made_vault(api)
    await told(api, vault, "generate-keypair", name="web")
    reader = await api.member("Read: [/services/*]")
    answer = await reader.post(f"services/{vault}/get-keypair", {"arguments": {"id": "web"}})
    assert (answer.status_code, "RunServiceCommand" in answer.text) == (403, True)


@dataclass(frozen=True)
class Behalf:
    """For whom a key is wanted."""

    organization_id: str
    environment_id: str
    policies: Mapping[str, Any] = field(default_factory=dict)
    learned: list[str] = field(default_factory=list)

    provided: Mapping[str, Any] = field(default_factory=dict)
    job_id: str = "5f" * 12

    def register_secret(self, secret: str) -> None:
        self.learned.append(secret)

    async def secret(self, reference: SecretReference) -> Any:
        return self.provided[str(reference)]


async def given(api: Api, name: str, *, organization: str = "", policy: str = "") -> str:
    """Return the public half of the private key that a machine would get, after a look at the public one."""
    keys = KeyPairs(api.database, read_secret_key(api.settings.key_file()))
    policies = {POLICY: policy} if policy else {}
    context = Behalf(organization or api.organization, api.environment, policies)
    private = (await keys.login_key(context, name, "root")).private
    assert context.learned == [private]
    public = key_pairs.read(private, "x").public
    assert (await keys.public_key(context, name)).split()[:2] == public.split()[:2]
    return public.split()[1]


def same(made: Mapping[str, Any]) -> str:
    return str(made["publicKey"].split()[1])


async def test_machines_get_a_private_key_of_the_vaults_that_their_environment_offers(api: Api) -> None:
    vault = await made_vault(api, offered_by=api.environment)
    made = await told(api, vault, "generate-keypair", name="hosts")
    assert await given(api, "hosts") == await given(api, made["id"]) == same(made)


async def test_without_a_name_machines_get_the_key_of_the_policy_or_the_only_one(api: Api) -> None:
    vault = await made_vault(api, offered_by=api.environment)
    with pytest.raises(ActionFailed, match="No vault of the environment has a key pair"):
        await given(api, "")
    first = await told(api, vault, "generate-keypair", name="first")
    assert await given(api, "") == same(first)
    second = await told(api, vault, "generate-keypair", name="second")
    assert await given(api, "", policy="second") == same(second)
    with pytest.raises(ActionFailed, match=r"several key pairs \(first, second\).*machines.keyPair"):
        await given(api, "")


async def test_a_vault_of_another_environment_or_organization_gives_no_key(api: Api) -> None:
    vault = await made_vault(api)
    await told(api, vault, "generate-keypair", name="elsewhere")
    with pytest.raises(ActionFailed, match="No vault of the environment has a key pair 'elsewhere'"):
        await given(api, "elsewhere")
    offered = await made_vault(api, offered_by=api.environment)
    await told(api, offered, "generate-keypair", name="hosts")
    with pytest.raises(ActionFailed, match="No vault"):
        await given(api, "hosts", organization=UNKNOWN)


async def test_a_name_that_two_vaults_have_is_refused_and_the_id_decides(api: Api) -> None:
    first = await made_vault(api, offered_by=api.environment)
    second = await made_vault(api)
    offered = accepted(await api.get(f"environments/{api.environment}/services"))["services"]
    ids = [*(row["id"] for row in offered), second]
    accepted(await api.put(f"environments/{api.environment}/services", {"services": ids}))
    await told(api, first, "generate-keypair", name="web")
    wanted = await told(api, second, "generate-keypair", name="web")
    with pytest.raises(ActionFailed, match="Several vaults"):
        await given(api, "web")
    assert await given(api, wanted["id"]) == same(wanted)


async def test_machines_get_a_password_of_the_vaults_that_their_environment_offers(api: Api) -> None:
    vault = await made_vault(api, offered_by=api.environment)
    await told(api, vault, "set-secret", name="sudo", value="it's 1 word")
    await told(api, vault, "set-secret", name="lines", value="several\nlines")
    keys = KeyPairs(api.database, read_secret_key(api.settings.key_file()))
    context = Behalf(api.organization, api.environment)
    assert await keys.password(context, "sudo") == "it's 1 word"
    assert context.learned == ["it's 1 word"]
    with pytest.raises(ActionFailed, match=r"The secret 'lines' can't be a password"):
        await keys.password(context, "lines")
    with pytest.raises(ActionFailed, match=r"No vault of the environment has a secret 'gone'\. .* set-secret"):
        await keys.password(context, "gone")
    with pytest.raises(ActionFailed, match="has a secret 'sudo'"):
        await keys.password(Behalf(UNKNOWN, api.environment), "sudo")


async def test_a_name_that_no_vault_has_may_be_that_of_a_secret_of_a_provider(api: Api) -> None:
    vault = await made_vault(api, offered_by=api.environment)
    await told(api, vault, "set-secret", name="bao/secret/sudo#password", value="of the vault")
    keys = KeyPairs(api.database, read_secret_key(api.settings.key_file()))
    provided = {
        "bao/secret/sudo#password": "of bao",
        "bao/secret/other#password": "of bao",
        "bao/secret/all": {"a": "b"},
    }
    context = Behalf(api.organization, api.environment, provided=provided)
    assert await keys.password(context, "bao/secret/sudo#password") == "of the vault"
    assert await keys.password(context, "bao/secret/other#password") == "of bao"
    with pytest.raises(ActionFailed, match="it isn't a string"):
        await keys.password(context, "bao/secret/all")
    with pytest.raises(ActionFailed, match="No vault of the environment has a secret 'bao/'"):
        await keys.password(context, "bao/")
    answer = await api.post(f"services/{vault}/get-secret", {"arguments": {"name": "bao/secret/none#password"}})
    assert answer.status_code == 409
    assert "Only jobs read secrets of providers" in answer.text
