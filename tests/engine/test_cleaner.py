"""What has served its time goes, and nothing else."""

from launchbay.engine.retention import Cleaner
from launchbay.ids import new_id
from tests.engine.bay import Bay

TOKEN = (
    "INSERT INTO refresh_tokens (id, user_id, label, token_hash, expires_at)"
    " VALUES (%s, %s, %s, sha256(%s::bytea), now() + %s * interval '1 hour')"
)


async def test_refresh_tokens_go_a_day_after_their_end(bay: Bay) -> None:
    user_id = new_id()
    async with bay.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO users (id, email, name) VALUES (%s, %s, 'Ada')", [user_id, f"{user_id}@example.org"]
        )
        for label, hours in (("long over", -25), ("just over", -1), ("good", 24)):
            await connection.execute(TOKEN, [new_id(), user_id, label, label, hours])
    assert not await Cleaner(bay.database).clean(), "nothing more is to be done at once"
    async with bay.database.connection() as connection:
        left = await connection.execute("SELECT label FROM refresh_tokens WHERE user_id = %s ORDER BY 1", [user_id])
        assert await left.fetchall() == [("good",), ("just over",)]
