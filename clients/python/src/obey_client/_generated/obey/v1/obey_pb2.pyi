import datetime

from obey_client._generated.obey.v1 import access_pb2 as _access_pb2
from obey_client._generated.obey.v1 import event_pb2 as _event_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EventFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_FORMAT_UNSPECIFIED: _ClassVar[EventFormat]
    EVENT_FORMAT_JSON: _ClassVar[EventFormat]
    EVENT_FORMAT_TYPED: _ClassVar[EventFormat]

class RequestKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REQUEST_KIND_UNSPECIFIED: _ClassVar[RequestKind]
    REQUEST_KIND_PERMISSION: _ClassVar[RequestKind]
    REQUEST_KIND_QUESTION: _ClassVar[RequestKind]

class Decision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECISION_UNSPECIFIED: _ClassVar[Decision]
    DECISION_ALLOW_ONCE: _ClassVar[Decision]
    DECISION_ALLOW_SESSION: _ClassVar[Decision]
    DECISION_DENY: _ClassVar[Decision]
    DECISION_DENY_AND_STOP: _ClassVar[Decision]
EVENT_FORMAT_UNSPECIFIED: EventFormat
EVENT_FORMAT_JSON: EventFormat
EVENT_FORMAT_TYPED: EventFormat
REQUEST_KIND_UNSPECIFIED: RequestKind
REQUEST_KIND_PERMISSION: RequestKind
REQUEST_KIND_QUESTION: RequestKind
DECISION_UNSPECIFIED: Decision
DECISION_ALLOW_ONCE: Decision
DECISION_ALLOW_SESSION: Decision
DECISION_DENY: Decision
DECISION_DENY_AND_STOP: Decision

class GetScrubbingRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class GetScrubbingResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: bool
    def __init__(self, events: _Optional[bool] = ...) -> None: ...

