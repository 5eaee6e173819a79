"""`launchbay-ci`: checks, previews and review environments in the pipelines of GitHub and GitLab.

It runs the command `launchbay`, which reads server and token from LAUNCHBAY_URL and LAUNCHBAY_TOKEN, and writes the
result as a comment of the pull or merge request. Texts of the request, such as its title, are never used.
"""

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx

NOT_FOUND = 3  # exit codes of `launchbay`
COMMENT_CHARS = 60_000  # GitHub takes 65,536
FIELD_CHARS = 300
LISTED = 20
PAGES = 20  # of comments that are searched for ours
HTTP_S = 30.0
_CLOSED = {"closed", "close", "merge"}


class Failed(Exception):
    """The job fails. The text says why."""


# The host of the pipeline


class Comments(Protocol):
    """The comments of one pull or merge request."""

    def write(self, marker: str, text: str) -> None:
        """Replace our comment with this marker, or add it. Raises httpx.HTTPError."""


@dataclass(frozen=True)
class Change:
    """The pull or merge request of this pipeline. `is_foreign`: from a fork, so there are no secrets."""

    number: int
    is_closed: bool
    is_foreign: bool


@dataclass(frozen=True)
class GitHub:
    """A pull request, from the variables and the event of GitHub Actions."""

    api: str
    repository: str
    token: str
    number: int

    def write(self, marker: str, text: str) -> None:
        comments = f"repos/{self.repository}/issues/{self.number}/comments"
        with self._client() as client:
            for each in _marked(client, comments, marker):
                path = f"repos/{self.repository}/issues/comments/{int(each['id'])}"
                if _is_ours(client.patch(path, json={"body": text})):
                    return
            client.post(comments, json={"body": text}).raise_for_status()

    def _client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/vnd.github+json"}
        return httpx.Client(base_url=self.api, headers=headers, timeout=HTTP_S)


@dataclass(frozen=True)
class GitLab:
    """A merge request, from the variables of GitLab CI."""

    api: str
    project: str
    token: str
    number: int

    def write(self, marker: str, text: str) -> None:
        notes = f"projects/{self.project}/merge_requests/{self.number}/notes"
        with httpx.Client(base_url=self.api, headers={"PRIVATE-TOKEN": self.token}, timeout=HTTP_S) as client:
            for each in _marked(client, notes, marker):
                if _is_ours(client.put(f"{notes}/{int(each['id'])}", json={"body": text})):
                    return
            client.post(notes, json={"body": text}).raise_for_status()


def _is_ours(answer: httpx.Response) -> bool:
    """Return False if somebody else wrote the comment. Raises httpx.HTTPError."""
    if answer.status_code == httpx.codes.FORBIDDEN:
        return False
    answer.raise_for_status()
    return True


def _marked(client: httpx.Client, path: str, marker: str) -> list[Any]:
    return [each for each in _pages(client, path) if each["body"].startswith(marker)]


def _pages(client: httpx.Client, path: str) -> Iterator[Any]:
    for page in range(1, PAGES + 1):
        answer = client.get(path, params={"per_page": 100, "page": page})
        answer.raise_for_status()
        found = answer.json()
        yield from found
        if len(found) < 100:
            return


def read_change(environ: Mapping[str, str]) -> Change | None:
    """Return the pull or merge request, None in other pipelines. Raises Failed for an event that can't be read."""
    try:
        if environ.get("GITHUB_EVENT_PATH"):
            return _github_change(json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text("utf-8")))
        if environ.get("TRIGGER_PAYLOAD"):  # a pipeline that a webhook of GitLab started
            return _gitlab_change(json.loads(Path(environ["TRIGGER_PAYLOAD"]).read_text("utf-8")))
        if environ.get("CI_MERGE_REQUEST_IID"):
            source, target = (
                environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID"),
                environ.get("CI_MERGE_REQUEST_PROJECT_ID"),
            )
            return Change(int(environ["CI_MERGE_REQUEST_IID"]), is_closed=False, is_foreign=source != target)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed(f"The event of the pipeline can't be read: {error!r}.") from error
    return None


def _github_change(event: Mapping[str, Any]) -> Change | None:
    request = event.get("pull_request")
    if request is None:
        return None
    head, base = request["head"].get("repo"), request["base"]["repo"]  # a deleted fork has no repository
    is_foreign = head is None or head["full_name"] != base["full_name"]
    return Change(int(request["number"]), event.get("action") in _CLOSED, is_foreign)


def _gitlab_change(event: Mapping[str, Any]) -> Change | None:
    if event.get("object_kind") != "merge_request":
        return None
    found = event["object_attributes"]
    return Change(
        int(found["iid"]), found.get("action") in _CLOSED, found["source_project_id"] != found["target_project_id"]
    )


