"""Drives every call of obey.local.v1.LocalDaemonService from Python, as any stranger's client would.

Usage: local_v1.py SOCKET PROJECT, with the stubs compiled from proto/ on PYTHONPATH. Prints one line per check and
ends with code 1 at the first that fails. The last call shuts the daemon down.
"""

import json
import queue
import sys
import threading

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from obey.local.v1 import daemon_pb2 as pb
from obey.local.v1 import daemon_pb2_grpc

# Bounds a hang; nothing here is judged by its speed.
WAIT = 30


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


def script(key, *steps):
    return f"{key} SCRIPT: {json.dumps(steps)}"


def refused(what, call, code, obey):
    """The call must fail with this gRPC code and name this OBEY code."""
    try:
        answer = call()
        answer = list(answer) if hasattr(answer, "__next__") else answer
        check(what, False, answer)
    except grpc.RpcError as error:
        names = [value for key, value in error.trailing_metadata() or () if key == "obey-code"]
        named = obey in error.details() or obey in names
        check(what, error.code() == code and named, (error.code(), error.details(), names))


class Watch:
    """Reads a stream in a thread of its own, so that calls can be made meanwhile."""

    def __init__(self, stream):
        self.stream = stream
        self.events = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for event in self.stream:
                self.events.put(event)
        except grpc.RpcError:
            pass
        self.events.put(None)

    def until(self, wanted):
        seen = []
        while True:
            event = self.events.get(timeout=WAIT)
            seen.append(event)
            if event is None or wanted(event):
                return seen


def daemon_itself(stub, channel):
    ping = stub.Ping(pb.PingRequest(), timeout=WAIT)
    check("Ping names version, host and process", ping.version and ping.hostname and ping.pid > 0, ping)
    services = ProtoReflectionDescriptorDatabase(channel).get_services()
    check("reflection lists the service", "obey.local.v1.LocalDaemonService" in services, services)


def campaigns(stub, project):
    created = pb.CampaignEventRequest(
        type=pb.CAMPAIGN_EVENT_TYPE_CREATED, name="pycampaign", path=project, source="python"
    )
    answer = stub.ReportCampaignEvent(created, timeout=WAIT)
    check("ReportCampaignEvent registers a campaign", answer.accepted and answer.campaign_id, answer)
    festival = pb.FestivalEventRequest(
        campaign_id=answer.campaign_id,
        festival_id="fest-1",
        type=pb.FESTIVAL_EVENT_TYPE_CREATED,
        name="First",
        status="active",
        total_tasks=3,
        source="python",
    )
    reported = stub.ReportFestivalEvent(festival, timeout=WAIT)
    check("ReportFestivalEvent is accepted", reported.accepted and reported.event_id > 0, reported)
    state = stub.GetState(pb.StateRequest(), timeout=WAIT)
    check("GetState lists the campaign", [c.name for c in state.campaigns] == ["pycampaign"], state)
    check("GetState lists the festival", [f.id for f in state.festivals] == ["fest-1"], state)
    return answer.campaign_id


def execute(stub, campaign):
    request = pb.ExecuteRequest(campaign_id=campaign, command="git", args=["status", "--short", "--branch"])
    pieces = list(stub.Execute(request, timeout=WAIT))
    out = b"".join(piece.stdout for piece in pieces if piece.WhichOneof("output") == "stdout")
    check("Execute streams the output", b"main" in out, pieces)
    result = pieces[-1]
    ended = result.WhichOneof("output") == "result" and result.result.exit_code == 0
    check("Execute ends with the exit code", ended, result)
    forbidden = pb.ExecuteRequest(campaign_id=campaign, command="rm", args=["-rf", "."])
    refused(
        "Execute refuses what is not allowed",
        lambda: list(stub.Execute(forbidden, timeout=WAIT)),
        grpc.StatusCode.PERMISSION_DENIED,
        "OBEY-1020",
    )


def create(stub, campaign):
    request = pb.CreateSessionRequest(
        campaign_id=campaign,
        provider=pb.SESSION_PROVIDER_SCRIPTED,
        agent_name="snake",
        provider_config={"permission_mode": "autonomous"},
        max_tokens=1_000_000,
        timeout=Duration(seconds=600),
    )
    session = stub.CreateSession(request, timeout=WAIT).session
    check("CreateSession starts the agent", session.status == pb.SESSION_STATUS_RUNNING, session)
    got = stub.GetSession(pb.GetSessionRequest(session_id=session.id), timeout=WAIT)
    check("GetSession returns it", got.id == session.id and got.agent_name == "snake", got)
    listed = stub.ListSessions(pb.ListSessionsRequest(campaign_id=campaign), timeout=WAIT).sessions
    check("ListSessions lists it", [s.id for s in listed] == [session.id], listed)
    unknown = pb.GetSessionRequest(session_id="sess_00000000000000000000000000")
    refused(
        "GetSession of a stranger is refused",
        lambda: stub.GetSession(unknown, timeout=WAIT),
        grpc.StatusCode.NOT_FOUND,
        "OBEY-2010",
    )
    return session.id


