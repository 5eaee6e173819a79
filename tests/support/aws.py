"""A server that answers as AWS does (`moto`), asked past the product: secrets, parameters, keys of accounts."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.support import clouds

REGION = "eu-central-1"
ROLE = "arn:aws:iam::123456789012:role/shop"
_SCOPES = {"secretsmanager": "secretsmanager", "AmazonSSM": "ssm"}


@dataclass
class Aws:
    """A running server, and its administrator."""

    url: str

    def ask(self, target: str, body: Any) -> Any:
        """Ask with JSON, such as `secretsmanager.CreateSecret`."""
        service = _SCOPES[target.partition(".")[0]]
        headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.1"} | _unsigned(service)
        with urlopen(Request(self.url, json.dumps(body).encode(), headers), timeout=30) as response:
            return json.loads(response.read() or b"null")

    def iam(self, action: str, **parameters: str) -> str:
        """Ask IAM, and return the answer."""
        form = urlencode({"Action": action, "Version": "2010-05-08", **parameters}).encode()
        with urlopen(Request(self.url, form, _unsigned("iam")), timeout=30) as response:
            return str(response.read().decode())

    def user(self, name: str, *actions: str) -> tuple[str, str]:
        """Make a user who may do this, and return its access key."""
        self.iam("CreateUser", UserName=name)
        if actions:
            statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            self.iam("PutUserPolicy", UserName=name, PolicyName="all", PolicyDocument=policy)
        made = self.iam("CreateAccessKey", UserName=name)
        [key], [secret] = (re.findall(f"<{each}>([^<]+)<", made) for each in ("AccessKeyId", "SecretAccessKey"))
        return key, secret

    @contextmanager
    def strict(self) -> Iterator[None]:
        """Compare signatures and policies during a block."""
        self._without_check("0")
        try:
            yield
        finally:
            self._without_check("inf")

    def _without_check(self, count: str) -> None:
        request = Request(f"{self.url}/moto-api/reset-auth", count.encode(), {"Content-Type": "text/plain"})
        urlopen(request, timeout=30).close()


def _unsigned(service: str) -> dict[str, str]:
    scope = f"AKIAIOSFODNN7EXAMPLE/20260101/{REGION}/{service}/aws4_request"
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"}


@contextmanager
def started(directory: Path) -> Iterator[Aws]:
    with clouds.started(directory / "moto.log") as url:
        yield Aws(url)
