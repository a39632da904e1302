//! Execs against the real program: output, exit codes, stdin, terminals, signals.

mod support;

use sandkeep_frames::message::{Channel, ExecEof, ExecOpen, ExecResize, ExecSignal, Process};
use sandkeep_frames::{Encoded, Kind};
use support::{Output, Sandbox, process, shell};

#[test]
fn output_and_exit_code_come_back() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let output = link.run(1, "a", shell("echo out; echo err >&2; exit 3"));
    assert_eq!((output.text().as_str(), output.stderr.as_slice()), ("out\n", &b"err\n"[..]));
    assert_eq!((output.exited.code, output.exited.signal, output.ends), (3, 0, 2));
}

#[test]
fn every_kind_of_end_has_its_code() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let mut stream = 0;
    let mut check = |process: Process, code: i32, signal: i32, reason: &str| {
        stream += 1;
        let exited = link.run(stream, &format!("e{stream}"), process).exited;
        assert_eq!((exited.code, exited.signal), (code, signal), "{exited:?}");
        assert!(exited.spawn_error.contains(reason), "{exited:?}");
        assert_eq!(exited.spawn_error.is_empty(), reason.is_empty(), "{exited:?}");
    };
    check(process(&["true"]), 0, 0, "");
    check(shell("exit 255"), 255, 0, "");
    check(shell("kill -9 $$"), 137, 9, "");
    check(shell("kill -15 $$"), 143, 15, "");
    check(process(&["no-such-program"]), 127, 0, "no-such-program: No such file");
    check(process(&["/no/such/program"]), 127, 0, "No such file");
    check(process(&["/etc/passwd"]), 126, 0, "Permission denied");
    check(process(&["/"]), 126, 0, "Permission denied");
    check(Process { workdir: "/no".into(), ..process(&["true"]) }, 126, 0, "working directory /no");
    check(Process { user: "nobody-here".into(), ..process(&["true"]) }, 126, 0, "no user");
}

#[test]
fn what_cannot_be_started_is_refused_with_a_word() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let mut check = |id: &str, process: Process, word: &str| {
        let attached = link.open(1, id, process);
        assert_eq!(attached.refused, word, "{}", attached.message);
    };
    check("a", process(&[]), "InvalidArgument");
    check("A", process(&["true"]), "InvalidArgument");
    check("", process(&["true"]), "InvalidArgument");
    check("main-1", process(&["true"]), "InvalidArgument");
    check("a", process(&["a\0b"]), "InvalidArgument");
    check("a", Process { workdir: "x".into(), ..process(&["true"]) }, "InvalidArgument");
    assert_eq!(link.attach(1, "nobody", 0).refused, "NotFound");
}

#[test]
fn arguments_environment_and_directory_arrive_unchanged() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let argv = ["printf", "%s|", "a b", "$HOME", "", "*", "ü"];
    assert_eq!(link.run(1, "a", process(&argv)).text(), "a b|$HOME||*|ü|");
    let told = Process {
        env: vec!["A=1 2".into(), "HOME=/tmp".into()],
        workdir: "/usr".into(),
        ..shell(
            "echo $A $HOME $PWD $USER; umask; ulimit -c; test $(cat /proc/self/oom_score_adj) -gt 0",
        )
    };
    let output = link.run(2, "b", told);
    assert_eq!((output.text().as_str(), output.exited.code), ("1 2 /tmp /usr root\n0022\n0\n", 0));
}

#[test]
fn stdin_ends_when_the_client_says_so_and_output_goes_on() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let cat = Process { stdin: true, ..shell("cat; echo after") };
    link.open(1, "a", cat);
    link.stdin(1, 0, b"hello ");
    link.stdin(1, 6, b"world\n");
    link.stdin_end(1, 12);
    let output = link.finish(1);
    assert_eq!((output.text().as_str(), output.exited.code), ("hello world\nafter\n", 0));
}

#[test]
fn without_stdin_a_reader_is_at_the_end_at_once() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    assert_eq!(link.run(1, "a", process(&["cat"])).exited.code, 0);
}

#[test]
fn issue_0022_open_stdin_does_not_delay_the_exit() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let output = link.run(1, "a", Process { stdin: true, ..shell("exit 4") });
    assert_eq!(output.exited.code, 4);
}

