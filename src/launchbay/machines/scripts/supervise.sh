# Runs the command of a run once and keeps what came of it. Whoever makes `began` is the only one that ever runs it.
run=$1 directory=$2 kind=$3 shell=$4
umask 077
mkdir "$run/began" 2>/dev/null || exit 0
password=
[ ! -s "$run/sudo" ] || IFS= read -r password
date +%s >"$run/since"
echo $$ >"$run/pid.new" && mv "$run/pid.new" "$run/pid"
: >"$run/out"
: >"$run/err"
if [ -n "$directory" ]; then cd "$directory"; else cd "${HOME:-/}" 2>/dev/null || cd /; fi
if [ -f "$run/identity" ]; then
    LAUNCHBAY_IDENTITY_TOKEN_FILE=$run/identity LAUNCHBAY_IDENTITY_TOKEN=$(cat "$run/identity")
    export LAUNCHBAY_IDENTITY_TOKEN_FILE LAUNCHBAY_IDENTITY_TOKEN
fi
is_program() {
    case $1 in */*) return 0 ;; esac
    (
        set -f
        IFS=:
        for place in $PATH; do [ ! -f "${place:-.}/$1" ] || [ ! -x "${place:-.}/$1" ] || exit 0; done
        exit 1
    )
}
# Arguments are passed on as they are. No shell reads them, and the shell of the login has no part in it.
. "$run/arguments"
case $kind in
program)
    if is_program "$1"; then
        # Not `exec "$@"`: mksh and zsh would run a builtin of that name.
        set -- env "$@"
    else
        shift
        set -- sh "$run/command" "$@"
    fi
    ;;
script) # through the interpreter that its first line names, as the kernel does, but on file systems with noexec too
    IFS= read -r named <"$run/command"
    named=${named#'#!'}
    named=${named#"${named%%[! 	]*}"}
    named=${named%"${named##*[! 	]}"}
    option=${named#"${named%%[ 	]*}"}
    option=${option#"${option%%[! 	]*}"}
    set -- "${named%%[ 	]*}" ${option:+"$option"} "$run/command" "$@"
    ;;
*) set -- "$shell" "$run/command" "$@" ;;
esac
if [ -f "$run/sudo" ] && [ "$(id -u)" != 0 ]; then
    [ "$1" != env ] || shift
    # Others see arguments: of the token only where it is.
    [ ! -f "$run/identity" ] || set -- env "LAUNCHBAY_IDENTITY_TOKEN_FILE=$run/identity" "$@"
    if [ -z "$password" ]; then
        set -- sudo -n -- "$@"
    elif ! sudo -S -p '' -v 2>"$run/err" <<END; then
$password
END
        echo 'sudo refused the password. Check the secret that the policy machines.sudo-password names.' >>"$run/err"
        set --
    elif sudo -n -v 2>/dev/null; then
        password=
        set -- sudo -n -- "$@"
    else # sudo forgets the password at once; a command that sudo doesn't ask for must not read it
        set -- sudo -S -p '' -- sh -c 'exec "$@" </dev/null' sh "$@"
    fi
fi
umask 022
if [ $# = 0 ]; then
    false
elif [ -z "$password" ] || [ "$1" != sudo ]; then
    (exec "$@") </dev/null >"$run/out" 2>"$run/err"
else
    (exec "$@") >"$run/out" 2>"$run/err" <<END
$password
END
fi
code=$?
rm -f "$run/identity"
umask 077
full=
echo >"$run/probe" || full=full
rm -f "$run/probe"
# In place, into room that was taken before the command began.
printf '%-10s\n' "$code $full" 1<>"$run/exit.new" && mv "$run/exit.new" "$run/exit"
