//! Trees that go through a stream and come out the same, here and through GNU tar.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use sandkeep_archive::{
    Existing, Owners, Packed, ParentLinks, Rules, Tape, Unpacked, pack, unpack,
};
use tempfile::TempDir;

const RULES: Rules = Rules {
    owners: Owners::Ours,
    links: ParentLinks::Refused,
    existing: Existing::TreesKept,
    whiteouts: None,
    kept_free_bytes: 0,
};

fn packed(tree: &Path, to: &str) -> (Vec<u8>, Packed) {
    let mut stream = Vec::new();
    let counts =
        pack(File::open(tree).unwrap(), OsStr::new("."), to.as_bytes(), &mut stream).unwrap();
    (stream, counts)
}

fn unpacked(stream: &[u8]) -> (TempDir, Unpacked) {
    let place = TempDir::new().unwrap();
    let root = File::open(place.path()).unwrap();
    let counts = unpack(&mut Tape::new(stream), root.into(), RULES).unwrap();
    (place, counts)
}

/// Everything about every name of a tree that is to survive.
fn manifest(tree: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = vec![tree.to_owned()];
    let mut numbers = std::collections::HashMap::new();
    while let Some(path) = left.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let kind = about.file_type();
        let name = path.strip_prefix(tree).unwrap().as_os_str().as_bytes().to_vec();
        let mut line =
            format!("{name:?} {:o} {}.{}", about.mode(), about.mtime(), about.mtime_nsec());
        if kind.is_symlink() {
            line += &format!(" -> {:?}", fs::read_link(&path).unwrap());
        } else if kind.is_dir() {
            let mut below: Vec<_> =
                fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
            below.sort();
            left.extend(below.into_iter().rev());
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            let sum: u64 =
                bytes.iter().zip(1..).map(|(byte, at): (_, u64)| u64::from(*byte) * at).sum();
            let count = numbers.len();
            let number = numbers.entry(about.ino()).or_insert(count);
            line += &format!(" {} bytes {sum} links {} file {number}", bytes.len(), about.nlink());
        }
        lines.push(line);
    }
    lines
}

