#!/usr/bin/env bash
# zonefile-parser 0.1.20 (Python 3.11): a line without a name belongs to another host.
#
# Expected: RFC 1035, section 5.1: a line that begins with a space has the name of the line before; the class and the TTL come in any order;
#   a TXT record has one or more strings. BIND writes TTLs with units, such as 5m.
# Seen: the second address of www is one of the zone itself. `x IN 5m A 192.0.2.4` is a record of the type "5M" with the value "A". Of two
#   strings the second is gone. A TTL of a line is a text, the default a number.
# What to do: read zones with dnspython, or let `named-compilezone` write each record on a full line first.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install zonefile-parser==0.1.20 dnspython==2.8.0
cat >zone <<'END'
$ORIGIN example.com.
$TTL 3600
@ IN SOA ns1 host ( 2026010101 3600 900 1209600 300 )
 IN NS ns1
ns1 IN A 192.0.2.1
www 300 IN A 192.0.2.2
 IN A 192.0.2.3
x IN 5m A 192.0.2.4
t IN TXT "v=1" "x y"
END
cat >look.py <<'END'
import dns.zone
import zonefile_parser

print("zonefile-parser")
for each in zonefile_parser.parse(open("zone").read())[3:]:
    print(" ", each.name, repr(each.ttl), each.rtype, each.rdata["value"])
print("dnspython")
for name, ttl, data in dns.zone.from_file("zone", "example.com.", relativize=False).iterate_rdatas():
    if data.rdtype.name not in ("SOA", "NS") and str(name)[:3] != "ns1":
        print(" ", name, ttl, data.rdtype.name, data)
END
venv/bin/python look.py | tee seen
diff seen - <<'SEEN'
zonefile-parser
  www.example.com. '300' A 192.0.2.2
  example.com. 3600 A 192.0.2.3
  x.example.com. 3600 5M A
  t.example.com. 3600 TXT v=1
dnspython
  www.example.com. 300 A 192.0.2.2
  www.example.com. 300 A 192.0.2.3
  x.example.com. 300 A 192.0.2.4
  t.example.com. 3600 TXT "v=1" "x y"
SEEN
