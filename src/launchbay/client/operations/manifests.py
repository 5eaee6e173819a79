"""Operations of the API: manifests.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import Findings, ManifestVersion, RefreshedVersion, VersionItem


@operation(
    Row(
        id="replace_manifest",
        method="PUT",
        path="/api/1/applications/{appId}/manifest",
        media_type="application/x-yaml",
    )
)
def replace_manifest(application_id: str, text: str) -> Call[ManifestVersion]:
    """Replaces the manifest; the new text becomes the newest version.

    Needs: EditApplication.
    """
    return Call(ManifestVersion, (application_id,), body=text)


@operation(
    Row(
        id="read_manifest",
        method="GET",
        path="/api/1/applications/{appId}/manifest",
        answer="application/x-yaml",
        about={"version": "The version; the newest one if left out."},
    )
)
def read_manifest(application_id: str, *, version: int | None = None) -> Call[str]:
    """Reads a manifest version as it was given.

    Needs: Read.

    `version`: The version; the newest one if left out.
    """
    return Call(str, (application_id,), query={"version": version})


@operation(
    Row(
        id="validate_manifest",
        method="POST",
        path="/api/1/manifests/validate",
        media_type="application/x-yaml",
        repeatable=True,
    )
)
def validate_manifest(text: str) -> Call[Findings]:
    """Checks a manifest and returns its errors and warnings; stores nothing.

    Needs: None: everybody may check a text of their own.
    """
    return Call(Findings, body=text)


@list_operation(Row(id="list_manifests", method="GET", path="/api/1/applications/{appId}/manifests"))
def list_manifests(application_id: str) -> Call[list[VersionItem]]:
    """Lists the manifest versions of an application.

    Needs: Read.
    """
    return Call(list[VersionItem], (application_id,))


@operation(
    Row(
        id="set_manifest_source",
        method="PUT",
        path="/api/1/applications/{appId}/manifestSource",
        media_type="application/json",
    )
)
def set_manifest_source(application_id: str, *, url: str) -> Call[ManifestVersion]:
    """Loads the manifest from a URL from now on; what is there becomes the newest version.

    Needs: EditApplication.
    """
    return Call(ManifestVersion, (application_id,), body=given({"url": url}))


@operation(
    Row(
        id="refresh_manifest", method="POST", path="/api/1/applications/{appId}/manifestSource/refresh", repeatable=True
    )
)
def refresh_manifest(application_id: str) -> Call[RefreshedVersion]:
    """Loads the manifest from its URL again; what has changed becomes the newest version.

    Needs: EditApplication.
    """
    return Call(RefreshedVersion, (application_id,))
