"""The client for programs without an event loop. Made from _async.py by scripts/generate-clients."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc

from . import _types as types
from ._generated.obey.local.v1 import daemon_pb2 as local
from ._generated.obey.local.v1 import daemon_pb2_grpc
from ._generated.obey.v1 import obey_pb2 as pb
from ._generated.obey.v1 import obey_pb2_grpc, overview_pb2, overview_pb2_grpc
from ._types import Campaign, Event, ObeyError, Overview, Ping, Request, Sent, Session


class ObeyClient:
    """A connection to a daemon.

    `address` is `unix:PATH` or `HOST:PORT`; by default the socket of this user's daemon. Calls that fail because the
    daemon is being replaced are sent again until `patience` seconds have passed; each has a key, so that it takes effect
    once.
    """

    def __init__(self, address: str | None = None, *, token: str = "", patience: float = 30.0) -> None:
        self.address = address or types.default_address()
        self.patience = patience
        self._metadata: tuple[tuple[str, str], ...] = (("authorization", f"Bearer {token}"),) if token else ()
        options = [("grpc.max_receive_message_length", 64 << 20), ("grpc.initial_reconnect_backoff_ms", 50),
                   ("grpc.min_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 1000)]
        self._channel = grpc.insecure_channel(self.address, options=options)
        self._daemon = daemon_pb2_grpc.LocalDaemonServiceStub(self._channel)
        self._events = obey_pb2_grpc.EventServiceStub(self._channel)
        self._turns = obey_pb2_grpc.TurnServiceStub(self._channel)
        self._requests = obey_pb2_grpc.RequestServiceStub(self._channel)
        self._campaigns = obey_pb2_grpc.CampaignServiceStub(self._channel)
        self._overview = overview_pb2_grpc.OverviewServiceStub(self._channel)

    def __enter__(self) -> ObeyClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def ping(self) -> Ping:
        answer = self._call(self._daemon.Ping, local.PingRequest())
        return Ping(version=answer.version, hostname=answer.hostname, pid=answer.pid)

    def add_campaign(self, path: str, name: str = "") -> Campaign:
        """Registers a project folder."""
        request = pb.AddCampaignRequest(path=path, name=name)
        return types.campaign(self._call(self._campaigns.AddCampaign, request))

    def campaigns(self) -> list[Campaign]:
        answer = self._call(self._campaigns.ListCampaigns, pb.ListCampaignsRequest())
        return [types.campaign(found) for found in answer.campaigns]

    def campaign_of(self, path: str) -> Campaign:
        """Finds the registered folder that contains a path, the innermost first."""
        real = os.path.realpath(path)
        found = [known for known in self.campaigns() if (real + "/").startswith(known.path.rstrip("/") + "/")]
        if not found:
            raise LookupError(f"{real} is in no registered folder; register it: obey campaign add {real}")
        return max(found, key=lambda known: len(known.path))

    def create_session(
        self,
        campaign: Campaign | str,
        provider: str = "claude-code",
        *,
        model: str = "",
        name: str = "",
        mode: str = "",
        max_tokens: int = 0,
        provider_config: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Session:
        """Starts an agent. The same key with the same arguments is the same session, however often it is sent."""
        campaign_id = campaign if isinstance(campaign, str) else campaign.id
        request = types.new_session(campaign_id, provider, model, name, mode, max_tokens, provider_config)
        answer = self._call(self._daemon.CreateSession, request, key=key or types.new_key())
        return types.session(answer.session)

    def session(self, session_id: str) -> Session:
        request = local.GetSessionRequest(session_id=session_id)
        return types.session(self._call(self._daemon.GetSession, request))

    def sessions(self, *, include_ended: bool = False) -> list[Session]:
        request = local.ListSessionsRequest(include_terminated=include_ended)
        answer = self._call(self._daemon.ListSessions, request)
        return [types.session(found) for found in answer.sessions]

    def overview(self, *, include_ended: bool = False) -> list[Overview]:
        """Who needs somebody, who failed, who works: the order of `obey ps`."""
        wanted = overview_pb2.OverviewFilter(include_ended=include_ended)
        answer = self._call(self._overview.List, overview_pb2.ListOverviewRequest(filter=wanted))
        return [types.overview_row(found) for found in answer.sessions]

    def stop(self, session_id: str, *, graceful: bool = True) -> Session:
        request = local.StopSessionRequest(session_id=session_id, graceful=graceful)
        answer = self._call(self._daemon.StopSession, request)
        return types.session(answer.session)

    def send(
        self, session_id: str, text: str, *, steer: bool = False, queue: bool = False, key: str | None = None
    ) -> Sent:
        """Sends a prompt; returns once it is on disk. With `steer` it joins the running turn, with `queue` it waits."""
        request = pb.PromptRequest(
            session_id=session_id, text=text, steer=steer, queue=queue, client_key=key or types.new_key()
        )
        answer = self._call(self._turns.Prompt, request)
        return Sent(turn_id=answer.turn_id, seq=answer.seq, queued=answer.queued)

    def cancel(self, session_id: str) -> bool:
        """Interrupts the running turn; False: none was running."""
        request = pb.CancelTurnRequest(session_id=session_id, client_key=types.new_key())
        return (self._call(self._turns.CancelTurn, request)).cancelled

    def events(
        self, session_id: str, *, after: int = 0, follow: bool = True, limit: int = 0
    ) -> Iterator[Event]:
        """Yields events after a number, then with `follow` live ones until the session ends.

        A connection that breaks is made again and goes on with the next number: no event is missed or repeated. Keep
        the `seq` of the last event to go on in another process.
        """
        until = time.monotonic() + self.patience
        seen = 0
        while True:
            request = pb.ReadEventsRequest(
                session_id=session_id, after_seq=after, follow=follow, limit=limit - seen if limit else 0,
                max_message_bytes=64 << 20,
            )
            try:
                for message in self._events.ReadEvents(request, metadata=self._metadata):
                    event = types.event(message)
                    after, seen = event.seq, seen + 1
                    until = time.monotonic() + self.patience
                    yield event
                return
            except grpc.RpcError as error:
                if error.code() not in types.RETRYABLE or time.monotonic() > until:
                    raise ObeyError.of(error) from error
            if limit and seen >= limit:
                return
            time.sleep(_pause())

    def requests(self, session_id: str = "", *, include_settled: bool = False) -> list[Request]:
        """What waits for an answer; without a session, in all of them."""
        wanted = pb.ListRequestsRequest(session_id=session_id, include_settled=include_settled)
        answer = self._call(self._requests.ListRequests, wanted)
        return [types.request(found) for found in answer.requests]

    def allow(self, request: Request, *, remember: bool = False, grant: str = "") -> bool:
        """Allows what an agent wants to do; `remember` also grants its first proposal, `grant` a named one.

        Returns False if somebody else answered first.
        """
        return self._decide(request, types.decision(True, remember, False), grant=grant)

    def deny(self, request: Request, message: str = "", *, stop: bool = False) -> bool:
        """Denies it and tells the agent why; `stop` also ends the turn."""
        return self._decide(request, types.decision(False, False, stop), message=message)

    def answer(self, request: Request, answers: Mapping[str, str]) -> bool:
        """Answers an agent's questions: question id or text to answer."""
        message = pb.AnswerQuestionRequest(
            session_id=request.session_id, request_id=request.id, answers=dict(answers), client_key=types.new_key()
        )
        return (self._call(self._requests.AnswerQuestion, message)).settled_by_this_answer

    def run_turn(
        self, session_id: str, text: str, on_request: Callable[[Request], object]
    ) -> list[Event]:
        """Sends a prompt, lets `on_request` answer what the agent asks, and returns the events of the turn."""
        sent = self.send(session_id, text)
        seen: list[Event] = []
        for event in self.events(session_id, after=sent.seq - 1):
            seen.append(event)
            if event.type == "request_opened" and not event.data.get("automatic"):
                waiting = self.requests(session_id)
                for request in waiting:
                    if request.id == event.data["request"]:
                        on_request(request)
            if event.type == "turn_ended" and event.data.get("turn") == sent.turn_id:
                return seen
        return seen

    def _decide(self, request: Request, decision: int, *, message: str = "", grant: str = "") -> bool:
        answer = pb.AnswerPermissionRequest(
            session_id=request.session_id,
            request_id=request.id,
            decision=decision,
            message=message,
            grant=grant,
            client_key=types.new_key(),
        )
        return (self._call(self._requests.AnswerPermission, answer)).settled_by_this_answer

    def _call(self, method: Any, request: Any, *, key: str = "") -> Any:
        """Makes a call, again while the daemon is away; what changes something has a key."""
        metadata = self._metadata + (((types.KEY_METADATA, key),) if key else ())
        until = time.monotonic() + self.patience
        while True:
            try:
                return method(request, metadata=metadata, timeout=self.patience)
            except grpc.RpcError as error:
                if error.code() not in types.RETRYABLE or time.monotonic() > until:
                    raise ObeyError.of(error) from error
            time.sleep(_pause())


def _pause() -> float:
    """How long to wait before a daemon that was away is looked for again."""
    return 0.05 + random.random() * 0.1
