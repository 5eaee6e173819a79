# Writes what a run writes, as it comes, until it ends: frames with the stream and the place of their first byte in it.
# Ends with 0 then, 75 where the run has vanished without an end, and 76 where it wrote more than may be. What is too
# much to follow is passed over.
# Ends too when nobody listens any more, which a quiet command would never show it by a broken pipe.
parent=
! kill -0 "$PPID" 2>/dev/null || parent=$PPID
out=${out_from} err=${err_from} pause=1 missing=0
size_of() { if [ -f "$1" ]; then echo $(($(wc -c <"$1"))); else echo 0; fi; }
show() { # name, from, size
    from=$2
    if [ $(($3 - from)) -gt "$most" ]; then from=$(($3 - most / 2)); fi
    [ "$3" -gt "$from" ] || return 0
    printf '\n%s %s %s %s\n' "$mark" "$1" "$from" $(($3 - from))
    tail -c +$((from + 1)) "$run/$1" | head -c $(($3 - from))
}
is_alive() {
    pid=$(cat "$run/pid" 2>/dev/null)
    [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null || return 1
    # Silent: the process may end between the two looks.
    # `cat` and not `read`: the words end with NUL bytes, of which some shells warn.
    [ ! -r "/proc/$pid/cmdline" ] || { case $(cat "/proc/$pid/cmdline") in *"$key"*) ;; *) return 1 ;; esac } 2>/dev/null
}
while [ -z "$parent" ] || kill -0 "$parent" 2>/dev/null; do
    # The end is looked for before the output, so that nothing that was written before it is missed.
    ended=
    [ ! -f "$run/exit" ] || ended=1
    out_size=$(size_of "$run/out") err_size=$(size_of "$run/err")
    if [ "$out_size" -gt "$out" ] || [ "$err_size" -gt "$err" ]; then
        show out "$out" "$out_size"
        show err "$err" "$err_size"
        out=$out_size err=$err_size pause=1
    elif [ "$pause" -lt 10 ]; then
        pause=$((pause + 1))
    fi
    [ -z "$ended" ] || exit 0
    [ $((out + err)) -le "$bound" ] || exit 76
    if is_alive; then missing=0; else missing=$((missing + 1)); fi
    # One that never wrote who it is may still be starting, on a machine that is very busy.
    if [ -s "$run/pid" ]; then patience=4; else patience=20; fi
    [ "$missing" -lt "$patience" ] || [ -f "$run/exit" ] || exit 75
    if [ "$pause" -lt 10 ]; then sleep "0.$pause" 2>/dev/null || sleep 1; else sleep 1; fi
done
exit 74
