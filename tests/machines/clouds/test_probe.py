"""The credentials of a cloud account are tried at a real endpoint."""

from launchbay.app.machines import CheckedResolver
from launchbay.egress.addresses import Allowlist
from launchbay.engine.machine_ledger import PostgresAccountProbe


async def test_an_account_works_in_the_regions_that_let_it_in(moto_url: str) -> None:
    probe = PostgresAccountProbe(CheckedResolver(Allowlist.parse("127.0.0.1")))
    parameters = {
        "configuration.provider": "ec2",
        "configuration.identity": "AKIAIOSFODNN7EXAMPLE",
        "configuration.credential": "wJalrXUtnFEMI",
        "configuration.endpoint-url": moto_url,
    }
    assert list(probe.regions(parameters)) == ["us-east-1"]
    assert await probe.problem("", parameters, "us-east-1") is None
    closed = PostgresAccountProbe(CheckedResolver(Allowlist()))
    assert "loopback" in str(await closed.problem("", parameters, "us-east-1"))
    elsewhere = parameters | {"configuration.endpoint-url": "http://127.0.0.1:9/"}
    told = str(await probe.problem("", elsewhere, "us-east-1"))
    assert told
    assert "wJalrXUtnFEMI" not in told
