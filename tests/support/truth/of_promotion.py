"""What each surface shows of orders of environments, and of which version is where."""

import json
from typing import Any

from tests.support.service import accepted
from tests.support.truth.comparisons import View, comparison
from tests.support.truth.oracle import Oracle, Row, ms


def _own(oracle: Oracle, owner_id: str) -> Row | None:
    return next((row for row in oracle.tables["promotion_orders"] if row["owner_id"] == owner_id), None)


def _document(oracle: Oracle, row: Row | None, *, is_own: bool) -> dict[str, Any]:
    if row is None:
        return {"stages": [], "own": False, "byEmail": None, "at": None}
    stages = [
        {
            "environmentId": each["environment_id"],
            "soak": 1_000 * each.get("soak_s", 0),
            "workflows": each.get("workflows", []),
            "approvals": each.get("approvals", 0),
            "automatic": each.get("automatic", False),
        }
        for each in json.loads(row["stages"])
    ]
    by = oracle.users[row["author_id"]]["email"]
    return {"stages": stages, "own": is_own, "byEmail": by, "at": ms(row["created_at"])}


@comparison
async def orders_and_boards(view: View) -> None:
    """Compare orders, and per environment the versions of the instances that are there."""
    oracle = view.oracle
    if oracle.only is not None:
        return  # who may read what is in the matrix of permissions
    organization = oracle.organization
    everywhere = _own(oracle, organization)
    path = f"{view.root}/promotion-order"
    view.same(path, accepted(await view.caller.get(path)), _document(oracle, everywhere, is_own=False))
    for each in oracle.applications:
        own = _own(oracle, each)
        path, order = f"applications/{each}/promotion", own or everywhere
        wanted = _document(oracle, order, is_own=own is not None)
        view.same(f"{path}-order", accepted(await view.caller.get(f"{path}-order")), wanted)
        shown = accepted(await view.caller.get(path))["environments"]
        view.same(path, [one["environmentId"] for one in shown], [one["environmentId"] for one in wanted["stages"]])
        for column in shown:
            there = {
                key: row["version"]
                for key, row in oracle.living.items()
                if (row["application_id"], row["environment_id"]) == (each, column["environmentId"])
                and row["parent_id"] is None
            }
            where = f"{path}, {column['environmentId']}"
            view.same(f"{where}, number", len(column["instances"]) + column["moreInstances"], len(there))
            listed = {one["id"]: one["version"] for one in column["instances"]}
            view.same(f"{where}, versions", listed, {one: there.get(one) for one in listed})
