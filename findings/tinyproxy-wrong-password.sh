#!/usr/bin/env bash
# tinyproxy 1.11.1 (Debian 12, tinyproxy-bin 1.11.1-2.1+deb12u1), asked by curl: a wrong password is answered with 401 instead of 407.
#
# Expected: a proxy that wants other credentials answers 407 Proxy Authentication Required (RFC 9110 §15.5.8), as squid does.
# Seen: without credentials the answer is 407 with Proxy-Authenticate. With wrong ones it is 401 with WWW-Authenticate, the header of a
# server. Over plain http nothing but the header Server tells it from an answer of the site, so a client reports that the site refused the
# user, or sends the site's password next time. In answer to CONNECT it can only be the proxy's.
# What to do: read 401 in answer to CONNECT as "the proxy refuses the credentials"; look for the Server header over http.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${proxy:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq tinyproxy-bin=1.11.1-2.1+deb12u1
dpkg-deb -x tinyproxy-bin_*.deb .
port=$((20000 + RANDOM % 10000))
printf 'Port %s\nListen 127.0.0.1\nAllow 127.0.0.1\nBasicAuth ops right\nTimeout 30\n' "$port" >conf
usr/bin/tinyproxy -d -c conf >log 2>&1 &
proxy=$!
for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break || sleep 0.1; done

# The first line of the proxy's answer, and its header that asks for credentials. Nothing is below `invalid`: it must not be looked for.
ask() {
    curl --silent --include --max-time 20 --noproxy '' --proxy "http://$1127.0.0.1:$port" "$2" | tr -d '\r' |
        grep -iE '^HTTP/|authenticate:' | cut -d' ' -f1,2 | paste -sd' '
}
for url in http://shop.invalid/ https://shop.invalid/; do
    echo "$url"
    echo "  no credentials:    $(ask '' "$url" | tee none)"
    echo "  wrong credentials: $(ask 'ops:wrong@' "$url" | tee wrong)"
    [ "$(cat none)" = "HTTP/1.0 407 Proxy-Authenticate: Basic" ]
    [ "$(cat wrong)" = "HTTP/1.0 401 WWW-Authenticate: Basic" ]
done
