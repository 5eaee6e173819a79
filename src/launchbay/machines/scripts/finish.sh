# Says how a run ended, and what it wrote. Of too long an output the middle is left out, here and, if there is room, on
# the disk of this machine, so that asking again gives the same.
[ -n "$run" ] && [ -f "$run/exit" ] || exit 75
size_of() { echo $(($(wc -c <"$1"))); }
part() { # name, bytes, command that writes them
    printf '\n%s %s %s\n' "$mark" "$1" "$2"
    shift 2
    "$@"
}
give() {
    file=$run/$1 size=$(size_of "$run/$1") half=$((keep / 2))
    note=$(printf '\n(%s bytes are left out here)\n.' $((size - half * 2)))
    note=${note%.}
    if [ "$size" -gt "$keep" ] && [ ! -f "$file.cut" ]; then
        {
            head -c "$half" "$file" && printf '%s' "$note" && tail -c "$half" "$file"
        } >"$file.short" 2>/dev/null && : >"$file.cut" && mv "$file.short" "$file" || rm -f "$file.short"
        size=$(size_of "$file")
    fi
    if [ -f "$file.cut" ] || [ "$size" -le "$keep" ]; then
        # A process in the background may still write to it.
        part "$1" "$size" head -c "$size" "$file"
    else
        part "$1" "$half" head -c "$half" "$file"
        part "$1" "${#note}" printf '%s' "$note"
        part "$1" "$half" tail -c "$half" "$file"
    fi
}
read -r code full <"$run/exit"
rm -f "$run/command" "$run/arguments" "$run/supervise" "$run/identity"
say exit "$code" "$full"
give out
give err
