import datetime

from obey_client._generated.obey.v1 import access_pb2 as _access_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_STATE_UNSPECIFIED: _ClassVar[SessionState]
    SESSION_STATE_NEEDS_YOU: _ClassVar[SessionState]
    SESSION_STATE_FAILED: _ClassVar[SessionState]
    SESSION_STATE_WORKING: _ClassVar[SessionState]
    SESSION_STATE_QUIET: _ClassVar[SessionState]
    SESSION_STATE_DONE: _ClassVar[SessionState]
    SESSION_STATE_IDLE: _ClassVar[SessionState]
    SESSION_STATE_ENDED: _ClassVar[SessionState]
SESSION_STATE_UNSPECIFIED: SessionState
SESSION_STATE_NEEDS_YOU: SessionState
SESSION_STATE_FAILED: SessionState
SESSION_STATE_WORKING: SessionState
SESSION_STATE_QUIET: SessionState
SESSION_STATE_DONE: SessionState
SESSION_STATE_IDLE: SessionState
SESSION_STATE_ENDED: SessionState

class OverviewFilter(_message.Message):
    __slots__ = ("include_ended", "campaign", "session_ids", "include_archived")
    INCLUDE_ENDED_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    include_ended: bool
    campaign: str
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    include_archived: bool
    def __init__(self, include_ended: _Optional[bool] = ..., campaign: _Optional[str] = ..., session_ids: _Optional[_Iterable[str]] = ..., include_archived: _Optional[bool] = ...) -> None: ...

class WatchOverviewRequest(_message.Message):
    __slots__ = ("filter",)
    FILTER_FIELD_NUMBER: _ClassVar[int]
    filter: OverviewFilter
    def __init__(self, filter: _Optional[_Union[OverviewFilter, _Mapping]] = ...) -> None: ...

class ListOverviewRequest(_message.Message):
    __slots__ = ("filter",)
    FILTER_FIELD_NUMBER: _ClassVar[int]
    filter: OverviewFilter
    def __init__(self, filter: _Optional[_Union[OverviewFilter, _Mapping]] = ...) -> None: ...

class ListOverviewResponse(_message.Message):
    __slots__ = ("revision", "sessions")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    sessions: _containers.RepeatedCompositeFieldContainer[SessionOverview]
    def __init__(self, revision: _Optional[int] = ..., sessions: _Optional[_Iterable[_Union[SessionOverview, _Mapping]]] = ...) -> None: ...

