import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(_message.Message):
    __slots__ = ("seq", "at", "type", "json", "session_id", "session_created", "status_changed", "agent_started", "agent_ready", "agent_exited", "agent_logged", "restarted", "renamed", "archive_changed", "session_forked", "turn_started", "interrupt_requested", "message_added", "turn_ended", "text_delta", "thinking_delta", "tool_started", "tool_progress", "tool_finished", "todos_changed", "compacted", "usage_reported", "unparsed", "activity_reported", "request_opened", "request_settled", "grants_changed", "mode_changed", "plan_mode_changed", "model_changed", "commands_changed", "servers_changed", "tools_registered", "input_holder_changed", "queue_changed", "budget_changed", "rate_limited", "rate_limit_ended", "notice", "worker_started", "worker_progressed", "worker_finished")
    class Provider(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PROVIDER_UNSPECIFIED: _ClassVar[Event.Provider]
        PROVIDER_CLAUDE_CODE: _ClassVar[Event.Provider]
        PROVIDER_OPENCLAW: _ClassVar[Event.Provider]
        PROVIDER_CODEX: _ClassVar[Event.Provider]
        PROVIDER_OPENAI_API: _ClassVar[Event.Provider]
        PROVIDER_ACP: _ClassVar[Event.Provider]
        PROVIDER_SCRIPTED: _ClassVar[Event.Provider]
        PROVIDER_EXTERNAL: _ClassVar[Event.Provider]
    PROVIDER_UNSPECIFIED: Event.Provider
    PROVIDER_CLAUDE_CODE: Event.Provider
    PROVIDER_OPENCLAW: Event.Provider
    PROVIDER_CODEX: Event.Provider
    PROVIDER_OPENAI_API: Event.Provider
    PROVIDER_ACP: Event.Provider
    PROVIDER_SCRIPTED: Event.Provider
    PROVIDER_EXTERNAL: Event.Provider
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MODE_UNSPECIFIED: _ClassVar[Event.Mode]
        MODE_SUPERVISED: _ClassVar[Event.Mode]
        MODE_AUTONOMOUS: _ClassVar[Event.Mode]
        MODE_PLAN: _ClassVar[Event.Mode]
        MODE_ACCEPT_EDITS: _ClassVar[Event.Mode]
    MODE_UNSPECIFIED: Event.Mode
    MODE_SUPERVISED: Event.Mode
    MODE_AUTONOMOUS: Event.Mode
    MODE_PLAN: Event.Mode
    MODE_ACCEPT_EDITS: Event.Mode
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[Event.Status]
        STATUS_CREATED: _ClassVar[Event.Status]
        STATUS_STARTING: _ClassVar[Event.Status]
        STATUS_RUNNING: _ClassVar[Event.Status]
        STATUS_WORKING: _ClassVar[Event.Status]
        STATUS_STOPPING: _ClassVar[Event.Status]
        STATUS_STOPPED: _ClassVar[Event.Status]
        STATUS_FAILED: _ClassVar[Event.Status]
    STATUS_UNSPECIFIED: Event.Status
    STATUS_CREATED: Event.Status
    STATUS_STARTING: Event.Status
    STATUS_RUNNING: Event.Status
    STATUS_WORKING: Event.Status
    STATUS_STOPPING: Event.Status
    STATUS_STOPPED: Event.Status
    STATUS_FAILED: Event.Status
    class Origin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ORIGIN_UNSPECIFIED: _ClassVar[Event.Origin]
        ORIGIN_CLIENT: _ClassVar[Event.Origin]
        ORIGIN_AGENT: _ClassVar[Event.Origin]
    ORIGIN_UNSPECIFIED: Event.Origin
    ORIGIN_CLIENT: Event.Origin
    ORIGIN_AGENT: Event.Origin
    class EndReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        END_REASON_UNSPECIFIED: _ClassVar[Event.EndReason]
        END_REASON_COMPLETED: _ClassVar[Event.EndReason]
        END_REASON_CANCELLED: _ClassVar[Event.EndReason]
        END_REASON_FAILED: _ClassVar[Event.EndReason]
        END_REASON_REFUSED: _ClassVar[Event.EndReason]
        END_REASON_LIMIT_REACHED: _ClassVar[Event.EndReason]
        END_REASON_BUDGET_EXCEEDED: _ClassVar[Event.EndReason]
        END_REASON_INTERRUPTED: _ClassVar[Event.EndReason]
    END_REASON_UNSPECIFIED: Event.EndReason
    END_REASON_COMPLETED: Event.EndReason
    END_REASON_CANCELLED: Event.EndReason
    END_REASON_FAILED: Event.EndReason
    END_REASON_REFUSED: Event.EndReason
    END_REASON_LIMIT_REACHED: Event.EndReason
    END_REASON_BUDGET_EXCEEDED: Event.EndReason
    END_REASON_INTERRUPTED: Event.EndReason
    class Subject(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SUBJECT_UNSPECIFIED: _ClassVar[Event.Subject]
        SUBJECT_PERMISSION: _ClassVar[Event.Subject]
        SUBJECT_QUESTION: _ClassVar[Event.Subject]
        SUBJECT_CLIENT_TOOL: _ClassVar[Event.Subject]
    SUBJECT_UNSPECIFIED: Event.Subject
    SUBJECT_PERMISSION: Event.Subject
    SUBJECT_QUESTION: Event.Subject
    SUBJECT_CLIENT_TOOL: Event.Subject
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[Event.Outcome]
        OUTCOME_DECIDED: _ClassVar[Event.Outcome]
        OUTCOME_ANSWERED: _ClassVar[Event.Outcome]
        OUTCOME_TOOL_RETURNED: _ClassVar[Event.Outcome]
        OUTCOME_WITHDRAWN: _ClassVar[Event.Outcome]
    OUTCOME_UNSPECIFIED: Event.Outcome
    OUTCOME_DECIDED: Event.Outcome
    OUTCOME_ANSWERED: Event.Outcome
    OUTCOME_TOOL_RETURNED: Event.Outcome
    OUTCOME_WITHDRAWN: Event.Outcome
    class Decision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DECISION_UNSPECIFIED: _ClassVar[Event.Decision]
        DECISION_ALLOW_ONCE: _ClassVar[Event.Decision]
        DECISION_ALLOW_SESSION: _ClassVar[Event.Decision]
        DECISION_DENY: _ClassVar[Event.Decision]
        DECISION_DENY_AND_STOP: _ClassVar[Event.Decision]
    DECISION_UNSPECIFIED: Event.Decision
    DECISION_ALLOW_ONCE: Event.Decision
    DECISION_ALLOW_SESSION: Event.Decision
    DECISION_DENY: Event.Decision
    DECISION_DENY_AND_STOP: Event.Decision
    class Level(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LEVEL_UNSPECIFIED: _ClassVar[Event.Level]
        LEVEL_INFO: _ClassVar[Event.Level]
        LEVEL_WARNING: _ClassVar[Event.Level]
        LEVEL_ERROR: _ClassVar[Event.Level]
    LEVEL_UNSPECIFIED: Event.Level
    LEVEL_INFO: Event.Level
    LEVEL_WARNING: Event.Level
    LEVEL_ERROR: Event.Level
    class TodoStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TODO_STATUS_UNSPECIFIED: _ClassVar[Event.TodoStatus]
        TODO_STATUS_PENDING: _ClassVar[Event.TodoStatus]
        TODO_STATUS_IN_PROGRESS: _ClassVar[Event.TodoStatus]
        TODO_STATUS_COMPLETED: _ClassVar[Event.TodoStatus]
    TODO_STATUS_UNSPECIFIED: Event.TodoStatus
    TODO_STATUS_PENDING: Event.TodoStatus
    TODO_STATUS_IN_PROGRESS: Event.TodoStatus
    TODO_STATUS_COMPLETED: Event.TodoStatus
    class TodoPriority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TODO_PRIORITY_UNSPECIFIED: _ClassVar[Event.TodoPriority]
        TODO_PRIORITY_HIGH: _ClassVar[Event.TodoPriority]
        TODO_PRIORITY_MEDIUM: _ClassVar[Event.TodoPriority]
        TODO_PRIORITY_LOW: _ClassVar[Event.TodoPriority]
    TODO_PRIORITY_UNSPECIFIED: Event.TodoPriority
    TODO_PRIORITY_HIGH: Event.TodoPriority
    TODO_PRIORITY_MEDIUM: Event.TodoPriority
    TODO_PRIORITY_LOW: Event.TodoPriority
    class ServerStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SERVER_STATUS_UNSPECIFIED: _ClassVar[Event.ServerStatus]
        SERVER_STATUS_STARTING: _ClassVar[Event.ServerStatus]
        SERVER_STATUS_RUNNING: _ClassVar[Event.ServerStatus]
        SERVER_STATUS_STOPPED: _ClassVar[Event.ServerStatus]
        SERVER_STATUS_FAILED: _ClassVar[Event.ServerStatus]
    SERVER_STATUS_UNSPECIFIED: Event.ServerStatus
    SERVER_STATUS_STARTING: Event.ServerStatus
    SERVER_STATUS_RUNNING: Event.ServerStatus
    SERVER_STATUS_STOPPED: Event.ServerStatus
    SERVER_STATUS_FAILED: Event.ServerStatus
    class Change(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CHANGE_UNSPECIFIED: _ClassVar[Event.Change]
        CHANGE_ADDED: _ClassVar[Event.Change]
        CHANGE_EDITED: _ClassVar[Event.Change]
        CHANGE_MOVED: _ClassVar[Event.Change]
        CHANGE_DROPPED: _ClassVar[Event.Change]
        CHANGE_SENT: _ClassVar[Event.Change]
        CHANGE_PAUSED: _ClassVar[Event.Change]
        CHANGE_RESUMED: _ClassVar[Event.Change]
    CHANGE_UNSPECIFIED: Event.Change
    CHANGE_ADDED: Event.Change
    CHANGE_EDITED: Event.Change
    CHANGE_MOVED: Event.Change
    CHANGE_DROPPED: Event.Change
    CHANGE_SENT: Event.Change
    CHANGE_PAUSED: Event.Change
    CHANGE_RESUMED: Event.Change
    class SessionCreated(_message.Message):
        __slots__ = ("provider", "model", "name", "working_dir", "mode")
        PROVIDER_FIELD_NUMBER: _ClassVar[int]
        MODEL_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
        MODE_FIELD_NUMBER: _ClassVar[int]
        provider: Event.Provider
        model: str
        name: str
        working_dir: str
        mode: Event.Mode
        def __init__(self, provider: _Optional[_Union[Event.Provider, str]] = ..., model: _Optional[str] = ..., name: _Optional[str] = ..., working_dir: _Optional[str] = ..., mode: _Optional[_Union[Event.Mode, str]] = ...) -> None: ...
    class StatusChanged(_message.Message):
        __slots__ = ("to", "message", "code")
        FROM_FIELD_NUMBER: _ClassVar[int]
        TO_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        CODE_FIELD_NUMBER: _ClassVar[int]
        to: Event.Status
        message: str
        code: str
        def __init__(self, to: _Optional[_Union[Event.Status, str]] = ..., message: _Optional[str] = ..., code: _Optional[str] = ..., **kwargs) -> None: ...
    class AgentStarted(_message.Message):
        __slots__ = ("pid",)
        PID_FIELD_NUMBER: _ClassVar[int]
        pid: int
        def __init__(self, pid: _Optional[int] = ...) -> None: ...
    class AgentReady(_message.Message):
        __slots__ = ("native_session", "model", "version", "resolved_model")
        NATIVE_SESSION_FIELD_NUMBER: _ClassVar[int]
        MODEL_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        RESOLVED_MODEL_FIELD_NUMBER: _ClassVar[int]
        native_session: str
        model: str
        version: str
        resolved_model: str
        def __init__(self, native_session: _Optional[str] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., resolved_model: _Optional[str] = ...) -> None: ...
    class AgentExited(_message.Message):
        __slots__ = ("exit_code", "signal", "message", "resources")
        EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
        SIGNAL_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        RESOURCES_FIELD_NUMBER: _ClassVar[int]
        exit_code: int
        signal: int
        message: str
        resources: Event.Resources
        def __init__(self, exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., message: _Optional[str] = ..., resources: _Optional[_Union[Event.Resources, _Mapping]] = ...) -> None: ...
    class Resources(_message.Message):
        __slots__ = ("enforcement", "not_enforced", "peak_memory_bytes", "cpu_ms", "oom_kills")
        ENFORCEMENT_FIELD_NUMBER: _ClassVar[int]
        NOT_ENFORCED_FIELD_NUMBER: _ClassVar[int]
        PEAK_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
        CPU_MS_FIELD_NUMBER: _ClassVar[int]
        OOM_KILLS_FIELD_NUMBER: _ClassVar[int]
        enforcement: str
        not_enforced: _containers.RepeatedScalarFieldContainer[str]
        peak_memory_bytes: int
        cpu_ms: int
        oom_kills: int
        def __init__(self, enforcement: _Optional[str] = ..., not_enforced: _Optional[_Iterable[str]] = ..., peak_memory_bytes: _Optional[int] = ..., cpu_ms: _Optional[int] = ..., oom_kills: _Optional[int] = ...) -> None: ...
    class AgentLogged(_message.Message):
        __slots__ = ("line",)
        LINE_FIELD_NUMBER: _ClassVar[int]
        line: str
        def __init__(self, line: _Optional[str] = ...) -> None: ...
    class Restarted(_message.Message):
        __slots__ = ("count",)
        COUNT_FIELD_NUMBER: _ClassVar[int]
        count: int
        def __init__(self, count: _Optional[int] = ...) -> None: ...
    class Renamed(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    class ArchiveChanged(_message.Message):
        __slots__ = ("archived", "by")
        ARCHIVED_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        archived: bool
        by: str
        def __init__(self, archived: _Optional[bool] = ..., by: _Optional[str] = ...) -> None: ...
    class SessionForked(_message.Message):
        __slots__ = ("seq", "history", "by")
        FROM_FIELD_NUMBER: _ClassVar[int]
        SEQ_FIELD_NUMBER: _ClassVar[int]
        HISTORY_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        seq: int
        history: str
        by: str
        def __init__(self, seq: _Optional[int] = ..., history: _Optional[str] = ..., by: _Optional[str] = ..., **kwargs) -> None: ...
    class TurnStarted(_message.Message):
        __slots__ = ("turn", "origin", "prompt", "attachments", "by")
        TURN_FIELD_NUMBER: _ClassVar[int]
        ORIGIN_FIELD_NUMBER: _ClassVar[int]
        PROMPT_FIELD_NUMBER: _ClassVar[int]
        ATTACHMENTS_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        turn: str
        origin: Event.Origin
        prompt: str
        attachments: _containers.RepeatedCompositeFieldContainer[Event.File]
        by: str
        def __init__(self, turn: _Optional[str] = ..., origin: _Optional[_Union[Event.Origin, str]] = ..., prompt: _Optional[str] = ..., attachments: _Optional[_Iterable[_Union[Event.File, _Mapping]]] = ..., by: _Optional[str] = ...) -> None: ...
    class File(_message.Message):
        __slots__ = ("name", "media_type", "content")
        NAME_FIELD_NUMBER: _ClassVar[int]
        MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
        CONTENT_FIELD_NUMBER: _ClassVar[int]
        name: str
        media_type: str
        content: str
        def __init__(self, name: _Optional[str] = ..., media_type: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...
    class InterruptRequested(_message.Message):
        __slots__ = ("turn", "reason")
        TURN_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        turn: str
        reason: Event.EndReason
        def __init__(self, turn: _Optional[str] = ..., reason: _Optional[_Union[Event.EndReason, str]] = ...) -> None: ...
    class MessageAdded(_message.Message):
        __slots__ = ("turn", "text", "by")
        TURN_FIELD_NUMBER: _ClassVar[int]
        TEXT_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        turn: str
        text: str
        by: str
        def __init__(self, turn: _Optional[str] = ..., text: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...
    class TurnEnded(_message.Message):
        __slots__ = ("turn", "reason", "text", "error")
        TURN_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        TEXT_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        turn: str
        reason: Event.EndReason
        text: str
        error: str
        def __init__(self, turn: _Optional[str] = ..., reason: _Optional[_Union[Event.EndReason, str]] = ..., text: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...
    class TextDelta(_message.Message):
        __slots__ = ("text", "parent")
        TEXT_FIELD_NUMBER: _ClassVar[int]
        PARENT_FIELD_NUMBER: _ClassVar[int]
        text: str
        parent: str
        def __init__(self, text: _Optional[str] = ..., parent: _Optional[str] = ...) -> None: ...
    class ThinkingDelta(_message.Message):
        __slots__ = ("text", "parent")
        TEXT_FIELD_NUMBER: _ClassVar[int]
        PARENT_FIELD_NUMBER: _ClassVar[int]
        text: str
        parent: str
        def __init__(self, text: _Optional[str] = ..., parent: _Optional[str] = ...) -> None: ...
    class ToolStarted(_message.Message):
        __slots__ = ("call", "tool", "input_json", "title", "parent")
        CALL_FIELD_NUMBER: _ClassVar[int]
        TOOL_FIELD_NUMBER: _ClassVar[int]
        INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
        TITLE_FIELD_NUMBER: _ClassVar[int]
        PARENT_FIELD_NUMBER: _ClassVar[int]
        call: str
        tool: str
        input_json: str
        title: str
        parent: str
        def __init__(self, call: _Optional[str] = ..., tool: _Optional[str] = ..., input_json: _Optional[str] = ..., title: _Optional[str] = ..., parent: _Optional[str] = ...) -> None: ...
    class ToolProgress(_message.Message):
        __slots__ = ("call", "output")
        CALL_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_FIELD_NUMBER: _ClassVar[int]
        call: str
        output: str
        def __init__(self, call: _Optional[str] = ..., output: _Optional[str] = ...) -> None: ...
    class ToolFinished(_message.Message):
        __slots__ = ("call", "tool", "ok", "output")
        CALL_FIELD_NUMBER: _ClassVar[int]
        TOOL_FIELD_NUMBER: _ClassVar[int]
        OK_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_FIELD_NUMBER: _ClassVar[int]
        call: str
        tool: str
        ok: bool
        output: str
        def __init__(self, call: _Optional[str] = ..., tool: _Optional[str] = ..., ok: _Optional[bool] = ..., output: _Optional[str] = ...) -> None: ...
    class TodosChanged(_message.Message):
        __slots__ = ("todos",)
        TODOS_FIELD_NUMBER: _ClassVar[int]
        todos: _containers.RepeatedCompositeFieldContainer[Event.Todo]
        def __init__(self, todos: _Optional[_Iterable[_Union[Event.Todo, _Mapping]]] = ...) -> None: ...
    class Todo(_message.Message):
        __slots__ = ("id", "text", "status", "description", "active_form", "priority")
        ID_FIELD_NUMBER: _ClassVar[int]
        TEXT_FIELD_NUMBER: _ClassVar[int]
        STATUS_FIELD_NUMBER: _ClassVar[int]
        DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
        ACTIVE_FORM_FIELD_NUMBER: _ClassVar[int]
        PRIORITY_FIELD_NUMBER: _ClassVar[int]
        id: str
        text: str
        status: Event.TodoStatus
        description: str
        active_form: str
        priority: Event.TodoPriority
        def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ..., status: _Optional[_Union[Event.TodoStatus, str]] = ..., description: _Optional[str] = ..., active_form: _Optional[str] = ..., priority: _Optional[_Union[Event.TodoPriority, str]] = ...) -> None: ...
    class Compacted(_message.Message):
        __slots__ = ("tokens_before", "tokens_after", "summary")
        TOKENS_BEFORE_FIELD_NUMBER: _ClassVar[int]
        TOKENS_AFTER_FIELD_NUMBER: _ClassVar[int]
        SUMMARY_FIELD_NUMBER: _ClassVar[int]
        tokens_before: int
        tokens_after: int
        summary: str
        def __init__(self, tokens_before: _Optional[int] = ..., tokens_after: _Optional[int] = ..., summary: _Optional[str] = ...) -> None: ...
    class UsageReported(_message.Message):
        __slots__ = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_micro_usd", "estimated_micro_usd", "context_tokens", "context_window", "parent")
        INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
        CACHE_READ_TOKENS_FIELD_NUMBER: _ClassVar[int]
        CACHE_WRITE_TOKENS_FIELD_NUMBER: _ClassVar[int]
        COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
        ESTIMATED_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
        CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
        CONTEXT_WINDOW_FIELD_NUMBER: _ClassVar[int]
        PARENT_FIELD_NUMBER: _ClassVar[int]
        input_tokens: int
        output_tokens: int
        cache_read_tokens: int
        cache_write_tokens: int
        cost_micro_usd: int
        estimated_micro_usd: int
        context_tokens: int
        context_window: int
        parent: str
        def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cache_read_tokens: _Optional[int] = ..., cache_write_tokens: _Optional[int] = ..., cost_micro_usd: _Optional[int] = ..., estimated_micro_usd: _Optional[int] = ..., context_tokens: _Optional[int] = ..., context_window: _Optional[int] = ..., parent: _Optional[str] = ...) -> None: ...
    class Unparsed(_message.Message):
        __slots__ = ("raw", "length")
        RAW_FIELD_NUMBER: _ClassVar[int]
        LENGTH_FIELD_NUMBER: _ClassVar[int]
        raw: str
        length: int
        def __init__(self, raw: _Optional[str] = ..., length: _Optional[int] = ...) -> None: ...
    class ActivityReported(_message.Message):
        __slots__ = ("activity", "agent_name", "content", "tool", "call", "ok", "tokens_input", "tokens_output", "extra")
        class ExtraEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        ACTIVITY_FIELD_NUMBER: _ClassVar[int]
        AGENT_NAME_FIELD_NUMBER: _ClassVar[int]
        CONTENT_FIELD_NUMBER: _ClassVar[int]
        TOOL_FIELD_NUMBER: _ClassVar[int]
        CALL_FIELD_NUMBER: _ClassVar[int]
        OK_FIELD_NUMBER: _ClassVar[int]
        TOKENS_INPUT_FIELD_NUMBER: _ClassVar[int]
        TOKENS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
        EXTRA_FIELD_NUMBER: _ClassVar[int]
        activity: str
        agent_name: str
        content: str
        tool: str
        call: str
        ok: bool
        tokens_input: int
        tokens_output: int
        extra: _containers.ScalarMap[str, str]
        def __init__(self, activity: _Optional[str] = ..., agent_name: _Optional[str] = ..., content: _Optional[str] = ..., tool: _Optional[str] = ..., call: _Optional[str] = ..., ok: _Optional[bool] = ..., tokens_input: _Optional[int] = ..., tokens_output: _Optional[int] = ..., extra: _Optional[_Mapping[str, str]] = ...) -> None: ...
    class RequestOpened(_message.Message):
        __slots__ = ("request", "native", "automatic", "kind", "call", "tool", "input_json", "title", "parent", "questions", "proposals", "advice")
        REQUEST_FIELD_NUMBER: _ClassVar[int]
        NATIVE_FIELD_NUMBER: _ClassVar[int]
        AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        CALL_FIELD_NUMBER: _ClassVar[int]
        TOOL_FIELD_NUMBER: _ClassVar[int]
        INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
        TITLE_FIELD_NUMBER: _ClassVar[int]
        PARENT_FIELD_NUMBER: _ClassVar[int]
        QUESTIONS_FIELD_NUMBER: _ClassVar[int]
        PROPOSALS_FIELD_NUMBER: _ClassVar[int]
        ADVICE_FIELD_NUMBER: _ClassVar[int]
        request: str
        native: str
        automatic: bool
        kind: Event.Subject
        call: str
        tool: str
        input_json: str
        title: str
        parent: str
        questions: _containers.RepeatedCompositeFieldContainer[Event.Question]
        proposals: _containers.RepeatedCompositeFieldContainer[Event.Proposal]
        advice: Event.Advice
        def __init__(self, request: _Optional[str] = ..., native: _Optional[str] = ..., automatic: _Optional[bool] = ..., kind: _Optional[_Union[Event.Subject, str]] = ..., call: _Optional[str] = ..., tool: _Optional[str] = ..., input_json: _Optional[str] = ..., title: _Optional[str] = ..., parent: _Optional[str] = ..., questions: _Optional[_Iterable[_Union[Event.Question, _Mapping]]] = ..., proposals: _Optional[_Iterable[_Union[Event.Proposal, _Mapping]]] = ..., advice: _Optional[_Union[Event.Advice, _Mapping]] = ...) -> None: ...
    class Advice(_message.Message):
        __slots__ = ("destructive", "not_covered")
        DESTRUCTIVE_FIELD_NUMBER: _ClassVar[int]
        NOT_COVERED_FIELD_NUMBER: _ClassVar[int]
        destructive: str
        not_covered: str
        def __init__(self, destructive: _Optional[str] = ..., not_covered: _Optional[str] = ...) -> None: ...
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
        options: _containers.RepeatedCompositeFieldContainer[Event.Choice]
        multi_select: bool
        def __init__(self, id: _Optional[str] = ..., header: _Optional[str] = ..., text: _Optional[str] = ..., options: _Optional[_Iterable[_Union[Event.Choice, _Mapping]]] = ..., multi_select: _Optional[bool] = ...) -> None: ...
    class Choice(_message.Message):
        __slots__ = ("label", "description")
        LABEL_FIELD_NUMBER: _ClassVar[int]
        DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
        label: str
        description: str
        def __init__(self, label: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...
    class Proposal(_message.Message):
        __slots__ = ("id", "text")
        ID_FIELD_NUMBER: _ClassVar[int]
        TEXT_FIELD_NUMBER: _ClassVar[int]
        id: str
        text: str
        def __init__(self, id: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...
    class RequestSettled(_message.Message):
        __slots__ = ("request", "outcome", "decision", "answers", "ok", "output", "reason", "by", "message", "grant", "used_grant")
        class AnswersEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        REQUEST_FIELD_NUMBER: _ClassVar[int]
        OUTCOME_FIELD_NUMBER: _ClassVar[int]
        DECISION_FIELD_NUMBER: _ClassVar[int]
        ANSWERS_FIELD_NUMBER: _ClassVar[int]
        OK_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        GRANT_FIELD_NUMBER: _ClassVar[int]
        USED_GRANT_FIELD_NUMBER: _ClassVar[int]
        request: str
        outcome: Event.Outcome
        decision: Event.Decision
        answers: _containers.ScalarMap[str, str]
        ok: bool
        output: str
        reason: str
        by: str
        message: str
        grant: Event.Grant
        used_grant: str
        def __init__(self, request: _Optional[str] = ..., outcome: _Optional[_Union[Event.Outcome, str]] = ..., decision: _Optional[_Union[Event.Decision, str]] = ..., answers: _Optional[_Mapping[str, str]] = ..., ok: _Optional[bool] = ..., output: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ..., message: _Optional[str] = ..., grant: _Optional[_Union[Event.Grant, _Mapping]] = ..., used_grant: _Optional[str] = ...) -> None: ...
    class GrantsChanged(_message.Message):
        __slots__ = ("grants", "by")
        GRANTS_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        grants: _containers.RepeatedCompositeFieldContainer[Event.Grant]
        by: str
        def __init__(self, grants: _Optional[_Iterable[_Union[Event.Grant, _Mapping]]] = ..., by: _Optional[str] = ...) -> None: ...
    class Grant(_message.Message):
        __slots__ = ("id", "tool", "is_pattern", "denied", "asks", "command", "covers_json", "scope_json", "principal_json", "expires_at", "uses_left", "given_by", "given_at")
        ID_FIELD_NUMBER: _ClassVar[int]
        TOOL_FIELD_NUMBER: _ClassVar[int]
        IS_PATTERN_FIELD_NUMBER: _ClassVar[int]
        DENIED_FIELD_NUMBER: _ClassVar[int]
        ASKS_FIELD_NUMBER: _ClassVar[int]
        COMMAND_FIELD_NUMBER: _ClassVar[int]
        COVERS_JSON_FIELD_NUMBER: _ClassVar[int]
        SCOPE_JSON_FIELD_NUMBER: _ClassVar[int]
        PRINCIPAL_JSON_FIELD_NUMBER: _ClassVar[int]
        EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
        USES_LEFT_FIELD_NUMBER: _ClassVar[int]
        GIVEN_BY_FIELD_NUMBER: _ClassVar[int]
        GIVEN_AT_FIELD_NUMBER: _ClassVar[int]
        id: str
        tool: str
        is_pattern: bool
        denied: bool
        asks: bool
        command: str
        covers_json: str
        scope_json: str
        principal_json: str
        expires_at: int
        uses_left: int
        given_by: str
        given_at: int
        def __init__(self, id: _Optional[str] = ..., tool: _Optional[str] = ..., is_pattern: _Optional[bool] = ..., denied: _Optional[bool] = ..., asks: _Optional[bool] = ..., command: _Optional[str] = ..., covers_json: _Optional[str] = ..., scope_json: _Optional[str] = ..., principal_json: _Optional[str] = ..., expires_at: _Optional[int] = ..., uses_left: _Optional[int] = ..., given_by: _Optional[str] = ..., given_at: _Optional[int] = ...) -> None: ...
    class ModeChanged(_message.Message):
        __slots__ = ("mode",)
        MODE_FIELD_NUMBER: _ClassVar[int]
        mode: Event.Mode
        def __init__(self, mode: _Optional[_Union[Event.Mode, str]] = ...) -> None: ...
    class PlanModeChanged(_message.Message):
        __slots__ = ("on",)
        ON_FIELD_NUMBER: _ClassVar[int]
        on: bool
        def __init__(self, on: _Optional[bool] = ...) -> None: ...
    class ModelChanged(_message.Message):
        __slots__ = ("model",)
        MODEL_FIELD_NUMBER: _ClassVar[int]
        model: str
        def __init__(self, model: _Optional[str] = ...) -> None: ...
    class CommandsChanged(_message.Message):
        __slots__ = ("commands",)
        COMMANDS_FIELD_NUMBER: _ClassVar[int]
        commands: _containers.RepeatedCompositeFieldContainer[Event.Command]
        def __init__(self, commands: _Optional[_Iterable[_Union[Event.Command, _Mapping]]] = ...) -> None: ...
    class Command(_message.Message):
        __slots__ = ("name", "description", "hint")
        NAME_FIELD_NUMBER: _ClassVar[int]
        DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
        HINT_FIELD_NUMBER: _ClassVar[int]
        name: str
        description: str
        hint: str
        def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...
    class ServersChanged(_message.Message):
        __slots__ = ("servers",)
        SERVERS_FIELD_NUMBER: _ClassVar[int]
        servers: _containers.RepeatedCompositeFieldContainer[Event.Server]
        def __init__(self, servers: _Optional[_Iterable[_Union[Event.Server, _Mapping]]] = ...) -> None: ...
    class Server(_message.Message):
        __slots__ = ("name", "status", "tools", "endpoint", "error")
        NAME_FIELD_NUMBER: _ClassVar[int]
        STATUS_FIELD_NUMBER: _ClassVar[int]
        TOOLS_FIELD_NUMBER: _ClassVar[int]
        ENDPOINT_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        name: str
        status: Event.ServerStatus
        tools: _containers.RepeatedScalarFieldContainer[str]
        endpoint: str
        error: str
        def __init__(self, name: _Optional[str] = ..., status: _Optional[_Union[Event.ServerStatus, str]] = ..., tools: _Optional[_Iterable[str]] = ..., endpoint: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...
    class ToolsRegistered(_message.Message):
        __slots__ = ("source", "tools")
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        TOOLS_FIELD_NUMBER: _ClassVar[int]
        source: str
        tools: _containers.RepeatedCompositeFieldContainer[Event.Tool]
        def __init__(self, source: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[Event.Tool, _Mapping]]] = ...) -> None: ...
    class Tool(_message.Message):
        __slots__ = ("name", "description", "input_schema_json", "exclusive", "timeout_ms", "asks")
        NAME_FIELD_NUMBER: _ClassVar[int]
        DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
        INPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
        EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
        ASKS_FIELD_NUMBER: _ClassVar[int]
        name: str
        description: str
        input_schema_json: str
        exclusive: bool
        timeout_ms: int
        asks: bool
        def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., input_schema_json: _Optional[str] = ..., exclusive: _Optional[bool] = ..., timeout_ms: _Optional[int] = ..., asks: _Optional[bool] = ...) -> None: ...
    class InputHolderChanged(_message.Message):
        __slots__ = ("holder",)
        HOLDER_FIELD_NUMBER: _ClassVar[int]
        holder: str
        def __init__(self, holder: _Optional[str] = ...) -> None: ...
    class QueueChanged(_message.Message):
        __slots__ = ("change", "entry", "prompt", "attachments", "position", "turn", "reason", "by")
        CHANGE_FIELD_NUMBER: _ClassVar[int]
        ENTRY_FIELD_NUMBER: _ClassVar[int]
        PROMPT_FIELD_NUMBER: _ClassVar[int]
        ATTACHMENTS_FIELD_NUMBER: _ClassVar[int]
        POSITION_FIELD_NUMBER: _ClassVar[int]
        TURN_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        change: Event.Change
        entry: str
        prompt: str
        attachments: _containers.RepeatedCompositeFieldContainer[Event.File]
        position: int
        turn: str
        reason: str
        by: str
        def __init__(self, change: _Optional[_Union[Event.Change, str]] = ..., entry: _Optional[str] = ..., prompt: _Optional[str] = ..., attachments: _Optional[_Iterable[_Union[Event.File, _Mapping]]] = ..., position: _Optional[int] = ..., turn: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...
    class BudgetChanged(_message.Message):
        __slots__ = ("budget", "by")
        BUDGET_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        budget: Event.Amounts
        by: str
        def __init__(self, budget: _Optional[_Union[Event.Amounts, _Mapping]] = ..., by: _Optional[str] = ...) -> None: ...
    class Amounts(_message.Message):
        __slots__ = ("tokens", "cost_micro_usd", "work_ms", "calls")
        TOKENS_FIELD_NUMBER: _ClassVar[int]
        COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
        WORK_MS_FIELD_NUMBER: _ClassVar[int]
        CALLS_FIELD_NUMBER: _ClassVar[int]
        tokens: int
        cost_micro_usd: int
        work_ms: int
        calls: int
        def __init__(self, tokens: _Optional[int] = ..., cost_micro_usd: _Optional[int] = ..., work_ms: _Optional[int] = ..., calls: _Optional[int] = ...) -> None: ...
    class RateLimited(_message.Message):
        __slots__ = ("resumes_at", "reason", "attempt")
        RESUMES_AT_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        ATTEMPT_FIELD_NUMBER: _ClassVar[int]
        resumes_at: int
        reason: str
        attempt: int
        def __init__(self, resumes_at: _Optional[int] = ..., reason: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...
    class RateLimitEnded(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Notice(_message.Message):
        __slots__ = ("level", "code", "message")
        LEVEL_FIELD_NUMBER: _ClassVar[int]
        CODE_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        level: Event.Level
        code: str
        message: str
        def __init__(self, level: _Optional[_Union[Event.Level, str]] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
    class WorkerStarted(_message.Message):
        __slots__ = ("worker", "call", "title")
        WORKER_FIELD_NUMBER: _ClassVar[int]
        CALL_FIELD_NUMBER: _ClassVar[int]
        TITLE_FIELD_NUMBER: _ClassVar[int]
        worker: str
        call: str
        title: str
        def __init__(self, worker: _Optional[str] = ..., call: _Optional[str] = ..., title: _Optional[str] = ...) -> None: ...
    class WorkerProgressed(_message.Message):
        __slots__ = ("worker", "summary", "spent")
        WORKER_FIELD_NUMBER: _ClassVar[int]
        SUMMARY_FIELD_NUMBER: _ClassVar[int]
        SPENT_FIELD_NUMBER: _ClassVar[int]
        worker: str
        summary: str
        spent: Event.Spending
        def __init__(self, worker: _Optional[str] = ..., summary: _Optional[str] = ..., spent: _Optional[_Union[Event.Spending, _Mapping]] = ...) -> None: ...
    class WorkerFinished(_message.Message):
        __slots__ = ("worker", "ok", "summary", "spent")
        WORKER_FIELD_NUMBER: _ClassVar[int]
        OK_FIELD_NUMBER: _ClassVar[int]
        SUMMARY_FIELD_NUMBER: _ClassVar[int]
        SPENT_FIELD_NUMBER: _ClassVar[int]
        worker: str
        ok: bool
        summary: str
        spent: Event.Spending
        def __init__(self, worker: _Optional[str] = ..., ok: _Optional[bool] = ..., summary: _Optional[str] = ..., spent: _Optional[_Union[Event.Spending, _Mapping]] = ...) -> None: ...
    class Spending(_message.Message):
        __slots__ = ("tokens", "cost_micro_usd", "work_ms", "calls")
        TOKENS_FIELD_NUMBER: _ClassVar[int]
        COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
        WORK_MS_FIELD_NUMBER: _ClassVar[int]
        CALLS_FIELD_NUMBER: _ClassVar[int]
        tokens: int
        cost_micro_usd: int
        work_ms: int
        calls: int
        def __init__(self, tokens: _Optional[int] = ..., cost_micro_usd: _Optional[int] = ..., work_ms: _Optional[int] = ..., calls: _Optional[int] = ...) -> None: ...
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_CREATED_FIELD_NUMBER: _ClassVar[int]
    STATUS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    AGENT_STARTED_FIELD_NUMBER: _ClassVar[int]
    AGENT_READY_FIELD_NUMBER: _ClassVar[int]
    AGENT_EXITED_FIELD_NUMBER: _ClassVar[int]
    AGENT_LOGGED_FIELD_NUMBER: _ClassVar[int]
    RESTARTED_FIELD_NUMBER: _ClassVar[int]
    RENAMED_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    SESSION_FORKED_FIELD_NUMBER: _ClassVar[int]
    TURN_STARTED_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ADDED_FIELD_NUMBER: _ClassVar[int]
    TURN_ENDED_FIELD_NUMBER: _ClassVar[int]
    TEXT_DELTA_FIELD_NUMBER: _ClassVar[int]
    THINKING_DELTA_FIELD_NUMBER: _ClassVar[int]
    TOOL_STARTED_FIELD_NUMBER: _ClassVar[int]
    TOOL_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TOOL_FINISHED_FIELD_NUMBER: _ClassVar[int]
    TODOS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    USAGE_REPORTED_FIELD_NUMBER: _ClassVar[int]
    UNPARSED_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_REPORTED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_OPENED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_SETTLED_FIELD_NUMBER: _ClassVar[int]
    GRANTS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    MODE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    PLAN_MODE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    MODEL_CHANGED_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    SERVERS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    TOOLS_REGISTERED_FIELD_NUMBER: _ClassVar[int]
    INPUT_HOLDER_CHANGED_FIELD_NUMBER: _ClassVar[int]
    QUEUE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    BUDGET_CHANGED_FIELD_NUMBER: _ClassVar[int]
    RATE_LIMITED_FIELD_NUMBER: _ClassVar[int]
    RATE_LIMIT_ENDED_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    WORKER_STARTED_FIELD_NUMBER: _ClassVar[int]
    WORKER_PROGRESSED_FIELD_NUMBER: _ClassVar[int]
    WORKER_FINISHED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: _timestamp_pb2.Timestamp
    type: str
    json: str
    session_id: str
    session_created: Event.SessionCreated
    status_changed: Event.StatusChanged
    agent_started: Event.AgentStarted
    agent_ready: Event.AgentReady
    agent_exited: Event.AgentExited
    agent_logged: Event.AgentLogged
    restarted: Event.Restarted
    renamed: Event.Renamed
    archive_changed: Event.ArchiveChanged
    session_forked: Event.SessionForked
    turn_started: Event.TurnStarted
    interrupt_requested: Event.InterruptRequested
    message_added: Event.MessageAdded
    turn_ended: Event.TurnEnded
    text_delta: Event.TextDelta
    thinking_delta: Event.ThinkingDelta
    tool_started: Event.ToolStarted
    tool_progress: Event.ToolProgress
    tool_finished: Event.ToolFinished
    todos_changed: Event.TodosChanged
    compacted: Event.Compacted
    usage_reported: Event.UsageReported
    unparsed: Event.Unparsed
    activity_reported: Event.ActivityReported
    request_opened: Event.RequestOpened
    request_settled: Event.RequestSettled
    grants_changed: Event.GrantsChanged
    mode_changed: Event.ModeChanged
    plan_mode_changed: Event.PlanModeChanged
    model_changed: Event.ModelChanged
    commands_changed: Event.CommandsChanged
    servers_changed: Event.ServersChanged
    tools_registered: Event.ToolsRegistered
    input_holder_changed: Event.InputHolderChanged
    queue_changed: Event.QueueChanged
    budget_changed: Event.BudgetChanged
    rate_limited: Event.RateLimited
    rate_limit_ended: Event.RateLimitEnded
    notice: Event.Notice
    worker_started: Event.WorkerStarted
    worker_progressed: Event.WorkerProgressed
    worker_finished: Event.WorkerFinished
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., type: _Optional[str] = ..., json: _Optional[str] = ..., session_id: _Optional[str] = ..., session_created: _Optional[_Union[Event.SessionCreated, _Mapping]] = ..., status_changed: _Optional[_Union[Event.StatusChanged, _Mapping]] = ..., agent_started: _Optional[_Union[Event.AgentStarted, _Mapping]] = ..., agent_ready: _Optional[_Union[Event.AgentReady, _Mapping]] = ..., agent_exited: _Optional[_Union[Event.AgentExited, _Mapping]] = ..., agent_logged: _Optional[_Union[Event.AgentLogged, _Mapping]] = ..., restarted: _Optional[_Union[Event.Restarted, _Mapping]] = ..., renamed: _Optional[_Union[Event.Renamed, _Mapping]] = ..., archive_changed: _Optional[_Union[Event.ArchiveChanged, _Mapping]] = ..., session_forked: _Optional[_Union[Event.SessionForked, _Mapping]] = ..., turn_started: _Optional[_Union[Event.TurnStarted, _Mapping]] = ..., interrupt_requested: _Optional[_Union[Event.InterruptRequested, _Mapping]] = ..., message_added: _Optional[_Union[Event.MessageAdded, _Mapping]] = ..., turn_ended: _Optional[_Union[Event.TurnEnded, _Mapping]] = ..., text_delta: _Optional[_Union[Event.TextDelta, _Mapping]] = ..., thinking_delta: _Optional[_Union[Event.ThinkingDelta, _Mapping]] = ..., tool_started: _Optional[_Union[Event.ToolStarted, _Mapping]] = ..., tool_progress: _Optional[_Union[Event.ToolProgress, _Mapping]] = ..., tool_finished: _Optional[_Union[Event.ToolFinished, _Mapping]] = ..., todos_changed: _Optional[_Union[Event.TodosChanged, _Mapping]] = ..., compacted: _Optional[_Union[Event.Compacted, _Mapping]] = ..., usage_reported: _Optional[_Union[Event.UsageReported, _Mapping]] = ..., unparsed: _Optional[_Union[Event.Unparsed, _Mapping]] = ..., activity_reported: _Optional[_Union[Event.ActivityReported, _Mapping]] = ..., request_opened: _Optional[_Union[Event.RequestOpened, _Mapping]] = ..., request_settled: _Optional[_Union[Event.RequestSettled, _Mapping]] = ..., grants_changed: _Optional[_Union[Event.GrantsChanged, _Mapping]] = ..., mode_changed: _Optional[_Union[Event.ModeChanged, _Mapping]] = ..., plan_mode_changed: _Optional[_Union[Event.PlanModeChanged, _Mapping]] = ..., model_changed: _Optional[_Union[Event.ModelChanged, _Mapping]] = ..., commands_changed: _Optional[_Union[Event.CommandsChanged, _Mapping]] = ..., servers_changed: _Optional[_Union[Event.ServersChanged, _Mapping]] = ..., tools_registered: _Optional[_Union[Event.ToolsRegistered, _Mapping]] = ..., input_holder_changed: _Optional[_Union[Event.InputHolderChanged, _Mapping]] = ..., queue_changed: _Optional[_Union[Event.QueueChanged, _Mapping]] = ..., budget_changed: _Optional[_Union[Event.BudgetChanged, _Mapping]] = ..., rate_limited: _Optional[_Union[Event.RateLimited, _Mapping]] = ..., rate_limit_ended: _Optional[_Union[Event.RateLimitEnded, _Mapping]] = ..., notice: _Optional[_Union[Event.Notice, _Mapping]] = ..., worker_started: _Optional[_Union[Event.WorkerStarted, _Mapping]] = ..., worker_progressed: _Optional[_Union[Event.WorkerProgressed, _Mapping]] = ..., worker_finished: _Optional[_Union[Event.WorkerFinished, _Mapping]] = ...) -> None: ...
