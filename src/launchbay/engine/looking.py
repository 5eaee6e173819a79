"""An idle instance looks again at the signals of the instances that it stands on (manifest-language §7: "at once").

No job is needed for that, and none shows in the history: signals are taken over, return values follow, and what they
trigger is put into the queue, all in the transaction of the stager's round, which holds the instance.
"""

from datetime import datetime

import msgspec

from launchbay.auth.secret_key import SecretKey, TextSeal
from launchbay.engine.aftermath import Moment, aftermath
from launchbay.engine.assembly import links_of
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import expanded, scalers
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.signals import linked_components, linked_signals, return_values
from launchbay.runtime.state import STATE_VERSION, InstanceState
from launchbay.store import schedules
from launchbay.store.database import Connection


async def look(
    connection: Connection, instance_id: str, manifest: CompiledManifest, now: datetime, secret_key: SecretKey
) -> None:
    """Take over the signals of linked instances, and queue what follows. The caller holds the idle instance."""
    onlooker = await schedules.onlooker(connection, instance_id=instance_id)
    assert onlooker is not None, "the caller holds the instance"
    secrets = Secrets(TextSeal(secret_key, onlooker.organization_id))
    state = InstanceState.from_text(secrets.opened_json(onlooker.state))
    manifest = expanded(manifest, {path: state.quantity(path) for path in scalers(manifest)})
    links = links_of(onlooker.links)
    targets = [link.instance_id for link in links.values() if link.is_instance]
    published = {
        row.id: secrets.opened(msgspec.json.decode(row.return_values))
        for row in await schedules.linked_values(connection, instance_ids=targets)
    }
    for component, link in linked_components(manifest, links):
        if state.is_launched(component.path):
            for pin, value in linked_signals(component, link, published.get(link.instance_id, {})):
                state.publish(component.path, pin.interface, pin.name, value)
    values_now = return_values(manifest, state)
    moment = Moment(
        manifest=manifest,
        state=state,
        fed=secrets.opened(msgspec.json.decode(onlooker.fed_signals)),
        links=links,
        values_before=secrets.opened(msgspec.json.decode(onlooker.return_values)),
        values_now=values_now,
        secrets=secrets,
    )
    follows = aftermath(moment, now)
    await schedules.write_look(
        connection,
        instance_id=instance_id,
        state=secrets.sealed_json(state.to_text()),
        state_version=STATE_VERSION,
        return_values=msgspec.json.encode(secrets.sealed(values_now)).decode(),
        **follows.columns(),
    )
