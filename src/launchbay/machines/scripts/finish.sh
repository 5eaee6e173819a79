# Says how a run ended: a line with its exit code, then what it wrote. Of too long an output the middle is left out, here
# and on the disk of this machine, so that asking again gives the same.
[ -f "$run/exit" ] || exit 75
for name in out err; do
    size=$(($(wc -c <"$run/$name")))
    if [ "$size" -gt "$keep" ] && [ ! -f "$run/$name.cut" ]; then
        half=$((keep / 2))
        {
            head -c "$half" "$run/$name"
            printf '\n(%s bytes are left out here)\n' $((size - half * 2))
            tail -c "$half" "$run/$name"
        } >"$run/$name.short" && : >"$run/$name.cut" && mv "$run/$name.short" "$run/$name"
    fi
done
rm -f "$run/command" "$run/supervise"
cat "$run/exit" "$run/out"
cat "$run/err" >&2
