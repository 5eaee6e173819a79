"""Each test that may be skipped says why, and the reason is one of this list.

On a machine with what `make setup` and the targets of the tests install, `SETUP` skips nothing. What `MACHINE` names
no package gives: rights, a kernel, a network, a program whose service would take ports.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
CALLS = {"pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.importorskip"}

# The reason as the test spells it → what installs what is missing.
SETUP = {
    '"Firefox isn\'t installed, and this system has no package firefox-esr."': "requirements/debian",
    '"There is no chromium on this machine; install Debian\'s package chromium."': "requirements/debian",
    '"nats-server isn\'t installed"': "requirements/debian",
    '"pgbouncer isn\'t installed"': "requirements/debian",
    "'Helm is not installed (requirements/chart)'": "requirements/chart",
    "'Prometheus is not installed (Debian package prometheus)'": "requirements/debian",
    "'axe-core is not installed; frontend/packages installs it.'": "frontend/packages",
    "'git is not installed (Debian: git)'": "who cloned the repository",
    "'jq is not installed'": "requirements/debian",
    "'Graphviz is not installed'": "requirements/debian",
    "'libfaketime is not installed (Debian package faketime)'": "requirements/debian",
    "'oidc-provider is not installed; frontend/packages installs it'": "frontend/packages",
    "'openapi-spec-validator is not installed'": "requirements/dev.txt",
    "'promtool is not installed (Debian package prometheus)'": "requirements/debian",
    "'requirements/cel could not install CEL'": "requirements/cel",
    "'requirements/terraform could not install the framework'": "requirements/terraform",
    "'requirements/terraform has no framework'": "requirements/terraform",
    "'requirements/tofu could not install Terraform'": "requirements/tofu",
    "'schemathesis is not installed'": "requirements/dev.txt",
    "'ssh-keygen is not installed'": "requirements/debian",
    "'sshd is not installed (Debian: openssh-server)'": "requirements/debian",
    "'the npm registry was not to be had'": "frontend/packages",
    "MISSING": "requirements/bao, requirements/moto",
    "clouds.MISSING": "requirements/moto",
    "f'{package} is not installed (frontend/packages)'": "frontend/packages",
}
# The reason → on which machines the test is skipped.
MACHINE = {
    '"Python\'s package registry is not to be had"': "without a network",
    '"systemd-analyze isn\'t installed"': "without systemd",
    '"the distribution\'s Python is too old, or its module venv is missing"': "before Debian 12",
    '"the machine has no PostgreSQL, and the embedded one can\'t use TLS"': "without a PostgreSQL of its own",
    '"the stand-in goes into a host\'s own PATH"': "without root or namespaces",
    "'a copy of this machine needs root and a mount namespace'": "without root or namespaces",
    "'needs root and namespaces for logins of its own'": "without root or namespaces",
    "'needs root, namespaces and sudo for logins of its own'": "without root or namespaces",
    "'the manifests change their machines'": "without root or namespaces",
    "'only root can ask as somebody else'": "without root",
    "'only root can become another account'": "without root",
    "'only root runs PostgreSQL under another account'": "without root",
    "'needs /proc'": "other than Linux",
    "'told apart through /proc'": "other than Linux",
    "'no C compiler is installed (Debian package gcc)'": "without a compiler",
    "'no Debian: dpkg-deb or /usr/bin/python3 is missing'": "other than Debian",
    "'the history of the repository is not here'": "with a shallow clone or an archive of the files",
    "f'the history of the repository does not reach back to {commit}'": "with a shallow clone",
    "'the wheel brings no older PostgreSQL any more'": "whose package of PostgreSQL has one version",
    'f"Docker can\'t run on this machine: {reason}"': "without Docker, whose service changes the network",
    'f"{program} isn\'t installed"': "without apache2, caddy, haproxy, nginx or squid, whose services take ports",
    "f'containers cannot be run on this machine: {reason}'": "whose kernel or rights run no containers",
    "f'no file system can be mounted here: {mounted.stderr.decode().strip()}'": "without the right to mount",
    "f'this machine has no bridge network for containers: {reason}'": "whose kernel has no bridges",
    'f"{engine.column} can\'t pause here: {answer.text.strip()}"': "whose kernel has no freezer for containers",
    "str(reason)": "whose kernel or rights run no containers",
}
# The reason → why one case of a table isn't one.
NO_CASE = {
    "'The first run had its turn before it could fail.'": "a process took the run before the test could break it",
    "'all of it is theirs'": "administrators see all rows, so none are beyond what is theirs",
    "'all rows that begin so are compared with it'": "the pattern matches all rows that begin with the text",
    "f'the page has no column for {column}'": "the page compares some engines only",
}


def skips() -> Iterator[tuple[str, str]]:
    """Yield the reason of each call that may skip a test, as it is written, with its place."""
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        if "skip" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
                    reasons = [each.value for each in node.keywords if each.arg == "reason"] or node.args[:1]
                    reason = ast.unparse(reasons[0]) if reasons else "none"
                    yield reason, f"{path.relative_to(TESTS)}:{node.lineno}"


def test_each_skip_has_a_reason_of_the_list() -> None:
    known = SETUP | MACHINE | NO_CASE
    assert [f"{place}: {reason}" for reason, place in skips() if reason not in known] == []


def test_each_reason_of_the_list_is_one_of_a_test() -> None:
    assert (SETUP | MACHINE | NO_CASE).keys() - {reason for reason, _ in skips()} == set()
