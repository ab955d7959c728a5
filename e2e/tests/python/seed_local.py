"""What a client of obey.local.v1 alone relies on: default modes, agents outside the daemon, tables and events.

Usage: seed_local.py SOCKET PROJECT OBEY DATABASE, with the published stubs on PYTHONPATH. The daemon runs with
`sessions.default_mode = autonomous`. Prints one line per check and ends with code 1 at the first that fails. The last call
shuts the daemon down.
"""

import json
import sqlite3
import subprocess
import sys

import grpc
from obey.local.v1 import daemon_pb2 as pb
from obey.local.v1 import daemon_pb2_grpc

# Bounds a hang; nothing here is judged by its speed.
WAIT = 30
# An addition to the published providers; a client of the published file sends the number.
EXTERNAL = 102


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


def refused(what, call, code, obey):
    try:
        answer = call()
        answer = list(answer) if hasattr(answer, "__next__") else answer
        check(what, False, answer)
    except grpc.RpcError as error:
        names = [value for key, value in error.trailing_metadata() or () if key == "obey-code"]
        check(what, error.code() == code and obey in names, (error.code(), error.details(), names))


class Obey:
    """The command line, in the environment of the test."""

    def __init__(self, program):
        self.program = program

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=2 * WAIT)

    def json(self, *arguments):
        done = self.run(*arguments, "--json")
        check(f"obey {' '.join(arguments[:3])}", done.returncode == 0, done)
        return json.loads(done.stdout)


ASKING = 'go SCRIPT: [{"tool": "Bash", "input": {"command": "x"}, "ask": true, "result": "r"}, {"text": "done"}]'


def new_session(stub, campaign, **more):
    request = pb.CreateSessionRequest(campaign_id=campaign, provider=101, **more)
    return stub.CreateSession(request, timeout=WAIT).session.id


def send(stub, session):
    return stub.SendMessage(pb.SendMessageRequest(session_id=session, message=ASKING), timeout=WAIT)


def stop(stub, session, graceful=False):
    return stub.StopSession(pb.StopSessionRequest(session_id=session, graceful=graceful), timeout=WAIT).session


def modes(stub, obey, project):
    created = pb.CampaignEventRequest(type=pb.CAMPAIGN_EVENT_TYPE_CREATED, name="seed", path=project, source="t")
    campaign = stub.ReportCampaignEvent(created, timeout=WAIT).campaign_id
    first = new_session(stub, campaign)
    events = list(send(stub, first))
    check("the daemon's default mode lets a turn end", events[-1].type == pb.ACTIVITY_TYPE_COMPLETION, events)
    shown = obey.json("campaign", "set", "seed", "--mode", "supervised")
    check("a campaign has a mode of its own", shown["mode"] == "supervised", shown)
    second = new_session(stub, campaign)
    for event in send(stub, second):
        if event.type == pb.ACTIVITY_TYPE_STATUS and "answer with: obey session approve" in event.content:
            break
    else:
        check("a supervised campaign asks", False)
    stop(stub, second)
    everything = stub.WatchAllSessions(pb.WatchAllSessionsRequest(), timeout=WAIT)
    everything.initial_metadata()
    asking = new_session(stub, campaign, initial_message=ASKING)
    command = f"answer with: obey session approve {asking} req_1"
    told = (event for event in everything if event.session_id == asking and command in event.message)
    check("whoever watches all sessions is told what waits and what answers it", next(told).new_status == pb.SESSION_STATUS_WORKING)
    stop(stub, asking)
    named = new_session(stub, campaign, provider_config={"permission_mode": "autonomous"})
    check("a session's own mode goes first", list(send(stub, named))[-1].content == "done")
    config = obey.json("config", "show")
    settings = {setting["key"]: setting for setting in config["settings"]}
    default = settings["sessions.default_mode"]
    check("config show has the default mode and its source", default["value"] == "autonomous", default)
    check("and the campaigns' modes", config["campaign_modes"] == [{"campaign": "seed", "mode": "supervised"}])
    wrong = obey.run("campaign", "set", "seed", "--mode", "yolo")
    check("a mode that is none is refused by name", wrong.returncode == 2 and "acceptEdits" in wrong.stderr, wrong)
    nothing = obey.run("campaign", "set", "seed")
    check("and so is no change", nothing.returncode == 2 and "--mode" in nothing.stderr, nothing)
    obey.json("campaign", "set", "seed", "--mode", "none")
    third = new_session(stub, campaign)
    check("a campaign without a mode has the daemon's", list(send(stub, third))[-1].content == "done")
    for session in (first, named, third):
        stop(stub, session)
    return campaign


def activity(session, kind, content="", **more):
    return pb.AgentActivityEvent(session_id=session, agent_name="outside", type=kind, content=content, **more)


