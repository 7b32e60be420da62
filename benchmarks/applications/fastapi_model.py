"""FastAPI with a response model."""

from typing import Annotated

import fastapi
import pydantic

from benchmarks.work import ANNOUNCEMENT, PATH, RECORDS_OF, SESSIONS, Record


class Condition(pydantic.BaseModel):
    """When a notification is sent."""

    measure: str
    operator: str
    value: int
    currency: str


class Notification(pydantic.BaseModel):
    """A record."""

    id: str
    name: str
    kind: str
    schedule: str
    recipients: list[str]
    condition: Condition
    createdOn: str
    comment: str


application = fastapi.FastAPI()


@application.get(PATH, response_model=list[Notification])
async def notifications(
    response: fastapi.Response,
    authorization: Annotated[str, fastapi.Header()] = "",
    session_id: Annotated[str | None, fastapi.Query(alias="sessionId")] = None,
) -> list[Record]:
    """Return the records of the session's user."""
    user = SESSIONS.get(authorization.removeprefix("Bearer ") if session_id is None else session_id)
    if user is None:
        raise fastapi.HTTPException(401, headers=ANNOUNCEMENT)
    response.headers.update(ANNOUNCEMENT)
    return RECORDS_OF[user]
