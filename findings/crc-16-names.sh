#!/usr/bin/env bash
# crccheck 1.3.1, crcmod 1.7 (PyPI, Python 3.11), crc 4.3.2 (npm, Node.js 20): "CRC-16" and "CCITT" are other checksums in each.
#
# Expected: a name is one checksum: CRC-16 is that of ARC (0xbb3d for "123456789"), CCITT is the one that the same package also calls so
#   with an addition, or is refused as unclear.
# Seen: Crc16 of crccheck is XMODEM (0x31c3), crc-16 of crcmod and crc16 of crc are ARC. CrcCcitt of crccheck is KERMIT (0x2189), crc16ccitt
#   of crc the "false" one (0x29b1), which the others name crc-ccitt-false. A device and a program that both say CCITT reject each other.
# What to do: name the polynomial, the first value and the reflection, and test with the check value of "123456789".
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install crccheck==1.3.1 crcmod==1.7
npm install --silent --no-fund --no-audit crc@4.3.2 >/dev/null
cat >look.py <<'END'
from crccheck import crc
from crcmod.predefined import mkCrcFun

DATA = b"123456789"
for name in ("Crc16", "CrcCcitt", "Crc16CcittFalse", "CrcXmodem"):
    print(f"crccheck {name} {getattr(crc, name).calc(DATA):x}")
for name in ("crc-16", "crc-ccitt-false", "xmodem"):
    print(f"crcmod {name} {mkCrcFun(name)(DATA):x}")
END
cat >look.cjs <<'END'
const crc = require("crc");
for (const name of ["crc16", "crc16ccitt", "crc16xmodem"]) console.log("crc", name, crc[name]("123456789").toString(16));
END
{ venv/bin/python look.py; node look.cjs; } >seen
cat seen
diff seen - <<'SEEN'
crccheck Crc16 31c3
crccheck CrcCcitt 2189
crccheck Crc16CcittFalse 29b1
crccheck CrcXmodem 31c3
crcmod crc-16 bb3d
crcmod crc-ccitt-false 29b1
crcmod xmodem 31c3
crc crc16 bb3d
crc crc16ccitt 29b1
crc crc16xmodem 31c3
SEEN
