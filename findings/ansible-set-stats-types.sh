#!/usr/bin/env bash
# ansible-core 2.19.14: set_stats adds values up over tasks, and drops one of another type without a word.
#
# Expected: the last value of a name counts, or a mismatch of types is an error or a warning.
# Seen: numbers are added, lists are joined, strings are joined; a number after a string is ignored, and the playbook succeeds.
# What to do: set `aggregate: false`, or keep one type for a name.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install ansible-core==2.19.14
cat >play.yml <<'END'
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.set_stats: {data: {count: 1, list: [1], mixed: "1"}}
    - ansible.builtin.set_stats: {data: {count: 1, list: [1], mixed: 2}}
END
ANSIBLE_SHOW_CUSTOM_STATS=1 venv/bin/ansible-playbook play.yml >out 2>errors
grep 'RUN:' out
grep -q '"count": 2' out
grep -q '"mixed": "1"' out
! grep -qi 'mixed' errors
