"""An example for the help of each command, with values of an invented shop."""

import shlex
from collections.abc import Mapping

import click

# What a command does most often, without "launchbay". The others are made of the parameters that they require.
_EXAMPLES: Mapping[str, str] = {
    "access-token create": "access-token create --name ci --days 30 --scope 'Read: [/*]'",
    "application create": "application create shop",
    "application launch": "application launch shop --environment lab -p input.size=3",
    "application preview-impact": "application preview-impact shop manifest.yml",
    "application rename": "application rename shop store",
    "application set-concurrency": "application set-concurrency shop '{\"limit\": 2}'",
    "application set-lifetime": "application set-lifetime shop --default-ms 2h --greatest-ms 7d",
    "application set-promotion-order": "application set-promotion-order shop --stages @stages.json",
    "application set-rules": "application set-rules shop @rules.yml",
    "application set-sleep": 'application set-sleep shop --windows \'[{"sleepAt": "20:00", "wakeAt": "07:00", '
    '"zone": "Europe/Berlin"}]\'',
    "apply": "apply ./organization --dry-run",
    "approval approve": "approval approve 6a1f0c9d2b7e4a5083d6c1f2 --comment 'Looks right'",
    "approval reject": "approval reject 6a1f0c9d2b7e4a5083d6c1f2 --comment 'After the sale'",
    "audit list": "audit list --since 2d",
    "backup": "backup launchbay.backup",
    "bulk create": "bulk create resume --last Failed --label team=web --dry-run",
    "bulk wait": "bulk wait 6a1f0c9d2b7e4a5083d6c1f2 --timeout 30m",
    "change-set create": "change-set create destroy --instance shop-3",
    "change-set wait": "change-set wait 6a1f0c9d2b7e4a5083d6c1f2 --timeout 30m",
    "demo": "demo --port 8080",
    "destroy": "destroy shop-3 --wait",
    "diff": "diff shop@3 shop@4",
    "docs": "docs howto/lifetimes",
    "doctor": "doctor",
    "edit": "edit manifest shop",
    "environment clone": "environment clone lab --name staging",
    "environment create": "environment create lab",
    "environment preview-impact": "environment preview-impact lab --policies @policies.yml",
    "environment rename": "environment rename lab staging",
    "environment set-audiences": "environment set-audiences lab vault sts.amazonaws.com",
    "environment set-change-policy": "environment set-change-policy lab --approvals 1",
    "environment set-concurrency": 'environment set-concurrency lab \'{"limit": 20}\' \'{"key": "application", '
    '"limit": 5}\'',
    "environment set-lifetime": "environment set-lifetime lab --default-ms 2h --greatest-ms 7d",
    "environment set-markers": "environment set-markers lab production",
    "environment set-policies": "environment set-policies lab policies.yml",
    "environment set-rules": "environment set-rules lab @rules.yml",
    "environment set-sleep": 'environment set-sleep lab --windows \'[{"sleepAt": "20:00", "wakeAt": "07:00", '
    '"zone": "Europe/Berlin"}]\'',
    "explain": "explain InstanceBusy",
    "export": "export ./organization",
    "failures": "failures --environment lab",
    "git-source apply": "git-source apply 6a1f0c9d2b7e4a5083d6c1f2 3f786850e387550fdab836ed7e6dc881de23001b",
    "git-source create": "git-source create shop 6a1f0c9d2b7e4a5083d6c1f2 "
    "https://git.example.org/shop.git --branch main",
    "git-source receive-event": "git-source receive-event 6a1f0c9d2b7e4a5083d6c1f2 '{}'",
    "git-source update": "git-source update 6a1f0c9d2b7e4a5083d6c1f2 shop 6a1f0c9d2b7e4a5083d6c1f2 "
    "https://git.example.org/shop.git --branch main",
    "instance extend": "instance extend shop-3 12h",
    "instance keep-awake": "instance keep-awake shop-3 --awake-until +4h",
    "instance list": "instance list --application shop --status Running",
    "instance log": "instance log shop-3 --follow",
    "instance offer": "instance offer shop-3 lab",
    "instance preview": "instance preview shop-3 -p input.size=5",
    "instance reconfigure": "instance reconfigure shop-3 -p input.size=5 --wait",
    "instance reveal": "instance reveal shop-3 password --reason incident-42",
    "instance run": "instance run shop-3 manage.scale quantity=4 --wait",
    "instance schedule": "instance schedule shop-3 manage.back-up 2h",
    "instance set-destroy-at": "instance set-destroy-at shop-3 +8h",
    "instance wait": "instance wait shop-3 --timeout 10m",
    "invitation accept": "invitation accept Harbour",
    "invitation decline": "invitation decline Harbour",
    "job compare": "job compare shop-3#4 shop-3#7",
    "job find": "job find 6a1f0c9d2b7e4a5083d6c1f2",
    "job wait": "job wait 6a1f0c9d2b7e4a5083d6c1f2 --timeout 10m",
    "launch": "launch shop --name shop-3 --environment lab -p input.size=3 --wait",
    "login": "login https://launchbay.example.org",
    "logs": "logs shop-3 --follow",
    "organization set-promotion-order": "organization set-promotion-order --stages @stages.json",
    "organization create": "organization create Harbour",
    "organization export": "organization export archive.json",
    "organization put-object": "organization put-object vault --kind service --content @service.yml",
    "organization rename": "organization rename Harbour",
    "organization set-group-roles": 'organization set-group-roles \'{"operators": ["Operator"]}\'',
    "organization set-rules": "organization set-rules @rules.yml",
    "organization set-views": 'organization set-views \'{"name": "Failed", "query": "last:failed"}\'',
    "page accept-invitation": "page accept-invitation TOKEN",
    "page invitation": "page invitation TOKEN",
    "page second-factor": "page second-factor --token TOKEN --code 123456",
    "profile remove": "profile remove staging",
    "profile set": "profile set output json",
    "profile use": "profile use staging",
    "ps": "ps --last Failed --label team=web",
    "recurring-schedule create": "recurring-schedule create Nightly --cron '30 4 * * *' --zone Europe/Berlin "
    "--instance shop-3 --workflow manage.back-up",
    "recurring-schedule update": "recurring-schedule update Nightly Nightly --cron '0 5 * * *' --starts-at "
    "2026-12-24T18:00",
    "restore": "restore launchbay.backup",
    "revision create": "revision create shop stable --version 4",
    "revision update": "revision update shop/stable --version 5",
    "role create": "role create Operator --permissions @role.yml",
    "role update": "role update Operator Operator --permissions @role.yml",
    "promote": "promote shop --from staging --to production --dry-run",
    "rollback": "rollback shop-3 --dry-run",
    "rollout create": "rollout create shop --version 4 --waves 1 --waves 10%",
    "rollout wait": "rollout wait 6a1f0c9d2b7e4a5083d6c1f2 --timeout 30m",
    "rotate-identity-key": "rotate-identity-key",
    "rotate-secret-key": "rotate-secret-key",
    "rule test": "rule test production.test.yml",
    "run": "run shop-3 manage.scale quantity=4 --wait",
    "serve": "serve --host 127.0.0.1 --port 8080",
    "service create": "service create vault builtin:cobalt_secure_store",
    "service test-provider": "service test-provider vault lab --paths secret/shop#password",
    "service reveal": "service reveal vault password --reason incident-42",
    "service run": "service run vault store.get-keys size=3",
    "service update": "service update vault --name secrets",
    "service-account create": "service-account create ci --roles Guest",
    "service-account update": "service-account update 6a1f0c9d2b7e4a5083d6c1f2 --name ci",
    "status": "status shop-3",
    "test": "test manifest.yml",
    "token create": "token create --name ci --days 30 --scope 'Read: [/*]'",
    "token exchange": "token exchange lbr_TOKEN",
    "user create": "user create Ann --email ann@example.org --roles Guest",
    "validate": "validate manifest.yml",
    "wait": "wait shop-3 --timeout 10m --no-wait-approval",
    "webhook create": "webhook create https://example.org/hook --events job --events approval",
    "webhook update": "webhook update 6a1f0c9d2b7e4a5083d6c1f2 --events job",
    "worker": "worker",
}
_NAMED = {
    "application": "shop",
    "approval": "6a1f0c9d2b7e4a5083d6c1f2",
    "archive": "archive.json",
    "file": "archive.json",
    "environment": "lab",
    "instance": "shop-3",
    "job": "last",
    "number": "27",
    "organization": "harbour",
    "other": "shop-4",
    "revision": "shop/stable",
    "role": "Operator",
    "service": "vault",
    "services": "vault",
    "token": "ci",
    "user": "ann@example.org",
    "version": "4",
    "workflow": "manage.scale",
}
_OTHERS = {
    "act": "resume",
    "cron": "30 4 * * *",
    "current_password": "old-password",
    "email": "ann@example.org",
    "host": "10.0.0.7",
    "interval": "2h",
    "kind": "run",
    "name": "nightly",
    "password": "new-password",
    "path": "/applications/shop",
    "permission": "Read",
    "permissions": "@role.yml",
    "properties": "@properties.yml",
    "reason": "incident-42",
    "roles": "Operator",
    "shell": "bash",
    "text": "manifest.yml",
    "url": "https://example.org/hook",
    "zone": "Europe/Berlin",
}
_METAVARS = {
    "DURATION": "2h",
    "FILE": "manifest.yml",
    "NAME=VALUE": "size=3",
    "[NAME=VALUE]...": "size=3",
    "TIME": "2026-12-24T18:00",
}


def example_of(path: str, command: click.Command) -> str:
    """Return a command line for the command with a path such as `instance show`."""
    known = _EXAMPLES.get(path)
    if known is not None:
        return f"launchbay {known}"
    words = [*path.split()]
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            words.append(_value(parameter))
        elif parameter.required and isinstance(parameter, click.Option):
            flag = max(parameter.opts, key=len)
            words += [flag] if parameter.is_flag else [flag, _value(parameter)]
    return f"launchbay {shlex.join(words)}"


def _value(parameter: click.Parameter) -> str:
    name = (parameter.name or "").removesuffix("_id")
    if isinstance(parameter.type, click.Choice):
        return str(parameter.type.choices[0])
    if name in _NAMED:
        return _NAMED[name]
    if parameter.metavar in _METAVARS:
        return _METAVARS[parameter.metavar]
    if name in _OTHERS:
        return _OTHERS[name]
    if isinstance(parameter.type, click.types.IntParamType):
        return "3"
    return "6a1f0c9d2b7e4a5083d6c1f2" if (parameter.name or "").endswith("_id") else name.replace("_", "-")
