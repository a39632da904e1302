//! What must hold for every stream of bytes: frames come back whole whatever the pieces, noise is
//! passed over, hostile bytes neither panic nor take memory.

use bytes::Bytes;
use proptest::prelude::*;
use sandkeep_frames::encode::STREAM_HEADER_BYTES;
use sandkeep_frames::frame::{HEADER_BYTES, Kind, MAGIC, MAX_PAYLOAD_BYTES};
use sandkeep_frames::log_entry::Entries;
use sandkeep_frames::message::{Channel, Hello, StreamBytes};
use sandkeep_frames::{Decoder, Encoded, Frame};

fn written(frame: &Encoded) -> Vec<u8> {
    frame.pieces().concat()
}

fn read_all(bytes: &[u8], piece: usize) -> (Vec<Frame>, Decoder) {
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    for part in bytes.chunks(piece.max(1)) {
        decoder.feed(part);
        while let Some(frame) = decoder.next_frame() {
            frames.push(frame);
        }
    }
    (frames, decoder)
}

/// Noise without the first byte of a frame, so that what is expected is exact.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>().prop_filter("magic", |b| *b != MAGIC[0]), 0..200)
}

proptest! {
    #[test]
    fn frames_survive_any_split_and_noise_in_between(
        payloads in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..3000), noise()), 1..8),
        piece in 1usize..700,
    ) {
        let (mut bytes, mut noise_bytes) = (Vec::new(), 0);
        for (stream, payload, noise) in &payloads {
            bytes.extend_from_slice(noise);
            noise_bytes += noise.len() as u64;
            bytes.extend(written(&Encoded::raw(Kind::Ping, *stream, payload.clone().into()).unwrap()));
        }
        let (frames, decoder) = read_all(&bytes, piece);
        let got: Vec<_> = frames.iter().map(|f| (f.stream, f.payload.to_vec())).collect();
        let expect: Vec<_> = payloads.into_iter().map(|(s, p, _)| (s, p)).collect();
        prop_assert_eq!(got, expect);
        prop_assert_eq!(decoder.skipped(), noise_bytes);
        prop_assert_eq!(decoder.buffered(), 0);
    }

    #[test]
    fn a_damaged_header_costs_its_own_frame_only(at in 0usize..HEADER_BYTES, flip in 1u8..) {
        let first = Encoded::raw(Kind::Ping, 1, Bytes::from_static(b"lost")).unwrap();
        let second = Encoded::raw(Kind::Ping, 2, Bytes::from_static(b"kept")).unwrap();
        let mut bytes = written(&first);
        bytes[at] ^= flip;
        bytes.extend(written(&second));
        let (frames, decoder) = read_all(&bytes, 7);
        prop_assert_eq!(frames.len(), 1);
        prop_assert_eq!(&frames[0].payload[..], b"kept");
        prop_assert_eq!(decoder.skipped(), HEADER_BYTES as u64 + 4);
    }

    #[test]
    fn any_bytes_are_read_without_panic_or_hoarding(
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
        piece in 1usize..500,
    ) {
        let (_, decoder) = read_all(&bytes, piece);
        prop_assert!(decoder.buffered() < HEADER_BYTES);
        drop(Entries::new(bytes.into()).collect::<Vec<_>>());
    }

    #[test]
    fn hostile_headers_with_a_right_checksum_stay_within_bounds(
        raw_kind in any::<u8>(), flags in any::<u16>(), stream in any::<u32>(), length in any::<u32>(),
        rest in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, raw_kind]);
        bytes.extend(flags.to_le_bytes());
        bytes.extend(stream.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes.extend(rest);
        let mut decoder = Decoder::new();
        decoder.feed(&bytes);
        while let Some(frame) = decoder.next_frame() {
            drop(frame.decode::<Hello>());
            drop(frame.stream_bytes());
        }
        // Room is reserved for a frame that can come, never for what a header claims.
        prop_assert!(decoder.space().capacity() <= 2 * (MAX_PAYLOAD_BYTES + HEADER_BYTES));
    }

    #[test]
    fn stream_bytes_come_back_as_they_were(
        channel in 0u32..3, offset in any::<u64>(), bytes in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let channel = Channel::from_raw(channel).unwrap();
        let data = StreamBytes { channel, offset, bytes: bytes.into() };
        let (frames, _) = read_all(&written(&Encoded::stream_bytes(5, data.clone()).unwrap()), 64);
        prop_assert_eq!(frames[0].stream_bytes().unwrap(), data);
    }
}

#[test]
fn a_kind_of_a_newer_version_is_handed_over_raw() {
    let mut bytes = written(&Encoded::empty(Kind::Ping, 1));
    bytes[5] = 200;
    let crc = crc32fast::hash(&bytes[..16]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    let (frames, _) = read_all(&bytes, 100);
    assert_eq!((frames[0].kind(), frames[0].raw_kind), (None, 200));
}

#[test]
fn stream_bytes_that_are_none_are_malformed() {
    let check = |payload: Vec<u8>| {
        let frame = Frame { raw_kind: Kind::ExecData as u8, stream: 1, payload: payload.into() };
        assert!(frame.stream_bytes().is_err());
    };
    check(vec![]);
    check(vec![0; STREAM_HEADER_BYTES - 1]);
    check(vec![3; STREAM_HEADER_BYTES]);
    check(vec![1; STREAM_HEADER_BYTES + sandkeep_frames::CHUNK_BYTES + 1]);
}

#[test]
fn an_idle_decoder_holds_no_memory() {
    let mut decoder = Decoder::new();
    let big = Encoded::raw(Kind::Ping, 0, vec![1; MAX_PAYLOAD_BYTES].into()).unwrap();
    decoder.space().extend_from_slice(&written(&big));
    assert_eq!(decoder.next_frame().unwrap().payload.len(), MAX_PAYLOAD_BYTES);
    assert_eq!(decoder.next_frame(), None);
    assert_eq!(decoder.capacity(), 0);
}
