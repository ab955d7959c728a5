"""Drives betcode.v1.SubagentService from Python, as any stranger's client would.

Usage: subagents_v1.py ADDRESS PROJECT, with the stubs compiled from proto/ on PYTHONPATH. Prints one line per check and ends
with code 1 at the first that fails. The last call shuts the daemon down.
"""

import json
import queue
import sys

import grpc
from betcode.v1 import agent_pb2, agent_pb2_grpc
from betcode.v1 import subagent_pb2 as pb
from betcode.v1 import subagent_pb2_grpc
from obey.local.v1 import daemon_pb2, daemon_pb2_grpc

ADDRESS, PROJECT = sys.argv[1:3]
# Bounds a hang; nothing here is judged by its speed.
WAIT = 60


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


def script(key, *steps):
    return f"{key} SCRIPT: {json.dumps(steps)}"


def refused(what, code, call):
    try:
        call()
    except grpc.RpcError as error:
        check(what, error.code() == code, error)
        return error.details()
    check(what, False, "it was taken")


channel = grpc.insecure_channel(ADDRESS)
workers = subagent_pb2_grpc.SubagentServiceStub(channel)
said = queue.Queue()
start = agent_pb2.StartConversation(working_directory=PROJECT, metadata={"provider": "scripted"})
said.put(agent_pb2.AgentRequest(start=start))
talk = agent_pb2_grpc.AgentServiceStub(channel).Converse(iter(said.get, None))
parent = next(talk).session_info.session_id

spawn = pb.SpawnSubagentRequest(
    parent_session_id=parent,
    prompt=script("w", {"tool": "Bash", "input": {"command": "ls"}, "ask": True, "result": "x"}, {"text": "done"}),
    allowed_tools=["Bash(ls)"], auto_approve=True, name="py", provider="scripted",
)
worker = workers.SpawnSubagent(spawn, timeout=WAIT)
check("a worker is a session", worker.subagent_id == worker.session_id and worker.session_id.startswith("sess_"))
events = list(workers.WatchSubagent(pb.WatchSubagentRequest(subagent_id=worker.subagent_id), timeout=WAIT))
kinds = [event.WhichOneof("event") for event in events]
check("it starts first", kinds[0] == "started", kinds)
check("its call is approved", "tool_use" in kinds and "permission_request" not in kinds, kinds)
check("it ends last", kinds[-1] == "completed" and events[-1].completed.result_summary == "done", kinds)
check("events are numbered", all(a.sequence < b.sequence for a, b in zip(events, events[1:])), events)
again = workers.WatchSubagent(
    pb.WatchSubagentRequest(subagent_id=worker.subagent_id, from_sequence=events[0].sequence), timeout=WAIT)
check("a watch goes on from a number", list(again) == events[1:])
refused("nothing is sent to a worker that has ended", grpc.StatusCode.FAILED_PRECONDITION,
        lambda: workers.SendToSubagent(pb.SendToSubagentRequest(subagent_id=worker.subagent_id, content="x"), timeout=WAIT))
revoked = workers.RevokeAutoApprove(pb.RevokeAutoApproveRequest(subagent_id=worker.subagent_id), timeout=WAIT)
check("an approval is revoked", revoked.revoked, revoked)

hanging = workers.SpawnSubagent(pb.SpawnSubagentRequest(
    parent_session_id=parent, prompt=script("h", {"hang": True}), provider="scripted"), timeout=WAIT)
running = pb.ListSubagentsRequest(parent_session_id=parent, status_filter=pb.SUBAGENT_STATUS_COMPLETED)
listed = workers.ListSubagents(running, timeout=WAIT).subagents
check("workers are listed by status", [info.name for info in listed] == ["py"], listed)
cancelled = workers.CancelSubagent(
    pb.CancelSubagentRequest(subagent_id=hanging.subagent_id, reason="tired", force=True), timeout=WAIT)
check("a worker is cancelled", cancelled.cancelled and cancelled.final_status == pb.SUBAGENT_STATUS_CANCELLED)
ended = list(workers.WatchSubagent(pb.WatchSubagentRequest(subagent_id=hanging.subagent_id), timeout=WAIT))
check("its watchers are told why", ended[-1].cancelled.reason == "tired", ended)

steps = [
    pb.OrchestrationStep(id="a", prompt=script("a", {"text": "A"}), provider="scripted"),
    pb.OrchestrationStep(id="b", prompt=script("b", {"error": "no"}), provider="scripted", depends_on=["a"]),
    pb.OrchestrationStep(id="c", prompt=script("c", {"text": "C"}), provider="scripted", depends_on=["b"]),
]
made = workers.CreateOrchestration(pb.CreateOrchestrationRequest(
    parent_session_id=parent, steps=steps, strategy=pb.ORCHESTRATION_STRATEGY_DAG), timeout=WAIT)
check("an orchestration is made", made.total_steps == 3, made)
told = list(workers.WatchOrchestration(
    pb.WatchOrchestrationRequest(orchestration_id=made.orchestration_id), timeout=WAIT))
kinds = [event.WhichOneof("event") for event in told]
check("its events are in order",
      kinds == ["step_started", "step_completed", "step_started", "step_failed", "failed"], kinds)
check("a failed step blocks", list(told[3].step_failed.blocked_steps) == ["c"], told[3])
steps[0].depends_on.append("c")
details = refused("a circle is refused", grpc.StatusCode.INVALID_ARGUMENT, lambda: workers.CreateOrchestration(
    pb.CreateOrchestrationRequest(parent_session_id=parent, steps=steps, strategy=pb.ORCHESTRATION_STRATEGY_DAG), timeout=WAIT))
check("and named", "→" in details, details)
refused("approval without tools is refused", grpc.StatusCode.INVALID_ARGUMENT, lambda: workers.SpawnSubagent(
    pb.SpawnSubagentRequest(parent_session_id=parent, prompt="x", auto_approve=True), timeout=WAIT))

said.put(None)
daemon_pb2_grpc.LocalDaemonServiceStub(channel).Shutdown(
    daemon_pb2.ShutdownRequest(stop_sessions=True), timeout=WAIT)
