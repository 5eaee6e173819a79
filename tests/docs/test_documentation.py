"""The pages in the package: whatever has a name has a heading, and a search finds what people type."""

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from prometheus_client import Counter as Metric
from prometheus_client import Gauge, Histogram

from docsite.build import ROOT, with_links
from launchbay import documentation
from launchbay.actions.registry import BUILT_IN
from launchbay.auth.permissions import ALIASES, Permission
from launchbay.cli.commands import ADDED
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.main import SECTIONS, main
from launchbay.cli.verbs import nouns
from launchbay.documentation import entries, explained, pages, search, slug, with_headings
from launchbay.settings import Settings
from launchbay.telemetry import metrics
from tests.support.cases import hold
from tests.support.documentation import DOCS, table_codes

NAMES = {
    "error": set(table_codes(DOCS / "reference" / "errors.md")),
    "finding": set(table_codes(DOCS / "reference" / "findings.md")),
    "setting": {field.name for field in fields(Settings)},
    "metric": {value._name for value in vars(metrics).values() if isinstance(value, Metric | Gauge | Histogram)},
    "action": {name for action in BUILT_IN for name in (action.name, *action.aliases)},
    "exit code": {str(int(code)) for code in ExitCode},
    "permission": {*Permission, *ALIASES},
    "alert": set(re.findall(r"alert: (\w+)", (ROOT / "integrations" / "monitoring" / "alerts.yml").read_text("utf-8"))),
    "command": {
        *(f"launchbay {name}" for section in SECTIONS.values() for name in section if name not in nouns()),
        *(f"launchbay {noun} {verb}" for noun in nouns() for verb in {**nouns()[noun], **ADDED.get(noun, {})}),
    },
}

LISTED_BY_AN_INDEX = ("reference/api/", "reference/cli/")


def names_of(*kinds: str) -> set[str]:
    return {entry.name for entry in entries() if entry.kind in kinds}


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind != "command"])
def test_each_name_has_its_own_heading(kind: str) -> None:
    assert names_of(kind) == NAMES[kind]


def test_each_command_has_its_own_heading() -> None:
    groups = {f"launchbay {group}" for group in ("profile", "quota", "rule")}  # their commands have the headings
    assert NAMES["command"] - groups <= names_of("command")


