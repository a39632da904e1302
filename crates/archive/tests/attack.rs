//! Trees that change under the hand that reads or writes them, and streams made to lead elsewhere.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sandkeep_archive::{
    ArchiveError, Existing, Kind, Owners, ParentLinks, Rules, Tape, pack, unpack,
};
use tempfile::TempDir;

const RULES: Rules = Rules {
    owners: Owners::Ours,
    links: ParentLinks::Refused,
    existing: Existing::TreesKept,
    whiteouts: None,
    kept_free_bytes: 0,
};
/// As the issue of such attacks asks: enough for a race to be met many times.
const ROUNDS: usize = 10_000;

/// Exchanges `one` and `other` for ever, until told to stop.
fn exchanging(one: &Path, other: &Path, stop: &AtomicBool) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }
}

#[test]
fn packing_never_reads_through_a_directory_that_becomes_a_symlink() {
    let place = TempDir::new().unwrap();
    let (secret, tree, side) =
        (place.path().join("secret"), place.path().join("tree"), place.path().join("side"));
    fs::create_dir_all(tree.join("dir/below")).unwrap();
    fs::write(tree.join("dir/file"), "open").unwrap();
    fs::create_dir_all(secret.join("below")).unwrap();
    fs::write(secret.join("file"), "SECRET").unwrap();
    fs::write(secret.join("below/more"), "SECRET").unwrap();
    symlink(&secret, &side).unwrap();
    let stop = AtomicBool::new(false);
    let (mut links, mut directories) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| exchanging(&tree.join("dir"), &side, &stop));
        for _ in 0..ROUNDS {
            let mut stream = Vec::new();
            // An entry that is another one by the time it is opened is an error at worst.
            if pack(File::open(&tree).unwrap(), OsStr::new("."), b"", &mut stream).is_err() {
                continue;
            }
            assert!(!stream.windows(6).any(|window| window == b"SECRET"));
            let mut tape = Tape::new(&stream[..]);
            while let Some(entry) = tape.next_entry().unwrap() {
                match entry.kind {
                    Kind::Symlink(_) => links += 1,
                    Kind::Directory => directories += 1,
                    _ => {}
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Both were met, or there was no race to be won.
    assert!(links > 0 && directories > ROUNDS / 100, "{links} links, {directories} directories");
}

#[test]
fn unpacking_never_writes_through_a_directory_that_becomes_a_symlink() {
    let place = TempDir::new().unwrap();
    let (outside, root, side) =
        (place.path().join("outside"), place.path().join("root"), place.path().join("side"));
    fs::create_dir(&outside).unwrap();
    fs::create_dir_all(root.join("dir/below")).unwrap();
    symlink(&outside, &side).unwrap();
    let source = TempDir::new().unwrap();
    fs::create_dir_all(source.path().join("dir/below")).unwrap();
    fs::write(source.path().join("dir/file"), "planted").unwrap();
    fs::write(source.path().join("dir/below/file"), "planted").unwrap();
    let mut stream = Vec::new();
    pack(File::open(source.path()).unwrap(), OsStr::new("."), b"", &mut stream).unwrap();
    let stop = AtomicBool::new(false);
    let mut good = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // The unpacker itself puts a directory in the symlink's place now and then.
                use rustix::fs::{CWD, RenameFlags, renameat_with};
                let flags = RenameFlags::EXCHANGE;
                let _ = renameat_with(CWD, root.join("dir"), CWD, &side, flags);
                if fs::symlink_metadata(&side).is_ok_and(|about| about.is_dir())
                    && fs::symlink_metadata(root.join("dir")).is_ok_and(|about| about.is_dir())
                {
                    drop(fs::remove_dir_all(&side));
                    drop(symlink(&outside, &side));
                }
            }
        });
        for _ in 0..ROUNDS {
            let opened = File::open(&root).unwrap();
            good += usize::from(unpack(&mut Tape::new(&stream[..]), opened.into(), RULES).is_ok());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "something was written outside");
    assert!(good > 0, "no round came through");
}

#[test]
fn a_symlink_that_the_stream_itself_plants_is_not_gone_through() {
    let place = TempDir::new().unwrap();
    let source = TempDir::new().unwrap();
    let (first, second) = (source.path().join("1"), source.path().join("2"));
    fs::create_dir_all(&first).unwrap();
    fs::create_dir_all(second.join("out")).unwrap();
    symlink(place.path(), first.join("out")).unwrap();
    fs::write(second.join("out/planted"), "x").unwrap();
    let packed = |tree: &Path| {
        let mut stream = Vec::new();
        pack(File::open(tree).unwrap(), OsStr::new("."), b"", &mut stream).unwrap();
        stream
    };
    let root = TempDir::new().unwrap();
    let open = || File::open(root.path()).unwrap().into();
    unpack(&mut Tape::new(&packed(&first)[..]), open(), RULES).unwrap();
    // The directory of the second stream takes the symlink's place, and does not follow it.
    unpack(&mut Tape::new(&packed(&second)[..]), open(), RULES).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    assert!(fs::symlink_metadata(root.path().join("out")).unwrap().is_dir());
    // A file below it without its directory is refused.
    let mut one = Vec::new();
    let source = File::open(second.join("out")).unwrap();
    pack(source, OsStr::new("planted"), b"out/planted", &mut one).unwrap();
    fs::remove_dir_all(root.path().join("out")).unwrap();
    symlink(place.path(), root.path().join("out")).unwrap();
    let error = unpack(&mut Tape::new(&one[..]), open(), RULES).unwrap_err();
    assert!(matches!(error, ArchiveError::Damaged(_)), "{error}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_whole_tree_never_gives_way_to_a_file() {
    let root = TempDir::new().unwrap();
    fs::create_dir_all(root.path().join("work")).unwrap();
    fs::write(root.path().join("work/precious"), "x").unwrap();
    let source = TempDir::new().unwrap();
    fs::write(source.path().join("work"), "a file").unwrap();
    let mut stream = Vec::new();
    pack(File::open(source.path()).unwrap(), OsStr::new("."), b"", &mut stream).unwrap();
    let opened = File::open(root.path()).unwrap();
    let error = unpack(&mut Tape::new(&stream[..]), opened.into(), RULES).unwrap_err();
    assert!(error.to_string().contains("\"work\" is a directory"), "{error}");
    assert!(root.path().join("work/precious").exists());
}

#[test]
fn a_file_that_shrinks_while_it_is_packed_breaks_nothing_after_it() {
    let tree = TempDir::new().unwrap();
    fs::write(tree.path().join("a"), vec![7; 4 << 20]).unwrap();
    fs::write(tree.path().join("b"), "after").unwrap();
    /// Cuts the file off as soon as its header went by.
    struct Cutting<'a>(Vec<u8>, &'a Path);
    impl std::io::Write for Cutting<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0.len() > 100_000 {
                drop(fs::OpenOptions::new().write(true).open(self.1)?.set_len(10));
            }
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let path = tree.path().join("a");
    let mut out = Cutting(Vec::new(), &path);
    let counts = pack(File::open(tree.path()).unwrap(), OsStr::new("."), b"", &mut out).unwrap();
    assert_eq!(counts.shortened, 1);
    let place = TempDir::new().unwrap();
    let root = File::open(place.path()).unwrap();
    unpack(&mut Tape::new(&out.0[..]), root.into(), RULES).unwrap();
    assert_eq!(fs::read(place.path().join("b")).unwrap(), b"after");
    assert_eq!(fs::metadata(place.path().join("a")).unwrap().len(), 4 << 20);
}
