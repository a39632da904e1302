//! Logs against the real program: shipped, kept while no gateway is there, kept over a kill.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use sandkeep_frames::Kind;
use sandkeep_frames::log_entry::{Entries, LogEntry};
use sandkeep_frames::message::{ExecOpen, LogAck, LogData, LogOffer, Process};
use support::{Link, Sandbox, process, shell, wait_for_file};

/// One log as a gateway collects it.
#[derive(Default)]
struct Collected {
    end: u64,
    entries: Vec<LogEntry>,
    complete: bool,
}

impl Collected {
    fn text(&self, fd: u8) -> String {
        let of_fd = self.entries.iter().filter(|entry| entry.fd == fd);
        of_fd.map(|entry| String::from_utf8_lossy(&entry.bytes).into_owned()).collect()
    }

    /// Takes the next stretch of that source, and acknowledges it.
    fn take(&mut self, link: &mut Link, source: &str) {
        let data: LogData = link.expect(Kind::LogData).decode().unwrap();
        if data.source != source {
            return;
        }
        assert_eq!(data.offset, self.end, "a byte lost or doubled");
        self.end += data.entries.len() as u64;
        self.complete = data.complete;
        self.entries.extend(Entries::new(data.entries).map(Result::unwrap));
        link.send(Kind::LogAck, 0, &LogAck { source: data.source, offset: self.end });
    }

    fn take_until(&mut self, link: &mut Link, source: &str, text: &str) {
        while !self.text(1).contains(text) {
            self.take(link, source);
        }
    }
}

#[test]
fn output_of_the_main_command_is_shipped_by_stream_with_its_time() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.go(1, 0, &["sh", "-c", "echo out; echo err >&2; echo end"]);
    let mut log = Collected::default();
    while !log.text(1).contains("end") || log.text(2).is_empty() {
        log.take(&mut link, "main-1");
    }
    assert_eq!((log.text(1), log.text(2)), ("out\nend\n".to_owned(), "err\n".to_owned()));
    assert!(log.entries.iter().all(|entry| entry.time_ms > 1_600_000_000_000));
}

#[test]
fn all_executions_of_a_run_share_a_log_that_ends_with_each_of_them() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let mut log = Collected::default();
    for (restart, word) in [(0, "first"), (1, "second"), (2, "third")] {
        link.go(1, restart, &["echo", word]);
        log.take_until(&mut link, "main-1", word);
        while !log.complete {
            log.take(&mut link, "main-1");
        }
    }
    assert_eq!(log.text(1), "first\nsecond\nthird\n");
}

#[test]
fn a_new_run_completes_the_log_of_the_one_before() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let go = sandbox.path("go");
    // Somebody is left behind who holds the log of the first run open.
    let script = format!("echo one; (until [ -e {} ]; do sleep 0.01; done) &", go.display());
    link.go(1, 0, &["sh", "-c", &script]);
    let mut log = Collected::default();
    log.take_until(&mut link, "main-1", "one");
    link.go(2, 0, &["echo", "two"]);
    while !log.complete {
        log.take(&mut link, "main-1");
    }
    assert_eq!(log.text(1), "one\n");
    std::fs::write(&go, "").unwrap();
}

#[test]
fn a_log_ends_with_the_last_who_holds_it_open() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let go = sandbox.path("go");
    let wait = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    link.go(1, 0, &["sh", "-c", &format!("echo now; ({wait}; echo later) &")]);
    let mut log = Collected::default();
    log.take_until(&mut link, "main-1", "now");
    assert_eq!(link.main_exit().2.code, 0);
    // The command has ended; only now does the one it left behind go on.
    std::fs::write(&go, "").unwrap();
    while !log.complete {
        log.take(&mut link, "main-1");
    }
    assert_eq!(log.text(1), "now\nlater\n");
}

#[test]
fn what_was_written_without_a_gateway_is_shipped_to_the_next() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let (go, done) = (sandbox.path("go"), sandbox.path("done"));
    let script = format!(
        "echo before; while [ ! -e {} ]; do sleep 0.01; done; echo alone; echo x > {}; sleep 1000",
        go.display(),
        done.display()
    );
    link.go(1, 0, &["sh", "-c", &script]);
    let mut log = Collected::default();
    log.take_until(&mut link, "main-1", "before");
    drop(link);
    std::fs::write(&go, "").unwrap();
    wait_for_file(&done);
    let (mut link, hello) = sandbox.accept();
    let expect = |offer: &LogOffer| offer.source == "main-1" && offer.to > log.end;
    assert!(hello.logs.iter().any(expect), "{:?}", hello.logs);
    link.welcome_with(vec![LogAck { source: "main-1".into(), offset: log.end }]);
    log.take_until(&mut link, "main-1", "alone");
}