def helps(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of a command, and of each command below it."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield from helps(click.Context(command, info_name=name, parent=context, **command.context_settings))


def test_the_help_of_each_command_ends_with_a_page_that_exists() -> None:
    _, *commands = helps(click.Context(main, info_name="launchbay", **main.context_settings))
    assert {context.command_path for context in commands} >= NAMES["command"]
    for context in commands:
        *_, last = context.get_help().splitlines()
        start, _, page = last.strip().partition("launchbay docs ")
        assert (start, page in pages()) == ("Documentation: ", True), context.command_path


def test_the_address_of_a_code_leads_to_a_heading() -> None:
    for code in sorted(NAMES["error"] | NAMES["finding"]):
        found = explained(code)
        assert found, code
        for entry in found:
            assert entry.anchor in {section.anchor for section in pages()[entry.page].sections}, code


def test_the_address_of_an_entry_is_stable_and_its_own() -> None:
    addresses = Counter(entry.place for entry in entries() if "," not in entry.anchor)
    shared = {place for place, count in addresses.items() if count > 1}
    assert all(place.startswith(("reference/actions/", "reference/permissions")) for place in shared)  # aliases
    assert explained("InvalidParameters")[0].place == "reference/errors#invalidparameters"
    assert explained("LAUNCHBAY_PORT")[0].place == "reference/settings#port"
    assert explained("6")[0].place == "reference/exit-codes#exit-code-6-conflict"
    assert explained("instance show")[0].place == "reference/cli/instance#launchbay-instance-show"


def test_an_entry_says_what_the_row_of_the_page_says() -> None:
    (entry,) = explained("queuefull")
    assert entry.text.splitlines()[0] == "Status: 503"
    assert "**What to do.** Retry after `Retry-After`." in entry.text
    (entry,) = explained("launchbay_queue_depth")
    assert entry.text == "Type: gauge\n\nJobs of all processes that are ready to start."


def test_a_status_shows_all_its_errors() -> None:
    assert {"Conflict", "InstanceBusy"} <= {entry.name for entry in explained("409")}
    assert explained("418") == []


@pytest.mark.parametrize(
    "page", ["reference/errors", "reference/settings", "reference/metrics", "reference/exit-codes"]
)
def test_the_site_has_the_same_headings_as_the_server(page: str) -> None:
    path = DOCS / f"{page}.md"
    site = with_links(path, Path(f"{page}.md"), {})
    headings = [line.lstrip("# ") for line in site.splitlines() if line.startswith("#")]
    shown = {slug(heading) for heading in headings}
    assert {entry.anchor for entry in entries() if entry.page == page} <= shown


def test_rows_of_other_tables_and_code_stay_as_they_are() -> None:
    text = "# A\n\n| name | what |\n|---|---|\n| `x` | y |\n\n```\n| code | z |\n```\n"
    assert with_headings("reference/errors", text) == text
    assert (
        with_headings("howto/upgrade", "| code | a |\n|---|---|\n| `X` | y |") == "| code | a |\n|---|---|\n| `X` | y |"
    )


@pytest.mark.parametrize("words", ["(" * 40_000 + "a*" * 20_000, " ".join(f"w{n}" + "x" * 8_000 for n in range(10))])
def test_a_search_for_the_longest_query_costs_no_more_than_one_for_a_sentence(words: str) -> None:
    def cpu_s(query: str) -> float:
        begun = time.process_time()
        search(query)
        return time.process_time() - begun

    search("stop")  # which makes the index
    usual = min(cpu_s("stop a server that runs") for _ in range(5))
    assert min(cpu_s(f"{words} {number}") for number in range(3)) < 3 * usual


def test_a_search_for_punctuation_finds_nothing() -> None:
    assert search("... ??") == []


def test_what_a_search_shows_of_a_section_has_no_anchors() -> None:
    assert not [hit for hit in search("conditions and loops") if "<a id" in hit.excerpt]


@pytest.mark.parametrize("words", ["stuck", "timeout", "409", "cron"])
def test_a_search_for_a_symptom_begins_with_a_section_that_is_about_it(words: str) -> None:
    first = search(words)[0]
    assert words in first.section.heading.lower()
    assert words in first.section.text.lower() or words in first.section.heading.lower()


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        ("hangs", "stuck-in-executing-a-job-hangs"),
        ("disk full", "the-disk-is-full-the-database-grows"),
        ("no space left on device", "the-disk-is-full-the-database-grows"),
        ("port already in use", "the-port-is-in-use"),
        ("connection refused", "a-step-fails-connection-refused"),
        ("step can't reach http url", "a-step-fails-connection-refused"),
        ("quota is full", "a-quota-is-full-quotaexceeded"),
        ("approval expired", "stuck-because-an-approval-waits-or-expired"),
        ("certificate verify failed", "an-outgoing-request-fails-with-certificate_verify_failed"),
        ("unauthorized", "401-not-authenticated"),
        ("access denied", "403-no-permission"),
        ("forgot password", "401-not-authenticated"),
        ("rate limit exceeded", "429-too-many-requests"),
        ("500 internal server error", "500-internal-error"),
        ("job waiting for worker", "stuck-in-requested-waiting-for-a-worker"),
        ("webhook not delivered", "webhooks-do-not-arrive"),
        ("won't start", "the-server-does-not-start"),
        ("schedule did not run", "a-cron-schedule-did-not-run"),
        ("instance is gone", "the-instance-disappeared"),
    ],
)
def test_a_search_for_words_of_a_user_leads_to_the_symptom(words: str, entry: str) -> None:
    assert ("troubleshooting", entry) in [(hit.page.path, hit.section.anchor) for hit in search(words)[:3]]


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("ttl", "howto/lifetimes"),
        ("sso", "howto/sign-in-with-openid"),
        ("2fa", "howto/second-factors"),
        ("mutex", "howto/limit-jobs"),
        ("canary", "howto/change-safely"),
        ("gitops", "howto/git"),
        ("interpolation", "reference/manifest/expressions"),
        ("current time", "reference/manifest/expressions"),
        ("list parameter type syntax", "reference/manifest/pins-and-types"),
        ("keep an instance longer", "howto/lifetimes"),
        ("rbac", "reference/permissions"),
        ("invite colleague", "howto/let-people-in"),
        ("working days", "howto/recurring-schedules"),
        ("database before web", "cookbook/two-tiers"),
        ("how to move an instance to a new version", "cookbook/index"),
        ("approve before destroy", "cookbook/ask-for-approval"),
    ],
)
def test_a_search_finds_a_page_by_another_word_for_it(words: str, page: str) -> None:
    assert page in [hit.page.path for hit in search(words)][:2]


