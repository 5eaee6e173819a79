#!/usr/bin/env bash
# systemd-cron 1.15.19 (Debian 12, 1.15.19-5, Python 3.11): what it makes of the weekdays of a crontab.
#
# Expected: as its crontab(5) says, a day of the month and a weekday hold where either matches; 7 is Sunday, so that 5-7 is Friday to
#   Sunday; and a line that it can't read makes no timer.
# Seen: both must match: "0 0 13 * 5" is Friday the 13th. 5-7 is called garbled in the log, and then runs on every day.
# What to do: write Sunday as 0 or sun, and one line for each of the two fields.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q systemd-cron=1.15.19-5 >/dev/null 2>&1
for each in *.deb; do dpkg-deb -x "$each" root; done
zcat root/usr/share/man/man5/crontab.5.gz | tr '\n' ' ' | grep -q 'the command will be run when .I either'
cat >generate.py <<'END'
"""Runs the generator on one crontab, in folders of its own."""
import importlib.machinery
import importlib.util
import pathlib
loader = importlib.machinery.SourceFileLoader("generator", "root/lib/systemd/system-generators/systemd-crontab-generator")
generator = importlib.util.module_from_spec(importlib.util.spec_from_loader("generator", loader))
loader.exec_module(generator)
generator.TARGET_DIR, generator.TIMERS_DIR = "units", "wants"
for place in ("units", "wants"):
    pathlib.Path(place).mkdir()
for number, job in enumerate(generator.parse_crontab("crontab", withuser=True)):
    generator.generate_timer_unit(job, unit_name=str(number))
    [line] = [each for each in pathlib.Path(f"units/{number}.timer").read_text().splitlines() if each.startswith("OnCalendar")]
    print(f"{' '.join(job['l'].split()[:5])}: {line}")
END
printf '%s root true\n' '0 0 * * 5' '0 0 13 * *' '0 0 13 * 5' '0 0 * * 7' '0 0 * * 5-7' >crontab
python3 generate.py >seen.txt
cat seen.txt
diff seen.txt - <<'SEEN'
0 0 * * 5: OnCalendar=Fri *-*-* 0:0:00
0 0 13 * *: OnCalendar=*-*-13 0:0:00
0 0 13 * 5: OnCalendar=Fri *-*-13 0:0:00
0 0 * * 7: OnCalendar=Sun *-*-* 0:0:00
0 0 * * 5-7: OnCalendar= *-*-* 0:0:00
SEEN
