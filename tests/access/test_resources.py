import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth import permissions
from launchbay.errors import BadRequest

SEGMENT = st.text(st.characters(exclude_characters="/"), min_size=1, max_size=6)


@given(SEGMENT, SEGMENT, st.text(min_size=1, max_size=8))
def test_the_text_of_a_path_reads_back_as_the_same_path(application: str, instance: str, workflow: str) -> None:
    for resource in (
        permissions.application(application),
        permissions.instance(application, instance),
        permissions.workflow(application, instance, workflow),
        permissions.environment(application),
        permissions.service(application),
        permissions.role(application),
        permissions.user(application),
    ):
        assert permissions.parse_resource(str(resource)) == resource


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "applications/a",
        "/applications",
        "/applications/",
        "/machines/m",
        "/applications/a/instances",
        "/applications/a/revisions/r",
        "/applications/a/instances/i/steps/s",
        "/applications/a/instances/i/workflows/",
        "/environments/e/instances/i",
    ],
)
def test_what_names_no_object_is_refused_with_the_forms_that_do(text: str) -> None:
    with pytest.raises(BadRequest, match=r"A path is /applications/\{id\}"):
        permissions.parse_resource(text)
