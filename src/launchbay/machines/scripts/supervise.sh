# Runs the command of a run once and keeps what came of it. Whoever makes `began` is the only one that ever runs it.
run=$1
umask 077
mkdir "$run/began" 2>/dev/null || exit 0
date +%s >"$run/since"
echo $$ >"$run/pid.new" && mv "$run/pid.new" "$run/pid"
: >"$run/out"
: >"$run/err"
if [ -n "$2" ]; then cd "$2"; else cd "${HOME:-/}" 2>/dev/null || cd /; fi
# A line means to the login's own shell what it would mean if it was typed there; a script says itself who reads it.
shell=${SHELL:-/bin/sh}
[ -x "$shell" ] || shell=/bin/sh
case $(head -c 2 "$run/command") in
'#!')
    chmod 700 "$run/command"
    set -- "$run/command"
    ;;
*) set -- "$shell" "$run/command" ;;
esac
if [ -f "$run/sudo" ] && [ "$(id -u)" != 0 ]; then set -- sudo -n -- "$@"; fi
umask 022
"$@" </dev/null >"$run/out" 2>"$run/err"
code=$?
umask 077
echo "$code" >"$run/exit.new" && mv "$run/exit.new" "$run/exit"
