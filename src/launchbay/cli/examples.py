"""An example for the help of each command: its arguments and required options with values of an invented shop."""

import shlex
from collections.abc import Mapping

import click

# What a command does most often, without "launchbay". The others are made of the parameters that they require.
_EXAMPLES: Mapping[str, str] = {
    "access-token create": "access-token create ci --days 30 --scope 'Read: [/*]'",
    "application create": "application create shop",
    "application launch": "application launch shop --environment lab -p input.size=3",
    "apply": "apply ./organization --dry-run",
    "bulk create": "bulk create resume --last Failed --label team=web --dry-run",
    "change-set create": "change-set create destroy --instance shop-3",
    "demo": "demo --port 8080",
    "destroy": "destroy shop-3 --wait",
    "docs": "docs howto/lifetimes",
    "doctor": "doctor",
    "explain": "explain InstanceBusy",
    "export": "export ./organization",
    "git-source create": "git-source create --application shop --url https://git.example.org/shop.git",
    "instance extend": "instance extend shop-3 12h",
    "instance list": "instance list --application shop --status Running",
    "instance log": "instance log shop-3 --follow",
    "instance reconfigure": "instance reconfigure shop-3 -p input.size=5 --wait",
    "instance run": "instance run shop-3 manage.scale quantity=4 --wait",
    "instance schedule": "instance schedule shop-3 manage.back-up --interval 2h",
    "instance wait": "instance wait shop-3 --timeout 10m",
    "launch": "launch shop --name shop-3 --environment lab -p input.size=3 --wait",
    "login": "login https://launchbay.example.org",
    "logs": "logs shop-3 --follow",
    "ps": "ps --last Failed --label team=web",
    "recurring-schedule create": "recurring-schedule create nightly '30 4 * * *' run --instance shop-3 "
    "--workflow manage.back-up --zone Europe/Berlin --starts-at 2026-12-24T18:00",
    "rollback": "rollback shop-3 --dry-run",
    "rollout create": "rollout create shop 4 --waves 1 --waves 10%",
    "run": "run shop-3 manage.scale quantity=4 --wait",
    "serve": "serve --host 127.0.0.1 --port 8080",
    "status": "status shop-3",
    "token create": "token create --name ci --days 30 --scope 'Read: [/*]'",
    "wait": "wait shop-3 --timeout 10m --no-wait-approval",
    "worker": "worker",
}
_NAMED = {
    "application": "shop",
    "approval": "6a1f0c9d2b7e4a5083d6c1f2",
    "archive": "archive.json",
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
_HIDDEN = ("password",)  # options that ask if they are left out


def example_of(path: str, command: click.Command) -> str:
    """Return a command line for a command by its path below `launchbay`, such as `instance show`."""
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
