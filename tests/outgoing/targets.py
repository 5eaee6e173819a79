"""Targets that no outgoing connection may have."""

# Spellings that the machine's resolver reads as the loopback address 127.0.0.1.
LOOPBACK_SPELLINGS = [
    "127.0.0.1", "2130706433", "0x7f000001", "0x7F000001", "017700000001", "0x7f.0.0.1", "0x7f.0x0.0x0.0x1",
    "127.1", "127.0.1", "127.0x1", "0x7f.1", "0177.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:1]", "localhost", "LOCALHOST", "LocalHost", "user@127.0.0.1", "user:pass@127.0.0.1",
    "8.8.8.8@127.0.0.1", "public.example%40@127.0.0.1",
]  # fmt: skip

# Everything else that must not be reached, as the host of a URL.
OTHER_TARGETS = [
    "0", "0.0.0.0", "0x0", "000000000", "127.0.0.2", "127.255.255.255", "10.0.0.1", "10.255.255.255",
    "167772161", "172.16.0.1", "172.31.255.255", "192.168.1.1", "0xc0a80101", "192.168.257", "3232235777",
    "169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.43518", "169.254.170.2", "168.63.129.16",
    "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1",
    "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "4294967295", "0xffffffff",
    "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[::ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::127.0.0.1]", "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:5db8:d822:0:0:80ff:fffe]",
    "[fc00::1]", "[fd00:ec2::254]", "[fe80::1]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[3fff::1]",
    "[100::1]", "[5f00::1]", "metadata@169.254.169.254", "::1@169.254.169.254",
]  # fmt: skip

# What is no http URL of a host; some readers see a loopback address in several of these.
NO_URLS = [
    "ftp://127.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1/_x", "//127.0.0.1/", "127.0.0.1", "", "http://",
    "http:///x", "http:127.0.0.1", "unix:///run/docker.sock", "http+unix://%2Frun%2Fdocker.sock/", "javascript:1",
    "http://[::1", "http://[::1]x/", "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "http://127.0.0.1\r\nHost: x/",
    "http://１２７.０.０.１/", "http://①②⑦.0.0.1/", "http://127。0。0。1/", "http://127.0.0.1\\@public.example/",
    "http://a\x00b/", "http://%31%32%37.0.0.1/", "http://0177.0.0.1/", "http://0177.0.0.01/", "http://012.0.0.1/",
    "http://0251.0376.0251.0376/", "http://0300.0250.1.1.1/", f"http://{'a' * 300}.example/", f"http://{'x' * 9000}",
]  # fmt: skip

# Names, with what a resolver that an attacker controls would answer.
NAMES = {
    "loopback.example": ["127.0.0.1"],
    "loopback.example.": ["127.0.0.1"],
    "localhost.": ["127.0.0.1", "::1"],
    "metadata.google.internal": ["169.254.169.254"],
    "half.example": ["93.184.216.34", "127.0.0.1"],
    "other-half.example": ["127.0.0.1", "93.184.216.34"],
    "six.example": ["2606:4700:4700::1111", "::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "zone.example": ["fe80::1%lo"],
    "bücher.example": ["127.0.0.1"],
    "xn--bcher-kva.example": ["10.1.2.3"],
    "127.0.0.1.nip.example": ["127.0.0.1"],
    "1.1.1.1.nip.example": ["10.0.0.1"],
    "last-of-many.example": [f"93.184.216.{n}" for n in range(40)] + ["192.168.0.1"],
}
