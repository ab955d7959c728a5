"""What calls return, and how messages of the daemon become it. Does no I/O."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Mapping

import grpc

from ._generated.obey.local.v1 import daemon_pb2 as local
from ._generated.obey.v1 import event_pb2
from ._generated.obey.v1 import obey_pb2 as pb
from ._generated.obey.v1 import overview_pb2 as overview

#: The metadata key of calls whose message has no field for the client's key.
KEY_METADATA = "x-obey-client-key"

#: Failures after which the same call may be sent again.
RETRYABLE = (grpc.StatusCode.UNAVAILABLE,)

PROVIDERS = {
    "claude-code": local.SESSION_PROVIDER_CLAUDE_CODE,
    "openclaw": local.SESSION_PROVIDER_OPENCLAW,
    "codex": local.SESSION_PROVIDER_CODEX,
    "openai-api": local.SESSION_PROVIDER_OPENAI_API,
    "acp": local.SESSION_PROVIDER_ACP,
    "scripted": local.SESSION_PROVIDER_SCRIPTED,
}


class ObeyError(Exception):
    """A call that the daemon refused, or that could not be made. `code` is such as OBEY-2001; empty: not from obey."""

    def __init__(self, code: str, status: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code
        self.status = status
        self.message = message

    @classmethod
    def of(cls, error: grpc.RpcError) -> ObeyError:
        metadata = {key: value for key, value in (error.trailing_metadata() or ())}
        return cls(str(metadata.get("obey-code", "")), error.code(), error.details() or "")


@dataclass(frozen=True)
class Ping:
    version: str
    hostname: str
    pid: int


@dataclass(frozen=True)
class Campaign:
    """A registered project folder."""

    id: str
    name: str
    path: str


@dataclass(frozen=True)
class Session:
    """A conversation with one agent in one folder."""

    id: str
    name: str
    status: str
    provider: str
    model: str
    campaign_id: str
    working_dir: str
    error: str
    tokens_input: int
    tokens_output: int


@dataclass(frozen=True)
class Overview:
    """A session as lists show it."""

    session_id: str
    name: str
    #: needs_you, failed, working, quiet, done, idle or ended.
    state: str
    reason: str
    last_seq: int


@dataclass(frozen=True)
class Event:
    """One entry of a session's journal. Numbers start at 1 and have no gaps."""

    seq: int
    type: str
    at: datetime
    session_id: str
    #: The fields of this type, such as `text` of a `text_delta`.
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A permission or a question that waits for an answer."""

    id: str
    session_id: str
    #: permission or question.
    kind: str
    tool: str
    title: str
    input: Mapping[str, Any]
    #: Question id to its text.
    questions: Mapping[str, str]
    #: What may be remembered with an allowance: id to what it covers.
    proposals: Mapping[str, str]
    #: Empty while it waits.
    outcome: str
    settled_by: str


@dataclass(frozen=True)
class Sent:
    """A prompt that the daemon has stored."""

    #: Empty while it waits in the queue.
    turn_id: str
    #: The number of the event that records it: follow from the one before.
    seq: int
    #: The entry in the queue; empty: it was not queued.
    queued: str


def default_address() -> str:
    """Where the daemon of this user listens."""
    if socket := os.environ.get("OBEY_SOCKET"):
        return f"unix:{socket}"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = f"{runtime}/obey" if runtime.startswith("/") else f"/tmp/obey-{os.getuid()}"
    return f"unix:{folder}/daemon.sock"


def new_key() -> str:
    """A key under which a call takes effect once, however often it is sent."""
    return str(uuid.uuid4())


def provider_number(name: str) -> int:
    try:
        return PROVIDERS[name]
    except KeyError:
        known = ", ".join(PROVIDERS)
        raise ValueError(f"provider: {name!r} is not known; use one of {known}") from None


def session(message: local.SessionInfo) -> Session:
    names = {number: name for name, number in PROVIDERS.items()}
    status = local.SessionStatus.Name(message.status).removeprefix("SESSION_STATUS_").lower()
    return Session(
        id=message.id,
        name=message.agent_name,
        status=status,
        provider=names.get(message.provider, str(message.provider)),
        model=message.model,
        campaign_id=message.campaign_id,
        working_dir=message.working_dir,
        error=message.error_message,
        tokens_input=message.tokens_input,
        tokens_output=message.tokens_output,
    )


def campaign(message: pb.Campaign) -> Campaign:
    return Campaign(id=message.id, name=message.name, path=message.path)


def event(message: event_pb2.Event) -> Event:
    data = json.loads(message.json) if message.json else {}
    at = message.at.ToDatetime(tzinfo=timezone.utc)
    return Event(seq=message.seq, type=message.type, at=at, session_id=message.session_id, data=data)


def request(message: pb.Request) -> Request:
    return Request(
        id=message.id,
        session_id=message.session_id,
        kind=pb.RequestKind.Name(message.kind).removeprefix("REQUEST_KIND_").lower(),
        tool=message.tool_name,
        title=message.title,
        input=json.loads(message.input_json) if message.input_json else {},
        questions={question.id: question.text for question in message.questions},
        proposals={proposal.id: proposal.text for proposal in message.proposals},
        outcome=message.outcome,
        settled_by=message.settled_by,
    )


def overview_row(message: overview.SessionOverview) -> Overview:
    state = overview.SessionState.Name(message.state).removeprefix("SESSION_STATE_").lower()
    return Overview(
        session_id=message.session_id,
        name=message.name,
        state=state,
        reason=message.reason,
        last_seq=message.last_seq,
    )


def new_session(
    campaign_id: str,
    provider: str,
    model: str,
    name: str,
    mode: str,
    max_tokens: int,
    provider_config: Mapping[str, str] | None,
) -> local.CreateSessionRequest:
    config = dict(provider_config or {})
    if mode:
        config["permission_mode"] = mode
    return local.CreateSessionRequest(
        campaign_id=campaign_id,
        provider=provider_number(provider),
        model=model,
        agent_name=name,
        max_tokens=max_tokens,
        provider_config=config,
    )


def decision(allow: bool, remember: bool, stop: bool) -> int:
    if allow:
        return pb.DECISION_ALLOW_SESSION if remember else pb.DECISION_ALLOW_ONCE
    return pb.DECISION_DENY_AND_STOP if stop else pb.DECISION_DENY
