# Runs Chef without a server in a directory of its own, and leaves the node that it saved where the login can read it.
cd "$place" || exit 73
[ -z "$trace" ] || export "TRACEPARENT=$trace" # here, since sudo passes no variables on
trap 'rm -rf cookbooks.tgz files dna.json solo.rb nodes cache' EXIT
mkdir -p files nodes cache
if [ -f cookbooks.tgz ]; then tar -xzf cookbooks.tgz -C files --no-same-owner || exit 73; fi
chef=
for program in chef-solo cinc-solo /opt/chef/bin/chef-solo /opt/cinc/bin/cinc-solo; do
    chef=$(command -v "$program") && break
done
if [ -z "$chef" ]; then
    echo "neither chef-solo nor cinc-solo is installed" >&2
    exit 127
fi
"$chef" -c "$PWD/solo.rb" -j "$PWD/dna.json" </dev/null
code=$?
[ "$code" = 0 ] || exit "$code"
for node in nodes/*.json; do
    [ ! -f "$node" ] || { cat "$node" >node.json && chmod 644 node.json; }
done
exit 0
