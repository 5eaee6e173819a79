"""What a manifest needs of an environment, and whether it gets it."""

from launchbay.manifest.services import unmet_needs
from launchbay.model.environment import EnvironmentView
from tests.manifest.compiling import compiled

NEEDY = """
    application:
      components:
        env:
          type: reference.Service
          interfaces:
            properties: {region: publish-signal(string)}
            gpu: {gpu: publish-signal(unit)}
        w:
          type: workflow.Instance
          required: REQUIRED
          interfaces: {properties: {region: consume-signal(string)}, gpu: {gpu: consume-signal(unit)}}
      bindings: [[w, env]]
"""


def test_required_markers_and_properties_that_are_missing_are_each_named() -> None:
    needy = compiled(NEEDY.replace("REQUIRED", "[properties, gpu]"))
    problems = unmet_needs(needy, EnvironmentView())
    assert len(problems) == 2
    assert "no marker 'gpu'" in problems[0]
    assert "no property 'region'" in problems[1]
    assert all("Add it to the environment." in problem for problem in problems)


def test_what_the_environment_offers_is_no_problem() -> None:
    needy = compiled(NEEDY.replace("REQUIRED", "[properties, gpu]"))
    assert unmet_needs(needy, EnvironmentView(markers=["gpu"], properties={"region": None})) == []


def test_what_is_not_required_may_be_missing() -> None:
    assert unmet_needs(compiled(NEEDY.replace("REQUIRED", "[]")), EnvironmentView()) == []


def test_policies_belong_to_the_action_that_they_name() -> None:
    view = EnvironmentView(policies={"wait.delay": 1, "wait.retryCount": 2, "waitPeers.timeout": 3, "plain": 4})
    assert view.step_policies("wait") == {"delay": 1, "retryCount": 2}
    assert view.step_policies("nothing") == {}
