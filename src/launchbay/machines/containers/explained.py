"""What a refusal of the engine means for the author of a manifest."""

import httpx

from launchbay.errors import ActionFailed
from launchbay.machines.containers.engine_api import EngineRefused


def explained(error: EngineRefused, image: str) -> ActionFailed:
    """Return the refusal of a container, with what to do where its image is missing."""
    told = str(error).lower()
    if error.status == httpx.codes.NOT_FOUND and ("image" in told or image.lower() in told):
        return ActionFailed(
            f"The container engine has no image {image!r}.",
            "An administrator brings it there, as with 'podman pull' or 'docker pull'; nothing is pulled by itself.",
            retryable=False,
        )
    return error