def turn(stub, session):
    steps = (
        {"thinking": "hm"},
        {"tool": "Bash", "input": {"command": "echo hi"}, "result": "hi"},
        {"text": "Žluťoučký kůň 🐍"},
        {"usage": {"input_tokens": 100, "output_tokens": 20}},
    )
    message = pb.SendMessageRequest(session_id=session, message=script("turn", *steps))
    events = list(stub.SendMessage(message, timeout=WAIT))
    # 100: pieces of text as they come, an addition that clients may ignore.
    pieces = [event.content for event in events if event.type == 100]
    check("SendMessage streams text as it comes", "".join(pieces) == "Žluťoučký kůň 🐍", pieces)
    kinds = [event.type for event in events if event.type not in (pb.ACTIVITY_TYPE_STATUS, 100)]
    expected = [
        pb.ACTIVITY_TYPE_THINKING,
        pb.ACTIVITY_TYPE_TOOL_CALL,
        pb.ACTIVITY_TYPE_TOOL_RESULT,
        pb.ACTIVITY_TYPE_COMPLETION,
    ]
    check("SendMessage streams the turn", kinds == expected, events)
    check("SendMessage ends with the exact text", events[-1].content == "Žluťoučký kůň 🐍", events[-1])
    got = stub.GetSession(pb.GetSessionRequest(session_id=session), timeout=WAIT)
    check("GetSession counts the tokens", (got.tokens_input, got.tokens_output) == (100, 20), got)


def report_activity(stub, session):
    events = [
        pb.AgentActivityEvent(
            session_id=session, agent_name="outside", type=pb.ACTIVITY_TYPE_THINKING, content=f"thought {n}"
        )
        for n in range(5)
    ]
    ack = stub.StreamAgentActivity(iter(events), timeout=WAIT)
    check("StreamAgentActivity stores every report", (ack.received, ack.stored) == (5, 5), ack)


def life(stub, session, everyone):
    one = Watch(stub.WatchSession(pb.WatchSessionRequest(session_id=session)))
    stopped = stub.StopSession(pb.StopSessionRequest(session_id=session, graceful=True), timeout=WAIT).session
    check("StopSession stops it", stopped.status == pb.SESSION_STATUS_STOPPED, stopped)
    seen = one.until(lambda _: False)
    check("WatchSession ends with the session", seen[-1] is None and len(seen) > 1, seen)
    check("WatchSession saw the end", seen[-2].new_status == pb.SESSION_STATUS_STOPPED, seen)
    ended = lambda event: event.session_id == session and event.new_status == pb.SESSION_STATUS_STOPPED
    seen = everyone.until(ended)
    check("WatchAllSessions saw it too", seen[-1] is not None, seen)
    refused(
        "StopSession refuses a second stop",
        lambda: stub.StopSession(pb.StopSessionRequest(session_id=session), timeout=WAIT),
        grpc.StatusCode.FAILED_PRECONDITION,
        "OBEY-2020",
    )
    restarted = stub.RestartSession(pb.RestartSessionRequest(session_id=session), timeout=WAIT).session
    again = restarted.restart_count == 1 and restarted.status == pb.SESSION_STATUS_RUNNING
    check("RestartSession starts it again under its id", restarted.id == session and again, restarted)


def main():
    socket, project = sys.argv[1:]
    # No options on purpose: what works here works for everybody.
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        stub = daemon_pb2_grpc.LocalDaemonServiceStub(channel)
        daemon_itself(stub, channel)
        campaign = campaigns(stub, project)
        execute(stub, campaign)
        everyone = Watch(stub.WatchAllSessions(pb.WatchAllSessionsRequest(campaign_id=campaign)))
        session = create(stub, campaign)
        turn(stub, session)
        report_activity(stub, session)
        life(stub, session, everyone)
        down = stub.Shutdown(pb.ShutdownRequest(stop_sessions=True), timeout=WAIT)
        check("Shutdown ends the daemon and its sessions", down.accepted and down.sessions_stopped == 1, down)


main()
