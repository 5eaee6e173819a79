#!/usr/bin/env bash
# moto 5.2.5: with IAM's checks on, a refused request to a service with JSON gets an answer in XML.
#
# Expected: Secrets Manager and SSM speak JSON, and so say what they refuse: `{"__type": "AccessDeniedException", "message": …}`, 400.
# Seen: moto answers 403, `text/html`, with `<ErrorResponse>` of the services with XML. For boto3, its code is 403, and the XML its message.
# What to do: a client that a test refuses by moto shows less than at AWS. Read XML too, and take a bare 403 for a refusal.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install 'moto[secretsmanager]==5.2.5' boto3==1.44.5 flask flask-cors
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
INITIAL_NO_AUTH_ACTION_COUNT=2 venv/bin/moto_server -H 127.0.0.1 -p "$port" >/dev/null 2>&1 &
server=$!
cat >run.py <<'END'
import socket
import sys
import time

import boto3
from botocore.exceptions import ClientError

port = int(sys.argv[1])
for _ in range(100):
    if socket.socket().connect_ex(("127.0.0.1", port)) == 0:
        break
    time.sleep(0.2)


def client(service, **keys):
    return boto3.client(service, region_name="eu-west-1", endpoint_url=f"http://127.0.0.1:{port}", **keys)


iam = client("iam", aws_access_key_id="key", aws_secret_access_key="secret")
iam.create_user(UserName="reader")
made = iam.create_access_key(UserName="reader")["AccessKey"]
reader = client(
    "secretsmanager", aws_access_key_id=made["AccessKeyId"], aws_secret_access_key=made["SecretAccessKey"]
)
try:
    reader.get_secret_value(SecretId="shop")
except ClientError as error:
    answer = error.response
about = answer["ResponseMetadata"]
print(answer["Error"], about["HTTPStatusCode"], about["HTTPHeaders"]["content-type"])
assert about["HTTPStatusCode"] == 403
assert about["HTTPHeaders"]["content-type"].startswith("text/html")
assert answer["Error"]["Code"] not in ("AccessDenied", "AccessDeniedException")
END
venv/bin/python run.py "$port"
