"""The variables that a workflow's expressions see (manifest-language §5, "Scope of a workflow")."""

from collections.abc import Collection, Mapping
from typing import Any

from launchbay.manifest.graph import Workflow
from launchbay.manifest.paths import Scope


class WorkflowScope:
    """One workflow run's variables. Later sources win: parameter defaults, configuration pins by bare name, values
    returned by earlier workflows of the component, arguments, step outputs.

    Pins that are `always_configured` are not hidden by returned values (`manifest/workflow_rules.py`).
    """

    def __init__(
        self,
        workflow: Workflow,
        configuration: Mapping[str, Any],
        returned_before: Mapping[str, Any],
        arguments: Mapping[str, Any],
        always_configured: Collection[str] = (),
    ) -> None:
        variables: dict[str, Any] = {
            name: parameter.default for name, parameter in workflow.parameters.items() if parameter.has_default
        }
        configured = {key.rpartition(".")[2]: value for key, value in configuration.items()}
        variables.update(configured)
        variables.update(returned_before)
        variables.update({name: configured[name] for name in always_configured if name in configured})
        variables.update(arguments)
        self._variables = variables
        self._inner: dict[str, Mapping[str, Any]] = {}

    @property
    def values(self) -> Scope:
        """Return the scope in the form that templates evaluate against."""
        return Scope(self._variables, self._inner)

    @property
    def variables(self) -> Mapping[str, Any]:
        """Return the variables by name."""
        return self._variables

    def set(self, variable: str, value: Any) -> None:
        """Set a variable to a step's output."""
        self._variables[variable] = value

    def set_inner(self, step: str, variables: Mapping[str, Any]) -> None:
        """Make the variables of the macro that a step called reachable as `{$.step~variable}` (§6)."""
        self._inner[step] = variables