class OverviewUpdate(_message.Message):
    __slots__ = ("revision", "snapshot", "sessions", "removed", "machine")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    revision: int
    snapshot: bool
    sessions: _containers.RepeatedCompositeFieldContainer[SessionOverview]
    removed: _containers.RepeatedScalarFieldContainer[str]
    machine: str
    def __init__(self, revision: _Optional[int] = ..., snapshot: _Optional[bool] = ..., sessions: _Optional[_Iterable[_Union[SessionOverview, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ..., machine: _Optional[str] = ...) -> None: ...

class SessionOverview(_message.Message):
    __slots__ = ("session_id", "name", "campaign", "campaign_id", "folder", "branch", "provider", "model", "mode", "state", "cause", "reason", "since", "evidence", "requests", "last_line", "tokens", "cost_micro_usd", "budget", "todos_done", "todos_all", "machine", "status", "last_seq", "created_at", "seen", "parent_id", "turns", "last_turn", "archived", "queued")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    LAST_LINE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    TODOS_DONE_FIELD_NUMBER: _ClassVar[int]
    TODOS_ALL_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    LAST_TURN_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    name: str
    campaign: str
    campaign_id: str
    folder: str
    branch: str
    provider: str
    model: str
    mode: str
    state: SessionState
    cause: str
    reason: str
    since: _timestamp_pb2.Timestamp
    evidence: SessionEvidence
    requests: _containers.RepeatedCompositeFieldContainer[OverviewRequest]
    last_line: str
    tokens: int
    cost_micro_usd: int
    budget: SessionBudget
    todos_done: int
    todos_all: int
    machine: str
    status: str
    last_seq: int
    created_at: _timestamp_pb2.Timestamp
    seen: bool
    parent_id: str
    turns: int
    last_turn: str
    archived: bool
    queued: int
    def __init__(self, session_id: _Optional[str] = ..., name: _Optional[str] = ..., campaign: _Optional[str] = ..., campaign_id: _Optional[str] = ..., folder: _Optional[str] = ..., branch: _Optional[str] = ..., provider: _Optional[str] = ..., model: _Optional[str] = ..., mode: _Optional[str] = ..., state: _Optional[_Union[SessionState, str]] = ..., cause: _Optional[str] = ..., reason: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., evidence: _Optional[_Union[SessionEvidence, _Mapping]] = ..., requests: _Optional[_Iterable[_Union[OverviewRequest, _Mapping]]] = ..., last_line: _Optional[str] = ..., tokens: _Optional[int] = ..., cost_micro_usd: _Optional[int] = ..., budget: _Optional[_Union[SessionBudget, _Mapping]] = ..., todos_done: _Optional[int] = ..., todos_all: _Optional[int] = ..., machine: _Optional[str] = ..., status: _Optional[str] = ..., last_seq: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., seen: _Optional[bool] = ..., parent_id: _Optional[str] = ..., turns: _Optional[int] = ..., last_turn: _Optional[str] = ..., archived: _Optional[bool] = ..., queued: _Optional[int] = ...) -> None: ...

class SessionEvidence(_message.Message):
    __slots__ = ("process_alive", "last_event_at", "cpu_ms", "cpu_ms_in_silence")
    PROCESS_ALIVE_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_AT_FIELD_NUMBER: _ClassVar[int]
    CPU_MS_FIELD_NUMBER: _ClassVar[int]
    CPU_MS_IN_SILENCE_FIELD_NUMBER: _ClassVar[int]
    process_alive: bool
    last_event_at: _timestamp_pb2.Timestamp
    cpu_ms: int
    cpu_ms_in_silence: int
    def __init__(self, process_alive: _Optional[bool] = ..., last_event_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., cpu_ms: _Optional[int] = ..., cpu_ms_in_silence: _Optional[int] = ...) -> None: ...

class OverviewRequest(_message.Message):
    __slots__ = ("request_id", "kind", "tool", "text", "asked_at")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    kind: str
    tool: str
    text: str
    asked_at: _timestamp_pb2.Timestamp
    def __init__(self, request_id: _Optional[str] = ..., kind: _Optional[str] = ..., tool: _Optional[str] = ..., text: _Optional[str] = ..., asked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SessionBudget(_message.Message):
    __slots__ = ("max_tokens", "tokens_left", "ends_at", "cost_micro_usd", "cost_left_micro_usd", "work_ms", "work_left_ms", "calls", "calls_left")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_LEFT_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    COST_LEFT_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    WORK_MS_FIELD_NUMBER: _ClassVar[int]
    WORK_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CALLS_LEFT_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    tokens_left: int
    ends_at: _timestamp_pb2.Timestamp
    cost_micro_usd: int
    cost_left_micro_usd: int
    work_ms: int
    work_left_ms: int
    calls: int
    calls_left: int
    def __init__(self, max_tokens: _Optional[int] = ..., tokens_left: _Optional[int] = ..., ends_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., cost_micro_usd: _Optional[int] = ..., cost_left_micro_usd: _Optional[int] = ..., work_ms: _Optional[int] = ..., work_left_ms: _Optional[int] = ..., calls: _Optional[int] = ..., calls_left: _Optional[int] = ...) -> None: ...

class MarkSeenRequest(_message.Message):
    __slots__ = ("session_id", "seq")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    seq: int
    def __init__(self, session_id: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...

class MarkSeenResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: SessionOverview
    def __init__(self, session: _Optional[_Union[SessionOverview, _Mapping]] = ...) -> None: ...
