"""What a hostile process tries, one function each. Exit 0: it was contained. Exit 1: it got out.

Run inside a sandbox as `python3 -c PROBE NAME [ARGUMENTS]`, where PROBE is this file and
probe_kernel.py; the driver's isolation tests run each with its guard up, and again with its guard
down to see that the probe can tell the difference.
"""

import ctypes
import errno
import os
import resource
import signal
import socket
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    """A raw system call: the errno, or 0."""
    ctypes.set_errno(0)
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    done = libc.syscall(ctypes.c_long(number), *arguments)
    return ctypes.get_errno() if done < 0 else 0


def refused(operation, *arguments):
    try:
        done = operation(*arguments)
        print("done:", operation.__name__, arguments, done)
        return False
    except OSError:
        return True


def unreachable(path):
    """The path cannot be seen, or cannot be read."""
    try:
        if os.path.isdir(path):
            return not os.listdir(path)
        with open(path, "rb") as file:
            return not file.read(1)
    except OSError:
        return True


def paths_are_unreachable(*paths):
    return all(unreachable(path) for path in paths)


def paths_do_not_exist(*paths):
    return not any(os.path.lexists(path) for path in paths)


def only_own_processes():
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    own = {1, os.getpid(), os.getppid()}
    with open("/proc/1/comm") as file:
        return set(pids) <= own and file.read().startswith("sandkeep")


def no_signal_reaches(pid):
    try:
        os.kill(int(pid), 9)
        return False
    except ProcessLookupError:
        return True
    except PermissionError:
        return False


def the_other_end_of_the_session_is_out_of_reach():
    """The kernel hands out a descriptor for the process that listens: the gateway."""
    SO_PEERPIDFD = 77
    with socket.socket(socket.AF_UNIX) as end:
        end.connect("/run/sandkeep/session/s")
        try:
            pidfd = end.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
        except OSError as error:
            return error.errno != errno.EPERM
    try:
        signal.pidfd_send_signal(pidfd, 0)
        return False
    except OSError:
        return True


def socket_is_closed(path):
    with socket.socket(socket.AF_UNIX) as end:
        try:
            end.connect(path)
            return False
        except OSError:
            return True


def shared_memory_is_out_of_reach(number):
    libc.shmat.restype = ctypes.c_void_p
    return libc.shmat(int(number), None, 0) == ctypes.c_void_p(-1).value


def no_descriptor_is_left_open():
    own = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    left = {int(name) for name in os.listdir(own)} - {0, 1, 2, own}
    # Listing takes one more, which is closed again.
    left = {fd for fd in left if os.path.lexists("/proc/self/fd/%d" % fd)}
    for fd in left:
        print(fd, os.readlink("/proc/self/fd/%d" % fd), os.listdir(fd)[:3])
    return not left


def port_is_closed(port):
    try:
        socket.create_connection(("127.0.0.1", int(port)), timeout=2).close()
        return False
    except OSError:
        return True


def abstract_socket_is_closed(name):
    with socket.socket(socket.AF_UNIX) as end:
        try:
            end.connect("\0" + name)
            return False
        except OSError:
            return True


def first_ports_can_be_opened():
    """Not a way out: a server on port 80 of the sandbox's own loopback."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 80))
        server.listen()
        socket.create_connection(("127.0.0.1", 80), timeout=5).close()
    return True


def only_loopback():
    with open("/proc/net/dev") as file:
        names = {line.split(":")[0].strip() for line in file if ":" in line}
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        socket.create_connection(server.getsockname(), timeout=5).close()
    return names == {"lo"}


def socket_is_denied(family, kind, protocol):
    try:
        socket.socket(int(family), int(kind), int(protocol)).close()
        return False
    except OSError as error:
        return error.errno == errno.EPERM


def system_call_is_denied(number, *arguments):
    return call(int(number), *map(int, arguments)) == errno.EPERM


def no_new_user_namespace():
    CLONE_NEWUSER = 0x10000000
    return libc.unshare(CLONE_NEWUSER) != 0


def no_mount():
    os.makedirs("/tmp/m", exist_ok=True)
    return libc.mount(b"none", b"/tmp/m", b"tmpfs", 0, b"") != 0


def what_is_mounted_cannot_be_taken_away():
    """With every power inside its namespace: the mounts of the host's root are locked."""
    MNT_DETACH = 2
    places = ["/usr", "/workspace", "/run/sandkeep", "/run/sandkeep/session", "/etc/ssl/certs"]
    places = [place for place in places if os.path.ismount(place)]
    MS_REMOUNT, MS_BIND = 32, 4096
    writable = libc.mount(b"", b"/run/sandkeep", b"", MS_REMOUNT | MS_BIND, None) == 0
    gone = [place for place in places if libc.umount2(place.encode(), MNT_DETACH) == 0]
    return not gone and not writable and len(places) > 3


def memory_of_pid_1():
    with open("/proc/1/maps") as maps, open("/proc/1/mem", "rb", 0) as memory:
        return os.pread(memory.fileno(), 8, int(maps.readline().split("-")[0], 16))


