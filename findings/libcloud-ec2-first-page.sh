#!/usr/bin/env bash
# apache-libcloud 3.9.1: `list_nodes` of its EC2 driver reads the first page, and drops the rest silently.
#
# Expected: a method that lists all nodes follows the token that says that the answer has more pages, or at least shows it.
# Seen: one request, one node; the nextToken of the answer appears nowhere. EC2 may divide an answer though nobody asked for pages, so a
# sweep that trusts the list overlooks machines, and a search for a machine's tag doesn't find it.
# What to do: ask again with NextToken and the same filters until an answer has none.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install apache-libcloud==3.9.1
cat >run.py <<'END'
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from libcloud.compute.drivers.ec2 import EC2NodeDriver

ITEM = (
    "<item><reservationId>r-1</reservationId><ownerId>1</ownerId><instancesSet><item><instanceId>{id}</instanceId>"
    "<instanceState><code>16</code><name>running</name></instanceState></item></instancesSet></item>"
)
PAGE = (
    '<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
    "<reservationSet>{items}</reservationSet>{token}</DescribeInstancesResponse>"
)
asked = []


class Service(BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        is_second = "NextToken" in self.path
        items = ITEM.format(id="i-2" if is_second else "i-1") if "DescribeInstances" in self.path else ""
        page = PAGE.format(items=items, token="" if is_second else "<nextToken>more</nextToken>").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *arguments):
        pass


service = HTTPServer(("127.0.0.1", 0), Service)
threading.Thread(target=service.serve_forever, daemon=True).start()
driver = EC2NodeDriver("key", "secret", secure=False, host="127.0.0.1", port=service.server_port)
nodes = [node.id for node in driver.list_nodes(ex_filters={"instance-state-name": "running"})]
lists = [path for path in asked if "DescribeInstances" in path]
print("nodes:", nodes, "requests for the list:", len(lists))
assert nodes == ["i-1"]
assert len(lists) == 1
END
venv/bin/python run.py
