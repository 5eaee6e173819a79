# Finds where runs are kept for this login: `$root/runs`. Nobody else may write there.
umask 077
for root in "${HOME:-/nonexistent}/.launchbay" "/tmp/.launchbay-$(id -u)"; do
    mkdir -p "$root/runs" 2>/dev/null && [ -O "$root" ] && [ -w "$root/runs" ] && break
    root=
done
if [ -z "$root" ]; then
    echo "there is no place to write in: neither the home directory nor /tmp can be used" >&2
    exit 73
fi
run=$root/runs/$key