def pid_1_is_closed(way):
    """By one of the ways into another process."""
    if way == "trace":
        PTRACE_SEIZE = 0x4206  # does not stop it, or nobody would report what came of it
        return libc.ptrace(PTRACE_SEIZE, 1, None, None) != 0
    if way == "descriptors":
        # The numbers can be listed; what is behind them cannot be seen or opened.
        return all(refused(os.readlink, "/proc/1/fd/%d" % number) for number in range(8))
    if way == "take a descriptor":
        pidfd = os.pidfd_open(1)
        return call(NUMBERS["pidfd_getfd"], pidfd, 0, 0) != 0
    if way == "read its memory":
        return refused(memory_of_pid_1)
    if way == "write its memory":
        return refused(open, "/proc/1/mem", "r+b", 0)
    if way == "its program":
        return refused(os.stat, "/proc/1/exe")
    if way == "its limits":
        now = resource.getrlimit(resource.RLIMIT_STACK)
        return refused(resource.prlimit, 1, resource.RLIMIT_STACK, now)
    return unreachable("/proc/1/" + way)


def device_does_not_open(path):
    try:
        with open(path, "rb") as file:
            file.read(1)
        return False
    except PermissionError:
        return True


def no_device_can_be_made():
    try:
        os.mknod("/tmp/zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        return True
    with open("/tmp/zero", "rb") as file:
        return file.read(1) != b"\0"


def setuid_has_no_effect(program):
    return os.popen(program + " -u").read().strip() == str(os.geteuid())


def processes_are_limited(most):
    children = []
    try:
        while len(children) < 2 * int(most):
            child = os.fork()
            if child == 0:
                time.sleep(600)
                os._exit(0)
            children.append(child)
        return False
    except BlockingIOError:
        return len(children) < int(most)
    finally:
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)


def memory_is_limited(most):
    child = os.fork()
    if child == 0:
        held = bytearray(2 * int(most))
        for at in range(0, len(held), 4096):
            held[at] = 1
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def sandkeeps_side_cannot_be_replaced():
    """What no guard has to keep: the kernel holds on to whatever is mounted."""
    return all(
        refused(*attempt)
        for attempt in (
            (os.rename, "/run/sandkeep", "/run/moved"),
            (os.rename, "/run", "/moved"),
            (os.rename, "/run/sandkeep/session", "/run/sandkeep/moved"),
            (os.rename, "/workspace", "/moved"),
            (open, "/run/sandkeep/bin/sandkeep-supervisor", "ab"),
        )
    )


def sandkeeps_side_cannot_be_changed(way):
    if way == "add":
        return refused(os.mkdir, "/run/sandkeep/more")
    if way == "take the socket away":
        return refused(os.unlink, "/run/sandkeep/session/s")
    if way == "another socket":
        return refused(os.mknod, "/run/sandkeep/session/t", 0o140777)
    if way == "its program, while it runs":
        # As a program opens itself when somebody entered the sandbox with it.
        return refused(os.chmod, "/run/sandkeep/bin/sandkeep-supervisor", 0o777)
    return False


def nobody_else_gets_a_session():
    with socket.socket(socket.AF_UNIX) as end:
        end.connect("/run/sandkeep/session/s")
        return end.recv(1) == b""


def all_watches_are_taken():
    """Not a way out by itself: all that the kernel gives to one user, until told to let go."""
    taken = 0
    while libc.inotify_init1(0) >= 0:
        taken += 1
    open("/workspace/taken", "w").close()
    while not os.path.exists("/workspace/enough"):
        time.sleep(0.01)
    print("taken", taken)
    return taken > 0


def files_can_be_watched():
    return libc.inotify_init1(0) >= 0


def the_supervisors_state_is_hidden():
    return not os.listdir("/run/sandkeep/state") and refused(open, "/run/sandkeep/state/x", "w")


def cannot_be_written(path):
    """Opened only: nothing is changed."""
    return refused(os.open, path, os.O_WRONLY)


def work_is_left_behind():
    """Not a way out by itself: what the host then finds in the workspace."""
    with open("/workspace/program", "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod("/workspace/program", 0o6755)
    os.mkfifo("/workspace/pipe")
    os.symlink("/etc/shadow", "/workspace/link")
    given = [uid for uid in (1, 1000, 65535) if not refused(os.chown, "/workspace/pipe", uid, uid)]
    print("given away to", given)
    return not given


def processor_is_used(seconds):
    """Not a way out by itself: so much of the processor, however long it takes."""
    while time.process_time() < float(seconds):
        pass
    return True


def masked_is_empty(path):
    try:
        with open(path, "rb") as file:
            return not file.read(1)
    except OSError:
        return True


def tools_can_be_installed():
    """Not a way out: what an agent must be able to do."""
    places = ["/usr/local/bin", "/usr/local/lib", "/usr/local/share", "/opt", "/etc", "/tmp"]
    for place in places + ["/var/tmp", "/root", "/workspace", "/dev/shm", "/run"]:
        path = os.path.join(place, "made-inside")
        with open(path, "w") as file:
            file.write("x")
        os.unlink(path)
    refused = 0
    for path in ("/usr/bin/made-inside", "/usr/made-inside", "/usr/lib/made-inside"):
        try:
            open(path, "w").close()
        except OSError:
            refused += 1
    return refused == 3 and os.getuid() == 0
