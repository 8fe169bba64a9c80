"""All routes of the pages, in order."""

from fastapi import APIRouter

from stripewise.server.pages import (
    account,
    assets,
    campaigns,
    comparing,
    diagnoses,
    drawings,
    experiment,
    knobs,
    knowledge,
    new,
    overview,
)

router = APIRouter(include_in_schema=False)
for part in (
    overview, new, experiment, drawings, comparing, knowledge, campaigns, diagnoses, knobs, account, assets,
):  # fmt: skip
    router.include_router(part.router)
