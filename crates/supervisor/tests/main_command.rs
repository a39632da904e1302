//! The main command against the real program: started once, its result never lost, stopped
//! politely.

mod support;

use sandkeep_frames::Kind;
use sandkeep_frames::message::{Go, MainState, Process, ResultStored};
use support::{INCARNATION, Output, Sandbox, process, shell, wait_for_file};

#[test]
fn the_main_command_runs_and_its_result_is_reported() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.go(1, 0, &["sh", "-c", "exit 5"]);
    let (run, restart, exited) = link.main_exit();
    assert_eq!((run, restart, exited.code), (1, 0, 5));
}

#[test]
fn the_same_go_starts_nothing_and_a_higher_one_does() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let marks = sandbox.path("marks");
    let script = format!("echo x >> {}", marks.display());
    let argv = ["sh", "-c", &script];
    let count = || std::fs::read_to_string(&marks).unwrap().lines().count();
    link.go(1, 0, &argv);
    link.main_exit();
    for _ in 0..3 {
        link.go(1, 0, &argv);
        assert_eq!(link.main_exit().0, 1);
    }
    assert_eq!(count(), 1);
    link.go(1, 1, &argv);
    while link.main_exit().1 != 1 {}
    link.go(1, 0, &argv);
    link.go(0, 7, &argv);
    assert_eq!((link.main_exit().1, link.main_exit().1), (1, 1));
    assert_eq!(count(), 2);
    link.go(2, 0, &argv);
    while link.main_exit().0 != 2 {}
    assert_eq!(count(), 3);
}

#[test]
fn a_go_for_another_incarnation_is_ignored() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let process = Some(process(&["true"]));
    let other = Go { run: 9, restart: 0, incarnation: INCARNATION + 1, process };
    link.send(Kind::Go, 0, &other);
    link.go(1, 0, &["true"]);
    assert_eq!(link.main_exit().0, 1);
}

#[test]
fn without_a_command_the_sandbox_just_stays_up() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.go(3, 0, &[]);
    let state: MainState = link.expect(Kind::MainState).decode().unwrap();
    assert_eq!((state.run, state.incarnation, state.exited), (3, INCARNATION, None));
}

#[test]
fn what_cannot_be_run_is_a_result_too() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.go(1, 0, &["no-such-program"]);
    let (_, _, exited) = link.main_exit();
    assert_eq!(exited.code, 127);
    assert!(exited.spawn_error.contains("no-such-program"), "{exited:?}");
    link.go(2, 0, &["a\0b"]);
    assert_eq!(link.main_exit().2.code, 126);
}

#[test]
fn a_result_survives_the_death_of_the_supervisor() {
    let mut sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.go(4, 2, &["sh", "-c", "exit 6"]);
    link.main_exit();
    sandbox.kill();
    sandbox.start_supervisor();
    drop(link);
    let (mut link, hello) = sandbox.accept();
    let main = hello.main.unwrap();
    assert_eq!((main.run, main.restart, main.incarnation), (4, 2, INCARNATION));
    assert_eq!(main.exited.unwrap().code, 6);
    // Asked for once more it is not run once more.
    link.welcome();
    link.go(4, 2, &["sh", "-c", "exit 7"]);
    assert_eq!(link.main_exit().2.code, 6);
}

#[test]
fn a_running_main_command_outlives_any_number_of_sessions() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let go = sandbox.path("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.01; done; exit 8", go.display());
    link.go(1, 0, &["sh", "-c", &script]);
    for _ in 0..3 {
        let (mut next, hello) = {
            drop(link);
            sandbox.accept()
        };
        assert_eq!(hello.main.unwrap().run, 1);
        next.welcome();
        link = next;
    }
    std::fs::write(&go, "").unwrap();
    assert_eq!(link.main_exit().2.code, 8);
}

#[test]
fn a_higher_go_replaces_a_running_command() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.go(1, 0, &["sleep", "1000"]);
    link.go(2, 0, &["true"]);
    let (run, _, exited) = link.main_exit();
    assert_eq!((run, exited.signal), (1, 15));
    let (run, _, exited) = link.main_exit();
    assert_eq!((run, exited.code), (2, 0));
}

