"""The action of GitHub and the component of GitLab, as their pipelines run them, against a server."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

import launchbay_ci
from launchbay_ci import Change, GitHub, GitLab
from tests.support.databases import Databases
from tests.support.documentation import DOCS, blocks
from tests.support.servers import Bay
from tests.support.service import serving

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "integrations" / "github-action" / "action.yml"
COMPONENT = ROOT / "integrations" / "gitlab-component" / "templates" / "review.yml"
PAGE = DOCS / "howto" / "ci.md"
GITLAB_PAGE = DOCS / "howto" / "gitlab-ci.md"
HOOKS_PAGE = DOCS / "howto" / "pre-commit.md"
MANIFEST = """\
application:
  interfaces:
    result: {url: bind(shop#result.url)}
  components:
    shop:
      type: workflow.Instance
      interfaces: {result: {url: publish-signal(string)}}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - settle: {action: wait, parameters: {delay: "0"}}
            return: {url: {value: "https://shop.example/VERSION"}}
          destroy: {steps: []}
"""


def pull_request(action: str, number: int = 12, fork: str | None = "acme/shop") -> dict[str, Any]:
    """Return the part of an event that GitHub sends and that is read."""
    head = None if fork is None else {"full_name": fork}
    request = {
        "number": number,
        "title": "$(touch hacked) `x` ::error::",
        "head": {"ref": "a;b", "repo": head},
        "base": {"ref": "main", "repo": {"full_name": "acme/shop"}},
    }
    return {"action": action, "number": number, "pull_request": request, "repository": {"full_name": "acme/shop"}}


def merge_request(action: str, source: int = 7) -> dict[str, Any]:
    """Return the part of a webhook's body that GitLab sends and that is read."""
    found = {"iid": 12, "action": action, "source_project_id": source, "target_project_id": 7, "title": "x"}
    return {"object_kind": "merge_request", "object_attributes": found, "project": {"id": 7}}


@dataclass
class Forge:
    """The comments of a GitHub and of a GitLab, over HTTP."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    foreign: set[int] = field(default_factory=set)
    url: str = ""

    def answer(self, method: str, target: str, token: str | None, body: Any) -> tuple[int, Any]:
        parts = urlsplit(target)
        self.asked.append(f"{method} {parts.path}")
        if token != "forge-token":
            return 401, {"message": "Bad credentials"}
        github = re.fullmatch(r"/repos/acme/shop/issues/(?:12/comments|comments/(\d+))", parts.path)
        gitlab = re.fullmatch(r"/projects/7/merge_requests/12/notes(?:/(\d+))?", parts.path)
        found = github or gitlab
        if found is None:
            return 404, {"message": "Not Found"}
        if method == "GET":
            query = parse_qs(parts.query)
            first = (int(query["page"][0]) - 1) * int(query["per_page"][0])
            return 200, self.comments[first : first + int(query["per_page"][0])]
        if method == "POST":
            self.comments.append({"id": len(self.comments) + 1, "body": body["body"]})
            return 201, self.comments[-1]
        number = int(found[1])
        if number in self.foreign:
            return 403, {"message": "Forbidden"}
        self.comments[number - 1]["body"] = body["body"]
        return 200, self.comments[number - 1]

    def texts(self, kind: str) -> list[str]:
        marker = f"<!-- launchbay {kind} -->\n"
        return [each["body"].removeprefix(marker) for each in self.comments if each["body"].startswith(marker)]


@contextmanager
def _serving(forge: Forge) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            status, document = forge.answer(
                self.command, self.path, self.headers.get("PRIVATE-TOKEN") or bearer or None, body
            )
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = _answer  # noqa: N815 - the names of the base class

        def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    forge.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def forge() -> Iterator[Forge]:
    """A server with the comments of one request."""
    found = Forge()
    with _serving(found):
        yield found


@pytest.fixture(scope="module")
def bay(databases: Databases) -> Iterator[Bay]:
    """A running service."""
    with serving(databases) as server:
        yield Bay(server.url)


@dataclass(frozen=True)
class Ran:
    """What a step did."""

    code: int
    output: str
    outputs: dict[str, str]


@dataclass
class Runner:
    """A machine that runs steps of pipelines, in a working copy of its own."""

    directory: Path
    forge: Forge
    bay: Bay
    token: str

    def _run(self, script: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        programs = self.directory.parent / "programs"
        programs.mkdir(exist_ok=True)
        for name, program in (
            ("launchbay-ci", f"{ROOT}/integrations/ci/launchbay_ci.py"),
            ("launchbay", "-m launchbay.cli.main"),
        ):
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
            (programs / name).chmod(0o755)
        own = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"), "NO_PROXY": "*"}
        own |= {"HOME": str(self.directory.parent), "LAUNCHBAY_KEYRING": "off", "LANG": "C.UTF-8"}
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.directory,
            env={**own, **environ},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def github(self, event: Mapping[str, Any], **inputs: str) -> Ran:
        """Run the last step of the action, as GitHub does."""
        action = yaml.safe_load(ACTION.read_text("utf-8"))
        step = action["runs"]["steps"][-1]
        given = {name: str(each.get("default", "")) for name, each in action["inputs"].items()}
        given |= {"url": self.bay.url, "token": self.token, "github-token": "forge-token", **inputs}
        outputs, path = self.directory.parent / "outputs", self.directory.parent / "event.json"
        outputs.unlink(missing_ok=True)
        outputs.touch()
        path.write_text(json.dumps(event), "utf-8")
        environ = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], str(value))
            for name, value in step["env"].items()
        }
        environ |= {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.forge.url,
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_REPOSITORY": "acme/shop",
            "GITHUB_STEP_SUMMARY": str(self.directory.parent / "summary"),
        }
        done = self._run(step["run"], environ)
        found = re.findall(r"^(\w+)<<(\w+)\n(.*?)\n\2$", outputs.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        return Ran(done.returncode, done.stdout + done.stderr, {name: value for name, _, value in found})

    def gitlab(self, job: str, *, token: str | None = None, **inputs: str) -> Ran:
        """Run the script of a job of the component, as GitLab does."""
        header, text = COMPONENT.read_text("utf-8").split("\n---\n")
        given = {
            name: each.get("default", "") for name, each in yaml.safe_load(header)["spec"]["inputs"].items()
        } | inputs
        jobs = yaml.safe_load(re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda found: json.dumps(given[found[1]]), text))
        chosen = jobs[job]
        environ = {**jobs[chosen["extends"]]["variables"], **chosen.get("variables", {})}
        environ |= {
            "CI_API_V4_URL": self.forge.url,
            "CI_MERGE_REQUEST_IID": "12",
            "CI_MERGE_REQUEST_PROJECT_ID": "7",
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "7",
            "CI_PROJECT_ID": "7",
            "LAUNCHBAY_CI_GITLAB_TOKEN": "forge-token",
            "LAUNCHBAY_TOKEN": self.token if token is None else token,
            "LAUNCHBAY_URL": self.bay.url,
        }
        done = self._run("\n".join(chosen["script"]), environ)
        dotenv = self.directory / str(environ.get("LAUNCHBAY_CI_DOTENV", "none"))
        lines = dotenv.read_text("utf-8").splitlines() if dotenv.exists() else []
        return Ran(done.returncode, done.stdout + done.stderr, dict(line.split("=", 1) for line in lines))

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


@pytest.fixture
def runner(tmp_path: Path, forge: Forge, bay: Bay) -> Runner:
    """A runner with a working copy, and a token with the scope of the page."""
    (tmp_path / "work").mkdir()
    [scope] = [re.findall(r"--scope '([^']+)'", block.text) for block in blocks(PAGE) if "--scope" in block.text]
    body = {"name": "pipeline", "days": 1, "scope": scope}
    token = bay.call("POST", f"organizations/{bay.organization}/accessTokens", body)["token"]
    return Runner(tmp_path / "work", forge, bay, token)


@pytest.mark.slow  # dozens of commands
@pytest.mark.timeout(400)
def test_a_pull_request_gets_a_review_environment_until_it_is_merged(runner: Runner, bay: Bay, forge: Forge) -> None:
    arguments = {"application": "shop", "manifest": "manifest.yaml", "lifetime": "2h"}
    runner.write("manifest.yaml", MANIFEST.replace("VERSION", "one"))
    opened = runner.github(pull_request("opened"), command="review", **arguments)
    assert opened.code == 0, opened.output
    assert opened.outputs["status"] == "Running"
    assert opened.outputs["page"] == f"{bay.url}/console/instances/{opened.outputs['instance']}"
    [comment] = forge.texts("review shop")
    assert "`shop-review-12` is Running" in comment
    assert "https://shop.example/one" in comment
    document = bay.call("GET", f"instances/{opened.outputs['instance']}")
    assert document["labels"] == {"review": "12"}
    assert 0 < document["destroyAt"] - document["createdAt"] <= 2 * 3600 * 1000 + 60_000

    runner.write("manifest.yaml", MANIFEST.replace("VERSION", "two"))
    changed = runner.github(pull_request("synchronize"), command="review", **arguments)
    assert (changed.code, changed.outputs["instance"]) == (0, opened.outputs["instance"]), changed.output
    [comment] = forge.texts("review shop")
    assert f"version {document['version'] + 1}" in comment

    nowhere = runner.github(pull_request("synchronize"), command="review", environment="nope", **arguments)
    assert nowhere.code == 1
    assert "There is no environment nope." in nowhere.output
    other = bay.call("POST", f"organizations/{bay.organization}/environments", {"name": "review"})["id"]
    moved = runner.github(pull_request("synchronize"), command="review", environment="review", **arguments)
    assert moved.code == 0, moved.output
    assert bay.call("GET", f"instances/{moved.outputs['instance']}")["environmentId"] == other

    runner.write("manifest.yaml", MANIFEST.replace('delay: "0"', 'delay: "-1"'))
    failed = runner.github(pull_request("synchronize"), command="review", update="relaunch", **arguments)
    assert (failed.code, failed.outputs["status"]) == (1, "Failed"), failed.output
    assert "is Failed" in forge.texts("review shop")[0]
    assert "::error::" in failed.output

    closed = runner.github(pull_request("closed"), command="review", **arguments)
    assert (closed.code, closed.outputs["status"]) == (0, "Destroyed"), closed.output
    assert "is destroyed" in forge.texts("review shop")[0]
    assert bay.call("GET", f"organizations/{bay.organization}/applications") == []
    assert not (runner.directory / "hacked").exists()
    again = runner.github(pull_request("closed"), command="review", **arguments)
    assert again.code == 0, again.output


@pytest.mark.slow  # several commands
def test_a_manifest_is_checked_and_its_effects_are_commented(runner: Runner, bay: Bay, forge: Forge) -> None:
    runner.write("a/manifest.yaml", MANIFEST)
    runner.write("b/manifest.yaml", MANIFEST.replace("wait", "wiat"))
    bad = runner.github(pull_request("opened"), command="check")
    assert bad.code == 1
    assert re.search(r"^::error file=b/manifest\.yaml,line=\d+,col=\d+,title=UnknownAction::", bad.output, re.MULTILINE)
    (runner.directory / "b/manifest.yaml").unlink()
    good = runner.github(pull_request("opened"), command="check")
    assert (good.code, "1 manifests are valid" in good.output) == (0, True), good.output

    runner.write("manifest.yaml", MANIFEST.replace("VERSION", "three"))
    new = runner.github(pull_request("opened"), command="preview", application="depot", manifest="manifest.yaml")
    assert new.code == 0, new.output
    assert "doesn't exist yet" in forge.texts("preview depot")[0]
    application = bay.application("depot", MANIFEST)
    bay.call("POST", f"applications/{application}/launch", {"instanceName": "depot | `1`"})
    shown = runner.github(pull_request("synchronize"), command="preview", application="depot", manifest="manifest.yaml")
    assert shown.code == 0, shown.output
    [comment] = forge.texts("preview depot")
    assert "`depot \\| '1'`" in comment
    assert bay.call("GET", f"applications/{application}")["version"] == 2


@pytest.mark.slow  # several commands
@pytest.mark.timeout(400)
def test_a_merge_request_of_gitlab_gets_the_same(runner: Runner, bay: Bay, forge: Forge) -> None:
    arguments = {"application": "kiosk"}
    runner.write("manifest.yaml", MANIFEST.replace("wait", "wiat"))
    bad = runner.gitlab("launchbay-check", **arguments)
    assert bad.code == 1
    [finding] = json.loads((runner.directory / "gl-code-quality-report.json").read_text("utf-8"))
    assert (finding["check_name"], finding["severity"]) == ("UnknownAction", "major")
    assert finding["location"]["path"] == "manifest.yaml"

    runner.write("manifest.yaml", MANIFEST)
    made = runner.gitlab("launchbay-review", **arguments)
    assert (made.code, made.outputs["LAUNCHBAY_STATUS"]) == (0, "Running"), made.output
    assert made.outputs["LAUNCHBAY_PAGE"].startswith(bay.url)
    assert "`kiosk-review-12` is Running" in forge.texts("review kiosk")[0]
    ended = runner.gitlab("launchbay-destroy", **arguments)
    assert ended.code == 0, ended.output
    assert "is destroyed" in forge.texts("review kiosk")[0]
    assert bay.request("GET", f"instances/{made.outputs['LAUNCHBAY_INSTANCE']}").status_code == 404


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (pull_request("opened"), Change(12, is_closed=False, is_foreign=False)),
        (pull_request("closed"), Change(12, is_closed=True, is_foreign=False)),
        (pull_request("opened", fork="mallory/shop"), Change(12, is_closed=False, is_foreign=True)),
        (pull_request("closed", fork=None), Change(12, is_closed=True, is_foreign=True)),
        ({"ref": "refs/heads/main", "commits": []}, None),
    ],
)
def test_events_of_github_are_read(tmp_path: Path, event: dict[str, Any], expected: Change | None) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event), "utf-8")
    assert launchbay_ci.read_change({"GITHUB_EVENT_PATH": str(path)}) == expected


@pytest.mark.parametrize(
    ("action", "is_closed"), [("open", False), ("update", False), ("merge", True), ("close", True)]
)
def test_events_of_gitlab_are_read(tmp_path: Path, action: str, *, is_closed: bool) -> None:
    path = tmp_path / "payload.json"
    path.write_text(json.dumps(merge_request(action)), "utf-8")
    assert launchbay_ci.read_change({"TRIGGER_PAYLOAD": str(path)}) == Change(12, is_closed, is_foreign=False)
    variables = {
        "CI_MERGE_REQUEST_IID": "12",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "9",
        "CI_MERGE_REQUEST_PROJECT_ID": "7",
    }
    assert launchbay_ci.read_change(variables) == Change(12, is_closed=False, is_foreign=True)


def test_a_broken_event_fails_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"pull_request": {"number": "one; rm -rf"}}', "utf-8")
    with pytest.raises(launchbay_ci.Failed, match="can't be read"):
        launchbay_ci.read_change({"GITHUB_EVENT_PATH": str(path)})


def test_comments_are_replaced_on_any_page_and_those_of_others_are_left_alone(forge: Forge) -> None:
    forge.comments += [{"id": number, "body": "something"} for number in range(1, 151)]
    for comments in (GitHub(forge.url, "acme/shop", "forge-token", 12), GitLab(forge.url, "7", "forge-token", 12)):
        name = type(comments).__name__
        comments.write(f"<!-- {name} -->", f"<!-- {name} -->\nfirst")
        comments.write(f"<!-- {name} -->", f"<!-- {name} -->\nsecond")
        ours = [each["body"] for each in forge.comments if name in each["body"]]
        assert ours == [f"<!-- {name} -->\nsecond"]
    forge.comments.insert(0, {"id": 1, "body": "<!-- forged -->\nnot ours"})
    forge.foreign.add(1)
    forge.comments[:] = [{**each, "id": number} for number, each in enumerate(forge.comments, 1)]
    for text in ("ours", "ours again"):
        GitHub(forge.url, "acme/shop", "forge-token", 12).write("<!-- forged -->", f"<!-- forged -->\n{text}")
    forged = [each["body"].partition("\n")[2] for each in forge.comments if "forged" in each["body"]]
    assert forged == ["not ours", "ours again"]


def test_a_comment_that_fails_fails_no_job(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(pull_request("opened")), "utf-8")
    for name, value in {
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_TOKEN": "wrong",
        "GITHUB_API_URL": forge.url,
        "GITHUB_REPOSITORY": "acme/shop",
    }.items():
        monkeypatch.setenv(name, value)
    launchbay_ci.publish(Change(12, is_closed=False, is_foreign=False), "review shop", "text")
    assert forge.comments == []
    assert "could not be written" in capsys.readouterr().err


def test_nothing_is_done_for_a_fork_which_has_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(pull_request("opened", fork="mallory/shop")), "utf-8")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(path))
    monkeypatch.delenv("LAUNCHBAY_TOKEN", raising=False)
    monkeypatch.setenv("PATH", "")  # no command can run
    assert launchbay_ci.main(["review", "--application", "shop", "--manifest", "x"]) == 0
    assert "forks get no token" in capsys.readouterr().out


def test_texts_of_others_add_nothing_to_comments_logs_and_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert launchbay_ci.code("a`b|c\nd") == "`a'b\\|c d`"
    assert launchbay_ci.fenced("```\n@everyone\n````").startswith("`````\n")
    assert launchbay_ci._escaped("x\n::set-output::y") == "x%0A::set-output::y"
    outputs = tmp_path / "outputs"
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    launchbay_ci.set_outputs(status="Running\nEOF\npage=https://evil.example")
    assert len(re.findall(r"^\w+<<", outputs.read_text("utf-8"), flags=re.MULTILINE)) == 1


def test_scripts_of_the_action_contain_no_values() -> None:
    action = yaml.safe_load(ACTION.read_text("utf-8"))
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text("utf-8")))
    assert used == set(action["inputs"])


def test_the_page_uses_inputs_that_exist() -> None:
    [workflow] = [yaml.safe_load(block.text) for block in blocks(PAGE) if "integrations/github-action@" in block.text]
    inputs = set(yaml.safe_load(ACTION.read_text("utf-8"))["inputs"])
    steps = [step for job in workflow["jobs"].values() for step in job["steps"] if "launchbay" in step.get("uses", "")]
    assert {step["with"]["command"] for step in steps} == {"check", "preview", "review"}
    assert set().union(*(step["with"] for step in steps)) <= inputs
    [pipeline] = [yaml.safe_load(block.text) for block in blocks(GITLAB_PAGE) if "component:" in block.text]
    header = yaml.safe_load(COMPONENT.read_text("utf-8").split("\n---\n")[0])
    assert set(pipeline["include"][0]["inputs"]) <= set(header["spec"]["inputs"])


@pytest.mark.slow  # starts programs
def test_the_hooks_check_the_files_that_they_match(tmp_path: Path, runner: Runner) -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    [config] = [yaml.safe_load(block.text) for block in blocks(HOOKS_PAGE) if "launchbay-validate" in block.text]
    assert {hook["id"] for repo in config["repos"] for hook in repo["hooks"]} == set(hooks)
    runner.write("apps/shop/manifest.yaml", MANIFEST.replace("wait", "wiat"))
    runner.write("other.yaml", "not: a manifest")
    files = [str(path.relative_to(runner.directory)) for path in sorted(runner.directory.rglob("*.yaml"))]
    hook = hooks["launchbay-validate"]
    chosen = [name for name in files if re.search(hook["files"], name)]
    assert chosen == ["apps/shop/manifest.yaml"]
    done = runner._run(f"{hook['entry']} {' '.join(chosen)}", {})
    assert done.returncode == 1
    assert "UnknownAction" in done.stdout
