# Ends the process groups of runs whose names begin with `$prefix`, and keeps those from beginning that did not yet.
signal() {
    if [ -n "$as" ] && [ -n "$password" ]; then
        sudo -S -p '' sh -c 'kill -s "$1" -- "-$2"' sh "$1" "$group" <<END
$password
END
    elif [ -n "$as" ]; then
        sudo -n sh -c 'kill -s "$1" -- "-$2"' sh "$1" "$group"
    else
        kill -s "$1" -- "-$group"
    fi 2>/dev/null
}
is_of_run() {
    [ -n "$1" ] || return 1
    [ ! -r "/proc/$1/cmdline" ] || { case $(cat "/proc/$1/cmdline") in *"${run##*/}"*) ;; *) return 1 ;; esac } 2>/dev/null
}
end() {
    [ -d "$run" ] && [ ! -f "$run/exit" ] || return 0
    as=
    if [ -f "$run/sudo" ] && [ "$(id -u)" != 0 ]; then as=sudo; fi
    if ! mkdir "$run/began" 2>/dev/null; then
        left=10
        while [ ! -s "$run/pid" ] && [ "$left" -gt 0 ]; do
            sleep 0.1 2>/dev/null || sleep 1
            left=$((left - 1))
        done
        group=$(cat "$run/pid" 2>/dev/null)
        if is_of_run "$group"; then
            signal TERM
            left=$grace
            while [ "$left" -gt 0 ] && signal 0; do
                sleep 0.1 2>/dev/null || sleep 1
                left=$((left - 1))
            done
            signal KILL
        fi
    fi
    # The room that `begin` took is the exit code of a command that was ended.
    [ -f "$run/exit" ] || echo 143 >"$run/exit" || mv "$run/exit.new" "$run/exit"
    rm -f "$run/command" "$run/arguments" "$run/supervise" "$run/identity"
}
for place do
    for run in "$place/runs/$prefix"*; do
        if is_ours "$place"; then end; fi
    done
done
exit 0