#[test]
fn a_client_attaches_to_the_main_command() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let process =
        Process { stdin: true, attached: false, ..shell("echo hello; read x; echo \"got $x\"") };
    link.send(
        Kind::Go,
        0,
        &Go { run: 1, restart: 0, incarnation: INCARNATION, process: Some(process) },
    );
    link.expect(Kind::MainState);
    assert_eq!(link.attach(1, "main-1", 0).refused, "");
    let mut output = Output::default();
    link.wait_for(1, &mut output, "hello");
    link.stdin(1, 0, b"this\n");
    link.finish_into(1, &mut output);
    assert_eq!(output.text(), "hello\ngot this\n");
}

#[test]
fn output_that_nobody_takes_does_not_block_the_main_command() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.go(1, 0, &["sh", "-c", "yes 0123456789abcde | head -c 30000000; exit 3"]);
    assert_eq!(link.main_exit().2.code, 3);
}

#[test]
fn stop_ends_everything_politely_and_reports() {
    let mut sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let done = sandbox.path("done");
    let script = format!(
        "trap 'echo stopped > {}; exit 9' TERM; echo ready; while :; do sleep 0.01; done",
        done.display()
    );
    link.go(1, 0, &["sh", "-c", &script]);
    link.expect(Kind::MainState);
    link.attach(1, "main-1", 0);
    link.wait_for(1, &mut Output::default(), "ready");
    link.open(2, "a", process(&["sleep", "1000"]));
    sandbox.signal(libc::SIGTERM);
    let (_, _, exited) = link.main_exit();
    assert_eq!(exited.code, 9);
    link.send(Kind::ResultStored, 0, &ResultStored { run: 1, restart: 0 });
    assert!(sandbox.wait().success());
    assert_eq!(wait_for_file(&done), "stopped\n");
}

#[test]
fn stop_ends_an_interactive_shell_and_a_stopped_process() {
    let mut sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let shell = Process { tty: true, stdin: true, ..process(&["bash", "-i"]) };
    link.open(1, "a", shell);
    link.stdin(1, 0, b"echo $((40 + 2)) ready\n");
    link.wait_for(1, &mut Output::default(), "42 ready");
    link.open(2, "b", support::shell("echo up; kill -STOP $$; sleep 1000"));
    link.wait_for(2, &mut Output::default(), "up");
    sandbox.signal(libc::SIGTERM);
    assert!(sandbox.wait().success());
}

#[test]
fn stop_ends_also_without_a_gateway() {
    let mut sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let up = sandbox.path("up");
    let script = format!("echo x > {}; exec sleep 1000", up.display());
    link.go(1, 0, &["sh", "-c", &script]);
    wait_for_file(&up);
    drop(link);
    sandbox.listener.set_nonblocking(true).unwrap();
    sandbox.signal(libc::SIGTERM);
    assert!(sandbox.wait().success());
    sandbox.listener.set_nonblocking(false).unwrap();
    // Connections of the one that has ended wait in the backlog; the last one is the new one's.
    std::fs::remove_file(sandbox.path("s")).unwrap();
    sandbox.listener = std::os::unix::net::UnixListener::bind(sandbox.path("s")).unwrap();
    sandbox.start_supervisor();
    let (_, hello) = sandbox.accept();
    assert_eq!(hello.main.unwrap().exited.unwrap().signal, 15);
}

#[test]
fn nothing_new_starts_while_it_stops() {
    let mut sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let script = "trap '' TERM; echo ready; read x; exit 1";
    let process = Process { stdin: true, ..shell(script) };
    link.open(1, "a", process);
    let mut output = Output::default();
    link.wait_for(1, &mut output, "ready");
    sandbox.signal(libc::SIGTERM);
    loop {
        // Until the signal has arrived execs are still started.
        let attached = link.open(2, "b", support::process(&["true"]));
        if attached.refused == "Exhausted" {
            break;
        }
        link.finish(2);
        link.write(&sandkeep_frames::Encoded::empty(Kind::ExecForget, 2));
    }
    link.stdin(1, 0, b"\n");
    link.finish_into(1, &mut output);
    assert!(sandbox.wait().success());
}
