# Starts the supervisor of a run, away from this connection and in a process group of its own.
# The room for the exit code is taken now: it must be there even if the command fills the disk.
{
    printf '%s' "$command" >"$run/command" && printf '%s' "$arguments" >"$run/arguments" &&
        printf '%s' "$supervisor" >"$run/supervise" && echo '143 full' >"$run/exit.new"
} || exit 73
[ -z "$identity" ] || printf '%s' "$identity" >"$run/identity" || exit 73
[ -z "$trace" ] || export "TRACEPARENT=$trace"
[ -z "$sudo" ] || printf '%s' "${password:+asks}" >"$run/sudo"
# `exec`: the supervisor must lead its group. The password for sudo is in no argument, which others could read.
supervisor() {
    if [ -z "$password" ]; then exec "$@" </dev/null; fi
    exec "$@" <<END
$password
END
}
if command -v setsid >/dev/null 2>&1; then
    supervisor setsid sh "$run/supervise" "$run" "$directory" "$kind" "$shell" >/dev/null 2>&1 &
else
    set -m
    trap '' HUP
    supervisor sh "$run/supervise" "$run" "$directory" "$kind" "$shell" >/dev/null 2>&1 &
fi
