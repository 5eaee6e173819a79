# Finds the run: `$run`, in `$root/runs`, where nobody but this login may write. Both are empty if there is none yet.
umask 077
missing=
for program in cat chmod date env head id mkdir mv printf rm sh sleep tail wc; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
if [ -n "$missing" ]; then
    echo "it lacks programs that Launchbay needs:$missing. Install coreutils or busybox" >&2
    exit 73
fi
uid=$(id -u)
is_ours() { [ -d "$1/runs" ] && [ ! -h "$1" ] && [ -O "$1" ]; }
# The places, the preferred one first. No here-documents: some shells keep those in files, where there may be no room.
set -- "${HOME:-/nonexistent}/.launchbay" "/tmp/.launchbay-$uid" "/var/tmp/.launchbay-$uid" "/dev/shm/.launchbay-$uid"
root= run=
for place do
    if [ -n "$key" ] && is_ours "$place" && [ -d "$place/runs/$key" ]; then root=$place run=$place/runs/$key && break; fi
done
