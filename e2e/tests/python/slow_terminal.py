"""Runs a program in a terminal whose bytes take their time in both directions, as over a long line: slow_terminal.py MS PROGRAM ...

MS is the time from a key to what it changes on the screen and back: half of it each way.
"""

import collections
import fcntl
import os
import pty
import select
import signal
import sys
import termios
import time
import tty

delay = int(sys.argv[1]) / 2000
child, program = pty.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])


def resize(*_):
    size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
    fcntl.ioctl(program, termios.TIOCSWINSZ, size)


resize()
signal.signal(signal.SIGWINCH, resize)
before = termios.tcgetattr(0)
tty.setraw(0)
# What is on its way: when it arrives, where, and the bytes.
waiting = collections.deque()
ended = False
try:
    while not ended or waiting:
        wait = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        sources = [] if ended else [0, program]
        for source in select.select(sources, [], [], wait)[0]:
            try:
                data = os.read(source, 65536)
            except OSError:
                data = b""
            if source == program and not data:
                ended = True
            if data:
                waiting.append((time.monotonic() + delay, 1 if source == program else program, data))
        while waiting and waiting[0][0] <= time.monotonic():
            _, target, data = waiting.popleft()
            try:
                while data:
                    data = data[os.write(target, data) :]
            except OSError:
                # Keys for a program that has ended.
                pass
finally:
    termios.tcsetattr(0, termios.TCSADRAIN, before)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
