import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_STATUS_UNSPECIFIED: _ClassVar[SessionStatus]
    SESSION_STATUS_CREATED: _ClassVar[SessionStatus]
    SESSION_STATUS_STARTING: _ClassVar[SessionStatus]
    SESSION_STATUS_RUNNING: _ClassVar[SessionStatus]
    SESSION_STATUS_WORKING: _ClassVar[SessionStatus]
    SESSION_STATUS_STOPPING: _ClassVar[SessionStatus]
    SESSION_STATUS_STOPPED: _ClassVar[SessionStatus]
    SESSION_STATUS_FAILED: _ClassVar[SessionStatus]

class SessionProvider(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_PROVIDER_UNSPECIFIED: _ClassVar[SessionProvider]
    SESSION_PROVIDER_CLAUDE_CODE: _ClassVar[SessionProvider]
    SESSION_PROVIDER_OPENCLAW: _ClassVar[SessionProvider]
    SESSION_PROVIDER_CODEX: _ClassVar[SessionProvider]
    SESSION_PROVIDER_OPENAI_API: _ClassVar[SessionProvider]
    SESSION_PROVIDER_ACP: _ClassVar[SessionProvider]
    SESSION_PROVIDER_SCRIPTED: _ClassVar[SessionProvider]
    SESSION_PROVIDER_EXTERNAL: _ClassVar[SessionProvider]

class ActivityType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTIVITY_TYPE_UNSPECIFIED: _ClassVar[ActivityType]
    ACTIVITY_TYPE_THINKING: _ClassVar[ActivityType]
    ACTIVITY_TYPE_TOOL_CALL: _ClassVar[ActivityType]
    ACTIVITY_TYPE_TOOL_RESULT: _ClassVar[ActivityType]
    ACTIVITY_TYPE_COMPLETION: _ClassVar[ActivityType]
    ACTIVITY_TYPE_ERROR: _ClassVar[ActivityType]
    ACTIVITY_TYPE_STATUS: _ClassVar[ActivityType]
    ACTIVITY_TYPE_TEXT: _ClassVar[ActivityType]

class CampaignEventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAMPAIGN_EVENT_TYPE_UNSPECIFIED: _ClassVar[CampaignEventType]
    CAMPAIGN_EVENT_TYPE_CREATED: _ClassVar[CampaignEventType]
    CAMPAIGN_EVENT_TYPE_UPDATED: _ClassVar[CampaignEventType]
    CAMPAIGN_EVENT_TYPE_DELETED: _ClassVar[CampaignEventType]
    CAMPAIGN_EVENT_TYPE_PROJECT_ADDED: _ClassVar[CampaignEventType]
    CAMPAIGN_EVENT_TYPE_PROJECT_REMOVED: _ClassVar[CampaignEventType]

class FestivalEventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FESTIVAL_EVENT_TYPE_UNSPECIFIED: _ClassVar[FestivalEventType]
    FESTIVAL_EVENT_TYPE_CREATED: _ClassVar[FestivalEventType]
    FESTIVAL_EVENT_TYPE_STATUS_CHANGED: _ClassVar[FestivalEventType]
    FESTIVAL_EVENT_TYPE_PHASE_CHANGED: _ClassVar[FestivalEventType]
    FESTIVAL_EVENT_TYPE_SEQUENCE_STARTED: _ClassVar[FestivalEventType]
    FESTIVAL_EVENT_TYPE_SEQUENCE_COMPLETED: _ClassVar[FestivalEventType]
    FESTIVAL_EVENT_TYPE_TASK_STARTED: _ClassVar[FestivalEventType]
    FESTIVAL_EVENT_TYPE_TASK_COMPLETED: _ClassVar[FestivalEventType]
    FESTIVAL_EVENT_TYPE_TASK_FAILED: _ClassVar[FestivalEventType]
    FESTIVAL_EVENT_TYPE_TASK_BLOCKED: _ClassVar[FestivalEventType]
SESSION_STATUS_UNSPECIFIED: SessionStatus
SESSION_STATUS_CREATED: SessionStatus
SESSION_STATUS_STARTING: SessionStatus
SESSION_STATUS_RUNNING: SessionStatus
SESSION_STATUS_WORKING: SessionStatus
SESSION_STATUS_STOPPING: SessionStatus
SESSION_STATUS_STOPPED: SessionStatus
SESSION_STATUS_FAILED: SessionStatus
SESSION_PROVIDER_UNSPECIFIED: SessionProvider
SESSION_PROVIDER_CLAUDE_CODE: SessionProvider
SESSION_PROVIDER_OPENCLAW: SessionProvider
SESSION_PROVIDER_CODEX: SessionProvider
SESSION_PROVIDER_OPENAI_API: SessionProvider
SESSION_PROVIDER_ACP: SessionProvider
SESSION_PROVIDER_SCRIPTED: SessionProvider
SESSION_PROVIDER_EXTERNAL: SessionProvider
ACTIVITY_TYPE_UNSPECIFIED: ActivityType
ACTIVITY_TYPE_THINKING: ActivityType
ACTIVITY_TYPE_TOOL_CALL: ActivityType
ACTIVITY_TYPE_TOOL_RESULT: ActivityType
ACTIVITY_TYPE_COMPLETION: ActivityType
ACTIVITY_TYPE_ERROR: ActivityType
ACTIVITY_TYPE_STATUS: ActivityType
ACTIVITY_TYPE_TEXT: ActivityType
CAMPAIGN_EVENT_TYPE_UNSPECIFIED: CampaignEventType
CAMPAIGN_EVENT_TYPE_CREATED: CampaignEventType
CAMPAIGN_EVENT_TYPE_UPDATED: CampaignEventType
CAMPAIGN_EVENT_TYPE_DELETED: CampaignEventType
CAMPAIGN_EVENT_TYPE_PROJECT_ADDED: CampaignEventType
CAMPAIGN_EVENT_TYPE_PROJECT_REMOVED: CampaignEventType
FESTIVAL_EVENT_TYPE_UNSPECIFIED: FestivalEventType
FESTIVAL_EVENT_TYPE_CREATED: FestivalEventType
FESTIVAL_EVENT_TYPE_STATUS_CHANGED: FestivalEventType
FESTIVAL_EVENT_TYPE_PHASE_CHANGED: FestivalEventType
FESTIVAL_EVENT_TYPE_SEQUENCE_STARTED: FestivalEventType
FESTIVAL_EVENT_TYPE_SEQUENCE_COMPLETED: FestivalEventType
FESTIVAL_EVENT_TYPE_TASK_STARTED: FestivalEventType
FESTIVAL_EVENT_TYPE_TASK_COMPLETED: FestivalEventType
FESTIVAL_EVENT_TYPE_TASK_FAILED: FestivalEventType
FESTIVAL_EVENT_TYPE_TASK_BLOCKED: FestivalEventType

class CreateSessionRequest(_message.Message):
    __slots__ = ("campaign_id", "provider", "model", "agent_name", "festival_id", "task_id", "provider_config", "environment", "max_tokens", "timeout", "initial_message")
    class ProviderConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    FESTIVAL_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    INITIAL_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    provider: SessionProvider
    model: str
    agent_name: str
    festival_id: str
    task_id: str
    provider_config: _containers.ScalarMap[str, str]
    environment: _containers.ScalarMap[str, str]
    max_tokens: int
    timeout: _duration_pb2.Duration
    initial_message: str
    def __init__(self, campaign_id: _Optional[str] = ..., provider: _Optional[_Union[SessionProvider, str]] = ..., model: _Optional[str] = ..., agent_name: _Optional[str] = ..., festival_id: _Optional[str] = ..., task_id: _Optional[str] = ..., provider_config: _Optional[_Mapping[str, str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., max_tokens: _Optional[int] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., initial_message: _Optional[str] = ...) -> None: ...

class CreateSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: SessionInfo
    def __init__(self, session: _Optional[_Union[SessionInfo, _Mapping]] = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("campaign_id", "statuses", "provider", "include_terminated")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_TERMINATED_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    statuses: _containers.RepeatedScalarFieldContainer[SessionStatus]
    provider: SessionProvider
    include_terminated: bool
    def __init__(self, campaign_id: _Optional[str] = ..., statuses: _Optional[_Iterable[_Union[SessionStatus, str]]] = ..., provider: _Optional[_Union[SessionProvider, str]] = ..., include_terminated: _Optional[bool] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionInfo]
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionInfo, _Mapping]]] = ...) -> None: ...

