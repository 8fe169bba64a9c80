"""What a launch asks of the site file: a site without one costs a launch no schema, which are slow to load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stripewise.requests.site_file import find_site_file

if TYPE_CHECKING:
    from stripewise.requests.policy import Policy


UNLESS_SAID = ("composite",)
"""What is allowed of layouts where no site file says otherwise: what a user may do with ``lfs setstripe``, too."""


def site_folder(name: str, environment: Mapping[str, str]) -> Path | None:
    """Give a folder of the site file, ``state`` or ``cache``; None where it says nothing.

    Raises
    ------
    UserError
        See :func:`stripewise.requests.policy.load_policy` and :meth:`stripewise.requests.policy.Policy.folder`.
    """
    policy = _policy(environment)
    return None if policy is None else policy.folder(name, environment)


def site_allowances(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Give what a site allows of layouts; see :attr:`stripewise.requests.policy.Policy.allowances`.

    Raises
    ------
    UserError
        See :func:`stripewise.requests.policy.load_policy`.
    """
    policy = _policy(environment)
    return UNLESS_SAID if policy is None else policy.allowances


def _policy(environment: Mapping[str, str]) -> Policy | None:
    if find_site_file(environment) is None:
        return None
    from stripewise.requests.policy import load_policy  # noqa: PLC0415  schemas are slow to load

    return load_policy(environment)
