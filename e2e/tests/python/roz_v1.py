"""Drives roz.v1 from Python, as any stranger's client would: sessions with tools of its own, over TCP and the socket.

Usage: roz_v1.py TCP_ADDRESS SOCKET_ADDRESS PROJECT PROVIDER, with the stubs compiled from proto/ on PYTHONPATH. Prints
one line per check and ends with code 1 at the first that fails. The last call shuts the daemon down.
"""

import json
import queue
import sys
import threading

import grpc
from obey.local.v1 import daemon_pb2, daemon_pb2_grpc
from obey.v1 import environment_pb2, environment_pb2_grpc
from roz.v1 import agent_pb2 as pb
from roz.v1 import agent_pb2_grpc, task_pb2, task_pb2_grpc

# Bounds a hang; nothing here is judged by its speed.
WAIT = 30


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


def script(key, *steps):
    return f"{key} SCRIPT: {json.dumps(steps)}"


def kind(response):
    return response.WhichOneof("response")


class Stream:
    """One session: a queue of what is said, and a thread that hears."""

    def __init__(self, agents, **start):
        self.said = queue.Queue()
        self.heard = queue.Queue()
        self.responses = []
        self.say(start=pb.StartSession(**start))
        self.stream = agents.StreamSession(iter(self.said.get, None), timeout=WAIT)
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self):
        try:
            for response in self.stream:
                self.heard.put(response)
        except grpc.RpcError as error:
            self.heard.put(error)
        self.heard.put(None)

    def say(self, **request):
        self.said.put(pb.SessionRequest(**request))

    def hush(self):
        self.said.put(None)

    def next(self):
        response = self.heard.get(timeout=WAIT)
        if response is not None:
            self.responses.append(response)
        return response

    def until(self, wanted, fits=lambda body: True):
        while True:
            response = self.next()
            if response is None or isinstance(response, grpc.RpcError):
                check(f"a {wanted}", False, self.responses)
            body = getattr(response, wanted, None)
            if kind(response) == wanted and fits(body):
                return body


def text(responses):
    return "".join(found.text_delta.content for found in responses if kind(found) == "text_delta")


def session(name, address, environment, tool):
    channel = grpc.insecure_channel(address)
    agents = agent_pb2_grpc.AgentServiceStub(channel)
    tools = [
        pb.ToolSchema(name="move_arm", description="moves", category=pb.TOOL_CATEGORY_PHYSICAL, timeout_ms=9000),
        pb.ToolSchema(name="read_pose", description="reads", category=pb.TOOL_CATEGORY_PURE),
    ]
    tools[0].parameters_schema.update({"type": "object", "properties": {"x": {"type": "number"}}})
    stream = Stream(agents, environment_id=environment, tools=tools)
    started = stream.until("session_started")
    policies = {rule.tool_pattern: rule.policy for rule in started.permissions}
    check(
        f"{name}: the start says what will ask",
        policies == {"move_arm": "require_confirmation", "read_pose": "allow"},
        policies,
    )
    stream.say(ping=pb.Ping())
    stream.until("pong")

    call = {"tool": tool, "input": {"x": 1.5}}
    prompt = script("move", [{"text": "moving "}, call], {"text": " done"})
    stream.say(user_message=pb.UserMessage(content=prompt, message_id="m-1"))
    waiting = stream.until("activity_update", lambda update: update.state == "waiting_approval")
    decision = pb.PermissionDecision(tool_call_id=waiting.detail, approved=True)
    stream.say(permission_decision=decision)
    asked = stream.until("tool_request")
    check(f"{name}: the tool is asked for by its plain name", asked.tool_name == "move_arm", asked)
    check(f"{name}: its parameters arrive", asked.parameters["x"] == 1.5, asked)
    check(f"{name}: its time limit arrives", asked.timeout_ms == 9000, asked)
    result = pb.ToolResult(tool_call_id=asked.tool_call_id, success=True, result="moved", duration_ms=3)
    stream.say(tool_result=result)
    end = stream.until("turn_complete")
    check(f"{name}: the turn ends under its message", (end.message_id, end.stop_reason) == ("m-1", "end_turn"), end)
    said = text(stream.responses)
    check(f"{name}: all text arrives", said.startswith("moving ") and said.endswith(" done"), said)

    stream.say(user_message=pb.UserMessage(content=script("hang", [{"text": "hm"}, {"hang": True}])))
    stream.until("text_delta")
    stream.say(cancel_turn=pb.CancelTurn(reason="enough"))
    check(f"{name}: a turn is cancelled", stream.until("turn_complete").stop_reason == "cancelled")
    stream.hush()
    while stream.next() is not None:
        pass

    bad = list(agents.StreamSession(iter([pb.SessionRequest(start=pb.StartSession(environment_id="x"))])))
    check(f"{name}: a wrong start ends the stream well", bad[-1].error.code == "invalid_argument", bad)
    return channel


def task(channel, environment):
    tasks = task_pb2_grpc.TaskServiceStub(channel)
    prompt = script("work", {"text": "worked"})
    made = tasks.CreateTask(task_pb2.CreateTaskRequest(prompt=prompt, environment_id=environment), timeout=WAIT)
    request = task_pb2.StreamTaskStatusRequest(task_id=made.id)
    words = [update.status for update in tasks.StreamTaskStatus(request, timeout=WAIT)]
    check("a task runs to its end", words[-1] == "succeeded", words)


def main():
    tcp, socket, project, provider = sys.argv[1:]
    environments = environment_pb2_grpc.EnvironmentServiceStub(grpc.insecure_channel(tcp))
    request = environment_pb2.CreateEnvironmentRequest(name="lab", directory=project, provider=provider)
    environment = environments.CreateEnvironment(request, timeout=WAIT).id
    # Programs reach the tool through a server called obey, the agent inside the daemon directly.
    tool = "move_arm" if provider == "openai-api" else "mcp__obey__move_arm"
    session("tcp", tcp, environment, tool)
    channel = session("socket", socket, environment, tool)
    task(channel, environment)
    local = daemon_pb2_grpc.LocalDaemonServiceStub(channel)
    local.Shutdown(daemon_pb2.ShutdownRequest(stop_sessions=True), timeout=WAIT)
    print("ok     the daemon was told to end")


main()
