# Says what is known of a run: `new`, or `known` and how many seconds ago it began. A new one goes where there is room.
# Runs of two weeks ago are swept out.
has_room() {
    mkdir -p "$1/runs" && is_ours "$1" || return 1
    echo >"$1/runs/.room"
    set -- $? "$1"
    rm -f "$2/runs/.room"
    return "$1"
}
if [ -n "$run" ] && [ -d "$run/began" ]; then
    since=$(cat "$run/since" 2>/dev/null)
    now=$(date +%s)
    say known $((now - ${since:-now}))
    exit 0
fi
root= reasons=
for place do
    reason=$( (has_room "$place") 2>&1 ) && root=$place && break
    reasons="$reasons $place (${reason##*: }),"
done
if [ -z "$root" ]; then
    echo "it has no place to write in:${reasons%,}" >&2
    exit 73
fi
if command -v find >/dev/null 2>&1; then
    find "$root/runs" "$root/chef" -mindepth 1 -maxdepth 1 -mtime +14 -exec rm -rf {} + 2>/dev/null
fi
mkdir -p "$root/runs/$key" || exit 73
say new
