//! Sessions that break, resume and lie, against the real program.

mod support;

use std::io::Write;

use sandkeep_frames::message::{Channel, ExecAck, Process, Refused, Usage, Welcome};
use sandkeep_frames::{Encoded, Kind, WINDOW_BYTES};
use support::{INCARNATION, Link, Output, Sandbox, process, shell};

#[test]
fn hello_says_who_it_is_and_keeps_saying_it() {
    let sandbox = Sandbox::start();
    let (first, hello) = sandbox.accept();
    assert_eq!((hello.oldest_version, hello.newest_version), (1, 1));
    assert_eq!(hello.main.unwrap().run, 0);
    drop(first);
    let (_second, again) = sandbox.accept();
    assert_eq!(again.boot_nonce, hello.boot_nonce);
}

#[test]
fn a_ping_is_answered_with_its_bytes() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.write(&Encoded::raw(Kind::Ping, 0, "marco".into()).unwrap());
    assert_eq!(&link.expect(Kind::Pong).payload[..], b"marco");
}

#[test]
fn output_resumes_in_the_next_session_without_a_byte_lost_or_doubled() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.open(1, "a", shell("yes 0123456789abcde | head -c 40000000"));
    let mut output = Output::default();
    for session in 0..20 {
        // Some frames are taken and acknowledged, some only taken, some are lost on the way.
        for take in 0..6 {
            let data = link.expect(Kind::ExecData).stream_bytes().unwrap();
            let end = data.offset + data.bytes.len() as u64;
            output.take(data);
            if take % 2 == session % 2 {
                link.ack(1, Channel::Stdout, end);
            }
        }
        drop(link);
        link = sandbox.session();
        let have = output.stdout.len() as u64;
        assert_eq!(link.attach(1, "a", have).stdout_offset, have);
    }
    link.finish_into(1, &mut output);
    assert_eq!(output.stdout.len(), 40_000_000);
    assert!(output.stdout.chunks(16).all(|line| b"0123456789abcde\n".starts_with(line)));
}

#[test]
fn input_resumes_in_the_next_session_without_a_byte_lost_or_doubled() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let text: Vec<u8> = (0..3_000_000u32).flat_map(|n| n.to_le_bytes()).collect();
    let md5 = support::process(&["md5sum"]);
    link.open(1, "a", Process { stdin: true, ..md5 });
    let mut offset = 0;
    for _ in 0..12 {
        // A window, of which an unknown part arrives.
        let mut acknowledged = offset;
        for _ in 0..8 {
            let end = (offset + 100_000).min(text.len());
            while end > acknowledged + 1_000_000 {
                let ack: ExecAck = link.expect(Kind::ExecAck).decode().unwrap();
                acknowledged = usize::try_from(ack.offset).unwrap();
            }
            link.stdin(1, offset as u64, &text[offset..end]);
            offset = end;
        }
        link.stream.shutdown(std::net::Shutdown::Both).unwrap();
        link = sandbox.session();
        offset = usize::try_from(link.attach(1, "a", 0).stdin_offset).unwrap();
    }
    let mut acknowledged = offset;
    while offset < text.len() {
        let end = (offset + 100_000).min(text.len());
        while end > acknowledged + 1_000_000 {
            let ack: ExecAck = link.expect(Kind::ExecAck).decode().unwrap();
            acknowledged = usize::try_from(ack.offset).unwrap();
        }
        link.stdin(1, offset as u64, &text[offset..end]);
        offset = end;
    }
    link.stdin_end(1, text.len() as u64);
    let got = link.finish(1).text();
    let file = sandbox.path("text");
    std::fs::write(&file, &text).unwrap();
    let expect = std::process::Command::new("md5sum").arg(&file).output().unwrap().stdout;
    assert_eq!(got[..32], *String::from_utf8_lossy(&expect[..32]));
}

#[test]
fn an_exit_that_nobody_heard_is_told_in_the_next_session() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let done = sandbox.path("done");
    link.open(1, "a", shell(&format!("echo late; echo x > {}; exit 3", done.display())));
    drop(link);
    support::wait_for_file(&done);
    let (mut link, hello) = sandbox.accept();
    assert_eq!(hello.execs[0].exec_id, "a");
    link.welcome();
    link.attach(4, "a", 0);
    let output = link.finish(4);
    assert_eq!((output.text().as_str(), output.exited.code), ("late\n", 3));
}

#[test]
fn a_gateway_that_is_away_for_long_is_dialled_again() {
    let mut sandbox = Sandbox::start();
    drop(sandbox.session());
    let socket = sandbox.path("s");
    std::fs::remove_file(&socket).unwrap();
    // The old listener goes too: refused, then not there, then there again.
    sandbox.listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let mut link = sandbox.session();
    assert_eq!(link.run(1, "a", process(&["echo", "back"])).text(), "back\n");
}