@pytest.mark.parametrize(
    ("sentence", "place"),
    [
        ("my instance was deleted by itself", "howto/lifetimes#"),
        ("the server died and I lost data, how do I get data back", "howto/restore#"),
        ("I see stars instead of my password in the log", "howto/secrets#"),
        ("how do I go back to the old version", "howto/change-safely#"),
        ("my schedule runs at the wrong hour", "howto/recurring-schedules#"),
        ("I got ssh connection refused on my machine", "howto/machines#"),
        ("my command ran but nothing happened", "troubleshooting#a-command-ran-but-nothing-happened"),
    ],
)
def test_a_sentence_finds_its_answer_among_the_first_three(sentence: str, place: str) -> None:
    found = [f"{hit.page.path}#{hit.section.anchor}" for hit in search(sentence)[:3]]
    assert [each for each in found if each.startswith(place)], found


IS_AMONG_THE_FIRST_THREE = [
    ("revert a bad release", "howto/change-safely"),
    ("go back to the previous version", "howto/change-safely"),
    ("blue-green", "howto/change-safely"),
    ("timer", "howto/recurring-schedules"),
    ("run a workflow every night", "howto/recurring-schedules"),
    ("nightly backup", "howto/back-up"),
    ("backup to S3", "howto/back-up"),
    ("where do I put a password", "howto/secrets"),
    ("api token for ci", "howto/automation-tokens"),
    ("launch hangs", "troubleshooting#stuck-in-executing-a-job-hangs"),
    ("instance stuck in Destroying", "troubleshooting#stuck-in-destroying"),
    ("job pending forever", "howto/why-a-job-waits"),
    ("behind a reverse proxy", "howto/reverse-proxy"),
    ("nginx", "howto/reverse-proxy"),
    ("uninstall", "howto/install-systemd"),
    ("GDPR", "howto/person-leaves"),
    ("cron backup", "howto/back-up"),
    ("certificate expired", "howto/harden"),
    ("downgrade failed", "troubleshooting#it-does-not-start-after-a-downgrade"),
    ("HA", "howto/failover"),
    ("LDAP", "get-started/faq#does-our-identity-provider-work"),
    ("active directory", "get-started/faq#does-our-identity-provider-work"),
    ("log shipping", "howto/monitor"),
    ("send logs to loki", "howto/monitor"),
    ("grafana dashboard", "howto/monitor#dashboard"),
    ("air gap", "howto/install-package"),
    ("install without internet", "howto/install-package#install-without-internet"),
    ("memory usage", "howto/install-package"),
    ("two servers at once", "howto/scale-out"),
    ("how do I see who changed something", "howto/see-the-past"),
    ("audit log", "howto/see-the-past"),
    ("shut down at night", "howto/sleep"),
    ("auto destroy after 2 hours", "howto/lifetimes"),
    ("dark mode", "get-started/tour"),
    ("multi tenant", "get-started/concepts"),
    ("can't reach the server", "troubleshooting#connection-refused-the-server-did-not-answer"),
    ("process in background hangs step", "cookbook/keep-a-process-running#keep-a-process-running"),
    ("who approved the destroy", "cookbook/ask-for-approval"),
    ("cancel stuck pipeline launch then destroy", "troubleshooting#stuck-in-executing"),
    ("offline", "howto/install-package"),
    ("playbook", "cookbook/run-ansible"),
    ("run an ansible playbook", "cookbook/run-ansible"),
    ("blueprint", "get-started/compare"),
    ("job template", "get-started/compare"),
    ("runner", "howto/ci"),
    ("inventory", "howto/machines"),
    ("deployment", "howto/git"),
    ("rollback", "howto/change-safely"),
    ("drift", "howto/find-drift"),
    ("vault", "howto/secret-providers"),
    ("hashicorp vault", "howto/secret-providers"),
    ("SAML", "get-started/faq"),
    ("okta", "howto/sign-in-with-openid"),
    ("azure ad groups to roles", "howto/sign-in-with-openid"),
    ("upgrade", "howto/upgrade"),
    ("backup", "howto/back-up"),
    ("cron", "troubleshooting#a-cron"),
    ("slack", "howto/webhooks"),
    ("proxy", "howto/reverse-proxy"),
    ("corporate http proxy for outgoing requests", "reference/outgoing"),
    ("quota", "troubleshooting#a-quota-is-full"),
    ("quota exceeded", "reference/errors#quotaexceeded"),
    ("terraform", "howto/terraform"),
    ("helm chart values", "cookbook/install-a-chart"),
    ("docker run", "cookbook/run-a-container"),
    ("docker compose", "howto/install-container"),
    ("kubernetes cluster credentials", "howto/kubernetes"),
    ("namespace per tenant", "get-started/concepts"),
    ("playbook variables", "cookbook/run-ansible"),
    ("environment variables", "howto/configure"),
    ("workflow inputs", "reference/manifest/workflows"),
    ("for loop", "cookbook/repeat-for-a-list"),
    ("if else", "cookbook/skip-a-step"),
    ("skip a step when a parameter is false", "cookbook/skip-a-step"),
    ("run steps in parallel", "reference/manifest/workflows"),
    ("retry failed step with delay", "reference/manifest/workflows"),
    ("ignore error and continue", "cookbook/clean-up"),
    ("try catch finally", "cookbook/clean-up"),
    ("manual approval gate", "cookbook/ask-for-approval"),
    ("four eyes", "howto/change-safely"),
    ("add a user", "howto/let-people-in"),
    ("reset admin password", "howto/let-people-in"),
    ("disable user account of leaver", "howto/person-leaves"),
    ("read only access for auditors", "howto/let-people-in"),
    ("change the port", "howto/configure"),
    ("enable https", "howto/harden"),
    ("lets encrypt", "howto/reverse-proxy"),
    ("use external postgres", "howto/configure"),
    ("prometheus scrape", "howto/monitor"),
    ("email notifications", "cookbook/tell-people"),
    ("smtp", "reference/settings#smtp"),
    ("pause all schedules", "howto/recurring-schedules"),
    ("move to another server", "howto/move-an-organization"),
    ("clone an instance", "reference/permissions#read"),
    ("restart all instances", "howto/repair-many"),
    ("run a command on many instances at once", "howto/repair-many"),
    ("change parameters of running instance", "cookbook/index#cookbook"),
    ("see what a change would do before applying", "howto/plan-changes"),
    ("export everything to git", "howto/apply-a-directory"),
    ("test manifest without server", "howto/test-a-manifest"),
    ("mock http response in tests", "howto/test-a-manifest"),
    ("pass output of one step to the next", "reference/manifest/workflows"),
    ("ssh private key for machines", "howto/machines"),
    ("host key changed", "troubleshooting#the-host-key-changed"),
    ("bastion jump host", "howto/jump-hosts"),
    ("windows hosts", "howto/machines"),
    ("aws credentials", "howto/clouds"),
    ("openstack", "howto/clouds"),
    ("orphaned vms after failed launch", "howto/clouds"),
    ("claude", "howto/agents"),
    ("mcp server", "howto/agents"),
    ("python sdk", "reference/client"),
    ("api pagination", "howto/use-curl"),
    ("idempotency key", "howto/use-curl"),
    ("shell completion", "reference/cli/get-started#launchbay-completion"),
    ("exit status in scripts", "reference/exit-codes"),
    ("workflow keeps running forever", "troubleshooting#stuck-in-executing"),
    ("instance stays in Failed, what now", "troubleshooting#a-launch-ends-as-failed"),
    ("cannot destroy instance because it is used by another", "troubleshooting#409-conflict"),
    ("destroy failed", "troubleshooting#stuck-in-destroying"),
    ("too many open files", "howto/alerts#launchbayconnectionsrefused"),
    ("too many connections to database", "howto/connection-pooler"),
    ("database is down", "howto/failover"),
    ("413 payload too large", "reference/errors#toolarge"),
    ("502 bad gateway", "troubleshooting#413-502-or-504-from-a-proxy"),
    ("live log does not update", "howto/reverse-proxy"),
    ("invalid redirect uri", "howto/sign-in-with-openid"),
    ("session expired every few minutes", "howto/harden"),
    ("token has expired", "howto/automation-tokens"),
    ("lost my second factor phone", "howto/second-factors"),
    ("secret shown in plain text in log", "howto/secrets"),
    ("wrong key after restore", "troubleshooting#wrong-secret-key"),
    ("console is slow", "howto/all-cores"),
    ("launches are slow", "howto/all-cores"),
    ("worker died in the middle of a job", "troubleshooting#stuck-in-requested-waiting-for-a-worker"),
    ("step ran twice", "troubleshooting#a-command-ran-but-nothing-happened"),
    ("timed out launch cancel", "troubleshooting#stuck-in-executing"),
    ("step exceeded its timeout", "troubleshooting#a-step-fails-with-a-timeout"),
    ("my job never ends", "troubleshooting#stuck-in-executing"),
    ("my job never finishes", "troubleshooting#stuck-in-executing"),
    ("password shown in logs", "howto/secrets"),
    ("launch times out in pipeline", "howto/pipelines"),
    ("change went back by itself", "howto/change-safely"),
    ("cron did not fire", "troubleshooting#a-cron-schedule-did-not-run"),
    ("cannot reach private ip", "troubleshooting#an-outgoing-request-is-refused"),
    ("server rejects my admin password", "troubleshooting#the-server-does-not-start"),
    ("machine already in use port", "troubleshooting#the-port-is-in-use"),
    ("yaml syntax error line column", "reference/findings"),
    ("unknown action", "reference/findings#unknownaction"),
    ("instance was deleted at night by itself", "howto/lifetimes"),
    ("two people edited the same thing and changes were lost", "howto/change-without-overwriting"),
    ("merge conflict 412", "howto/change-without-overwriting"),
    ("webhook signature verification", "howto/webhooks"),
    ("git webhook not triggering", "howto/git"),
    ("clock skew", "howto/scale-out"),
    ("license", "get-started/faq"),
    ("how many instances can it handle", "howto/scale-out"),
    ("delete old logs", "howto/keep-history"),
    ("disk usage grows", "howto/keep-history"),
    ("rolling restart", "howto/upgrade"),
    ("certificate runs out", "howto/alerts"),
    ("employee left the company", "howto/person-leaves"),
    ("limit how many apps a team can create", "reference/settings"),
    ("azure login", "howto/sign-in-with-openid"),
    ("how often to back up", "howto/back-up"),
    ("database password changed", "howto/configure"),
    ("settings file permissions", "howto/configure"),
    ("workers die", "howto/alerts"),
    ("who changed what", "howto/see-the-past"),
    ("database is newer than this version", "howto/upgrade"),
    ("pgbouncer prepared statement error", "howto/connection-pooler"),
    ("log rotation", "howto/monitor"),
    ("how much memory do I need", "howto/install-package"),
    ("own certificate authority", "howto/harden"),
    ("self signed certificate cli", "troubleshooting#connection-refused"),
    ("change smtp server", "troubleshooting#an-email-does-not-arrive"),
    ("worker crashed", "howto/scale-out"),
    ("graceful shutdown", "howto/scale-out"),
    ("run a shell command on the server", "howto/local-machines"),
    ("start a web server in a step", "cookbook/keep-a-process-running"),
    ("wait for a port", "cookbook/wait-until-ready"),
    ("connection refused while service starts", "cookbook/wait-until-ready"),
    ("pass output of one step to another", "reference/manifest/workflows"),
    ("optional parameter", "reference/manifest/pins-and-types"),
    ("web needs database first", "cookbook/two-tiers"),
    ("nightly backup cron", "cookbook/run-on-a-schedule"),
    ("add a second user", "howto/let-people-in"),
    ("maximum lifetime", "howto/lifetimes"),
    ("approve with command line", "cookbook/ask-for-approval"),
    ("different values for test and production", "cookbook/one-manifest-many-environments"),
    ("read json response in next step", "cookbook/call-an-api"),
]


