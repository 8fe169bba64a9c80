"""All routes of the pages, in order."""

from fastapi import APIRouter

from stripewise.server.pages import account, assets, comparing, drawings, experiment, knobs, new, overview

router = APIRouter(include_in_schema=False)
for part in (overview, new, experiment, drawings, comparing, knobs, account, assets):
    router.include_router(part.router)
