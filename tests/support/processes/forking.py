"""Children that read pickles and parquet, forked from one process that has imported what takes them seconds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO

import psutil

from hfposemb.checkpoints.pickles import child as pickle_child

ROOT = Path(__file__).parents[3]


class Forked:
    """What is used of ``subprocess.Popen``, for a child of another process."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout

    def kill(self) -> None:
        """End the child."""
        with suppress(ProcessLookupError):  # as Popen, which does nothing if it has ended
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait for its end."""
        try:
            psutil.Process(self.pid).wait()
        except psutil.NoSuchProcess:
            return


class Parent:
    """The process that forks."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        theirs.close()

    def start(self, module: str = pickle_child.__name__, function: str = pickle_child.serve_pickle.__name__) -> Forked:
        """Fork a child that serves one file over its pipes, by a function of a module."""
        request, stdin = os.pipe()
        stdout, answer = os.pipe()
        socket.send_fds(self._socket, [f"{module} {function}".encode()], [request, answer])
        os.close(request)
        os.close(answer)
        return Forked(int(self._socket.recv(32)), os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"))

    def end(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()


def serve(number: int) -> None:
    """Fork for each pair of pipes that arrives, until the other side is closed."""
    for name in ("torch._weights_only_unpickler", "pyarrow.parquet", "pandas", "hfposemb.checkpoints.parquet_child"):
        import_module(name)  # what takes long
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    with socket.socket(fileno=number) as there:
        while True:
            message, pipes, _, _ = socket.recv_fds(there, 256, 2)
            if not message:
                return
            if pid := os.fork():
                for pipe in pipes:
                    os.close(pipe)
                there.send(b"%d" % pid)
                continue
            there.close()
            os.setsid()
            os.dup2(pipes[0], 0)
            os.dup2(pipes[1], 1)
            for pipe in pipes:
                os.close(pipe)
            module, function = message.decode().split()
            getattr(import_module(module), function)()
            os._exit(0)
