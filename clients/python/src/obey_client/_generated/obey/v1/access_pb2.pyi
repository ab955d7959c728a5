from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AccessWho(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCESS_WHO_UNSPECIFIED: _ClassVar[AccessWho]
    ACCESS_WHO_ANYONE: _ClassVar[AccessWho]
    ACCESS_WHO_USER: _ClassVar[AccessWho]
    ACCESS_WHO_AGENT: _ClassVar[AccessWho]
    ACCESS_WHO_BRIDGE: _ClassVar[AccessWho]

class AccessEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCESS_EFFECT_UNSPECIFIED: _ClassVar[AccessEffect]
    ACCESS_EFFECT_READS: _ClassVar[AccessEffect]
    ACCESS_EFFECT_ACTS: _ClassVar[AccessEffect]
    ACCESS_EFFECT_ADMINISTERS: _ClassVar[AccessEffect]

class AccessNeeds(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCESS_NEEDS_NOTHING: _ClassVar[AccessNeeds]
    ACCESS_NEEDS_PERMISSION: _ClassVar[AccessNeeds]
    ACCESS_NEEDS_EDIT_PERMISSION: _ClassVar[AccessNeeds]
ACCESS_WHO_UNSPECIFIED: AccessWho
ACCESS_WHO_ANYONE: AccessWho
ACCESS_WHO_USER: AccessWho
ACCESS_WHO_AGENT: AccessWho
ACCESS_WHO_BRIDGE: AccessWho
ACCESS_EFFECT_UNSPECIFIED: AccessEffect
ACCESS_EFFECT_READS: AccessEffect
ACCESS_EFFECT_ACTS: AccessEffect
ACCESS_EFFECT_ADMINISTERS: AccessEffect
ACCESS_NEEDS_NOTHING: AccessNeeds
ACCESS_NEEDS_PERMISSION: AccessNeeds
ACCESS_NEEDS_EDIT_PERMISSION: AccessNeeds
ACCESS_FIELD_NUMBER: _ClassVar[int]
access: _descriptor.FieldDescriptor

class Access(_message.Message):
    __slots__ = ("who", "effect", "session", "needs", "withheld", "no_tunnel")
    WHO_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    NO_TUNNEL_FIELD_NUMBER: _ClassVar[int]
    who: AccessWho
    effect: AccessEffect
    session: str
    needs: AccessNeeds
    withheld: bool
    no_tunnel: bool
    def __init__(self, who: _Optional[_Union[AccessWho, str]] = ..., effect: _Optional[_Union[AccessEffect, str]] = ..., session: _Optional[str] = ..., needs: _Optional[_Union[AccessNeeds, str]] = ..., withheld: _Optional[bool] = ..., no_tunnel: _Optional[bool] = ...) -> None: ...