def test_a_search_for_other_words_finds_the_page_among_the_first_three() -> None:
    hold(_is_among_the_first_three, IS_AMONG_THE_FIRST_THREE)


def _is_among_the_first_three(words: str, place: str) -> None:
    found = [f"{hit.page.path}#{hit.section.anchor}" for hit in search(words)[:3]]
    assert [each for each in found if each.startswith(place)], found


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("terraform plan exit code", "reference/exit-codes"),
        ("env var secrets", "howto/server-secrets"),
        ("rename an instance", "get-started/faq#can-i-rename-an-instance"),
        ("freeze deployments", "howto/stop-the-line"),
        ("promote to production", "howto/promote"),
        ("detect drift", "howto/find-drift"),
        ("import existing infrastructure", "howto/adopt"),
        ("okta provisioning", "howto/scim"),
        ("policy as code", "howto/rules"),
        ("vault secrets in a step", "howto/secret-providers"),
        ("see what terraform would delete", "howto/plan-changes"),
        ("assume aws role without keys", "howto/cloud-roles"),
        ("deny deployments on friday", "howto/rules"),
        ("how to install", "howto/install-package"),
        ("start the server", "howto/configure"),
        ("give a colleague access", "howto/let-people-in"),
        ("create an api token", "howto/automation-tokens"),
        ("call the api from python", "reference/client"),
        ("run a command over ssh", "cookbook/use-existing-hosts"),
        ("retry a failed step", "cookbook/try-again"),
        ("if condition in a step", "cookbook/skip-a-step"),
        ("loop over hosts", "cookbook/repeat-for-a-list"),
        ("deploy to kubernetes", "cookbook/install-a-chart"),
        ("deploy a new version", "cookbook/index"),
        ("share a database between applications", "cookbook/use-another-application"),
        ("start a process in the background", "cookbook/keep-a-process-running"),
        ("who destroyed my instance", "troubleshooting#the-instance-disappeared"),
        ("where are the logs", "howto/monitor"),
        ("cancel a job", "howto/why-a-job-waits"),
        ("change the admin password", "howto/let-people-in"),
        ("scale workers", "howto/scale-out"),
        ("nginx", "howto/reverse-proxy"),
        ("outputs of a workflow", "reference/manifest/workflows"),
    ],
)
def test_a_search_for_what_people_type_finds_its_page_first(words: str, place: str) -> None:
    first = search(words)[0]
    assert f"{first.page.path}#{first.section.anchor}".startswith(place)


