"""Speaks to a service: a thin client over HTTP, and a store of experiments that is far away."""

from stripewise.desk.client.client import Client
from stripewise.desk.client.transport import ServiceError

__all__ = ["Client", "ServiceError"]