#[test]
fn issue_0022_background_processes_that_hold_the_output_do_not_delay_the_exit() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let pids = sandbox.path("pid");
    let script = format!("sleep 1000 & echo $! > {}; echo done; exit 5", pids.display());
    let output = link.run(1, "a", shell(&script));
    assert_eq!((output.text().as_str(), output.exited.code), ("done\n", 5));
    let pid: i32 = support::wait_for_file(&pids).trim().parse().unwrap();
    // SAFETY: no memory effects; 0 only asks whether the process is there.
    assert_eq!(unsafe { libc::kill(pid, 0) }, 0, "the background process was killed");
    // SAFETY: as above; ends what this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn a_background_process_is_not_killed_by_a_closed_pipe() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let (go, done) = (sandbox.path("go"), sandbox.path("done"));
    let script = format!(
        "(while [ ! -e {0} ]; do sleep 0.01; done; echo late && echo alive > {1}) & exit 0",
        go.display(),
        done.display()
    );
    assert_eq!(link.run(1, "a", shell(&script)).exited.code, 0);
    std::fs::write(&go, "").unwrap();
    assert_eq!(support::wait_for_file(&done), "alive\n");
}

#[test]
fn output_of_a_short_lived_background_process_still_comes() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let output = link.run(1, "a", process(&["bash", "-c", "echo text > >(sleep 0.02; cat)"]));
    assert_eq!(output.text(), "text\n");
}

#[test]
fn signals_reach_the_whole_group() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.open(1, "a", shell("trap 'exit 9' INT; sleep 1000 & echo ready; wait; echo not-here"));
    let mut output = Output::default();
    link.wait_for(1, &mut output, "ready");
    link.send(Kind::ExecSignal, 1, &ExecSignal { signal: 2 });
    link.finish_into(1, &mut output);
    assert_eq!((output.text().as_str(), output.exited.code), ("ready\n", 9));
}

#[test]
fn a_terminal_has_its_size_and_is_resized() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let script = "stty size; trap 'stty size' WINCH; echo ready; while [ -z \"$x\" ]; do read x; done; echo \"got $x\"; tty";
    let process = Process { tty: true, rows: 33, columns: 101, stdin: true, ..shell(script) };
    link.open(1, "a", process);
    let mut output = Output::default();
    link.wait_for(1, &mut output, "ready");
    link.send(Kind::ExecResize, 1, &ExecResize { rows: 50, columns: 160 });
    link.wait_for(1, &mut output, "50 160");
    link.stdin(1, 0, b"line\n");
    link.finish_into(1, &mut output);
    let text = output.text();
    assert!(text.starts_with("33 101\r\n"), "{text:?}");
    assert!(text.contains("got line\r\n/dev/pts/"), "{text:?}");
}

#[test]
fn ctrl_c_and_ctrl_d_work_on_a_terminal() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let tty = |script: &str| Process { tty: true, stdin: true, ..shell(script) };
    link.open(1, "a", tty("trap 'echo int; exit 7' INT; echo ready; while :; do sleep 0.01; done"));
    let mut output = Output::default();
    link.wait_for(1, &mut output, "ready");
    link.stdin(1, 0, b"\x03");
    link.finish_into(1, &mut output);
    assert_eq!(output.exited.code, 7);
    link.open(2, "b", tty("cat; echo over"));
    link.stdin(2, 0, b"abc\n\x04");
    assert!(link.finish(2).text().contains("abc\r\nover\r\n"));
    // The end of the client's input is as good as Ctrl-D, also in a started line.
    link.open(3, "c", tty("cat; echo over"));
    link.stdin(3, 0, b"abc");
    link.stdin_end(3, 3);
    assert!(link.finish(3).text().contains("abcabcover\r\n"));
}

#[test]
fn a_terminal_hangs_up_what_is_left_in_it() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let done = sandbox.path("done");
    let script = format!(
        "(trap 'echo hup > {}; exit' HUP; echo ready; while :; do sleep 0.01; done) & read x; exit 6",
        done.display()
    );
    link.open(1, "a", Process { tty: true, stdin: true, ..shell(&script) });
    let mut output = Output::default();
    link.wait_for(1, &mut output, "ready");
    link.stdin(1, 0, b"\n");
    link.finish_into(1, &mut output);
    assert_eq!(output.exited.code, 6);
    assert_eq!(support::wait_for_file(&done), "hup\n");
}

#[test]
fn fifty_megabytes_go_out_to_a_slow_reader_unchanged() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let before = sandbox.status("VmRSS");
    link.open(1, "a", shell("yes 0123456789abcde | head -c 50000000"));
    // Nothing is read for a while: the process waits, and memory does not grow. Another exec
    // comes through meanwhile on the same connection.
    let mut output = Output::default();
    while output.stdout.len() < 1024 * 1024 {
        output.take(link.expect(Kind::ExecData).stream_bytes().unwrap());
    }
    assert_eq!(link.run(2, "b", process(&["echo", "through"])).text(), "through\n");
    let grown = sandbox.status("VmRSS") - before;
    assert!(grown < 4 * 1024, "{grown} kB more");
    link.ack(1, Channel::Stdout, output.stdout.len() as u64);
    link.finish_into(1, &mut output);
    assert_eq!(output.stdout.len(), 50_000_000);
    assert!(output.stdout.chunks(16).all(|line| b"0123456789abcde\n".starts_with(line)));
}

