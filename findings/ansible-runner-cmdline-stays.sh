#!/usr/bin/env bash
# ansible-runner 2.4.3 with ansible-core 2.19.14: `--cmdline` of one run holds for the later runs of its directory.
#
# Expected: `ansible-runner run DIR --cmdline=--check` is a check, and `ansible-runner run DIR` after it runs the playbook.
# Seen: the runner writes the option into DIR/env/cmdline. The second run is a check too, changes nothing, and ends with 0.
# What to do: write env/cmdline yourself and delete it after the check, or use another directory.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install ansible-core==2.19.14 ansible-runner==2.4.3
export PATH="$work/venv/bin:$PATH"
mkdir -p data/project data/inventory
echo "localhost ansible_connection=local ansible_python_interpreter=$work/venv/bin/python" >data/inventory/hosts
cat >data/project/play.yml <<END
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy: {dest: $work/made, content: made}
END
ansible-runner run data --playbook play.yml --ident check --cmdline=--check >check.log
cat data/env/cmdline
ansible-runner run data --playbook play.yml --ident run >run.log
grep 'changed=1' run.log
test ! -e made
rm data/env/cmdline
ansible-runner run data --playbook play.yml --ident again >again.log
test -e made
