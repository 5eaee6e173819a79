#!/usr/bin/env bash
# ansible-core 2.19.14: `!unsafe` before a quoted string drops the quotes' meaning.
#
# Expected: the tag keeps a string from being a template, and a quoted string stays a string: "0400" is "0400".
# Seen: the text is resolved again as if it were plain, so `!unsafe "0400"` is the number 256 and `!unsafe "no"` is false.
# Within a tagged map or list, quoted strings stay strings.
# What to do: tag only strings that have template delimiters, or tag the map around them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install ansible-core==2.19.14
cat >vars.yml <<'END'
mode: !unsafe "0400"
word: !unsafe "no"
map: !unsafe {mode: "0400", word: "no"}
END
cat >play.yml <<'END'
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.copy: {content: "{{ [mode, word, map.mode, map.word] | to_json }}", dest: "{{ out }}"}
END
venv/bin/ansible-playbook -e @vars.yml -e "out=$work/out" play.yml >/dev/null 2>&1
cat out
[ "$(cat out)" = '[256, false, "0400", "no"]' ]
