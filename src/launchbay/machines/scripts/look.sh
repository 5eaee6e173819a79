# Says what is known of a run: `new`, or `known` and how many seconds ago it began. Runs of two weeks ago are swept out.
if [ -d "$run/began" ]; then
    since=$(cat "$run/since" 2>/dev/null)
    now=$(date +%s)
    echo "known $((now - ${since:-now}))"
else
    find "$root/runs" "$root/chef" -mindepth 1 -maxdepth 1 -mtime +14 -exec rm -rf {} + 2>/dev/null
    mkdir -p "$run" || exit 73
    echo new
fi
