"""What a site's policy leaves of an artifact's tunables."""

from __future__ import annotations

from dataclasses import replace

from stripewise.model.artifact.content import Artifact, ArtifactInput
from stripewise.spec.formats import TUNABLE
from stripewise.spec.policy import Policy


def within(policy: Policy, artifact: Artifact) -> Artifact:
    """Leave out values of layouts that the site does not allow; the default stays, as it is what a file has anyway.

    Returns
    -------
    Artifact
        The same object if nothing is left out.
    """
    inputs = tuple(_allowed(policy, entry) if entry.kind == TUNABLE else entry for entry in artifact.inputs)
    same = all(new is old for new, old in zip(inputs, artifact.inputs, strict=True))
    return artifact if same else replace(artifact, inputs=inputs)


def _allowed(policy: Policy, entry: ArtifactInput) -> ArtifactInput:
    if entry.carrier != "layout" and entry.role != "stripe_count":
        return entry
    name = entry.role if entry.role == "stripe_count" else entry.key
    default = entry.values[entry.default]
    kept = tuple(
        value
        for value in entry.values
        if value is default or policy.allowed_values(name, [value.spelling if entry.categorical else value.number])
    )
    return entry if len(kept) == len(entry.values) else replace(entry, values=kept, default=kept.index(default))
