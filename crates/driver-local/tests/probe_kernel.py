
# What a hostile process asks the kernel for, one function each. Appended to probe.py, whose names
# it uses; it ends by running the one that the command line names.

NUMBERS = {
    "x86_64": {
        "clone3": 435, "bpf": 321, "perf_event_open": 298, "io_uring_setup": 425, "add_key": 248,
        "userfaultfd": 323, "fanotify_init": 300, "pidfd_getfd": 438, "name_to_handle_at": 303,
        "open_by_handle_at": 304, "open_tree": 428, "move_mount": 429, "fsopen": 430,
        "fsconfig": 431, "fsmount": 432, "pivot_root": 155,
    },
    "aarch64": {
        "clone3": 435, "bpf": 280, "perf_event_open": 241, "io_uring_setup": 425, "add_key": 217,
        "userfaultfd": 282, "fanotify_init": 262, "pidfd_getfd": 438, "name_to_handle_at": 264,
        "open_by_handle_at": 265, "open_tree": 428, "move_mount": 429, "fsopen": 430,
        "fsconfig": 431, "fsmount": 432, "pivot_root": 41,
    },
}[os.uname().machine]

AT_FDCWD = -100
CLONE_NEWUSER = 0x10000000


def ask(name, *arguments):
    """What the kernel answers: a descriptor, a number, or below 0 (then it is said why)."""
    ctypes.set_errno(0)
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer = libc.syscall(ctypes.c_long(NUMBERS[name]), *arguments)
    print(name, answer, os.strerror(ctypes.get_errno()) if answer < 0 else "")
    return answer


def no_map_for_kernel_programs():
    BPF_MAP_CREATE, BPF_MAP_TYPE_ARRAY = 0, 2
    wish = struct.pack("5I", BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0).ljust(72, b"\0")
    return ask("bpf", BPF_MAP_CREATE, wish, len(wish)) < 0


def no_performance_counter():
    PERF_TYPE_SOFTWARE, EXCLUDE_KERNEL_AND_HYPERVISOR = 1, 0b1100000
    wish = struct.pack("2IQ2Q2Q", PERF_TYPE_SOFTWARE, 112, 0, 0, 0, 0, EXCLUDE_KERNEL_AND_HYPERVISOR)
    return ask("perf_event_open", wish.ljust(112, b"\0"), 0, -1, -1, 0) < 0


def no_io_ring():
    return ask("io_uring_setup", 1, ctypes.create_string_buffer(120)) < 0


def no_key_in_the_kernel():
    KEY_SPEC_PROCESS_KEYRING = -2
    return ask("add_key", b"user", b"probe", b"x", 1, KEY_SPEC_PROCESS_KEYRING) < 0


def no_page_fault_handler():
    UFFD_USER_MODE_ONLY = 1
    return ask("userfaultfd", UFFD_USER_MODE_ONLY) < 0


def no_watch_over_file_systems():
    FAN_REPORT_FID = 0x200
    return ask("fanotify_init", FAN_REPORT_FID, os.O_RDONLY) < 0


def no_kernel_log():
    SYSLOG_ACTION_READ_ALL = 3
    space = ctypes.create_string_buffer(100)
    return libc.klogctl(SYSLOG_ACTION_READ_ALL, space, len(space)) < 0


def no_user_namespace_by_clone3():
    wish = struct.pack("11Q", CLONE_NEWUSER, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    child = ask("clone3", wish, len(wish))
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
    return child < 0


def no_other_namespace_is_entered():
    with open("/proc/self/ns/uts") as own:
        return libc.setns(own.fileno(), 0) != 0


def no_other_root(way):
    os.makedirs("/tmp/root", exist_ok=True)
    if way == "chroot":
        return libc.chroot(b"/tmp/root") != 0
    libc.mount(b"none", b"/tmp/root", b"tmpfs", 0, b"")
    return ask("pivot_root", b"/tmp/root", b"/tmp/root") < 0


def no_mount_by_descriptor():
    FSCONFIG_CMD_CREATE, MOVE_MOUNT_F_EMPTY_PATH = 6, 4
    os.makedirs("/tmp/made", exist_ok=True)
    context = ask("fsopen", b"tmpfs", 0)
    if context < 0 or ask("fsconfig", context, FSCONFIG_CMD_CREATE, None, None, 0) < 0:
        return True
    made = ask("fsmount", context, 0, 0)
    if made < 0:
        return True
    return ask("move_mount", made, b"", AT_FDCWD, b"/tmp/made", MOVE_MOUNT_F_EMPTY_PATH) < 0


def no_copy_of_a_mount():
    OPEN_TREE_CLONE = 1
    return ask("open_tree", AT_FDCWD, b"/usr", OPEN_TREE_CLONE) < 0


def control_groups_cannot_be_mounted():
    os.makedirs("/tmp/groups", exist_ok=True)
    return libc.mount(b"none", b"/tmp/groups", b"cgroup2", 0, b"") != 0


def socket_pair_is_denied(family):
    pair = (ctypes.c_int * 2)()
    ctypes.set_errno(0)
    return libc.socketpair(int(family), socket.SOCK_STREAM, 0, pair) < 0 and (
        ctypes.get_errno() == errno.EPERM
    )


def nothing_is_typed_for_others():
    """Into a terminal of its own, as into one that somebody else reads."""
    import fcntl
    import pty
    import termios

    child, terminal = pty.fork()
    if child == 0:
        try:
            fcntl.ioctl(0, termios.TIOCSTI, b"x")
        except OSError:
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def crashes_stay_inside():
    """At 1, and only there, the host's handler of crashes is not run."""
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limit[1]))
    now = resource.getrlimit(resource.RLIMIT_CORE)
    print(limit, now)
    return limit == now == (1, 1)


def handle_of(path):
    """For the host: how the kernel names the file, whatever path leads to it."""
    handle = struct.pack("Ii", 128, 0) + bytes(128)
    space = ctypes.create_string_buffer(handle, len(handle))
    mount = ctypes.c_int()
    if ask("name_to_handle_at", AT_FDCWD, path.encode(), space, ctypes.byref(mount), 0) < 0:
        return False
    print("HANDLE", space.raw.hex())
    return True


def file_is_not_opened_by_its_handle(handle):
    space = ctypes.create_string_buffer(bytes.fromhex(handle))
    file_system = os.open("/workspace", os.O_RDONLY)
    file = ask("open_by_handle_at", file_system, space, os.O_RDONLY)
    if file >= 0:
        print(os.read(file, 100))
    return file < 0


name, arguments = sys.argv[1], sys.argv[2:]
contained = globals()[name](*arguments)
print(name, "contained" if contained else "GOT OUT")
sys.exit(0 if contained else 1)
