# Starts the supervisor of a run, away from this connection and in a process group of its own.
mkdir -p "$run" || exit 73
printf '%s' "$command" >"$run/command" && printf '%s' "$supervisor" >"$run/supervise" || exit 73
[ -z "$sudo" ] || : >"$run/sudo"
if command -v setsid >/dev/null 2>&1; then
    setsid sh "$run/supervise" "$run" "$directory" </dev/null >/dev/null 2>&1 &
else
    set -m
    nohup sh "$run/supervise" "$run" "$directory" </dev/null >/dev/null 2>&1 &
fi