class RevealRequest(_message.Message):
    __slots__ = ("session_id", "seq")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    seq: int
    def __init__(self, session_id: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...

class RevealResponse(_message.Message):
    __slots__ = ("seq", "type", "json")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    seq: int
    type: str
    json: str
    def __init__(self, seq: _Optional[int] = ..., type: _Optional[str] = ..., json: _Optional[str] = ...) -> None: ...

class ReadEventsRequest(_message.Message):
    __slots__ = ("session_id", "after_seq", "follow", "limit", "max_message_bytes", "before_seq", "tail", "format")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BEFORE_SEQ_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    after_seq: int
    follow: bool
    limit: int
    max_message_bytes: int
    before_seq: int
    tail: int
    format: EventFormat
    def __init__(self, session_id: _Optional[str] = ..., after_seq: _Optional[int] = ..., follow: _Optional[bool] = ..., limit: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., before_seq: _Optional[int] = ..., tail: _Optional[int] = ..., format: _Optional[_Union[EventFormat, str]] = ...) -> None: ...

class PromptRequest(_message.Message):
    __slots__ = ("session_id", "text", "steer", "client_key", "queue", "attachments")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STEER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_KEY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENTS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    text: str
    steer: bool
    client_key: str
    queue: bool
    attachments: _containers.RepeatedCompositeFieldContainer[PromptAttachment]
    def __init__(self, session_id: _Optional[str] = ..., text: _Optional[str] = ..., steer: _Optional[bool] = ..., client_key: _Optional[str] = ..., queue: _Optional[bool] = ..., attachments: _Optional[_Iterable[_Union[PromptAttachment, _Mapping]]] = ...) -> None: ...

class PromptAttachment(_message.Message):
    __slots__ = ("name", "media_type", "content")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    media_type: str
    content: bytes
    def __init__(self, name: _Optional[str] = ..., media_type: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class PromptResponse(_message.Message):
    __slots__ = ("turn_id", "seq", "queued")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    seq: int
    queued: str
    def __init__(self, turn_id: _Optional[str] = ..., seq: _Optional[int] = ..., queued: _Optional[str] = ...) -> None: ...

class CancelTurnRequest(_message.Message):
    __slots__ = ("session_id", "client_key")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_KEY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    client_key: str
    def __init__(self, session_id: _Optional[str] = ..., client_key: _Optional[str] = ...) -> None: ...

class CancelTurnResponse(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: bool
    def __init__(self, cancelled: _Optional[bool] = ...) -> None: ...

class SetModeRequest(_message.Message):
    __slots__ = ("session_id", "mode")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    mode: str
    def __init__(self, session_id: _Optional[str] = ..., mode: _Optional[str] = ...) -> None: ...

class SetModeResponse(_message.Message):
    __slots__ = ("mode",)
    MODE_FIELD_NUMBER: _ClassVar[int]
    mode: str
    def __init__(self, mode: _Optional[str] = ...) -> None: ...

class ListRequestsRequest(_message.Message):
    __slots__ = ("session_id", "include_settled")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SETTLED_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    include_settled: bool
    def __init__(self, session_id: _Optional[str] = ..., include_settled: _Optional[bool] = ...) -> None: ...

class ListRequestsResponse(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[Request]
    def __init__(self, requests: _Optional[_Iterable[_Union[Request, _Mapping]]] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("id", "session_id", "kind", "tool_name", "tool_call_id", "input_json", "title", "questions", "asked_at", "settled_by", "outcome", "settled_at", "settled_message", "proposals", "destructive", "not_covered")
    ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    SETTLED_BY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SETTLED_AT_FIELD_NUMBER: _ClassVar[int]
    SETTLED_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PROPOSALS_FIELD_NUMBER: _ClassVar[int]
    DESTRUCTIVE_FIELD_NUMBER: _ClassVar[int]
    NOT_COVERED_FIELD_NUMBER: _ClassVar[int]
    id: str
    session_id: str
    kind: RequestKind
    tool_name: str
    tool_call_id: str
    input_json: str
    title: str
    questions: _containers.RepeatedCompositeFieldContainer[Question]
    asked_at: _timestamp_pb2.Timestamp
    settled_by: str
    outcome: str
    settled_at: _timestamp_pb2.Timestamp
    settled_message: str
    proposals: _containers.RepeatedCompositeFieldContainer[GrantProposal]
    destructive: str
    not_covered: str
    def __init__(self, id: _Optional[str] = ..., session_id: _Optional[str] = ..., kind: _Optional[_Union[RequestKind, str]] = ..., tool_name: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., input_json: _Optional[str] = ..., title: _Optional[str] = ..., questions: _Optional[_Iterable[_Union[Question, _Mapping]]] = ..., asked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settled_by: _Optional[str] = ..., outcome: _Optional[str] = ..., settled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settled_message: _Optional[str] = ..., proposals: _Optional[_Iterable[_Union[GrantProposal, _Mapping]]] = ..., destructive: _Optional[str] = ..., not_covered: _Optional[str] = ...) -> None: ...

class GrantProposal(_message.Message):
    __slots__ = ("id", "text")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: str
    def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("id", "header", "text", "options", "multi_select")
    ID_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MULTI_SELECT_FIELD_NUMBER: _ClassVar[int]
    id: str
    header: str
    text: str
    options: _containers.RepeatedCompositeFieldContainer[QuestionOption]
    multi_select: bool
    def __init__(self, id: _Optional[str] = ..., header: _Optional[str] = ..., text: _Optional[str] = ..., options: _Optional[_Iterable[_Union[QuestionOption, _Mapping]]] = ..., multi_select: _Optional[bool] = ...) -> None: ...

class QuestionOption(_message.Message):
    __slots__ = ("label", "description")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    label: str
    description: str
    def __init__(self, label: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class AnswerPermissionRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "decision", "message", "updated_input_json", "answered_by", "grant", "grant_expires_secs", "grant_uses", "grant_sub_agents", "client_key")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    UPDATED_INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    GRANT_EXPIRES_SECS_FIELD_NUMBER: _ClassVar[int]
    GRANT_USES_FIELD_NUMBER: _ClassVar[int]
    GRANT_SUB_AGENTS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_KEY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    decision: Decision
    message: str
    updated_input_json: str
    answered_by: str
    grant: str
    grant_expires_secs: int
    grant_uses: int
    grant_sub_agents: bool
    client_key: str
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., decision: _Optional[_Union[Decision, str]] = ..., message: _Optional[str] = ..., updated_input_json: _Optional[str] = ..., answered_by: _Optional[str] = ..., grant: _Optional[str] = ..., grant_expires_secs: _Optional[int] = ..., grant_uses: _Optional[int] = ..., grant_sub_agents: _Optional[bool] = ..., client_key: _Optional[str] = ...) -> None: ...

class AnswerQuestionRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "answers", "answered_by", "client_key")
    class AnswersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    CLIENT_KEY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    answers: _containers.ScalarMap[str, str]
    answered_by: str
    client_key: str
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., answers: _Optional[_Mapping[str, str]] = ..., answered_by: _Optional[str] = ..., client_key: _Optional[str] = ...) -> None: ...

class AnswerResponse(_message.Message):
    __slots__ = ("request", "settled_by_this_answer")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SETTLED_BY_THIS_ANSWER_FIELD_NUMBER: _ClassVar[int]
    request: Request
    settled_by_this_answer: bool
    def __init__(self, request: _Optional[_Union[Request, _Mapping]] = ..., settled_by_this_answer: _Optional[bool] = ...) -> None: ...

class Campaign(_message.Message):
    __slots__ = ("id", "name", "path", "description", "created_at", "active_sessions", "scrub", "mode", "warnings")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    SCRUB_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    path: str
    description: str
    created_at: _timestamp_pb2.Timestamp
    active_sessions: int
    scrub: bool
    mode: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., path: _Optional[str] = ..., description: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., active_sessions: _Optional[int] = ..., scrub: _Optional[bool] = ..., mode: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class AddCampaignRequest(_message.Message):
    __slots__ = ("path", "name", "description", "id", "scrub", "mode")
    PATH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SCRUB_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    path: str
    name: str
    description: str
    id: str
    scrub: bool
    mode: str
    def __init__(self, path: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., id: _Optional[str] = ..., scrub: _Optional[bool] = ..., mode: _Optional[str] = ...) -> None: ...

class SetCampaignRequest(_message.Message):
    __slots__ = ("campaign", "scrub", "mode")
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    SCRUB_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    campaign: str
    scrub: bool
    mode: str
    def __init__(self, campaign: _Optional[str] = ..., scrub: _Optional[bool] = ..., mode: _Optional[str] = ...) -> None: ...

class ListCampaignsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCampaignsResponse(_message.Message):
    __slots__ = ("campaigns",)
    CAMPAIGNS_FIELD_NUMBER: _ClassVar[int]
    campaigns: _containers.RepeatedCompositeFieldContainer[Campaign]
    def __init__(self, campaigns: _Optional[_Iterable[_Union[Campaign, _Mapping]]] = ...) -> None: ...

class RemoveCampaignRequest(_message.Message):
    __slots__ = ("campaign",)
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    campaign: str
    def __init__(self, campaign: _Optional[str] = ...) -> None: ...

class RemoveCampaignResponse(_message.Message):
    __slots__ = ("campaign",)
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    campaign: Campaign
    def __init__(self, campaign: _Optional[_Union[Campaign, _Mapping]] = ...) -> None: ...

class PrepareUpgradeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StartVariable(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: bytes
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class PrepareUpgradeResponse(_message.Message):
    __slots__ = ("environment", "program", "is_copy")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    IS_COPY_FIELD_NUMBER: _ClassVar[int]
    environment: _containers.RepeatedCompositeFieldContainer[StartVariable]
    program: str
    is_copy: bool
    def __init__(self, environment: _Optional[_Iterable[_Union[StartVariable, _Mapping]]] = ..., program: _Optional[str] = ..., is_copy: _Optional[bool] = ...) -> None: ...

class CollectGarbageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CollectGarbageResponse(_message.Message):
    __slots__ = ("sessions", "activities", "events", "folders")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    FOLDERS_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    activities: int
    events: int
    folders: int
    def __init__(self, sessions: _Optional[int] = ..., activities: _Optional[int] = ..., events: _Optional[int] = ..., folders: _Optional[int] = ...) -> None: ...
