#!/usr/bin/env bash
# A client that asks for one type of host key, and an OpenSSH server that has another: which error does the client get?
#
# Versions: asyncssh 2.24.1 (PyPI), openssh-server 1:9.2p1-2+deb12u10 (Debian 12).
# Expected: both sides send their lists of algorithms, so the client finds out by itself and reports a failed key exchange, as
#   the `ssh` program does ("no matching host key type found. Their offer: …"). asyncssh has the exception KeyExchangeFailed.
# Seen: asyncssh raises ConnectionLost or ConnectionResetError, as for a server that has died. The server finds no match first,
#   and closes the connection without a message of SSH. Whoever pins a key by its type can't tell a removed type from an outage.
# Exits with 1 if that changes.
set -eu
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
server=
cd "$work"
python3 -m venv venv
venv/bin/pip install -q asyncssh==2.24.1
chmod 755 .
apt-get download -q openssh-server=1:9.2p1-2+deb12u10 >/dev/null 2>&1
dpkg-deb -x openssh-server_*.deb root
mkdir -p /run/sshd
ssh-keygen -q -t rsa -N '' -f key
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/root/usr/sbin/sshd" -D -e -f /dev/null -o ListenAddress=127.0.0.1:"$port" -o HostKey="$work/key" -o PidFile=none 2>log &
server=$!
cat >ask.py <<'END'
import asyncio, sys
import asyncssh

async def ask(*kinds):
    try:
        key = await asyncssh.get_server_host_key("127.0.0.1", int(sys.argv[1]), server_host_key_algs=kinds, config=None)
        return key.get_algorithm()
    except (OSError, asyncssh.Error) as error:
        return type(error).__name__

async def main():
    for _ in range(50):
        if (found := await ask("rsa-sha2-256")) == "ssh-rsa":
            break
        await asyncio.sleep(0.1)
    print(found, await ask("ssh-ed25519"))

asyncio.run(main())
END
seen=$(venv/bin/python ask.py "$port")
echo "asked for RSA and Ed25519: $seen"
case $seen in "ssh-rsa ConnectionLost" | "ssh-rsa ConnectionResetError") ;; *) exit 1 ;; esac