def test_without_fts5_a_search_warns_and_finds_the_sections_with_all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutFts5(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if "fts5" in statement:
                raise sqlite3.OperationalError("no such module: fts5")
            return super().execute(statement, *values)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=WithoutFts5))
    documentation._index.cache_clear()
    try:
        with pytest.warns(UserWarning, match="no FTS5"):
            found = search("rotate key")
        assert "howto/rotate-the-key" in {hit.page.path for hit in found}
        assert {hit.missing for hit in found[:3]} == {()}
        assert search("zzxqy") == []
    finally:
        documentation._index.cache_clear()


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("Error: The email address or the password is wrong.", "howto/let-people-in#replace-a-forgotten-password"),
        (
            "http://127.0.0.1:8080 did not answer: [Errno 111] Connection refused. Is the server up?",
            "troubleshooting#connection-refused-the-server-did-not-answer",
        ),
        ("Missing required parameter: input.key.", "troubleshooting#unknown-parameter"),
        ("Can't delete an instance in status Running. Destroy it first.", "reference/errors#instanceactive"),
        (
            "The instance has no earlier configuration to roll back to.",
            "reference/errors#nogeneration",
        ),
        ("None of your roles grants CreateInstance. Your roles: Guest.", "troubleshooting#403-no-permission"),
        ("Other users can read the secret key file /data/key.", "troubleshooting#wrong-secret-key"),
    ],
)
def test_a_message_that_is_pasted_whole_finds_what_explains_it(message: str, place: str) -> None:
    found = [f"{hit.page.path}#{hit.section.anchor}" for hit in search(f'"{message}"')[:3]]
    assert [each for each in found if each.startswith(place)], found


