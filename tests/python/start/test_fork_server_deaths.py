"""The fork server: its end, that of its parent, and one that is replaced since a module has changed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import support
from fork_server_programs import MAIN, Program, is_running

# --- a start that is interrupted


def test_an_interrupt_while_it_starts_leaves_no_server(program: Program) -> None:
    source = """
    import os
    import forklift.multiprocessing as mp
    from forklift.multiprocessing._start import zygote

    def interrupt(*_):
        raise KeyboardInterrupt

    if __name__ == "__main__":
        context, send = mp.get_context("forkserver"), zygote.send_plan
        zygote.send_plan = interrupt
        try:
            context.Process(target=print).start()
        except KeyboardInterrupt:
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                print("no child", flush=True)
        zygote.send_plan = send
        child = context.Process(target=print, args=("the next one",))
        child.start()
        child.join()
    """
    assert program.main(source) == (["no child", "the next one"], "")


# --- a changed module


def test_a_module_that_changes(program: Program) -> None:
    """The next child sees it as it is on disk. A child of the old server lives on, and its end is seen."""
    program.write("changing", "VALUE = 1")
    source = """
    import os, sys
    from multiprocessing import forkserver
    import forklift.multiprocessing as mp
    import changing

    def look(queue, event):
        queue.put(changing.VALUE)
        event.wait(60)
        sys.exit(changing.VALUE)

    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        queue, event, children, servers = context.Queue(), context.Event(), [], []
        for value in (1, 1, 22):
            with open(changing.__file__) as file:
                old = file.read()
            if (new := f"VALUE = {value}") != old:
                with open(changing.__file__, "w") as file:
                    file.write(new)
            children.append(context.Process(target=look, args=(queue, event)))
            children[-1].start()
            servers.append(forkserver._forkserver._forkserver_pid)
            print(queue.get(timeout=60))
        event.set()
        for child in children:
            child.join()
        print([child.exitcode for child in children], servers[0] == servers[1] != servers[2])
        while True:  # the old server ends with its last child, and is waited for
            mp.active_children()
            child = context.Process(target=int)
            child.start()
            child.join()
            try:
                os.waitid(os.P_PID, servers[0], os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:
                break
    """
    assert program.main(source) == (["1", "1", "22", "[1, 1, 22] True"], "")


def test_a_main_module_that_changes(program: Program) -> None:
    """The server has compiled it, but a child runs what is on disk."""
    source = """
    import forklift.multiprocessing as mp
    VALUE = 1

    def look():
        print(VALUE, flush=True)

    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        for _ in range(3):
            child = context.Process(target=look)
            child.start()
            child.join()
            with open(__file__) as file:
                code = file.read()
            with open(__file__, "w") as file:
                file.write(code.replace("VALUE = 1", "VALUE = 22"))
    """
    assert program.main(source) == (["1", "22", "22"], "")


# --- deaths


def test_the_server_is_killed(program: Program) -> None:
    """The next start makes another; of its children it is known that they are lost, as ever."""
    source = """
    import os, signal
    from multiprocessing import forkserver
    import forklift.multiprocessing as mp
    import marker

    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        queue, event = context.Queue(), context.Event()
        first = context.Process(target=event.wait, args=(60,))
        first.start()
        server = forkserver._forkserver._forkserver_pid
        os.kill(server, signal.SIGKILL)
        os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
        second = context.Process(target=marker.say, args=(queue,))
        second.start()
        print(queue.get(timeout=60)[0])
        event.set()
        first.join()
        second.join()
        print(first.exitcode, second.exitcode, server != forkserver._forkserver._forkserver_pid)
    """
    assert program.main(source) == (["True", "255 0 True"], "")


def test_the_server_is_killed_while_it_starts_a_process(program: Program) -> None:
    """The error says so. The next start makes another server."""
    program.write("deadly", "import os\nos.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), 9))")
    source = """
    import os
    import forklift.multiprocessing as mp
    import deadly
    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        for _ in range(2):
            child = context.Process(target=int)
            try:
                child.start()
            except EOFError as error:
                print(error)
    """
    lines, _ = program.main(source)
    assert len(lines) == 2
    for line in lines:
        assert re.fullmatch(r"the fork server \(process \d+\) ended while it started a process", line)


def test_the_server_is_killed_again_and_again(program: Program) -> None:
    """Each start works or says that the server has ended. Neither descriptors nor slots are lost."""
    source = """
    import gc, os, random, signal, threading
    from multiprocessing import forkserver
    import forklift
    import forklift.multiprocessing as mp
    import marker

    def start(context):
        child = context.Process(target=marker.imported_by, daemon=True)
        child.start()
        child.join()
        assert child.exitcode in (0, 255), child.exitcode

    def kill(done):
        while not done.wait(random.uniform(0.001, 0.02)):
            pid = forkserver._forkserver._forkserver_pid
            if pid is not None:
                os.kill(pid, signal.SIGKILL)

    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        done = threading.Event()
        start(context)
        held = set(os.listdir("/proc/self/fd"))
        killer = threading.Thread(target=kill, args=(done,))
        killer.start()
        for _ in range(30):
            try:
                start(context)
            except EOFError:
                pass
        done.set()
        killer.join()
        pid = forkserver._forkserver._forkserver_pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        start(context)
        gc.collect()
        print(len(os.listdir("/proc/self/fd")) - len(held))
        while forklift.stats()["processes"] > 1:
            forklift.reap()
        print(forklift.audit())
    """
    lines, _ = program.main(source)
    assert lines == ["0", "[]"]


def test_a_fork_that_fails(program: Program) -> None:
    """The error is the system's, the server goes on, and the program can try again."""
    module = """
    import errno, os
    fork, failed = os.fork, []
    def fail_once():
        if not failed:
            failed.append(1)
            raise OSError(errno.EAGAIN, "no more processes")
        return fork()
    os.fork = fail_once
    """
    program.write("failing", module)
    source = """
    import errno
    from multiprocessing import forkserver
    import forklift.multiprocessing as mp
    import failing
    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        for _ in range(2):
            child = context.Process(target=int)
            try:
                child.start()
            except BlockingIOError as error:
                server = forkserver._forkserver._forkserver_pid
                print(error.errno == errno.EAGAIN, "in the fork server" in str(error))
        child.join()
        print(child.exitcode, server == forkserver._forkserver._forkserver_pid)
    """
    assert program.main(source) == (["True True", "0 True"], "")


@pytest.mark.parametrize("when", ["importing", "idle"])
def test_the_parent_is_killed(program: Program, when: str) -> None:
    """The server ends within two seconds, also in the middle of an import."""
    slow = "import os, pathlib, time\nprint(os.getpid(), flush=True)\n"
    program.write("slow", slow + ("time.sleep(60)" if when == "importing" else ""))
    source = """
    import time
    import forklift.multiprocessing as mp
    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(["slow"])
        child = context.Process(target=int)
        child.start()
        child.join()
        print("idle", flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, program.write("program", source)],
        stdout=subprocess.PIPE,
        text=True,
        env=program.environment(),
    )
    try:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        if when == "idle":
            assert process.stdout.readline() == "idle\n"
        assert is_running(server)
        process.kill()
        support.until(lambda: not is_running(server), "the server's end", 2.0)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_ctrl_c_while_the_server_imports(program: Program) -> None:
    """It ends quietly with its parent, which has the only traceback."""
    program.write("slow", "import time\nprint('slow', flush=True)\ntime.sleep(60)")
    source = """
    import forklift.multiprocessing as mp
    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(["slow"])
        context.Process(target=int).start()
    """
    process = subprocess.Popen(
        [sys.executable, program.write("program", source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=program.environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "slow\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert errors.count("Traceback") == 1, errors


def test_ctrl_c_that_the_program_handles(program: Program) -> None:
    """The server goes on with its imports."""
    program.write("slow", "import sys\nprint('slow', flush=True)\nopen(sys.argv[1], 'rb').read(1)")
    source = """
    import os, signal, sys
    import forklift.multiprocessing as mp

    def look():
        print("slow" in sys.modules, flush=True)

    if __name__ == "__main__":
        signal.signal(signal.SIGINT, lambda *_: os.write(writer, b"x"))
        reader, writer = os.pipe()
        sys.argv[1:] = [f"/proc/{os.getpid()}/fd/{reader}"]
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(["slow"])
        child = context.Process(target=look)
        child.start()
        child.join()
    """
    process = subprocess.Popen(
        [sys.executable, program.write("program", source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=program.environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "slow\n"
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert (output, errors) == ("True\n", "")


def test_nothing_is_left(program: Program) -> None:
    """Neither processes nor files, whether the program ends well or not."""
    for code in (0, 1):
        source = (
            MAIN
            + f"""
    from multiprocessing import forkserver, util
    print(forkserver._forkserver._forkserver_pid, util.get_temp_dir())
    raise SystemExit({code})
"""
        )
        lines, _ = program.main(source, code=code)
        pid, folder = lines[-1].split()
        support.until(lambda pid=pid: not is_running(int(pid)), "the server's end", 2.0)
        assert not Path(folder).exists()


def test_a_thread_of_the_server_does_not_keep_it(program: Program) -> None:
    """Not even one for which the interpreter's end waits."""
    later = """
    import os, threading
    os.register_at_fork(after_in_parent=lambda: threading.Thread(target=threading.Event().wait).start())
    """
    program.write("later", later)
    source = """
    from multiprocessing import forkserver
    import forklift.multiprocessing as mp
    import later
    if __name__ == "__main__":
        child = mp.get_context("forkserver").Process(target=int)
        child.start()
        child.join()
        print(forkserver._forkserver._forkserver_pid)
    """
    (pid,), _ = program.main(source)
    support.until(lambda: not is_running(int(pid)), "the server's end", 2.0)
