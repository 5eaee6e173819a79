#!/usr/bin/env bash
# `exec PROGRAM` in a POSIX-like shell: which program starts?
#
# Versions: Debian 12, mksh 59c-28+deb12u1, zsh 5.9-4+b15, dash 0.5.12-2, bash 5.2.15-2.
# Expected: POSIX says that `exec` replaces the shell by a utility. So `exec echo 'a\tb'` starts /bin/echo, which prints the
#   backslash as it is, whatever `echo` is inside of the shell.
# Seen: dash and bash do that. mksh and zsh run their builtin `echo` and exit, so the backslash becomes a tab. `exec env echo`
#   starts the program in all four.
# Exits with 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -q mksh=59c-28+deb12u1 zsh=5.9-4+b15 zsh-common=5.9-4 >/dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
mksh=$work/root/bin/mksh zsh=$work/root/bin/zsh
[ -x "$zsh" ] || zsh=$work/root/usr/bin/zsh
program='a\tb' builtin=$(printf 'a\tb')
code=0
check() { # name, expected, seen
    printf '%-22s %q\n' "$1" "$3"
    [ "$2" = "$3" ] || { echo "$1 has changed: expected $(printf %q "$2")"; code=1; }
}
for shell in dash bash; do check "$shell exec echo" "$program" "$($shell -c "exec echo 'a\\tb'")"; done
for shell in "$mksh" "$zsh"; do
    check "${shell##*/} exec echo" "$builtin" "$("$shell" -c "exec echo 'a\\tb'")"
    check "${shell##*/} exec env echo" "$program" "$("$shell" -c "exec env echo 'a\\tb'")"
done
exit "$code"