#[test]
fn logs_survive_the_death_of_the_supervisor() {
    let mut sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.go(1, 0, &["sh", "-c", "echo kept"]);
    // Not acknowledged.
    let first: LogData = link.expect(Kind::LogData).decode().unwrap();
    sandbox.kill();
    drop(link);
    sandbox.start_supervisor();
    let (mut link, hello) = sandbox.accept();
    assert_eq!(hello.logs[0].source, "main-1");
    link.welcome();
    let mut log = Collected::default();
    log.take_until(&mut link, "main-1", "kept");
    assert_eq!(log.entries, Entries::new(first.entries).map(Result::unwrap).collect::<Vec<_>>());
    // The same run goes on in the same log.
    link.go(1, 1, &["echo", "more"]);
    log.take_until(&mut link, "main-1", "more");
    assert_eq!(log.text(1), "kept\nmore\n");
}

#[test]
fn a_detached_exec_leaves_a_complete_log() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let open = ExecOpen {
        exec_id: "job".into(),
        process: Some(Process { attached: false, ..shell("echo out; echo err >&2; exit 3") }),
        detached: true,
    };
    link.send(Kind::ExecOpen, 1, &open);
    link.attached();
    let mut log = Collected::default();
    while !log.complete {
        log.take(&mut link, "job");
    }
    assert_eq!((log.text(1), log.text(2)), ("out\n".to_owned(), "err\n".to_owned()));
    let output = {
        link.attach(2, "job", 0);
        link.finish(2)
    };
    assert_eq!((output.text().as_str(), output.exited.code), ("out\n", 3));
    // Acknowledged to its end it is gone.
    drop(link);
    assert!(sandbox.accept().1.logs.is_empty());
}

#[test]
fn output_that_is_not_to_be_kept_is_not_shipped() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.run(1, "a", process(&["echo", "private"]));
    drop(link);
    assert!(sandbox.accept().1.logs.is_empty());
}

#[test]
fn what_the_main_command_left_behind_goes_on_in_its_log() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let go = sandbox.path("go");
    let script =
        format!("(while [ ! -e {} ]; do sleep 0.01; done; echo server) & exit 0", go.display());
    link.go(1, 0, &["sh", "-c", &script]);
    assert_eq!(link.main_exit().2.code, 0);
    std::fs::write(&go, "").unwrap();
    Collected::default().take_until(&mut link, "main-1", "server");
}

#[test]
fn a_fast_writer_loses_nothing_while_the_gateway_takes() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.go(1, 0, &["sh", "-c", "yes 0123456789abcde | head -c 20000000"]);
    // A gateway that is slow for a moment, in which all could have been written.
    link.send(
        Kind::ExecOpen,
        1,
        &ExecOpen {
            exec_id: "moment".into(),
            process: Some(process(&["sleep", "0.5"])),
            detached: false,
        },
    );
    let (mut end, mut got) = (0, 0);
    let mut slow = true;
    while got < 20_000_000 {
        let frame = link.next().unwrap();
        match frame.kind().unwrap() {
            Kind::ExecExited => slow = false,
            Kind::LogData => {
                let data: LogData = frame.decode().unwrap();
                assert_eq!(data.offset, end, "a byte lost or doubled");
                end += data.entries.len() as u64;
                got += Entries::new(data.entries).map(|it| it.unwrap().bytes.len()).sum::<usize>();
            }
            _ => continue,
        }
        if !slow {
            link.send(Kind::LogAck, 0, &LogAck { source: "main-1".into(), offset: end });
        }
    }
    assert_eq!(got, 20_000_000);
}

#[test]
fn a_long_line_is_shipped_in_pieces() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let keeps = Process { keep_output: true, ..shell("head -c 3000000 /dev/zero | tr '\\0' x") };
    link.open(1, "a", keeps);
    let mut log = Collected::default();
    // The client reads as the gateway collects; both come whole.
    let mut got = 0;
    while got < 3_000_000 || log.text(1).len() < 3_000_000 {
        let frame = link.next().unwrap();
        match frame.kind().unwrap() {
            Kind::ExecData => {
                let data = frame.stream_bytes().unwrap();
                got += data.bytes.len();
                link.ack(1, data.channel, got as u64);
            }
            Kind::LogData => {
                let data: LogData = frame.decode().unwrap();
                assert_eq!(data.offset, log.end);
                log.end += data.entries.len() as u64;
                log.entries.extend(Entries::new(data.entries).map(Result::unwrap));
                link.send(Kind::LogAck, 0, &LogAck { source: data.source, offset: log.end });
            }
            _ => {}
        }
    }
    assert!(log.text(1).bytes().all(|byte| byte == b'x'));
}
