#!/usr/bin/env bash
# Ansible 2.19.14 (Python 3.11): a playbook that runs nothing is a success, for two spellings of three.
#
# Expected: a group that isn't in the inventory, a host of --limit that isn't there, and a tag that no task has are one kind of mistake: all
#   three end with an exit code that isn't 0, so that a pipeline stops.
# Seen: --limit ends with 1. A play whose `hosts` match nothing ends with 0 and a warning on stderr, also if the group is only spelled with
#   a dash for an underscore; a tag that is nowhere ends with 0 and without a word. The recap is empty.
# What to do: let a callback or the JSON result say which hosts ran a task, and treat none as a failure.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install ansible-core==2.19.14
printf '[web_server]\nlocalhost ansible_connection=local\n' >inventory
book() { printf -- '- hosts: %s\n  gather_facts: false\n  tasks: [{ ansible.builtin.debug: { msg: ran }, tags: [greet] }]\n' "$1"; }
book web_server >right.yml
book web-server >wrong.yml
export ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_NOCOLOR=1
look() {
    local code=0
    venv/bin/ansible-playbook -i inventory "$@" >out 2>err || code=$?
    echo "$*: exit code $code, $(grep -c '"msg": "ran"' out || true) tasks"
}
{
    look right.yml
    look wrong.yml
    look right.yml --tags gret
    look right.yml --limit web-server
} | tee seen
diff seen - <<'SEEN'
right.yml: exit code 0, 1 tasks
wrong.yml: exit code 0, 0 tasks
right.yml --tags gret: exit code 0, 0 tasks
right.yml --limit web-server: exit code 1, 0 tasks
SEEN
