#!/usr/bin/env bash
# systemd 252 (Debian 12): a timer with a time zone leaves out the hour that autumn repeats, and the night whose time spring leaves out.
#
# Expected: "every half hour" is every half hour. A daily time that doesn't exist on one night in spring comes an hour later, as with cron.
# Seen: on the night on which clocks are set back, `*:0/30 Europe/Berlin` is due at 00:30 UTC and then at 02:00 UTC: the second hour from
#   2 to 3 has no times, so that there is a pause of 90 minutes. With the half hour of Lord Howe it is one of 60 minutes. A daily 02:30
#   isn't due at all on the night on which clocks are set forward.
# What to do: give what repeats within a day no time zone but UTC, and put daily times outside of the hours in which clocks are set.
# Exits with 1 if that changes. Nothing is started: systemd-analyze only computes. It needs the time zones of the package tzdata.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q systemd=252.39-1~deb12u2 libsystemd-shared=252.39-1~deb12u2 >/dev/null 2>&1
for each in *.deb; do dpkg-deb -x "$each" root; done
library=$(dirname "$(find root -name 'libsystemd-shared-252.so')")
analyze() { env LD_LIBRARY_PATH="$library" TZ=UTC root/usr/bin/systemd-analyze "$@"; }
analyze --version | head -n 1
code=0
check() { # name, specification, from when, expected
    local seen
    seen=$(analyze calendar --iterations=3 --base-time="$3" "$2" | sed -n 's/^ *\(Next elapse\|Iter. #[0-9]*\): ... //p' | cut -c6-16 | paste -sd, -)
    printf '%-24s %s\n' "$1" "$seen"
    [ "$seen" = "$4" ] || { echo "$1 has changed: expected $4"; code=1; }
}
check 'autumn, half hours' '*:0/30 Europe/Berlin' '2026-10-25 00:10 UTC' '10-25 00:30,10-25 02:00,10-25 02:30'
check 'the same by UTC' '*:0/30 UTC' '2026-10-25 00:10 UTC' '10-25 00:30,10-25 01:00,10-25 01:30'
check 'Lord Howe, half hours' '*:0/30 Australia/Lord_Howe' '2026-04-04 14:10 UTC' '04-04 14:30,04-04 15:30,04-04 16:00'
check 'spring, daily at 02:30' '02:30 Europe/Berlin' '2026-03-27 12:00 UTC' '03-28 01:30,03-30 00:30,03-31 00:30'
exit "$code"