def listed(obey, session):
    done = obey.run("ps", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return next(row for row in rows if row["session_id"] == session)


def external(stub, obey, campaign):
    made = obey.json("session", "create", "--external", "--campaign", "seed", "--name", "outside")
    session = made["id"]
    got = stub.GetSession(pb.GetSessionRequest(session_id=session), timeout=WAIT)
    check("an external session runs", (got.status, got.provider) == (pb.SESSION_STATUS_RUNNING, EXTERNAL), got)
    begun = [
        activity(session, pb.ACTIVITY_TYPE_THINKING, "let me look"),
        activity(session, pb.ACTIVITY_TYPE_TOOL_CALL, "fest status", tool_name="Bash", tool_call_id="tc_001"),
    ]
    ack = stub.StreamAgentActivity(iter(begun), timeout=WAIT)
    check("its activity is stored", (ack.received, ack.stored) == (2, 2) and ack.last_sequence > 0, ack)
    row = listed(obey, session)
    check("the overview shows it at work", (row["state"], row["reason"]) == ("working", "runs Bash"), row)
    ended = [
        activity(session, pb.ACTIVITY_TYPE_TOOL_RESULT, tool_call_id="tc_001", output="fine", success=True),
        activity(session, pb.ACTIVITY_TYPE_COMPLETION, "All done.", tokens_input=850, tokens_output=340),
    ]
    stub.StreamAgentActivity(iter(ended), timeout=WAIT)
    row = listed(obey, session)
    check("and done, with its last line", (row["state"], row["last_line"]) == ("done", "All done."), row)
    got = stub.GetSession(pb.GetSessionRequest(session_id=session), timeout=WAIT)
    check("its tokens are counted", (got.tokens_input, got.tokens_output) == (850, 340), got)
    failed = activity(session, pb.ACTIVITY_TYPE_ERROR, "no network")
    stub.StreamAgentActivity(iter([failed]), timeout=WAIT)
    row = listed(obey, session)
    check("an error is shown as one", row["state"] == "failed" and "no network" in row["reason"], row)
    refused("it takes no prompt", lambda: list(send(stub, session)), grpc.StatusCode.FAILED_PRECONDITION, "OBEY-2011")
    stub.StreamAgentActivity(iter([begun[0]]), timeout=WAIT)
    stopped = stop(stub, session, graceful=True)
    check("it ends at once, though its agent works on", stopped.status == pb.SESSION_STATUS_STOPPED, stopped)
    late = lambda: stub.StreamAgentActivity(iter([begun[0]]), timeout=WAIT)
    refused("and then takes no activity", late, grpc.StatusCode.FAILED_PRECONDITION, "OBEY-2011")
    stopped = stop(stub, new_session(stub, campaign), graceful=True)
    counted = (stopped.tokens_input, stopped.tokens_output)
    used = activity(stopped.id, pb.ACTIVITY_TYPE_COMPLETION, "late", tokens_input=500, tokens_output=200)
    stub.StreamAgentActivity(iter([used]), timeout=WAIT)
    got = stub.GetSession(pb.GetSessionRequest(session_id=stopped.id), timeout=WAIT)
    check("what is said of an ended session is not counted", (got.tokens_input, got.tokens_output) == counted, got)
    request = pb.CreateSessionRequest(campaign_id=campaign, provider=EXTERNAL, initial_message="x")
    never = lambda: stub.CreateSession(request, timeout=WAIT)
    refused("an initial message is refused by name", never, grpc.StatusCode.INVALID_ARGUMENT, "OBEY-1001")
    return session


def tables(database, session, campaign):
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        columns = "activity_type, content, tool_name, tool_call_id, success"
        rows = connection.execute(
            f"SELECT {columns} FROM agent_activities WHERE session_id = ? ORDER BY id", [session]
        ).fetchall()
        wanted = [
            ("THINKING", "let me look", "", "", None),
            ("TOOL_CALL", "fest status", "Bash", "tc_001", None),
            ("TOOL_RESULT", "fine", "Bash", "tc_001", 1),
            ("COMPLETION", "All done.", "", "", None),
        ]
        kept = [row for row in rows if row in wanted]
        check("agent_activities reads as published", kept[:4] == wanted, rows)
        row = connection.execute(
            "SELECT campaign_id, agent_name, provider, status, tokens_input, tokens_output, pid, error_message,"
            " restart_count FROM agent_sessions WHERE id = ?",
            [session],
        ).fetchone()
        check("agent_sessions too", row == (campaign, "outside", "external", "STOPPED", 850, 340, 0, "", 0), row)
        events = connection.execute(
            "SELECT event_type, source FROM events WHERE campaign_id = ? AND payload ->> 'session_id' = ? ORDER BY id",
            [campaign, session],
        ).fetchall()
        check("SESSION_STARTED and SESSION_STOPPED are told", [e[0] for e in events] == ["SESSION_STARTED", "SESSION_STOPPED"], events)


def main():
    socket, project, program, database = sys.argv[1:]
    obey = Obey(program)
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        stub = daemon_pb2_grpc.LocalDaemonServiceStub(channel)
        campaign = modes(stub, obey, project)
        session = external(stub, obey, campaign)
        tables(database, session, campaign)
        stub.Shutdown(pb.ShutdownRequest(stop_sessions=True), timeout=WAIT)


main()
