"""Client for obey: start agents, follow every event, answer permission requests, resume after a cut."""

from ._async import AsyncObeyClient
from ._sync import ObeyClient
from ._types import Campaign, Event, ObeyError, Overview, Ping, Request, Sent, Session, default_address, new_key

__all__ = [
    "AsyncObeyClient",
    "Campaign",
    "Event",
    "ObeyClient",
    "ObeyError",
    "Overview",
    "Ping",
    "Request",
    "Sent",
    "Session",
    "default_address",
    "new_key",
]
