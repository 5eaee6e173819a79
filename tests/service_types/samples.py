"""A service type with everything that a type can have."""

from collections.abc import Mapping
from typing import Any

from launchbay.model.types import BOOL, INT, OBJECT, STRING, ListType
from launchbay.service_types.contract import (
    CommandArgument,
    FieldMessages,
    ParameterScope,
    ServiceCall,
    ServiceCommand,
    ServiceParameter,
    command_pins,
)


class Oracle:
    """Answers questions, and tells its secrets to whoever asks for them by a command."""

    id = "test:oracle"
    name = "Oracle"
    parameters: Mapping[str, ServiceParameter] = {
        "place": ServiceParameter(STRING, "Where.", required=True),
        "riddle": ServiceParameter(STRING, "A secret.", secret=True),
        "keys": ServiceParameter(OBJECT, "More secrets.", secret=True),
        "hours": ServiceParameter(ListType(INT), "When."),
    }
    commands: Mapping[str, ServiceCommand] = {
        "ask": ServiceCommand(
            "oracle",
            "Answers.",
            arguments={
                "question": CommandArgument(STRING, "What.", required=True),
                "aloud": CommandArgument(BOOL, "How."),
                "to": CommandArgument(ListType(STRING), "Whom."),
            },
            intermediate={"murmur": STRING},
            results={"answer": OBJECT},
        ),
        "reveal": ServiceCommand("oracle", "Tells the secrets.", results={"parameters": OBJECT}),
    }
    interfaces = command_pins(commands)

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:
        if parameters["place"] == scope.previous.get("place"):
            return {}
        wrong = [] if parameters["place"] in {"Delphi", "Dodona"} else ["There is no oracle there."]
        return {"place": wrong, "riddle": [] if parameters.get("riddle") != "easy" else ["Too easy."]}

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        if command == "reveal":
            return {"parameters": dict(call.parameters)}
        for murmur in ("hm", "well"):
            call.report({"murmur": murmur})
        return {"answer": dict(call.arguments)}
