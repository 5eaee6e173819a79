"""Releases that somebody installed with Helm itself, and manifests of components that would install them."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.documentation import ROOT
from tests.support.helm_cluster import HelmCluster
from tests.support.network import packed
from tests.support.service import fresh_name

TOOLS = ROOT / ".venv" / "chart" / "bin"
_MAP = b"""apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
{{- range $name, $value := .Values }}
  {{ $name }}: {{ $value | toJson | quote }}
{{- end }}
"""
CHART = packed(
    {
        "shop/Chart.yaml": b"apiVersion: v2\nname: shop-front\nversion: 1.0.0-rc.1\nappVersion: '1.10'\n",
        "shop/templates/map.yaml": _MAP,
        "shop/values.yaml": b"own: 1\n",
    }
)


class Kubectl:
    """Somebody who works with Helm and the cluster, without Launchbay."""

    def __init__(self, program: Path, cluster: HelmCluster, directory: Path) -> None:
        self._program = program
        self._directory = directory
        self.cluster = cluster
        self.chart = directory / "shop.tgz"
        self.chart.write_bytes(CHART)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": cluster.access["server"]}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (directory / "kubeconfig").write_text(json.dumps(config))

    def helm(self, *arguments: str) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self._directory / "kubeconfig"), "HOME": str(self._directory)}
        done = subprocess.run([self._program, *arguments], env=environment, check=True, capture_output=True, text=True)
        return done.stdout

    def install(self, release: str, *more: str, namespace: str = "default") -> None:
        self.helm("upgrade", "--install", release, str(self.chart), "--namespace", namespace, *more)

    def set(self, release: str, **data: str) -> None:
        """Change an object of a release behind everybody's back."""
        self.cluster.data(release).update(data)

    def revisions(self, release: str) -> int:
        return sum(f".{release}.v" in each for each in self.cluster.releases())


def fresh_release() -> str:
    """Return a name that no release has yet."""
    return fresh_name("shop").replace(" ", "-")


def manifest_of(cluster: HelmCluster, chart: str, release: str, namespaces: Sequence[str] = ("default",)) -> str:
    """Return a manifest whose component `web` installs a release with a size in each namespace."""
    parameters = {"cluster": cluster.access, "release": release, "chart": chart, "values": {"size": "${size}"}}
    steps = [
        {f"install-{namespace}": {"action": "helm", "parameters": {**parameters, "namespace": namespace}}}
        for namespace in namespaces
    ]
    component = {
        "type": "workflow.Instance",
        "interfaces": {"input": {"size": "configuration(int)"}},
        "configuration": {
            "configuration.triggers": {"input.size": "launch"},
            "configuration.workflows": {"launch": {"steps": steps}},
        },
    }
    return json.dumps(
        {
            "application": {
                "configuration": {"input.size": 2},
                "interfaces": {"input": {"size": "bind(web#input.size)"}},
                "components": {"web": component},
            }
        }
    )
