#!/usr/bin/env bash
# pyhocon 0.3.63 (Python 3.11): what a file says depends on whether python-dateutil 2.9.0 is installed.
#
# Expected: a value of HOCON is text until somebody asks for a duration, whatever other packages there are; joined values keep the words
#   of the file.
# Seen: `10m` is a timedelta at once, also for get_string, and in the middle of a sentence: `5 minutes and more` is "0:05:00and more".
#   When another package brings python-dateutil, it is a relativedelta, the sentence begins with that word, and `1 month`, which was
#   text, is 0 as JSON and "0 seconds" as HOCON. `true false` is "TrueFalse" in both.
# What to do: quote all texts in the file, and compare what to_hocon writes with what was read.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/look.py" <<'END'
from json import loads

from pyhocon import ConfigFactory, HOCONConverter

config = ConfigFactory.parse_string("t = 10m\ns = 5 minutes and more\nb = true false\nm = 1 month")
print(config.get_string("t"), config["s"], config["b"], repr(loads(HOCONConverter.to_json(config))["m"]), sep=" | ")
END
"$folder/venv/bin/pip" -q --disable-pip-version-check install pyhocon==0.3.63
"$folder/venv/bin/python" "$folder/look.py" >"$folder/seen"
"$folder/venv/bin/pip" -q --disable-pip-version-check install python-dateutil==2.9.0
"$folder/venv/bin/python" "$folder/look.py" >>"$folder/seen"
cat "$folder/seen"
diff "$folder/seen" - <<'SEEN'
0:10:00 | 0:05:00and more | TrueFalse | '1 month'
relativedelta(minutes=+10) | relativedelta(minutes=+5)and more | TrueFalse | 0
SEEN
