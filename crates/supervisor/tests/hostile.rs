//! A gateway that says anything in any order: sessions may end, nothing else.

#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::io::Write;

use bytes::Bytes;
use prost::Message;
use sandkeep_frames::message::{
    Channel, ExecAck, ExecAttach, ExecEof, ExecOpen, ExecResize, ExecSignal, Go, LogAck, Process,
    ResultStored, StreamBytes, Welcome,
};
use sandkeep_frames::{Encoded, Kind};
use support::{INCARNATION, Link, Sandbox, process, shell};

/// Numbers from a seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Small, or at an edge.
    fn number(&mut self) -> u64 {
        let edges = [0, 1, 2, 5, 1 << 16, 1 << 20, (1 << 20) + 1, 1 << 32, u64::MAX - 1, u64::MAX];
        edges[usize::try_from(self.below(10)).unwrap()]
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.below(6)).unwrap()
    }

    fn id(&mut self) -> String {
        match self.below(7) {
            0 => "main-1".to_owned(),
            1 => String::new(),
            2 => "../../etc".to_owned(),
            _ => format!("e{}", self.below(5)),
        }
    }

    fn process(&mut self) -> Process {
        let commands =
            ["cat", "yes", "echo hello; exit 3", "sleep 1000", "exec >&-; sleep 0.01", ""];
        let script = commands[usize::try_from(self.below(6)).unwrap()];
        Process {
            argv: if script.is_empty() { Vec::new() } else { shell(script).argv },
            tty: self.flag(),
            stdin: self.flag(),
            rows: u32::try_from(self.number().min(70_000)).unwrap(),
            keep_output: self.flag(),
            attached: self.flag(),
            ..process(&["x"])
        }
    }

    fn frame(&mut self) -> Encoded {
        let stream = self.small();
        let whole =
            |kind, message: &dyn Encodes| Encoded::raw(kind, stream, message.bytes()).unwrap();
        let (a, flag, small, id) = (self.number(), self.flag(), self.small(), self.id());
        let edge = if flag { 0 } else { a };
        match self.below(16) {
            0 => Encoded::raw(Kind::Ping, stream, vec![1; 300].into()).unwrap(),
            1 => Encoded::empty(Kind::UsageAsk, stream),
            2 => Encoded::empty(Kind::ExecForget, stream),
            3 => Encoded::empty(Kind::ExecDetach, stream),
            4 => whole(Kind::Go, &self.go(edge)),
            5 => whole(Kind::ResultStored, &ResultStored { run: a, restart: small }),
            6 | 7 => {
                let process = Some(self.process());
                whole(Kind::ExecOpen, &ExecOpen { exec_id: id, process, detached: flag })
            }
            8 => {
                let (stdout_offset, stderr_offset) = (a, self.number());
                whole(Kind::ExecAttach, &ExecAttach { exec_id: id, stdout_offset, stderr_offset })
            }
            9 => self.stdin(stream, edge),
            10 => whole(Kind::ExecAck, &ExecAck { channel: small, offset: a }),
            11 => whole(Kind::ExecEof, &ExecEof { channel: small, offset: edge }),
            12 => whole(Kind::ExecResize, &ExecResize { rows: small, columns: u32::MAX }),
            13 => {
                let signal = i32::try_from(a.min(70)).unwrap() - 3;
                whole(Kind::ExecSignal, &ExecSignal { signal })
            }
            14 => whole(Kind::LogAck, &LogAck { source: id, offset: a }),
            // Mostly nothing that a supervisor takes.
            _ => {
                let kind = Kind::from_raw(u8::try_from(self.below(40)).unwrap());
                Encoded::raw(kind.unwrap_or(Kind::Pong), stream, vec![7; 40].into()).unwrap()
            }
        }
    }

    fn go(&mut self, incarnation: u64) -> Go {
        let incarnation = if incarnation == 0 { INCARNATION } else { incarnation };
        let (run, restart) = (self.number(), self.small());
        Go { run, restart, incarnation, process: Some(self.process()) }
    }

    fn stdin(&mut self, stream: u32, offset: u64) -> Encoded {
        let length = usize::try_from(self.number().min(100_000)).unwrap();
        let data = StreamBytes { channel: Channel::Stdin, offset, bytes: vec![2; length].into() };
        Encoded::stream_bytes(stream, data).unwrap()
    }
}

/// Any of the messages.
trait Encodes {
    fn bytes(&self) -> Bytes;
}

impl<M: Message> Encodes for M {
    fn bytes(&self) -> Bytes {
        self.encode_to_vec().into()
    }
}

#[test]
fn any_frames_in_any_order_cost_a_session_at_most() {
    let sandbox = Sandbox::start();
    let nonce = { sandbox.accept().1.boot_nonce };
    let mut random = Random(20_261_130);
    for _ in 0..100 {
        let (link, hello) = sandbox.accept();
        assert_eq!(hello.boot_nonce, nonce, "the supervisor has died");
        // What comes back is read by another, so that neither side waits for the other.
        let mut reader = Link::new(link.stream.try_clone().unwrap());
        let reading = std::thread::spawn(move || while reader.read_some() {});
        let mut link = link;
        let welcome = Welcome {
            version: 1,
            incarnation: INCARNATION,
            now_ms: random.number(),
            ..Welcome::default()
        };
        link.send(Kind::Welcome, 0, &welcome);
        for _ in 0..random.below(60) {
            let frame = random.frame();
            if frame.pieces().iter().any(|piece| link.stream.write_all(piece).is_err()) {
                break;
            }
        }
        // It may be closed already.
        drop(link.stream.shutdown(std::net::Shutdown::Both));
        reading.join().unwrap();
    }
    let mut link = sandbox.session();
    assert_eq!(link.run(77, "last", process(&["echo", "well"])).text(), "well\n");
    assert!(sandbox.status("VmRSS") < 64 * 1024, "{} kB", sandbox.status("VmRSS"));
}

#[test]
fn execs_are_bounded_in_number() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let mut refused = 0;
    for number in 0..600 {
        let attached = link.open(number + 1, &format!("e{number}"), process(&["sleep", "1000"]));
        refused += u32::from(attached.refused == "Exhausted");
    }
    assert_eq!(refused, 600 - 512);
    // One that ends makes room for another.
    link.send(Kind::ExecSignal, 1, &ExecSignal { signal: 9 });
    link.finish(1);
    assert_eq!(link.open(1000, "next", process(&["true"])).refused, "");
}

#[test]
fn ended_execs_that_nobody_forgets_are_bounded() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    for number in 0..400 {
        let open = ExecOpen {
            exec_id: format!("e{number}"),
            process: Some(process(&["true"])),
            detached: true,
        };
        link.send(Kind::ExecOpen, 1, &open);
        link.attached();
    }
    // The newest is known until the end; by then the others have ended, too.
    link.attach(2, "e399", 0);
    link.finish(2);
    drop(link);
    let (_, hello) = sandbox.accept();
    assert!(hello.execs.len() <= 256 + 16, "{}", hello.execs.len());
}
