"""The process whose forks do the work of :func:`ctxviz.apart.call`; it ends when its caller does.

It has no threads, so a fork of it is whole. Modules of tasks are ctxviz's own and are imported here, before
the fork, so that each is imported once; nobody's file is read before it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from math import ceil
from typing import Any

from ctxviz.errors import CtxvizError, reason


def serve(control: socket.socket) -> None:
    """Fork for each line that is handed over, until nobody is there to hand one over."""
    # Nobody waits for the forks: the system takes them away as they end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    waiting = b""
    while True:
        data, lines, _, _ = socket.recv_fds(control, 4096, 16)
        if not data:
            return
        waiting += data
        *modules, waiting = waiting.split(b"\n")
        for module in modules:
            with suppress(Exception):
                import_module(module.decode())
        for line in lines:
            if os.fork() == 0:
                control.close()
                with socket.socket(fileno=line) as connection:
                    _work(connection)
                os._exit(0)
            os.close(line)


def _work(connection: socket.socket) -> None:
    """Do one task, and say how it went."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _say(connection, {"process": os.getpid()})
    with connection.makefile("rb") as lines:
        request = json.loads(lines.readline())
    try:
        seconds = ceil(request["seconds"]) + 1
        _limit_memory(request["room_bytes"])
        # Should the caller be gone: the system ends what does not end, even inside a library.
        signal.alarm(seconds)

        def report(stage: str, fraction: float | None) -> None:
            signal.alarm(seconds)
            _say(connection, {"stage": stage, "fraction": fraction})

        answer = _function(request["task"])(report, *request["arguments"])
        _say(connection, {"answer": answer})
    except CtxvizError as error:
        _say(connection, {"kind": type(error).__name__, "words": str(error)})
    except MemoryError:
        _say(connection, {"words": f"it takes over {request['room_bytes'] / 1e6:,.0f} MB of memory"})
    # Also what is no Exception: a panic inside a library written in Rust.
    except BaseException as error:
        _say(connection, {"words": reason(error)})


def _function(task: str) -> Callable[..., Any]:
    module, _, name = task.partition(":")
    return getattr(import_module(module), name)


def _say(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _limit_memory(room_bytes: int) -> None:
    """Let this process take so much more; mapped files do not count. Not every system knows this limit."""
    with suppress(OSError, ValueError):
        with open("/proc/self/status", encoding="ascii") as status:
            (data,) = (int(line.split()[1]) << 10 for line in status if line.startswith("VmData:"))
        resource.setrlimit(resource.RLIMIT_DATA, (data + room_bytes, data + room_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as line_to_caller:
        serve(line_to_caller)
