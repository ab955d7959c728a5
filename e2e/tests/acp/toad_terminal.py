"""A person at a terminal with Toad in it: pastes a prompt, reads the answer on the screen, pastes one that needs a
permission, allows it with the key for that, and leaves. Arguments: Python, run_toad.py, the agent, the folder, the records of
the agent's lines, and the prompts as JSON. Prints what the screen showed as one JSON object."""

import fcntl
import glob
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import time

python, toad, agent, folder, records, prompts = sys.argv[1:]
prompts = json.loads(prompts)
DEADLINE = 60
ESCAPES = r"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[PX^_].*?\x1b\\|.)"

child, terminal = pty.fork()
if child == 0:
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
    os.execv(python, [python, toad, "acp", agent, "-d", folder])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
shown = b""


def read():
    global shown
    ready, _, _ = select.select([terminal], [], [], 0.05)
    if ready:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            return False
    return True


def screen():
    return re.sub(ESCAPES, "", shown.decode("utf-8", "replace"))


def lines(kind):
    return "".join(open(name).read() for name in glob.glob(f"{records}/*.{kind}"))


def until(what, done):
    by = time.monotonic() + DEADLINE
    while not done():
        if time.monotonic() > by:
            raise SystemExit(f"never: {what}\n{screen()[-4000:]}\n{lines('out')[-2000:]}")
        read()


def say(text):
    """Pastes a prompt, and presses Enter until it is gone: before the agent is ready the editor takes none."""
    before = lines("in").count('"session/prompt"')
    # As one piece, as terminals do: letters one by one are slow, and Enter may come between them.
    os.write(terminal, b"\x1b[200~" + text.encode() + b"\x1b[201~")
    until("the words in the prompt", lambda: text[:10] in screen())
    pressed = 0

    def is_sent():
        nonlocal pressed
        if lines("in").count('"session/prompt"') > before:
            return True
        if time.monotonic() - pressed > 3:
            os.write(terminal, b"\r")
            pressed = time.monotonic()
        return False

    until("the prompt on its way", is_sent)


def answers():
    return lines("out").count('"stopReason"')


until("the prompt", lambda: "How can I help" in screen())
until("the session", lambda: '"sessionId"' in lines("out"))
say(prompts["say"])
until("the answer", lambda: answers() == 1)
until("the answer on the screen", lambda: prompts["answer"] in screen())
shown = b""
say(prompts["ask"])
until("the question", lambda: "session/request_permission" in lines("out"))
until("the question on the screen", lambda: "Allow" in screen())
os.write(terminal, b"a")
until("the permission", lambda: "allow-once" in lines("in"))
until("the second answer", lambda: answers() == 2)
os.write(terminal, b"\x11")
by = time.monotonic() + DEADLINE
while read() and os.waitpid(child, os.WNOHANG) == (0, 0):
    if time.monotonic() > by:
        raise SystemExit("it does not leave")
print(json.dumps({"answers": answers()}))
