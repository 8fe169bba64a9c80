"""The resources of the service: each module answers JSON under ``/api`` and pages from the same data."""

from stripewise.desk.server.resource import Resource
from stripewise.desk.server.resources import (
    applications,
    campaigns,
    diagnoses,
    experiment_page,
    experiments,
    models,
    prescriptions,
    runs,
    stacks,
    status,
    tables,
    tokens,
)
from stripewise.desk.server.resources import (
    new_experiment as new,
)

_MODULES = (
    *(tokens, experiments, experiment_page, runs, new, status, tables, models, prescriptions),
    *(campaigns, diagnoses, applications, stacks),
)
RESOURCES = [found for module in _MODULES for found in vars(module).values() if isinstance(found, Resource)]
"""Every resource that the application serves; a new module is added above."""
