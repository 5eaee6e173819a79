"""Short manifests in, compiled manifests and findings out."""

from pathlib import Path
from textwrap import dedent

import pytest

from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.findings import Finding

ACTIONS = frozenset(
    {
        *(
            "chefsolo",
            "chefrun",
            "provisionVms",
            "provisionAmazonVm",
            "execrun",
            "getSignals",
            "getEnvironmentProperties",
        ),
        *("serviceCall", "commandCall", "serialize", "restcall", "undeployEnv", "destroyVms", "compute.shrink-all"),
        *("wait", "waitPeers", "getInstanceContext", "registerLogPath"),
    }
)

REAL = sorted((Path(__file__).parents[3] / "shared" / "manifests").glob("*.yml"))
needs_real = pytest.mark.skipif(not REAL, reason="the folder with real manifests is absent")


def compiled(text: str) -> CompiledManifest:
    return compile_manifest(dedent(text).encode(), known_actions=ACTIONS)


def findings(text: str) -> list[Finding]:
    return check(dedent(text).encode(), known_actions=ACTIONS)


def errors(text: str) -> list[tuple[str, int]]:
    """Code and line of each error."""
    return [(finding.code, finding.line) for finding in findings(text) if finding.severity == "error"]


def warnings(text: str) -> list[tuple[str, int]]:
    """Code and line of each warning; there must be no errors."""
    found = findings(text)
    assert not [finding for finding in found if finding.severity == "error"], found
    return [(finding.code, finding.line) for finding in found]


def message(text: str) -> str:
    """The sentence of the only finding."""
    [finding] = findings(text)
    return finding.message


def workflow_component(workflows: str, *, pins: str = "", more: str = "") -> str:
    """A manifest with the one component `w`, a workflow.Instance.

    `pins` are the lines of its interfaces, `workflows` those of its workflows and `more` further lines of its
    configuration; each block is dedented and put in its place. With two lines of pins and no more the workflows start
    at line 10.
    """
    lines = ["application:", "  components:", "    w:", "      type: workflow.Instance", "      interfaces:"]
    lines += [f"        {line}" for line in dedent(pins).strip("\n").splitlines()] or ["        none: {}"]
    lines += ["      configuration:"]
    lines += [f"        {line}" for line in dedent(more).strip("\n").splitlines()]
    lines += ["        configuration.workflows:"]
    lines += [f"          {line}" for line in dedent(workflows).strip("\n").splitlines()] or ["          {}"]
    return "\n".join(lines) + "\n"
