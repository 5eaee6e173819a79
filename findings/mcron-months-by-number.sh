#!/usr/bin/env bash
# GNU mcron 1.0.8 (Debian 12, mcron 1.0.8-1.1, Guile 3.0.8): in a crontab, months by number are a month late, and a day may come twice.
#
# Expected: month 1 is January, as in any crontab; "30 2 * * *" comes once on each day.
# Seen: "0 0 1 1 *" is the 1st of February, 12 is January, and the 29th of February is the 29th of March of each year. Names (jan) and
#   steps from a star (*/3) are right. In Berlin, on the day after the clock is set back, "30 2 * * *" comes at 01:30, and at 02:30 again.
# What to do: write names of months, and keep the machine's zone at UTC.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q mcron=1.0.8-1.1 guile-3.0-libs=3.0.8-2 libgc1 libltdl7 >/dev/null 2>&1
for each in *.deb; do dpkg-deb -x "$each" root; done
lib=$(dirname "$(find "$folder/root" -name 'libguile-3.0.so.1')")
cat >next.scm <<'END'
(use-modules (mcron vixie-time))
(define (show text since times) ; the next times of an expression after a time in seconds since 1970
  (let ((next (parse-vixie-time text)))
    (format #t "~a:" text)
    (let loop ((at since) (left times))
      (when (> left 0)
        (let ((following (next at)))
          (format #t " ~a" (strftime "%Y-%m-%dT%H:%M" (localtime following)))
          (loop following (- left 1)))))
    (newline)))
(setenv "TZ" "UTC") (tzset)
(for-each (lambda (text) (show text 1798675200 2)) ; 2026-12-31
          '("0 0 1 jan *" "0 0 1 1 *" "0 0 1 12 *" "0 0 29 2 *" "0 0 1 */3 *"))
(setenv "TZ" "Europe/Berlin") (tzset)
(show "30 2 * * *" 1792800000 4) ; 2026-10-24
END
env GUILE_AUTO_COMPILE=0 LD_LIBRARY_PATH="$lib" GUILE_LOAD_COMPILED_PATH="$lib/guile/3.0/ccache" \
    GUILE_LOAD_PATH="$folder/root/usr/share:$folder/root/usr/share/guile/3.0" "$lib/guile/3.0/bin/guile" next.scm | tee seen.txt
diff seen.txt - <<'SEEN'
0 0 1 jan *: 2027-01-01T00:00 2028-01-01T00:00
0 0 1 1 *: 2027-02-01T00:00 2028-02-01T00:00
0 0 1 12 *: 2027-01-01T00:00 2028-01-01T00:00
0 0 29 2 *: 2027-03-29T00:00 2028-03-29T00:00
0 0 1 */3 *: 2027-01-01T00:00 2027-04-01T00:00
30 2 * * *: 2026-10-24T02:30 2026-10-25T02:30 2026-10-26T01:30 2026-10-26T02:30
SEEN