class SendMessageRequest(_message.Message):
    __slots__ = ("session_id", "message")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    message: str
    def __init__(self, session_id: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class StopSessionRequest(_message.Message):
    __slots__ = ("session_id", "graceful")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GRACEFUL_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    graceful: bool
    def __init__(self, session_id: _Optional[str] = ..., graceful: _Optional[bool] = ...) -> None: ...

class StopSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: SessionInfo
    def __init__(self, session: _Optional[_Union[SessionInfo, _Mapping]] = ...) -> None: ...

class RestartSessionRequest(_message.Message):
    __slots__ = ("session_id", "provider_config")
    class ProviderConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    provider_config: _containers.ScalarMap[str, str]
    def __init__(self, session_id: _Optional[str] = ..., provider_config: _Optional[_Mapping[str, str]] = ...) -> None: ...

class WatchSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class WatchAllSessionsRequest(_message.Message):
    __slots__ = ("campaign_id",)
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    def __init__(self, campaign_id: _Optional[str] = ...) -> None: ...

class SessionInfo(_message.Message):
    __slots__ = ("id", "campaign_id", "provider", "model", "agent_name", "status", "festival_id", "task_id", "tokens_input", "tokens_output", "max_tokens", "pid", "restart_count", "created_at", "started_at", "last_activity_at", "ended_at", "error_message", "working_dir")
    ID_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FESTIVAL_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TOKENS_INPUT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_ACTIVITY_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    id: str
    campaign_id: str
    provider: SessionProvider
    model: str
    agent_name: str
    status: SessionStatus
    festival_id: str
    task_id: str
    tokens_input: int
    tokens_output: int
    max_tokens: int
    pid: int
    restart_count: int
    created_at: _timestamp_pb2.Timestamp
    started_at: _timestamp_pb2.Timestamp
    last_activity_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    error_message: str
    working_dir: str
    def __init__(self, id: _Optional[str] = ..., campaign_id: _Optional[str] = ..., provider: _Optional[_Union[SessionProvider, str]] = ..., model: _Optional[str] = ..., agent_name: _Optional[str] = ..., status: _Optional[_Union[SessionStatus, str]] = ..., festival_id: _Optional[str] = ..., task_id: _Optional[str] = ..., tokens_input: _Optional[int] = ..., tokens_output: _Optional[int] = ..., max_tokens: _Optional[int] = ..., pid: _Optional[int] = ..., restart_count: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_activity_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error_message: _Optional[str] = ..., working_dir: _Optional[str] = ...) -> None: ...

class SessionActivityEvent(_message.Message):
    __slots__ = ("session_id", "type", "content", "tool_name", "tool_call_id", "tool_success", "tokens_input", "tokens_output", "timestamp")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_INPUT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    type: ActivityType
    content: str
    tool_name: str
    tool_call_id: str
    tool_success: bool
    tokens_input: int
    tokens_output: int
    timestamp: _timestamp_pb2.Timestamp
    def __init__(self, session_id: _Optional[str] = ..., type: _Optional[_Union[ActivityType, str]] = ..., content: _Optional[str] = ..., tool_name: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., tool_success: _Optional[bool] = ..., tokens_input: _Optional[int] = ..., tokens_output: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SessionStatusEvent(_message.Message):
    __slots__ = ("session_id", "previous_status", "new_status", "message", "timestamp")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_STATUS_FIELD_NUMBER: _ClassVar[int]
    NEW_STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    previous_status: SessionStatus
    new_status: SessionStatus
    message: str
    timestamp: _timestamp_pb2.Timestamp
    def __init__(self, session_id: _Optional[str] = ..., previous_status: _Optional[_Union[SessionStatus, str]] = ..., new_status: _Optional[_Union[SessionStatus, str]] = ..., message: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CampaignEventRequest(_message.Message):
    __slots__ = ("campaign_id", "type", "name", "path", "description", "project", "timestamp", "source")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    type: CampaignEventType
    name: str
    path: str
    description: str
    project: str
    timestamp: _timestamp_pb2.Timestamp
    source: str
    def __init__(self, campaign_id: _Optional[str] = ..., type: _Optional[_Union[CampaignEventType, str]] = ..., name: _Optional[str] = ..., path: _Optional[str] = ..., description: _Optional[str] = ..., project: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., source: _Optional[str] = ...) -> None: ...

class FestivalEventRequest(_message.Message):
    __slots__ = ("campaign_id", "festival_id", "type", "name", "status", "phase", "sequence", "task_id", "agent_name", "total_tasks", "completed_tasks", "detail", "timestamp", "source")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    FESTIVAL_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TASKS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_TASKS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    festival_id: str
    type: FestivalEventType
    name: str
    status: str
    phase: str
    sequence: str
    task_id: str
    agent_name: str
    total_tasks: int
    completed_tasks: int
    detail: str
    timestamp: _timestamp_pb2.Timestamp
    source: str
    def __init__(self, campaign_id: _Optional[str] = ..., festival_id: _Optional[str] = ..., type: _Optional[_Union[FestivalEventType, str]] = ..., name: _Optional[str] = ..., status: _Optional[str] = ..., phase: _Optional[str] = ..., sequence: _Optional[str] = ..., task_id: _Optional[str] = ..., agent_name: _Optional[str] = ..., total_tasks: _Optional[int] = ..., completed_tasks: _Optional[int] = ..., detail: _Optional[str] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., source: _Optional[str] = ...) -> None: ...

class EventResponse(_message.Message):
    __slots__ = ("accepted", "deduplicated", "campaign_id", "event_id")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATED_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    deduplicated: bool
    campaign_id: str
    event_id: int
    def __init__(self, accepted: _Optional[bool] = ..., deduplicated: _Optional[bool] = ..., campaign_id: _Optional[str] = ..., event_id: _Optional[int] = ...) -> None: ...

class AgentActivityEvent(_message.Message):
    __slots__ = ("session_id", "agent_name", "type", "content", "tool_name", "tool_call_id", "arguments", "output", "success", "tokens_input", "tokens_output", "timestamp")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_INPUT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    agent_name: str
    type: ActivityType
    content: str
    tool_name: str
    tool_call_id: str
    arguments: bytes
    output: str
    success: bool
    tokens_input: int
    tokens_output: int
    timestamp: _timestamp_pb2.Timestamp
    def __init__(self, session_id: _Optional[str] = ..., agent_name: _Optional[str] = ..., type: _Optional[_Union[ActivityType, str]] = ..., content: _Optional[str] = ..., tool_name: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., arguments: _Optional[bytes] = ..., output: _Optional[str] = ..., success: _Optional[bool] = ..., tokens_input: _Optional[int] = ..., tokens_output: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ActivityAck(_message.Message):
    __slots__ = ("received", "stored", "last_sequence")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    received: int
    stored: int
    last_sequence: int
    def __init__(self, received: _Optional[int] = ..., stored: _Optional[int] = ..., last_sequence: _Optional[int] = ...) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingResponse(_message.Message):
    __slots__ = ("version", "hostname", "hub_status", "campaign_count", "pid", "started_at")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    HUB_STATUS_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_COUNT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    version: str
    hostname: str
    hub_status: str
    campaign_count: int
    pid: int
    started_at: _timestamp_pb2.Timestamp
    def __init__(self, version: _Optional[str] = ..., hostname: _Optional[str] = ..., hub_status: _Optional[str] = ..., campaign_count: _Optional[int] = ..., pid: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class StateRequest(_message.Message):
    __slots__ = ("campaign_id",)
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    def __init__(self, campaign_id: _Optional[str] = ...) -> None: ...

class StateResponse(_message.Message):
    __slots__ = ("campaigns", "festivals", "active_sessions")
    CAMPAIGNS_FIELD_NUMBER: _ClassVar[int]
    FESTIVALS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    campaigns: _containers.RepeatedCompositeFieldContainer[CampaignState]
    festivals: _containers.RepeatedCompositeFieldContainer[FestivalState]
    active_sessions: _containers.RepeatedCompositeFieldContainer[SessionSummary]
    def __init__(self, campaigns: _Optional[_Iterable[_Union[CampaignState, _Mapping]]] = ..., festivals: _Optional[_Iterable[_Union[FestivalState, _Mapping]]] = ..., active_sessions: _Optional[_Iterable[_Union[SessionSummary, _Mapping]]] = ...) -> None: ...

class CampaignState(_message.Message):
    __slots__ = ("id", "name", "path", "description", "festival_count", "active_festival_count", "created_at", "updated_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FESTIVAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FESTIVAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    path: str
    description: str
    festival_count: int
    active_festival_count: int
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., path: _Optional[str] = ..., description: _Optional[str] = ..., festival_count: _Optional[int] = ..., active_festival_count: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FestivalState(_message.Message):
    __slots__ = ("campaign_id", "id", "name", "status", "phase", "total_tasks", "completed_tasks", "current_task", "current_agent", "updated_at")
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TASKS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_TASKS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_TASK_FIELD_NUMBER: _ClassVar[int]
    CURRENT_AGENT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    id: str
    name: str
    status: str
    phase: str
    total_tasks: int
    completed_tasks: int
    current_task: str
    current_agent: str
    updated_at: _timestamp_pb2.Timestamp
    def __init__(self, campaign_id: _Optional[str] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., status: _Optional[str] = ..., phase: _Optional[str] = ..., total_tasks: _Optional[int] = ..., completed_tasks: _Optional[int] = ..., current_task: _Optional[str] = ..., current_agent: _Optional[str] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SessionSummary(_message.Message):
    __slots__ = ("id", "campaign_id", "provider", "agent_name", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: str
    campaign_id: str
    provider: SessionProvider
    agent_name: str
    status: SessionStatus
    def __init__(self, id: _Optional[str] = ..., campaign_id: _Optional[str] = ..., provider: _Optional[_Union[SessionProvider, str]] = ..., agent_name: _Optional[str] = ..., status: _Optional[_Union[SessionStatus, str]] = ...) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("campaign_id", "command", "args", "working_dir", "timeout", "environment")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CAMPAIGN_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    campaign_id: str
    command: str
    args: _containers.RepeatedScalarFieldContainer[str]
    working_dir: str
    timeout: _duration_pb2.Duration
    environment: _containers.ScalarMap[str, str]
    def __init__(self, campaign_id: _Optional[str] = ..., command: _Optional[str] = ..., args: _Optional[_Iterable[str]] = ..., working_dir: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., environment: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ExecuteResponse(_message.Message):
    __slots__ = ("stdout", "stderr", "result")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    stdout: bytes
    stderr: bytes
    result: ExecuteResult
    def __init__(self, stdout: _Optional[bytes] = ..., stderr: _Optional[bytes] = ..., result: _Optional[_Union[ExecuteResult, _Mapping]] = ...) -> None: ...

class ExecuteResult(_message.Message):
    __slots__ = ("exit_code", "duration", "timed_out", "signal")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    duration: _duration_pb2.Duration
    timed_out: bool
    signal: int
    def __init__(self, exit_code: _Optional[int] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., timed_out: _Optional[bool] = ..., signal: _Optional[int] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ("stop_sessions",)
    STOP_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    stop_sessions: bool
    def __init__(self, stop_sessions: _Optional[bool] = ...) -> None: ...

class ShutdownResponse(_message.Message):
    __slots__ = ("accepted", "sessions_stopped")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_STOPPED_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    sessions_stopped: int
    def __init__(self, accepted: _Optional[bool] = ..., sessions_stopped: _Optional[int] = ...) -> None: ...