#[test]
fn garbage_costs_a_session_at_most() {
    let sandbox = Sandbox::start();
    let mut random = 1u64;
    for round in 0..30 {
        let (mut link, _) = sandbox.accept();
        if round % 2 == 0 {
            link.welcome();
        }
        let garbage: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33).to_le_bytes()[0]
        })
        .take(4000)
        .collect();
        // It may hang up on us meanwhile, which is as good.
        drop(link.stream.write_all(&garbage));
    }
    let mut link = sandbox.session();
    assert_eq!(link.run(1, "a", process(&["echo", "well"])).text(), "well\n");
}

#[test]
fn noise_between_frames_is_passed_over() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.stream.write_all(b"warning: something on the line\r\n").unwrap();
    assert_eq!(link.run(1, "a", process(&["echo", "well"])).text(), "well\n");
}

#[test]
fn what_breaks_the_rules_ends_the_session_and_nothing_else() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let deaf = || Process { stdin: true, ..process(&["sleep", "1000"]) };
    let pid = link.open(1, "a", deaf()).pid;
    let rounds: [fn(&mut Link); 6] = [
        |link| link.stdin(1, 5, b"a gap"),
        |link| {
            let chunk = vec![0; 200_000];
            for n in 0..=2 * WINDOW_BYTES / 200_000 {
                link.stdin(1, n * 200_000, &chunk);
            }
        },
        |link| link.welcome(),
        |link| link.write(&Encoded::raw(Kind::Go, 0, vec![0xff; 50].into()).unwrap()),
        |link| link.write(&Encoded::raw(Kind::ExecData, 1, vec![9; 50].into()).unwrap()),
        |link| link.write(&Encoded::raw(Kind::ExecOpen, 0, Vec::new().into()).unwrap()),
    ];
    for breaking in rounds {
        breaking(&mut link);
        let refused: Refused = link.expect(Kind::Refused).decode().unwrap();
        assert_eq!(refused.reason, "Protocol", "{}", refused.message);
        while link.next().is_some() {}
        drop(link);
        link = sandbox.session();
        assert_eq!(link.open(1, "a", deaf()).pid, pid);
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let sandbox = Sandbox::start();
    let (mut link, _) = sandbox.accept();
    let welcome = Welcome { version: 99, incarnation: INCARNATION, ..Welcome::default() };
    link.send(Kind::Welcome, 0, &welcome);
    let refused: Refused = link.expect(Kind::Refused).decode().unwrap();
    assert_eq!(refused.reason, "Version");
    sandbox.session();
}

#[test]
fn frames_of_unknown_kinds_and_streams_are_skipped() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    let mut unknown = Encoded::empty(Kind::Ping, 0).pieces().concat();
    unknown[5] = 250;
    let crc = crc32(&unknown[..16]);
    unknown[16..20].copy_from_slice(&crc.to_le_bytes());
    link.stream.write_all(&unknown).unwrap();
    link.stdin(77, 0, b"nobody");
    link.ack(77, Channel::Stdout, 5);
    assert_eq!(link.run(1, "a", process(&["echo", "well"])).text(), "well\n");
}

#[test]
fn usage_is_reported() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.open(1, "a", process(&["sleep", "1000"]));
    link.write(&Encoded::empty(Kind::UsageAsk, 0));
    let usage: Usage = link.expect(Kind::Usage).decode().unwrap();
    assert!(usage.processes >= 2 && usage.memory_bytes > 0 && usage.attached_execs == 1);
}

#[test]
fn a_flood_of_pings_that_nobody_reads_takes_no_memory() {
    let sandbox = Sandbox::start();
    let link = sandbox.session();
    let before = sandbox.status("VmRSS");
    let ping = Encoded::raw(Kind::Ping, 0, vec![7; 100_000].into()).unwrap().pieces().concat();
    link.stream.set_nonblocking(true).unwrap();
    let mut written = 0;
    // Until it takes no more.
    let mut stalled = 0;
    while written < 64 * 1024 * 1024 && stalled < 200 {
        match (&link.stream).write(&ping[written % ping.len()..]) {
            Ok(count) => (written, stalled) = (written + count, 0),
            Err(_) => {
                stalled += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
    assert!(written < 16 * 1024 * 1024, "{written} bytes taken");
    let grown = sandbox.status("VmRSS") - before;
    assert!(grown < 8 * 1024, "{grown} kB more");
}

#[test]
fn at_rest_it_is_small() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.session();
    link.run(1, "a", process(&["true"]));
    assert!(sandbox.status("RssAnon") < 2 * 1024, "{} kB", sandbox.status("RssAnon"));
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}