fn odd_tree() -> TempDir {
    let tree = TempDir::new().unwrap();
    let at = |name: &str| tree.path().join(name);
    fs::create_dir_all(at("dir/deep")).unwrap();
    fs::write(at("dir/plain"), "text").unwrap();
    fs::set_permissions(at("dir/plain"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(at("dir/plain"), at("again")).unwrap();
    symlink("/etc/passwd", at("absolute")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    fs::hard_link(at("dangling"), at("dangling too")).unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::write(at("with\nnewline = and 7 spaces "), "x").unwrap();
    fs::write(tree.path().join(OsStr::from_bytes(b"not utf-8 \xff\xfe")), "y").unwrap();
    fs::write(at(&"long".repeat(60)), "z").unwrap();
    let fifo = CString::new(at("pipe").as_os_str().as_bytes()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fifo.as_c_str(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let sparse = File::create(at("sparse")).unwrap();
    sparse.write_all_at(b"begin", 0).unwrap();
    sparse.write_all_at(b"middle", 5 << 20).unwrap();
    sparse.set_len(64 << 20).unwrap();
    File::create(at("hole")).unwrap().set_len(1 << 20).unwrap();
    let old = rustix::fs::Timespec { tv_sec: -1_000, tv_nsec: 123_456_789 };
    let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
    rustix::fs::utimensat(rustix::fs::CWD, at("empty"), &times, rustix::fs::AtFlags::empty())
        .unwrap();
    fs::set_permissions(at("dir/deep"), fs::Permissions::from_mode(0o2555)).unwrap();
    tree
}

#[test]
fn a_tree_with_everything_in_it_comes_out_the_same() {
    let tree = odd_tree();
    let (stream, counts) = packed(tree.path(), "");
    assert!(stream.len() < 1 << 20, "holes take no room: {}", stream.len());
    let (place, came) = unpacked(&stream);
    let (before, mut after) = (manifest(tree.path()), manifest(place.path()));
    // The set-group-id bit of a directory stays; nothing else is changed.
    assert_eq!(before.len(), after.len());
    after.iter().zip(&before).for_each(|(after, before)| assert_eq!(after, before));
    after.clear();
    assert_eq!((came.entries + 1, came.files + 1), (counts.entries, counts.files + 1));
    let about = fs::metadata(place.path().join("sparse")).unwrap();
    assert!(about.blocks() * 512 < 1 << 20, "{} blocks", about.blocks());
    assert!(fs::symlink_metadata(place.path().join("pipe")).unwrap().file_type().is_fifo());
}

#[test]
fn packing_the_same_tree_twice_gives_the_same_bytes() {
    let tree = odd_tree();
    assert_eq!(packed(tree.path(), "t").0, packed(tree.path(), "t").0);
}

#[test]
fn gnu_tar_reads_what_is_packed_and_packs_what_is_read() {
    let tree = odd_tree();
    let file = TempDir::new().unwrap();
    let archive = file.path().join("a.tar");
    fs::write(&archive, packed(tree.path(), "").0).unwrap();
    let place = TempDir::new().unwrap();
    let tar = |arguments: &[&OsStr]| {
        let output = Command::new("tar").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let (archive, to) = (archive.as_os_str(), place.path().as_os_str());
    tar(&["--no-same-owner", "-p", "-C", to.to_str().unwrap(), "-xf"]
        .map(OsStr::new)
        .iter()
        .copied()
        .chain([archive])
        .collect::<Vec<_>>());
    assert_eq!(manifest(place.path()), manifest(tree.path()));

    tar(&[
        "--format=pax",
        "-S",
        "-C",
        tree.path().to_str().unwrap(),
        "-cf",
        archive.to_str().unwrap(),
        ".",
    ]
    .map(OsStr::new));
    let (place, _) = unpacked(&fs::read(archive).unwrap());
    assert_eq!(manifest(place.path()), manifest(tree.path()));
    tar(&[
        "--format=gnu",
        "-C",
        tree.path().to_str().unwrap(),
        "--exclude=./empty",
        "-cf",
        archive.to_str().unwrap(),
        ".",
    ]
    .map(OsStr::new));
    unpacked(&fs::read(archive).unwrap());
}

#[test]
fn one_file_goes_under_the_name_it_is_given() {
    let tree = odd_tree();
    let mut stream = Vec::new();
    let directory = File::open(tree.path()).unwrap();
    let counts = pack(&directory, OsStr::new("again"), b"other", &mut stream).unwrap();
    assert_eq!((counts.entries, counts.bytes), (1, 4));
    let (place, _) = unpacked(&stream);
    assert_eq!(fs::read(place.path().join("other")).unwrap(), b"text");
    let missing = pack(&directory, OsStr::new("none"), b"x", &mut Vec::new()).unwrap_err();
    assert!(missing.to_string().contains("\"none\" could not be read"), "{missing}");
}

#[test]
fn a_tree_deeper_than_descriptors_go_is_packed_and_unpacked() {
    let tree = TempDir::new().unwrap();
    // 2000 levels of one letter: as deep as a path may be.
    let mut at =
        rustix::fs::open(tree.path(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..2000 {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        at = rustix::fs::openat(&at, "d", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty())
            .unwrap();
    }
    drop(at);
    let (stream, counts) = packed(tree.path(), "");
    assert_eq!(counts.entries, 2001);
    let (_place, came) = unpacked(&stream);
    assert_eq!(came.entries, 2000);
}

/// One step of a made-up tree.
#[derive(Debug, Clone)]
enum Step {
    Dir(Vec<u8>),
    File(Vec<u8>, Vec<u8>, u32),
    Link(Vec<u8>, Vec<u8>),
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        any::<u8>().prop_map(|byte| if matches!(byte, 0 | b'/' | b'.') { b'_' } else { byte }),
        1..200,
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        name().prop_map(Step::Dir),
        (name(), prop::collection::vec(any::<u8>(), 0..2000), 0_u32..0o1000)
            .prop_map(|(name, bytes, mode)| Step::File(name, bytes, mode | 0o400)),
        (name(), name()).prop_map(|(name, target)| Step::Link(name, target)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_tree_comes_out_the_same(steps in prop::collection::vec(step(), 0..20)) {
        let tree = TempDir::new().unwrap();
        let mut at = tree.path().to_owned();
        for step in steps {
            let path = |name: &[u8]| at.join(OsStr::from_bytes(name));
            match step {
                Step::Dir(name) => {
                    if fs::create_dir(path(&name)).is_ok() && name.len() % 2 == 0 {
                        at = path(&name);
                    }
                }
                Step::File(name, bytes, mode) => {
                    if fs::symlink_metadata(path(&name)).is_err() && fs::write(path(&name), bytes).is_ok() {
                        fs::set_permissions(path(&name), fs::Permissions::from_mode(mode)).unwrap();
                    }
                }
                Step::Link(name, target) => drop(symlink(OsStr::from_bytes(&target), path(&name))),
            }
        }
        let (place, _) = unpacked(&packed(tree.path(), "").0);
        prop_assert_eq!(manifest(place.path()), manifest(tree.path()));
    }

    #[test]
    fn no_stream_of_bytes_makes_it_panic_or_reach_outside(
        noise in prop::collection::vec(any::<u8>(), 0..4096),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let place = TempDir::new().unwrap();
        let root = place.path().join("root");
        fs::create_dir(&root).unwrap();
        let open = || File::open(&root).unwrap().into();
        drop(unpack(&mut Tape::new(&noise[..]), open(), RULES));
        let tree = TempDir::new().unwrap();
        fs::write(tree.path().join("a"), "text").unwrap();
        symlink("..", tree.path().join("b")).unwrap();
        let (mut stream, _) = packed(tree.path(), "t");
        for (index, byte) in changes {
            let at = index.index(stream.len());
            stream[at] = byte;
        }
        drop(unpack(&mut Tape::new(&stream[..]), open(), RULES));
        prop_assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
