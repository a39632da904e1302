//! Payloads that no side of ours sends: every kind of message, of both roles, from any bytes and
//! from good bytes that were damaged. An answer or an error, never a panic; and what is taken is no
//! more than was sent.

use std::fmt::Debug;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use prost::Message;
use sandkeep_frames::log_entry::{
    ENTRY_HEADER_BYTES, Entries, FD_GAP, LogEntry, MAX_ENTRY_BYTES, write_gap, write_output,
};
use sandkeep_frames::message as m;
use sandkeep_frames::{Frame, Kind};

fn frame(payload: Vec<u8>) -> Frame {
    Frame { raw_kind: Kind::Hello as u8, stream: 1, payload: payload.into() }
}

/// What is understood is understood the same when it is said again.
fn as_message<M: Message + Default + PartialEq + Debug>(payload: &[u8]) {
    let Ok(first) = frame(payload.to_vec()).decode::<M>() else { return };
    let again = frame(first.encode_to_vec()).decode::<M>().expect("our own words");
    assert_eq!(again, first);
}

/// Every kind of payload that a frame may have.
fn as_every_message(payload: &[u8]) {
    as_message::<m::Hello>(payload);
    as_message::<m::Welcome>(payload);
    as_message::<m::Refused>(payload);
    as_message::<m::Go>(payload);
    as_message::<m::MainState>(payload);
    as_message::<m::ResultStored>(payload);
    as_message::<m::ExecOpen>(payload);
    as_message::<m::ExecAttach>(payload);
    as_message::<m::ExecAttached>(payload);
    as_message::<m::ExecAck>(payload);
    as_message::<m::ExecEof>(payload);
    as_message::<m::ExecResize>(payload);
    as_message::<m::ExecSignal>(payload);
    as_message::<m::ExecExited>(payload);
    as_message::<m::LogData>(payload);
    as_message::<m::LogAck>(payload);
    as_message::<m::Usage>(payload);
    if let Ok(data) = frame(payload.to_vec()).stream_bytes() {
        assert!(data.bytes.len() < payload.len());
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(1 << 32), any::<u64>()]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), any::<String>(), Just("x".repeat(5000))]
}

/// Good bytes of the two messages that have most in them.
fn good() -> impl Strategy<Value = Vec<u8>> {
    let exited = prop::option::of((any::<i32>(), any::<i32>(), any::<bool>(), number(), text()));
    let exited = exited.prop_map(|exited| {
        exited.map(|(code, signal, oom, finished_at_ms, spawn_error)| m::Exited {
            code,
            signal,
            oom,
            finished_at_ms,
            spawn_error,
        })
    });
    let main = (number(), number(), any::<u32>(), exited);
    let main = main.prop_map(|(run, incarnation, restart, exited)| m::MainState {
        run,
        incarnation,
        restart,
        exited,
    });
    let words = || prop::collection::vec(text(), 0..4);
    let process = (words(), words(), text(), text(), any::<[bool; 4]>(), any::<[u32; 2]>());
    let process = process.prop_map(|(argv, env, workdir, user, flags, [rows, columns])| {
        let [tty, stdin, keep_output, attached] = flags;
        m::Process { argv, env, workdir, user, tty, stdin, rows, columns, keep_output, attached }
    });
    let go = (number(), any::<u32>(), number(), prop::option::of(process));
    let go = go.prop_map(|(run, restart, incarnation, process)| {
        m::Go { run, restart, incarnation, process }.encode_to_vec()
    });
    let offers = prop::collection::vec((text(), number(), number(), any::<bool>()), 0..3);
    let hello = (any::<u32>(), number(), prop::option::of(main), offers);
    let hello = hello.prop_map(|(newest_version, boot_nonce, main, logs)| {
        let offer = |(source, from, to, complete)| m::LogOffer { source, from, to, complete };
        let logs = logs.into_iter().map(offer).collect();
        m::Hello { newest_version, boot_nonce, main, logs, ..m::Hello::default() }.encode_to_vec()
    });
    prop_oneof![go, hello]
}

/// A seed that failed is kept beside this file, and tried first from then on.
fn config() -> ProptestConfig {
    let seeds = FileFailurePersistence::WithSource("seeds");
    ProptestConfig {
        cases: 1024,
        failure_persistence: Some(Box::new(seeds)),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_payload_is_a_message_or_an_error(
        payload in prop::collection::vec(any::<u8>(), 0..600)
    ) {
        as_every_message(&payload);
    }

    #[test]
    fn a_damaged_payload_is_a_message_or_an_error(
        mut payload in good(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        if !payload.is_empty() {
            for (at, byte) in damage {
                let at = at.index(payload.len());
                payload[at] = byte;
            }
            if cut {
                payload.truncate(keep.index(payload.len()));
            }
        }
        as_every_message(&payload);
    }

    /// A log cut anywhere gives its whole entries, and a damaged one nothing that was not there.
    #[test]
    fn a_log_that_is_cut_or_damaged_gives_whole_entries_alone(
        outputs in prop::collection::vec((prop_oneof![Just(1u8), Just(2)], number(), prop::collection::vec(any::<u8>(), 1..300)), 1..8),
        gap in prop::option::of(number()),
        cut in any::<prop::sample::Index>(),
        damage in prop::option::of((any::<prop::sample::Index>(), 1u8..)),
    ) {
        let mut log = Vec::new();
        let mut expected = Vec::new();
        for (fd, time_ms, output) in outputs {
            write_output(&mut log, fd, time_ms, &output);
            expected.push(LogEntry { fd, time_ms, bytes: output.into() });
        }
        if let Some(dropped) = gap {
            write_gap(&mut log, 7, dropped);
            let bytes = Bytes::from(dropped.to_string());
            expected.push(LogEntry { fd: FD_GAP, time_ms: 7, bytes });
        }
        log.truncate(cut.index(log.len() + 1));
        let mut entries = Entries::new(log.clone().into());
        let read: Vec<_> = entries.by_ref().map_while(Result::ok).collect();
        prop_assert_eq!(&read[..], &expected[..read.len()]);
        prop_assert!(entries.consumed() <= log.len());
        if let Some((at, flip)) = damage.filter(|_| !log.is_empty()) {
            let at = at.index(log.len());
            log[at] ^= flip;
            let mut entries = Entries::new(log.clone().into());
            let read: usize = entries
                .by_ref()
                .map_while(Result::ok)
                .map(|entry| entry.bytes.len() + ENTRY_HEADER_BYTES)
                .sum();
            prop_assert_eq!(read, entries.consumed());
            prop_assert!(read <= log.len());
        }
    }
}

#[test]
fn a_part_that_claims_more_than_there_is_takes_no_memory() {
    // Lengths of almost 2^64 and of 2 GiB, for each of the first fields.
    for field in 1..=8u8 {
        for length in [
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
            &[0x80, 0x80, 0x80, 0x80, 0x08],
        ] {
            let mut payload = vec![field << 3 | 2];
            payload.extend(length);
            payload.extend([b'x'; 20]);
            as_every_message(&payload);
            assert!(frame(payload).decode::<m::LogData>().is_err() || field > 3);
        }
    }
}

#[test]
fn an_entry_that_claims_more_than_an_entry_may_hold_is_none() {
    let mut log = Vec::new();
    log.extend(u32::try_from(MAX_ENTRY_BYTES + 1).expect("a number").to_le_bytes());
    log.push(1);
    log.extend(0u64.to_le_bytes());
    log.extend(vec![b'x'; MAX_ENTRY_BYTES + 1]);
    assert!(matches!(Entries::new(log.into()).next(), Some(Err(_))));
}
