# Ends the process groups of runs whose names begin with `$prefix`, and keeps those from beginning that did not yet.
signal() {
    if [ -n "$as" ]; then
        sudo -n sh -c 'kill -s "$1" -- "-$2"' sh "$1" "$group"
    else
        kill -s "$1" -- "-$group"
    fi 2>/dev/null
}
for run in "$root/runs/$prefix"*; do
    [ -d "$run" ] && [ ! -f "$run/exit" ] || continue
    as=
    if [ -f "$run/sudo" ] && [ "$(id -u)" != 0 ]; then as=sudo; fi
    if ! mkdir "$run/began" 2>/dev/null; then
        left=10
        while [ ! -s "$run/pid" ] && [ "$left" -gt 0 ]; do
            sleep 0.1 2>/dev/null || sleep 1
            left=$((left - 1))
        done
        group=$(cat "$run/pid" 2>/dev/null)
        if [ -n "$group" ] && { [ ! -r "/proc/$group/cmdline" ] || grep -qs -- "${run##*/}" "/proc/$group/cmdline"; }; then
            signal TERM
            left=$grace
            while [ "$left" -gt 0 ] && signal 0; do
                sleep 0.1 2>/dev/null || sleep 1
                left=$((left - 1))
            done
            signal KILL
        fi
    fi
    [ -f "$run/exit" ] || echo 143 >"$run/exit"
    rm -f "$run/command" "$run/supervise"
done
exit 0
