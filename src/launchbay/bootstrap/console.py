"""The console, wired to the same desk as the HTTP API beside it."""

from launchbay.actions.registry import Registry
from launchbay.auth.throttle import RateLimits
from launchbay.console.app import create_console, is_of_console
from launchbay.console.request import OtherSignIn, Outside
from launchbay.settings import Settings
from launchbay.web.api.sign_in import START_FOR_CONSOLE
from launchbay.web.app import Pages
from launchbay.web.problems import log_failure, status_of
from launchbay.web.requests import Services


def console_pages(settings: Settings, services: Services, actions: Registry) -> Pages:
    """Return the console, and which paths it answers."""
    desk = services.desk
    console = create_console(
        Outside(
            desk=desk,
            base_url=settings.base_url,
            known_actions=tuple(sorted(actions.names())),
            known_types=tuple(sorted(desk.runnable_types)),
            status_of=status_of,
            log_failure=log_failure,
            limits=RateLimits(
                desk.clock,
                address_per_s=settings.rate_limit_address_per_s,
                user_per_s=settings.rate_limit_user_per_s,
                burst_s=settings.rate_limit_burst_s,
            ),
            sign_in_ways=() if services.openid is None else (OtherSignIn(settings.oidc_name, START_FOR_CONSOLE),),
        )
    )
    return Pages(console, is_of_console)
