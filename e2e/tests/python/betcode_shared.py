"""Two Python clients at one session of betcode.v1, compiled from the interface as it was published.

Usage: betcode_shared.py PLAN, a JSON object with what differs between agents. Prints one line per check and ends with
code 1 at the first that fails. The same story as tests/node/betcode_v1.cjs, told by another library.
"""

import json
import os
import queue
import sys
import tempfile
import threading

import grpc
import grpc_tools
from grpc_tools import protoc

# Bounds a hang; nothing here is judged by its speed.
WAIT = 60
plan = json.loads(sys.argv[1])


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        os._exit(1)
    print(f"ok     {what}", flush=True)


def compiled(path):
    out = tempfile.mkdtemp()
    known = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
    folder = os.path.dirname(path)
    code = protoc.main(["", f"-I{folder}", f"-I{known}", f"--python_out={out}", f"--grpc_python_out={out}", path])
    check("the published messages compile", code == 0, code)
    sys.path.insert(0, out)


compiled(plan["proto"])
import betcode_v1_pb2 as pb  # noqa: E402
import betcode_v1_pb2_grpc as services  # noqa: E402


def connect():
    # All channels of a process share a connection unless they are told not to.
    return grpc.insecure_channel(plan["address"], options=[("grpc.use_local_subchannel_pool", 1)])


def kind(event):
    return event.WhichOneof("event")


class Talk:
    """One conversation: a queue of what is said, and a thread that hears."""

    def __init__(self, agents, **start):
        self.said, self.heard, self.events = queue.Queue(), queue.Queue(), []
        self.say(start=pb.StartConversation(**start))
        self.stream = agents.Converse(iter(self.said.get, None), timeout=2 * WAIT)
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self):
        try:
            for event in self.stream:
                self.heard.put(event)
            self.heard.put(None)
        except grpc.RpcError as error:
            self.heard.put(error)

    def say(self, **request):
        self.said.put(pb.AgentRequest(**request))

    def next(self):
        event = self.heard.get(timeout=WAIT)
        if isinstance(event, grpc.RpcError):
            check("no stream fails", False, event)
        if event is not None:
            self.events.append(event)
        return event

    def until(self, wanted):
        while (event := self.next()) is not None:
            if kind(event) == wanted:
                return getattr(event, wanted)
        check(f"a {wanted}", False, self.events)

    def turn(self):
        begin = len(self.events)
        reason = self.until("turn_complete").stop_reason
        text = "".join(event.text_delta.text for event in self.events[begin:] if kind(event) == "text_delta")
        return text, reason

    def close(self):
        self.said.put(None)
        while self.next() is not None:
            pass

    def numbered(self):
        return [event for event in self.events if event.sequence]


def as_heard(events):
    """Events without what a replay says of requests that were settled since."""
    for event in events:
        for kind, text in (("permission_request", "description"), ("user_question", "question")):
            if event.HasField(kind):
                request = getattr(event, kind)
                request.DiscardUnknownFields()
                setattr(request, text, getattr(request, text).split(" [settled: ")[0])
                if "settled" in request.DESCRIPTOR.fields_by_name:
                    request.ClearField("settled")
    return events


def main():
    first, second = connect(), connect()
    agents = services.AgentServiceStub(first)
    others = services.AgentServiceStub(second)
    metadata = {"provider": plan["provider"]}
    anna = Talk(agents, working_directory=plan["project"], model=plan["model"], metadata=metadata)
    session = anna.next().session_info.session_id
    ben = Talk(others, session_id=session)
    check("a second client joins", ben.next().session_info.is_resumed)

    anna.say(message=pb.UserMessage(content=plan["asking"]))
    asked, seen = anna.until("permission_request"), ben.until("permission_request")
    check("both are asked the same", asked.request_id == seen.request_id, [asked, seen])
    call = (asked.tool_name, asked.input["command"])
    check("what is asked is the call", call == (plan["tool"], plan["command"]), asked)
    ben.say(permission=pb.PermissionResponse(request_id=asked.request_id, decision=pb.ALLOW_ONCE))
    check("the turn goes on for both", anna.turn() == ben.turn() == ("made it", "end_turn"), anna.events)

    ben.say(message=pb.UserMessage(content="let me"))
    refused = ben.until("error")
    check("only one of them may speak", refused.code == "OBEY-1002" and not refused.is_fatal, refused)
    lock = others.RequestInputLock(pb.InputLockRequest(session_id=session), timeout=WAIT)
    check("the other may take over", lock.granted and lock.previous_holder, lock)
    ben.say(message=pb.UserMessage(content=plan["hanging"]))
    ben.until("text_delta")
    anna.until("text_delta")
    ben.say(cancel=pb.CancelRequest(reason="enough"))
    check("a turn is cancelled for both", ben.turn()[1] == anna.turn()[1] == "cancelled")
    file = pb.Attachment(
        filename=plan["file"]["filename"], mime_type=plan["file"]["mime_type"], data=plan["file"]["text"].encode()
    )
    ben.say(message=pb.UserMessage(content=plan["reading"], attachments=[file]))
    check("a file is read", ben.turn()[0] == "read", ben.events)
    anna.turn()
    anna.close()
    ben.say(message=pb.UserMessage(content=plan["last"]))
    check("the other goes on alone", ben.turn()[0] == "alone", ben.events)
    ben.close()

    stored = list(agents.ResumeSession(pb.ResumeSessionRequest(session_id=session), timeout=WAIT))
    asked = [event.permission_request.description for event in stored if event.HasField("permission_request")]
    check("a replay says what is settled", asked and all("[settled: " in text for text in asked), asked)
    stored = as_heard(stored)
    check("what one heard is stored", stored[: len(ben.numbered())] == as_heard(ben.numbered()))
    check("and so is what the other heard", stored[: len(anna.numbered())] == as_heard(anna.numbered()))
    numbers = [event.sequence for event in stored]
    check("numbers grow", numbers == sorted(set(numbers)), numbers)
    listed = agents.ListSessions(pb.ListSessionsRequest(working_directory=plan["project"]), timeout=WAIT)
    check("the session is listed", listed.total == 1 and listed.sessions[0].id == session, listed)

    trees = services.WorktreeServiceStub(first)
    wanted = pb.CreateWorktreeRequest(repo_path=plan["project"], name="python", create_branch=True)
    made = trees.CreateWorktree(wanted, timeout=WAIT)
    removed = trees.RemoveWorktree(pb.RemoveWorktreeRequest(worktree_id=made.id), timeout=WAIT)
    check("a worktree is made and removed", made.branch == "python" and removed.removed, made)


main()
