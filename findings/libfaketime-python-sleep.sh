#!/usr/bin/env bash
# libfaketime 0.9.10 (Debian 12, 0.9.10-2.1) with a Python of 3.11 or later: `time.sleep` fails if the monotonic clock is left alone.
#
# Expected: FAKETIME_DONT_FAKE_MONOTONIC=1 changes less than a run without it. What sleeps by the monotonic clock sleeps as ever.
# Seen: without it, `time.sleep(0.05)` sleeps. With it, it raises OSError 22 (Invalid argument), whatever the faked time is: since
#   3.11, Python sleeps until a time of the monotonic clock. `subprocess.run(timeout=…)` sleeps too, so it raises the same. The
#   command `sleep` of coreutils works in both cases.
# What to do: let the parts of a test that sleep run without libfaketime, or wait by other means, such as select.
# Exits with 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -q libfaketime=0.9.10-2.1 >/dev/null
dpkg-deb -x ./*.deb root
library=$(find root -name libfaketimeMT.so.1)
python3 -c 'import sys; print("Python", sys.version.split()[0]); assert sys.version_info >= (3, 11)'
code=0
check() { # name, expected, seen
    printf '%-34s %s\n' "$1" "$3"
    [ "$2" = "$3" ] || { echo "$1 has changed: expected $2"; code=1; }
}
under() { env LD_PRELOAD="$work/$library" FAKETIME=+1h "$@" 2>&1 | tail -n 1; }
alone=FAKETIME_DONT_FAKE_MONOTONIC=1
sleeps='import time; time.sleep(0.05); print("slept")'
runs='import subprocess; subprocess.run(["/bin/sleep", "1"], timeout=9, env={}); print("ran")'
failed='OSError: [Errno 22] Invalid argument'
check 'time.sleep' slept "$(under python3 -c "$sleeps")"
check 'time.sleep, monotonic alone' "$failed" "$(under $alone python3 -c "$sleeps")"
check 'subprocess, monotonic alone' "$failed" "$(under $alone python3 -c "$runs")"
check 'sleep, monotonic alone' 'slept' "$(under $alone sh -c 'sleep 0.05 && echo slept')"
exit "$code"
