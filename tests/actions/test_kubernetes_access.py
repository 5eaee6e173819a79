"""How an API server is named."""

import pytest

from launchbay.actions.kubernetes_client import KubeAccess


@pytest.mark.parametrize(
    "server",
    ["https://k8s.example", "https://K8S.example/", "https://k8s.example:443", "https://k8s.example:443/"],
)
def test_a_server_has_one_name_however_it_is_written(server: str) -> None:
    assert KubeAccess(server).place == "https://k8s.example"


def test_ports_and_paths_name_other_servers() -> None:
    assert KubeAccess("https://k8s.example:6443/").place == "https://k8s.example:6443"
    assert KubeAccess("https://proxy.example/clusters/A/").place == "https://proxy.example/clusters/A"
