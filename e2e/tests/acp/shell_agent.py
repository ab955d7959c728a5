"""An ACP agent that runs its prompt as a shell command and replies with the output: a hostile agent for the boundary tests.

A prompt whose first line is `#ask` opens a permission request first, runs the rest while the request waits, and ends
its turn once the request is answered. Needs nothing but Python's standard library.
"""

import json
import subprocess
import sys

COMMAND_DEADLINE_SECS = 60


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def run(command, folder):
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_DEADLINE_SECS,
        )
        return done.stdout.decode(errors="replace") + f"exit {done.returncode}"
    except subprocess.TimeoutExpired:
        return "exit timeout"


def say(session, text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})


def ask(session):
    call = {"toolCallId": "call-1", "title": "touch asked", "kind": "execute", "rawInput": {"command": "touch asked"}}
    options = [
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    ]
    params = {"sessionId": session, "toolCall": call, "options": options}
    send({"id": "ask-1", "method": "session/request_permission", "params": params})


def prompt(session, folder, text):
    asks = text.startswith("#ask\n")
    if asks:
        ask(session)
    say(session, run(text, folder))
    while asks:
        message = receive()
        if message.get("id") == "ask-1":
            say(session, "\nanswered " + json.dumps(message.get("result")))
            asks = False


def main():
    folder = "."
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            continue
        result = {}
        if method == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "shell", "version": "1"}}
        elif method == "session/new":
            folder = params.get("cwd", ".")
            result = {"sessionId": "shell-1"}
        elif method == "session/prompt":
            text = "".join(block.get("text", "") for block in params["prompt"])
            prompt(params["sessionId"], folder, text)
            result = {"stopReason": "end_turn"}
        send({"id": message["id"], "result": result})


main()