#[test]
fn fifty_megabytes_go_in_unchanged() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let total: u64 = 50_000_000;
    link.open(1, "a", Process { stdin: true, ..shell("cksum") });
    let chunk = vec![b'x'; 200_000];
    let (mut sent, mut acknowledged) = (0, 0);
    while sent < total {
        while sent + chunk.len() as u64 > acknowledged + sandkeep_frames::WINDOW_BYTES {
            let ack: ExecEof = link.expect(Kind::ExecAck).decode().unwrap();
            acknowledged = ack.offset;
        }
        link.stdin(1, sent, &chunk);
        sent += chunk.len() as u64;
    }
    link.stdin_end(1, sent);
    let output = link.finish(1);
    let expect = std::process::Command::new("sh")
        .args(["-c", "head -c 50000000 /dev/zero | tr '\\0' x | cksum"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, expect.stdout);
}

#[test]
fn an_exec_opened_twice_is_started_once() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let marks = sandbox.path("marks");
    let script = format!("echo started >> {}; read x; echo $x", marks.display());
    let process = || Process { stdin: true, ..shell(&script) };
    let first = link.open(1, "a", process());
    let second = link.open(2, "a", process());
    assert_eq!(first.pid, second.pid);
    link.stdin(2, 0, b"hello\n");
    assert_eq!(link.finish(2).text(), "hello\n");
    assert_eq!(std::fs::read_to_string(&marks).unwrap(), "started\n");
}

#[test]
fn a_detached_exec_runs_on_and_can_be_attached_to() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let process = Process { stdin: true, ..shell("echo begun; read x; echo $x; exit 2") };
    let open = ExecOpen { exec_id: "a".into(), process: Some(process), detached: true };
    link.send(Kind::ExecOpen, 1, &open);
    assert!(link.attached().pid > 0);
    assert_eq!(link.attach(2, "a", 0).refused, "");
    link.stdin(2, 0, b"more\n");
    let output = link.finish(2);
    assert_eq!((output.text().as_str(), output.exited.code), ("begun\nmore\n", 2));
}

#[test]
fn a_detached_exec_is_answered_once_its_program_runs_or_is_known_not_to() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let mut stream = 0;
    let mut check = |process: Process, code: i32, reason: &str| {
        stream += 2;
        let id = format!("e{stream}");
        let open = ExecOpen { exec_id: id.clone(), process: Some(process), detached: true };
        link.send(Kind::ExecOpen, stream, &open);
        let answer = link.attached();
        assert_eq!((answer.refused.as_str(), answer.pid), ("", 0), "{reason}");
        // Known with the answer: whoever attaches then need not wait for it.
        link.attach(stream + 1, &id, 0);
        let exited = link.finish(stream + 1).exited;
        assert_eq!(exited.code, code, "{exited:?}");
        assert!(exited.spawn_error.contains(reason), "{exited:?}");
    };
    for _ in 0..20 {
        check(process(&["no-such-program"]), 127, "no-such-program: No such file");
    }
    check(process(&["/etc/passwd"]), 126, "Permission denied");
    check(Process { workdir: "/no".into(), ..process(&["true"]) }, 126, "working directory /no");
    check(Process { user: "nobody-here".into(), ..process(&["true"]) }, 126, "no user");
}

#[test]
fn a_forgotten_exec_is_gone_and_its_id_free() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    assert_eq!(link.run(1, "a", process(&["echo", "one"])).text(), "one\n");
    assert_eq!(link.attach(2, "a", 0).refused, "NotFound");
    assert_eq!(link.run(3, "a", process(&["echo", "two"])).text(), "two\n");
}

#[test]
fn a_process_whose_client_went_away_on_purpose_goes_on() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let process = Process { stdin: true, ..shell("echo one; read x; echo two") };
    link.open(1, "a", process);
    let mut output = Output::default();
    link.wait_for(1, &mut output, "one");
    link.write(&Encoded::empty(Kind::ExecDetach, 1));
    assert_eq!(link.attach(2, "a", 4).stdout_offset, 4);
    link.stdin(2, 0, b"\n");
    link.finish_into(2, &mut output);
    assert_eq!(output.text(), "one\ntwo\n");
}

#[test]
fn orphans_are_reaped() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let pids = sandbox.path("pid");
    let script = format!("(sh -c 'echo $$ > {}' &) ; exit 0", pids.display());
    link.run(1, "a", shell(&script));
    let pid = support::wait_for_file(&pids);
    let stat = format!("/proc/{}", pid.trim());
    while std::path::Path::new(&stat).exists() {
        std::thread::yield_now();
    }
}