def test_a_page_is_described_by_its_first_sentence() -> None:
    assert pages()["howto/back-up"].description == "Back up the database to a file while servers run"
    assert [path for path, page in pages().items() if page.title and "---" in page.text.splitlines()[:1]] == []


def test_a_search_finds_all_words_and_leaves_out_what_records_the_making() -> None:
    found = search("rotate key")
    assert found
    whole = [hit for hit in found if not hit.missing]
    assert whole
    assert found[: len(whole)] == whole
    assert all("rotat" in (hit.page.title + hit.section.heading + hit.section.text).lower() for hit in whole)
    assert {hit.page.path for hit in search("module", 100)} & {"contribute/modules", "contribute/conformance"} == set()
    assert search("ROTATE Key") == found
    assert [hit.section for hit in search("rotate zzxqy key")] == [hit.section for hit in found]
    assert {hit.missing for hit in search("rotate zzxqy key")[: len(whole)]} == {("zzxqy",)}
    assert search("how to rotate the key") == found
    assert search("") == []
    assert search("zzxqy") == []


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("InvalidParameters", "reference/errors#invalidparameters"),
        ("UnknownComponent", "reference/findings#unknowncomponent"),
        ("port", "reference/settings#port"),
        ("approval", "reference/actions/waiting#approval"),
        ("Read", "reference/permissions#read"),
        ("exit code 3", "reference/exit-codes#exit-code-3-not_found"),
        ("launchbay launch", "reference/cli/common#launchbay-launch"),
    ],
)
def test_a_search_for_a_name_finds_its_entry_first_and_then_what_else_has_it(name: str, place: str) -> None:
    first, *others = search(name)
    assert f"{first.page.path}#{first.section.anchor}" == place
    assert others


def test_the_menu_has_every_page_once() -> None:
    listed = [each.path for part in documentation.menu() for each in part.pages]
    by_an_index = {page for page in pages() if page.startswith(LISTED_BY_AN_INDEX) and not page.endswith("/index")}
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) == set(pages()) - by_an_index


def test_no_level_of_the_menu_has_more_than_nine_entries() -> None:
    assert len(documentation.menu()) <= 9
    for part in documentation.menu():
        assert len({each.group or each.path for each in part.pages}) <= 9, part.title
        assert max(Counter(each.group for each in part.pages if each.group).values(), default=0) <= 9, part.title


def test_old_addresses_lead_to_pages() -> None:
    assert {target for target in documentation.MOVED.values() if target not in pages()} == set()
    assert {old for old in documentation.MOVED if old in pages()} == set()


def test_the_wheel_takes_the_pages_from_the_folder_that_a_checkout_reads() -> None:
    assert documentation.folder() == ROOT / "docs"
