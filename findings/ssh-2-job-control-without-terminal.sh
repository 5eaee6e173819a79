#!/usr/bin/env bash
# `set -m` in a script without a terminal: does a background job get a process group of its own?
#
# Versions: Debian 12, dash 0.5.12-2, bash 5.2.15-2, mksh 59c-28+deb12u1, busybox-static 1:1.35.0-4+deb12u1+b1.
# Expected: `set -m` is POSIX's way to process groups, and needs no terminal: "all jobs shall be run in a process group of
#   their own". So a supervisor can start a job with it where `setsid` is missing, and end it with `kill -- -$!`.
# Seen: bash and mksh do that. dash and the ash of busybox say "can't access tty; job control turned off", leave the job in
#   the shell's own group, and go on with exit code 0: `kill -- -$!` then finds nobody.
# Exits with 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -q mksh=59c-28+deb12u1 busybox-static=1:1.35.0-4+deb12u1+b1 >/dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
busybox=$work/root/bin/busybox
[ -x "$busybox" ] || busybox=$work/root/usr/bin/busybox
script='set -m 2>/dev/null; sleep 2 & sleep 0.3; read -r line </proc/$!/stat; set -- $line; [ "$5" = $! ] && echo own || echo shared'
code=0
check() { # expected, name, shell and arguments
    seen=$(echo "$script" | setsid "${@:3}" -s)
    printf '%-8s %s\n' "$2" "$seen"
    [ "$seen" = "$1" ] || { echo "$2 has changed: expected $1"; code=1; }
}
check own bash bash
check own mksh "$work/root/bin/mksh"
check shared dash dash
check shared ash "$busybox" ash
exit "$code"
