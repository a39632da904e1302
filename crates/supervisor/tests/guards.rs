//! The guards, from inside: the real program as PID 1 of its own namespaces. Each check is shown
//! to fail when its guard is left out, so that it is the guard that is seen and nothing else.
//!
//! Needs `unshare` and `setpriv` (util-linux) and a kernel that lets this user make namespaces;
//! where it does not, the tests say so and pass.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use prost::Message;
use sandkeep_frames::message::{ExecSignal, Hello, MainState, Process};
use support::{Link, process, shell};

/// A supervisor that is PID 1.
struct Contained {
    dir: tempfile::TempDir,
    listener: UnixListener,
    unshare: Child,
}

impl Contained {
    /// `prefix` is put before the supervisor's own command line.
    fn start(without: &[&str], prefix: &str) -> Self {
        Self::start_by(&["unshare", "--user", "--map-root-user"], without, prefix)
    }

    fn start_by(entry: &[&str], without: &[&str], prefix: &str) -> Self {
        Self::start_on("--bind KEPT", entry, without, prefix)
    }

    /// With this mounted as the state directory.
    fn start_on(mount: &str, entry: &[&str], without: &[&str], prefix: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["kept", "state"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        // Root inside may be an ordinary user outside.
        for name in ["", "kept", "state", "s"] {
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(dir.path().join(name), open).unwrap();
        }
        let script = format!(
            "mount {3} {0}/state && exec {prefix} {1} init --socket {0}/s --state {0}/state {2}",
            dir.path().display(),
            env!("CARGO_BIN_EXE_sandkeep-supervisor"),
            without.iter().map(|name| format!("--without-guard {name} ")).collect::<String>(),
            mount.replace("KEPT", &dir.path().join("kept").display().to_string()),
        );
        let unshare = Command::new(entry[0])
            .args(&entry[1..])
            .args(["--pid", "--fork", "--kill-child", "--mount", "--net", "--ipc", "--uts"])
            .args(["--mount-proc", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { dir, listener, unshare }
    }

    fn session(&self) -> (Link, Hello) {
        let (stream, _) = self.listener.accept().unwrap();
        let mut link = Link::new(stream);
        let hello = link.expect(sandkeep_frames::Kind::Hello).decode().unwrap();
        link.welcome();
        (link, hello)
    }

    /// PID 1, seen from here.
    fn pid(&self) -> i32 {
        let unshare = self.unshare.id();
        let path = format!("/proc/{unshare}/task/{unshare}/children");
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        // PID 1 first: a change of ids, as for another user's terminal, ends its tie to `unshare`.
        let unshare = self.unshare.id();
        let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"));
        for pid in children.unwrap_or_default().split_whitespace().flat_map(str::parse) {
            // SAFETY: no memory effects; not reaped, for `unshare` waits until it has ended.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        drop(self.unshare.kill());
        drop(self.unshare.wait());
    }
}

#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn can_contain() -> bool {
    let tried = Command::new("unshare")
        .args(["--user", "--map-root-user", "--pid", "--fork", "--mount", "--net", "true"])
        .stderr(Stdio::null())
        .status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: this user cannot make namespaces here");
    }
    can
}

/// Runs [`probe`] inside; what it says, by name.
fn probes(without: &[&str]) -> BTreeMap<String, String> {
    let contained = Contained::start(without, "");
    let (mut link, hello) = contained.session();
    for name in without {
        assert!(hello.missing_guards.contains(&(*name).to_owned()), "{:?}", hello.missing_guards);
    }
    let program = std::env::current_exe().unwrap();
    let argv = [program.to_str().unwrap(), "probe", "--exact", "--nocapture"];
    let directory = contained.dir.path().display();
    let output =
        link.run(1, "probe", Process { env: vec![format!("PROBE={directory}")], ..process(&argv) });
    let text = output.text();
    let found: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.strip_prefix("PROBE ")?.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert!(found.len() > 20, "{text}");
    found
}

/// Not the constants of libc, whose types differ.
const PTRACE_SEIZE: i64 = 0x4206;
const TIOCSTI: i64 = 0x5412;
const TIOCLINUX: i64 = 0x541c;

/// What [`probes`] runs inside the sandbox; by itself it does nothing.
#[test]
fn probe() {
    let Ok(directory) = std::env::var("PROBE") else {
        return;
    };
    println!();
    for line in std::fs::read_to_string("/proc/self/status").unwrap().lines() {
        let (name, value) = line.split_once(':').unwrap();
        if matches!(name, "CapEff" | "CapPrm" | "CapBnd" | "CapAmb" | "NoNewPrivs" | "Seccomp") {
            say(name, value.trim());
        }
    }
    probe_work(&directory);
    probe_calls(&directory);
    probe_sockets();
    for (name, flag) in [("user", libc::CLONE_NEWUSER), ("net", libc::CLONE_NEWNET)] {
        probe_namespace(name, flag);
    }
}

fn probe_work(directory: &str) {
    let names = std::fs::read_dir(format!("{directory}/state")).unwrap().count();
    say("state", &names.to_string());
    say("threads", std::thread::spawn(|| "ok").join().unwrap());
    let lo = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| std::net::TcpStream::connect(listener.local_addr()?));
    say("loopback", if lo.is_ok() { "ok" } else { "failed" });
    let renamed = std::fs::create_dir_all(format!("{directory}/a"))
        .and_then(|()| std::fs::write(format!("{directory}/file"), ""))
        .and_then(|()| std::fs::rename(format!("{directory}/file"), format!("{directory}/a/file")));
    say("rename", if renamed.is_ok() { "ok" } else { "failed" });
}

fn probe_calls(directory: &str) {
    let node = CString::new(format!("{directory}/node")).unwrap();
    // SAFETY: each call gets valid pointers or none; those that succeed change this process only,
    // which ends right after.
    unsafe {
        answer("mknod", libc::mknod(node.as_ptr(), libc::S_IFCHR | 0o600, 0).into());
        // Where it is allowed it must not stop PID 1.
        answer("ptrace", libc::syscall(libc::SYS_ptrace, PTRACE_SEIZE, 1i64, 0i64, 0i64));
        let call =
            |name, number, a: i64, b: i64, c: i64| answer(name, libc::syscall(number, a, b, c));
        call("clone3", libc::SYS_clone3, 0, 0, 0);
        call("bpf", libc::SYS_bpf, 0, 0, 0);
        call("perf", libc::SYS_perf_event_open, 0, 0, 0);
        call("io_uring", libc::SYS_io_uring_setup, 1, 0, 0);
        call("keyctl", libc::SYS_keyctl, 0, 0, 0);
        call("userfaultfd", libc::SYS_userfaultfd, 0, 0, 0);
        call("handle", libc::SYS_open_by_handle_at, -1, 0, 0);
        call("mount", libc::SYS_mount, 0, 0, 0);
        call("open_tree", libc::SYS_open_tree, -1, 0, 0);
        call("pivot_root", libc::SYS_pivot_root, 0, 0, 0);
        call("setns", libc::SYS_setns, -1, 0, 0);
        call("tiocsti", libc::SYS_ioctl, 0, TIOCSTI, 0);
        call("tioclinux", libc::SYS_ioctl, 0, TIOCLINUX, 0);
        // The kernel looks at 32 bits; so must the filter.
        call("tiocsti_high", libc::SYS_ioctl, 0, TIOCSTI | (1 << 40), 0);
    }
}

fn probe_sockets() {
    let socket = |name, family: i32, kind: i32, protocol: i32| {
        // SAFETY: touches no memory.
        answer(name, unsafe { libc::socket(family, kind, protocol) }.into());
    };
    socket("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0);
    socket("packet", libc::AF_PACKET, libc::SOCK_RAW, 0);
    socket("alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0);
    socket("netlink_generic", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_GENERIC);
    socket("netlink_route", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE);
    socket("unix", libc::AF_UNIX, libc::SOCK_STREAM, 0);
    socket("inet", libc::AF_INET, libc::SOCK_STREAM, 0);
    socket("inet6", libc::AF_INET6, libc::SOCK_DGRAM, 0);
}

/// In children of their own, so that one does not spoil the next.
fn probe_namespace(name: &str, flag: i32) {
    // SAFETY: the children end at once, without running anything of the parent.
    unsafe {
        let clone = libc::syscall(libc::SYS_clone, i64::from(flag | libc::SIGCHLD), 0, 0, 0, 0);
        if clone == 0 {
            libc::_exit(0);
        }
        answer(&format!("clone_{name}"), clone);
        let child = libc::fork();
        if child == 0 {
            let failed = libc::unshare(flag) < 0;
            let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            libc::_exit(if failed { error } else { 0 });
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        let error = libc::WEXITSTATUS(status);
        let text = if error == 0 { "ok".to_owned() } else { errno_name(Some(error)) };
        say(&format!("unshare_{name}"), &text);
    }
}

#[allow(clippy::print_stdout, reason = "it is how the outside is told")]
fn say(name: &str, value: &str) {
    println!("PROBE {name}={value}");
}

/// A call's result, by name of the error.
fn answer(name: &str, result: i64) {
    let error = std::io::Error::last_os_error().raw_os_error();
    say(name, &if result < 0 { errno_name(error) } else { "ok".to_owned() });
}

fn errno_name(error: Option<i32>) -> String {
    match error {
        Some(libc::EPERM) => "EPERM".to_owned(),
        Some(libc::EACCES) => "EACCES".to_owned(),
        Some(libc::ENOSYS) => "ENOSYS".to_owned(),
        other => format!("errno {other:?}"),
    }
}

fn check(found: &BTreeMap<String, String>, expect: &str, names: &[&str]) {
    for name in names {
        assert_eq!(found.get(*name).map(String::as_str), Some(expect), "{name}");
    }
}

/// What the kernel denies anyway, or cannot tell apart, is not among these.
const DENIED_BY_SECCOMP_ALONE: [&str; 9] = [
    "clone_user",
    "unshare_user",
    "handle",
    "setns",
    "open_tree",
    "tiocsti",
    "tiocsti_high",
    "tioclinux",
    "netlink_generic",
];

#[test]
fn nothing_that_is_denied_can_be_done() {
    if !can_contain() {
        return;
    }
    let found = probes(&[]);
    check(&found, "EPERM", &DENIED_BY_SECCOMP_ALONE);
    check(&found, "EPERM", &["bpf", "perf", "io_uring", "keyctl", "userfaultfd", "mount"]);
    check(&found, "EPERM", &["pivot_root", "vsock", "packet", "alg", "clone_net", "unshare_net"]);
    check(&found, "EPERM", &["ptrace"]);
    check(&found, "ENOSYS", &["clone3"]);
    check(&found, "0000000000000000", &["CapEff", "CapPrm", "CapBnd", "CapAmb"]);
    check(&found, "1", &["NoNewPrivs"]);
    check(&found, "2", &["Seccomp"]);
    check(&found, "0", &["state"]);
}

#[test]
fn ordinary_work_is_not_disturbed() {
    if !can_contain() {
        return;
    }
    let found = probes(&[]);
    check(
        &found,
        "ok",
        &["unix", "inet", "inet6", "netlink_route", "threads", "loopback", "rename"],
    );
}

#[test]
fn without_seccomp_the_denied_calls_reach_the_kernel() {
    if !can_contain() {
        return;
    }
    let found = probes(&["seccomp"]);
    for name in DENIED_BY_SECCOMP_ALONE {
        assert_ne!(found[name], "EPERM", "{name}");
    }
    check(&found, "ok", &["clone_user", "unshare_user"]);
    assert_ne!(found["clone3"], "ENOSYS");
    check(&found, "0", &["Seccomp"]);
}

#[test]
fn without_landlock_device_nodes_are_made() {
    if !can_contain() {
        return;
    }
    if Contained::start(&[], "").session().1.missing_guards.contains(&"landlock".to_owned()) {
        eprintln!("skipped: this kernel has no Landlock");
        return;
    }
    check(&probes(&[]), "EACCES", &["mknod"]);
    check(&probes(&["landlock"]), "ok", &["mknod"]);
}

#[test]
fn without_the_capability_guard_root_is_powerful() {
    if !can_contain() {
        return;
    }
    // The other three keep a child from gaining them by exec: each is a line of its own.
    let found = probes(&["capabilities", "no-new-privs", "landlock", "seccomp"]);
    assert_ne!(found["CapEff"], "0000000000000000");
    assert_ne!(found["CapBnd"], "0000000000000000");
    check(&found, "0", &["NoNewPrivs"]);
    check(&found, "ok", &["clone_net"]);
}

#[test]
fn without_hiding_the_state_lies_open() {
    if !can_contain() {
        return;
    }
    let listed = |without: &[&str]| {
        let contained = Contained::start(without, "");
        std::fs::write(contained.dir.path().join("kept/secret"), "x").unwrap();
        let (mut link, _) = contained.session();
        let list = format!("ls {}/state", contained.dir.path().display());
        link.run(1, "a", shell(&list)).text()
    };
    assert_eq!(listed(&[]), "");
    assert_eq!(listed(&["state-hidden"]), "secret\n");
}

#[test]
fn without_the_dumpable_guard_a_sibling_can_look_into_pid_1() {
    if !can_contain() {
        return;
    }
    // A PID 1 without any capability, so that the difference in capabilities does not protect it.
    let looked = |without: &[&str]| {
        let prefix = "setpriv --bounding-set=-all --inh-caps=-all";
        let contained =
            Contained::start(&[&["capabilities", "state-hidden"], without].concat(), prefix);
        let (mut link, _) = contained.session();
        link.run(1, "a", shell("ls /proc/1/fd > /dev/null && cat /proc/1/maps > /dev/null"))
            .exited
            .code
    };
    assert_ne!(looked(&[]), 0);
    assert_eq!(looked(&["dumpable"]), 0);
}

#[test]
fn a_guard_that_cannot_be_put_up_stops_the_start() {
    if !can_contain() {
        return;
    }
    // Capabilities cannot be dropped by who has none to do it with.
    let prefix = "setpriv --bounding-set=-all --inh-caps=-all";
    let mut contained = Contained::start(&["state-hidden"], prefix);
    assert_eq!(contained.unshare.wait().unwrap().code(), Some(1));
    let allowed = format!("env SANDKEEP_ALLOW_MISSING_GUARDS=1 {prefix}");
    let contained = Contained::start(&["state-hidden"], &allowed);
    let (_, hello) = contained.session();
    assert!(hello.missing_guards.contains(&"capabilities".to_owned()));
}

/// A user namespace of many ids, which lives as long as its process; only root can make one.
struct ManyIds(Child);

impl ManyIds {
    fn make() -> Option<Self> {
        let user = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user")).unwrap();
        let holder = Command::new("unshare").args(["--user", "sleep", "1000"]).spawn().unwrap();
        let (pid, made) = (holder.id().to_string(), Self(holder));
        while user(&pid) == user("self") {
            std::thread::yield_now();
        }
        for map in ["uid_map", "gid_map"] {
            std::fs::write(format!("/proc/{pid}/{map}"), "0 100000 65536").ok()?;
        }
        Some(made)
    }
}

impl Drop for ManyIds {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn another_user_has_its_own_ids_and_its_terminal() {
    if !can_contain() {
        return;
    }
    let Some(many_ids) = ManyIds::make() else {
        return eprintln!("skipped: only root can map many ids");
    };
    let user = format!("--user=/proc/{}/ns/user", many_ids.0.id());
    let entry = ["nsenter", &user, "--setuid", "0", "--setgid", "0", "unshare"];
    let contained = Contained::start_by(&entry, &[], "");
    let (mut link, _) = contained.session();
    let script = "id -u; id -g; id -G; grep CapEff /proc/self/status; kill -TERM 1 || echo no; \
        test -O $(tty) && echo mine";
    let as_user = |user: &str| Process { user: user.to_owned(), tty: true, ..shell(script) };
    let text = link.run(1, "a", as_user("1234:55")).text().replace('\r', "");
    let lines: Vec<_> =
        text.lines().filter(|line| !line.is_empty() && !line.contains("not permitted")).collect();
    assert_eq!(lines, ["1234", "55", "55", "CapEff:\t0000000000000000", "no", "mine"]);
    assert_eq!(link.run(2, "b", as_user("")).text().lines().next(), Some("0"));
    // PID 1 itself may signal and end it.
    link.open(3, "c", Process { user: "1234".into(), ..shell("echo up; sleep 1000") });
    let mut output = support::Output::default();
    link.wait_for(3, &mut output, "up");
    link.send(sandkeep_frames::Kind::ExecSignal, 3, &ExecSignal { signal: 15 });
    link.finish_into(3, &mut output);
    assert_eq!(output.exited.signal, 15);
}

#[test]
fn a_full_state_directory_loses_lines_of_a_log_and_nothing_else() {
    if !can_contain() {
        return;
    }
    let entry = ["unshare", "--user", "--map-root-user"];
    let contained = Contained::start_on("-t tmpfs -o size=200k none", &entry, &[], "");
    let (mut link, _) = contained.session();
    // Far more than there is room for, and nobody takes it.
    link.go(1, 0, &["sh", "-c", "yes | head -c 5000000; exit 3"]);
    assert_eq!(link.main_exit().2.code, 3);
    assert_eq!(link.run(1, "a", shell("echo well")).text(), "well\n");
    // Only root can look through PID 1's own descriptors.
    if let Ok(descriptors) = std::fs::read_dir(format!("/proc/{}/fd", contained.pid())) {
        let kept =
            descriptors.flatten().find_map(|fd| std::fs::read(fd.path().join("result")).ok());
        let kept = MainState::decode(kept.unwrap().as_slice()).unwrap();
        assert_eq!(kept.exited.unwrap().code, 3);
    }
}

#[test]
fn only_a_stop_from_outside_counts() {
    if !can_contain() {
        return;
    }
    let mut contained = Contained::start(&[], "");
    let (mut link, _) = contained.session();
    // By kill, and by a queued signal that claims to come from outside (pid 0).
    let forge = "import ctypes,struct; \
        info=struct.pack('iiiiiii',15,0,-1,0,0,0,0)+bytes(100); \
        print(ctypes.CDLL(None).syscall(129,1,15,info))";
    let script = format!(
        "kill -TERM 1; kill -KILL 1; kill -INT 1; kill -HUP 1; kill -USR1 1; \
         if command -v python3 > /dev/null && [ \"$(uname -m)\" = x86_64 ]; then python3 -c \"{forge}\"; fi"
    );
    assert_eq!(link.run(1, "a", shell(&script)).exited.code, 0);
    assert_eq!(link.run(2, "b", shell("echo alive")).text(), "alive\n");
    // SAFETY: no memory effects; a process that this test started.
    unsafe { libc::kill(contained.pid(), libc::SIGTERM) };
    assert!(contained.unshare.wait().unwrap().success());
}