def read_comments(environ: Mapping[str, str], number: int) -> Comments | None:
    """Return where comments go, None without a token for it."""
    if environ.get("GITHUB_EVENT_PATH") and environ.get("GITHUB_TOKEN"):
        api = environ.get("GITHUB_API_URL") or "https://api.github.com"
        return GitHub(api, environ["GITHUB_REPOSITORY"], environ["GITHUB_TOKEN"], number)
    if environ.get("CI_API_V4_URL") and environ.get("LAUNCHBAY_CI_GITLAB_TOKEN"):
        project = str(int(environ["CI_PROJECT_ID"]))
        return GitLab(environ["CI_API_V4_URL"], project, environ["LAUNCHBAY_CI_GITLAB_TOKEN"], number)
    return None


# The command


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    output: str
    errors: str


def launchbay(*words: str) -> Result:
    """Run `launchbay`. Its errors also go to the log of the job."""
    done = subprocess.run(["launchbay", *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode and done.returncode != NOT_FOUND:
        sys.stderr.write(done.stderr)
    return Result(done.returncode, done.stdout, done.stderr)


def succeeded(*words: str) -> str:
    """Run `launchbay` and return its output. Raises Failed."""
    done = launchbay(*words)
    if done.code:
        raise Failed(f"launchbay {' '.join(words[:2])}: {done.errors.strip()[:2000] or f'exit code {done.code}'}")
    return done.output


def show(*words: str) -> Any:
    """Run `launchbay` and return its document, None if the object doesn't exist. Raises Failed."""
    done = launchbay(*words, "-o", "json")
    if done.code == NOT_FOUND:
        return None
    if done.code:
        raise Failed(f"launchbay {' '.join(words[:2])}: {done.errors.strip()[:2000]}")
    return json.loads(done.output)


# What it writes


def code(text: object) -> str:
    """Return any text as inline code of Markdown."""
    shown = re.sub(r"[\x00-\x1f\x7f]+", " ", str(text))[:FIELD_CHARS].replace("`", "'").replace("|", "\\|")
    return f"`{shown or ' '}`"


def fenced(text: str) -> str:
    """Return any text as a block of code, whatever backquotes it has."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text[:8000].strip()}\n{fence}"


def publish(change: Change | None, kind: str, text: str) -> None:
    """Write the summary of the job, and the comment. A comment that fails doesn't fail the job."""
    text = text if len(text) <= COMMENT_CHARS else f"{text[:COMMENT_CHARS]}\n\n(shortened)"
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    sys.stdout.write(f"{text}\n")
    if change is None:
        return
    comments = read_comments(os.environ, change.number)
    if comments is None:
        sys.stderr.write("No comment: there is no token for it.\n")
        return
    marker = f"<!-- launchbay {kind} -->"
    try:
        comments.write(marker, f"{marker}\n{text}")
    except httpx.HTTPError as error:
        sys.stderr.write(f"The comment could not be written: {error}\n")


def set_outputs(**values: object) -> None:
    """Set outputs of the step of a GitHub action, and variables of later jobs of GitLab."""
    if path := os.environ.get("GITHUB_OUTPUT"):
        with Path(path).open("a", encoding="utf-8") as file:
            for name, value in values.items():
                end = secrets.token_hex(8)  # so that no value can add an output
                file.write(f"{name}<<{end}\n{value}\n{end}\n")
    if path := os.environ.get("LAUNCHBAY_CI_DOTENV"):
        lines = (f"LAUNCHBAY_{name.upper()}={re.sub(r'[^ -~]', ' ', str(value))}\n" for name, value in values.items())
        Path(path).write_text("".join(lines), "utf-8")


# The commands of pipelines


def check(options: argparse.Namespace) -> None:
    """Validate manifests, and run their tests. Raises Failed."""
    manifests = _matching(options.manifests)
    if not manifests:
        raise Failed(f"No file matches {options.manifests!r}.")
    done = launchbay("validate", *manifests, "-o", "json", *(["--strict"] if options.strict else []))
    findings = json.loads(done.output) if done.output.strip() else {}
    found = [(file, each) for file, listed in findings.items() for each in listed]
    for file, each in found:
        _annotate(file, each)
    if path := options.code_quality:
        Path(path).write_text(json.dumps([_quality(file, each) for file, each in found]), "utf-8")
    tests = _matching(options.tests)
    tested = launchbay("test", *tests) if tests else Result(0, "", "")
    sys.stdout.write(tested.output)
    errors = sum(each["severity"] == "error" for _, each in found)
    if done.code or tested.code:
        raise Failed(f"{errors} errors in {len(manifests)} manifests; tests {'failed' if tested.code else 'passed'}.")
    sys.stdout.write(f"{len(manifests)} manifests are valid, {len(tests)} test files passed.\n")


def _matching(patterns: str) -> list[str]:
    found = {str(path) for pattern in patterns.split() for path in Path().glob(pattern) if path.is_file()}
    return sorted(f"./{path}" if path.startswith("-") else path for path in found)


def _annotate(file: str, finding: Mapping[str, Any]) -> None:
    severity, line, column = finding["severity"], finding["line"], finding["column"]
    if os.environ.get("GITHUB_ACTIONS"):
        place = (
            f"file={_escaped(file, ':,')},line={int(line)},col={int(column)},title={_escaped(finding['code'], ':,')}"
        )
        sys.stdout.write(f"::{severity} {place}::{_escaped(finding['message'])}\n")
    else:
        sys.stdout.write(f"{file}:{line}:{column}: {severity}: {finding['message']} [{finding['code']}]\n")


def _escaped(text: str, more: str = "") -> str:
    """Return a text for a command of GitHub's log, so that it can't hold another one."""
    return "".join(f"%{ord(each):02X}" if each in f"%\r\n{more}" else each for each in text)


def _quality(file: str, finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finding as GitLab's report of code quality has it."""
    identity = f"{file}:{finding['line']}:{finding['column']}:{finding['code']}"
    return {
        "description": finding["message"],
        "check_name": finding["code"],
        "fingerprint": identity,
        "severity": "major" if finding["severity"] == "error" else "minor",
        "location": {"path": file, "lines": {"begin": finding["line"]}},
    }


def preview(options: argparse.Namespace) -> None:
    """Comment what the manifest would do to the instances of an application. Changes nothing. Raises Failed."""
    change = read_change(os.environ)
    if _lacks_token(change):
        return
    impact = show("application", "preview-impact", options.application, options.manifest)
    title = f"### Launchbay: {code(options.application)} with this manifest\n\n"
    if impact is None:
        publish(change, f"preview {options.application}", f"{title}The application doesn't exist yet.")
        return
    lines = [
        f"{title}| Instances | |",
        "|---|--:|",
        f"| change | {impact['changes']} |",
        f"| keep what they have | {impact['keeps']} |",
        f"| would be refused | {impact['fails']} |",
        "",
    ]
    for group in impact["groups"][:LISTED]:
        names = ", ".join(code(each["name"]) for each in group["instances"])
        lines.append(
            f"- **{group['outcome']}** from version {group['fromVersion']}, {group['count']} instances: {names}"
        )
        lines += [f"  - runs {code(each)}" for each in group["workflows"][:LISTED]]
        lines += [f"  - {code(each)}" for each in group["errors"][:LISTED]]
    publish(change, f"preview {options.application}", "\n".join(lines))
    if impact["fails"]:
        raise Failed(f"The manifest would be refused for {impact['fails']} instances.")


def review(options: argparse.Namespace) -> None:
    """Launch or update the review environment of a request; destroy it when the request is closed. Raises Failed."""
    change = read_change(os.environ)
    if change is None:
        raise Failed("A review environment belongs to a pull or merge request, and this pipeline has none.")
    if _lacks_token(change):
        return
    if change.is_closed:
        destroy(options)
        return
    name = _review_name(options.application, change)
    environment = _environment(options.environment) if options.environment else None
    stored = show("manifest", "upload", name, options.manifest)
    if stored is None:
        succeeded("application", "create", name)
        stored = json.loads(succeeded("manifest", "upload", name, options.manifest, "-o", "json"))
    version = str(stored["version"])
    instance = show("instance", "show", name)
    if instance is not None and instance["status"] in {"Requested", "Executing", "Destroying"}:
        launchbay("wait", name, "--timeout", options.timeout)  # the job of an earlier commit
        instance = show("instance", "show", name)
    must_end = options.update == "relaunch" or (instance is not None and instance["status"] == "Failed")
    if instance is not None and environment is not None and instance["environmentId"] != environment:
        must_end = True  # an instance can't move
    if must_end and instance is not None and instance["status"] != "Destroyed":
        succeeded("destroy", name, "--yes", "--wait", "--timeout", options.timeout)
        instance = None
    parameters = [word for line in options.parameters.splitlines() if line.strip() for word in ("-p", line.strip())]
    waiting = ["--wait", "--timeout", options.timeout]
    if instance is None or instance["status"] == "Destroyed":
        place = ["--environment", options.environment] if options.environment else []
        lifetime = ["--destroy-interval", options.lifetime, "--label", f"review={change.number}"]
        place += ["--if-exists", "fail"]  # another pipeline of this request may launch at the same time
        done = launchbay("launch", name, "--name", name, "--version", version, *place, *lifetime, *parameters, *waiting)
    else:
        done = launchbay("instance", "reconfigure", name, "--manifest-version", version, *parameters, *waiting)
    sys.stdout.write(done.output)
    shown = show("instance", "show", name)
    publish(change, f"review {options.application}", _review_text(name, shown, done))
    if shown is not None:
        set_outputs(instance=shown["id"], status=shown["status"], page=_page(shown["id"]))
    if done.code:
        raise Failed(f"The review environment {name} isn't running.")


def _environment(name: str) -> str:
    """Return the ID of an environment by name or ID. Raises Failed."""
    for each in show("environment", "list") or []:
        if name in (each["id"], each["name"]):
            return str(each["id"])
    raise Failed(f"There is no environment {name}.")


def _review_text(name: str, shown: Any, done: Result) -> str:
    if shown is None:
        return f"### Launchbay: review environment {code(name)}\n\nIt was not launched.\n\n{fenced(done.errors)}"
    lines = [
        f"### Launchbay: review environment {code(name)} is {shown['status']}",
        "",
        f"[Instance]({_page(shown['id'])}), version {shown['version']}",
        "",
    ]
    lines += [f"- {code(key)}: {code(value)}" for key, value in list(shown["returnValues"].items())[:LISTED]]
    if done.code and (shown["errorMessage"] or done.errors):
        lines += ["", fenced(shown["errorMessage"] or done.errors)]
    return "\n".join(lines)


def _page(instance_id: str) -> str:
    return f"{os.environ.get('LAUNCHBAY_URL', '').rstrip('/')}/console/instances/{instance_id}"


def destroy(options: argparse.Namespace) -> None:
    """Destroy the review environment of a request, and delete its application. Raises Failed."""
    change = read_change(os.environ)
    if change is None:
        raise Failed("A review environment belongs to a pull or merge request, and this pipeline has none.")
    if _lacks_token(change):
        return
    name = _review_name(options.application, change)
    instance = show("instance", "show", name)
    if instance is not None and instance["status"] != "Destroyed":
        if instance["status"] in {"Requested", "Executing", "Destroying"}:
            launchbay("wait", name, "--timeout", options.timeout)
            instance = show("instance", "show", name)
        if instance["status"] != "Destroyed":
            succeeded("destroy", name, "--yes", "--wait", "--timeout", options.timeout)
    done = launchbay("application", "delete", name, "--yes")
    if done.code not in {0, NOT_FOUND}:
        raise Failed(f"The application {name} can't be deleted: {done.errors.strip()[:2000]}")
    publish(change, f"review {options.application}", f"### Launchbay: review environment {code(name)} is destroyed")
    set_outputs(status="Destroyed")


def _review_name(application: str, change: Change) -> str:
    return f"{application}-review-{change.number}"


def _lacks_token(change: Change | None) -> bool:
    """Whether there is no token because the request comes from a fork; then there is nothing to do."""
    if os.environ.get("LAUNCHBAY_TOKEN") or change is None or not change.is_foreign:
        return False
    sys.stdout.write("Nothing done: pipelines of forks get no token.\n")
    return True


def _parser() -> argparse.ArgumentParser:
    """Return the parser. Options have the variables LAUNCHBAY_CI_… as defaults."""
    environ = os.environ
    parser = argparse.ArgumentParser("launchbay-ci", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, *options: tuple[str, str, str]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=(run.__doc__ or "").partition(". ")[0])
        added.set_defaults(run=run)
        for option, default, about in options:
            variable = f"LAUNCHBAY_CI_{option[2:].replace('-', '_').upper()}"
            found = environ.get(variable) or default
            added.add_argument(option, default=found, required=not found and default == "", help=about)
        return added

    application = ("--application", "", "Name of the application.")
    manifest = ("--manifest", "", "File of the manifest.")
    timeout = ("--timeout", "30m", "How long to wait for a job.")
    checking = command(
        "check",
        check,
        ("--manifests", "**/manifest.yaml", "Patterns of manifests, by spaces."),
        ("--tests", "**/*.test.yml", "Patterns of test files, by spaces."),
        ("--code-quality", "-", "File for GitLab's report of code quality."),
    )
    checking.add_argument("--strict", action="store_true", default=environ.get("LAUNCHBAY_CI_STRICT") == "true")
    command("preview", preview, application, manifest)
    command(
        "review",
        review,
        application,
        manifest,
        ("--environment", "-", "Name of the environment. Default: the organization's."),
        ("--lifetime", "3d", "The review environment is destroyed after this time at the latest."),
        ("--parameters", "-", "Parameters as lines of NAME=VALUE."),
        ("--update", "reconfigure", "What a later commit does: reconfigure the instance, or relaunch it."),
        timeout,
    )
    command("destroy", destroy, application, timeout)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run a command. Return the exit code."""
    options = _parser().parse_args(words)
    for name, value in vars(options).items():
        if value == "-":
            setattr(options, name, "")
    try:
        options.run(options)
    except Failed as error:
        sys.stderr.write(f"{error}\n")
        if os.environ.get("GITHUB_ACTIONS"):
            sys.stdout.write(f"::error::{_escaped(str(error))}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
