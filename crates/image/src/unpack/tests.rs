//! Layers as builders write them, and as nobody should.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::{Owners, Unpacked, Whiteouts, unpack};
use crate::error::ImageError;

fn header(kind: EntryType, path: &str, bytes: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    // Set by hand: the crate refuses what a hostile stream holds.
    let name = &mut header.as_gnu_mut().unwrap().name;
    name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(bytes);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_000_000_000);
    header
}

fn link(kind: EntryType, path: &str, target: &str) -> Header {
    let mut header = header(kind, path, 0, 0o777);
    header.as_gnu_mut().unwrap().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header
}

/// Entries with their bytes; checksums are made here.
fn archive(entries: &[(Header, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (header, bytes) in entries {
        let mut header = header.clone();
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

fn unpacked(stream: &[u8]) -> (TempDir, Result<Unpacked, ImageError>) {
    let place = TempDir::new().unwrap();
    let root = File::open(place.path()).unwrap();
    let result = unpack(stream, root.into(), Owners::Ours, Whiteouts::User);
    (place, result)
}

fn refused(stream: &[u8], because: &str) -> TempDir {
    let (place, result) = unpacked(stream);
    let error = result.expect_err(because);
    assert_eq!(error.kind, crate::ErrorKind::Invalid, "{error}");
    assert!(error.message.contains(because), "{error}");
    place
}

const FILE: EntryType = EntryType::Regular;
const DIR: EntryType = EntryType::Directory;

#[test]
fn files_directories_and_links_come_out_as_they_went_in() {
    let stream = archive(&[
        (header(DIR, "./", 0, 0o755), b""),
        (header(DIR, "usr/", 0, 0o751), b""),
        (header(FILE, "usr/tool", 5, 0o4755), b"hello"),
        (link(EntryType::Symlink, "bin", "usr"), b""),
        (link(EntryType::Link, "usr/again", "usr/tool"), b""),
        (header(EntryType::Fifo, "pipe", 0, 0o640), b""),
        (header(EntryType::Char, "console", 0, 0o666), b""),
        (header(FILE, "deep/er/file", 1, 0o600), b"x"),
    ]);
    let (place, result) = unpacked(&stream);
    let layer = result.unwrap();
    assert_eq!(layer.bytes, 6);
    assert_eq!(layer.diff_id, crate::Digest::of(&stream));
    let at = |path: &str| fs::symlink_metadata(place.path().join(path)).unwrap();
    assert_eq!(at("usr").mode() & 0o7777, 0o751);
    assert_eq!(at("usr").mtime(), 1_000_000_000, "a directory's time is set after its content");
    assert_eq!(at("usr/tool").mode() & 0o7777, 0o755, "no set-user-id bit");
    assert_eq!(at("usr/tool").ino(), at("usr/again").ino());
    assert_eq!(fs::read_link(place.path().join("bin")).unwrap(), Path::new("usr"));
    assert!(at("pipe").file_type().is_fifo());
    assert!(!place.path().join("console").exists(), "devices are left out");
    assert_eq!(fs::read(place.path().join("deep/er/file")).unwrap(), b"x");
}

#[test]
fn a_layer_may_be_gzip_or_zstd_and_has_the_digest_of_its_plain_stream() {
    let stream = archive(&[(header(FILE, "a", 3, 0o644), b"abc")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&stream).unwrap();
    let zstd =
        ruzstd::encoding::compress_to_vec(&stream[..], ruzstd::encoding::CompressionLevel::Fastest);
    for packed in [gzip.finish().unwrap(), zstd] {
        let (place, result) = unpacked(&packed);
        assert_eq!(result.unwrap().diff_id, crate::Digest::of(&stream));
        assert_eq!(fs::read(place.path().join("a")).unwrap(), b"abc");
    }
}

#[test]
fn whiteouts_are_what_overlayfs_reads_and_never_hide_the_layers_own_files() {
    let stream = archive(&[
        (header(FILE, "etc/.wh.old", 0, 0o644), b""),
        (header(FILE, "etc/mine", 0, 0o644), b""),
        (header(FILE, "etc/.wh.mine", 0, 0o644), b""),
        (header(FILE, "var/.wh..wh..opq", 0, 0o644), b""),
        (header(FILE, ".wh..wh.plnk", 0, 0o644), b""),
    ]);
    let (place, result) = unpacked(&stream);
    result.unwrap();
    let hidden = fs::symlink_metadata(place.path().join("etc/old")).unwrap();
    assert!(hidden.file_type().is_char_device() && hidden.rdev() == 0);
    assert!(fs::symlink_metadata(place.path().join("etc/mine")).unwrap().is_file());
    let mut value = [0; 8];
    let path = place.path().join("var");
    let read = rustix::fs::getxattr(&path, c"user.overlay.opaque", &mut value).unwrap();
    assert_eq!(&value[..read], b"y");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
}

#[test]
fn no_name_and_no_link_leads_out_of_the_root() {
    refused(&archive(&[(header(FILE, "../evil", 1, 0o644), b"x")]), "leads out");
    refused(&archive(&[(header(FILE, "a/../../evil", 1, 0o644), b"x")]), "leads out");
    refused(&archive(&[(link(EntryType::Link, "a", "../../etc/passwd"), b"")]), "leads out");
    refused(&archive(&[(link(EntryType::Link, "a", "/etc/passwd"), b"")]), "not there");
    refused(&archive(&[(header(FILE, "a/.wh...", 0, 0o644), b"")]), "whiteout");
}

#[test]
fn symlinks_are_followed_below_the_root_and_nowhere_else() {
    let outside = TempDir::new().unwrap();
    let target = outside.path().to_str().unwrap();
    for leading in [target, "../../../../../../../..", "/"] {
        let stream = archive(&[
            (link(EntryType::Symlink, "out", leading), b""),
            (header(FILE, "out/tmp/planted", 1, 0o644), b"x"),
        ]);
        let (place, result) = unpacked(&stream);
        drop(result);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(!Path::new("/tmp/planted").exists());
        drop(place);
    }
    // A hard link to a symlink links the symlink, and does not follow it.
    let stream = archive(&[
        (link(EntryType::Symlink, "out", "/etc/hostname"), b""),
        (link(EntryType::Link, "again", "out"), b""),
        (header(FILE, "again", 1, 0o644), b"x"),
    ]);
    let (place, result) = unpacked(&stream);
    result.unwrap();
    assert!(fs::symlink_metadata(place.path().join("out")).unwrap().is_symlink());
    assert!(fs::symlink_metadata(place.path().join("again")).unwrap().is_file());
}

#[test]
fn a_later_entry_takes_the_place_of_an_earlier_one_whatever_both_are() {
    let stream = archive(&[
        (header(FILE, "a/b/c", 1, 0o644), b"x"),
        (header(FILE, "a", 1, 0o644), b"y"),
        (header(FILE, "a/d", 0, 0o644), b""),
    ]);
    refused(&stream, "used as a directory");
    let stream = archive(&[
        (header(FILE, "a/b/c", 1, 0o644), b"x"),
        (header(FILE, "a", 1, 0o644), b"y"),
        (header(DIR, "a", 0, 0o755), b""),
        (header(FILE, "a/d", 0, 0o644), b""),
    ]);
    let (place, result) = unpacked(&stream);
    result.unwrap();
    assert_eq!(fs::read_dir(place.path().join("a")).unwrap().count(), 1);
}

#[test]
fn runs_of_zeros_stay_holes() {
    let mut bytes = vec![0; 8 << 20];
    bytes[0] = 1;
    let stream = archive(&[(header(FILE, "sparse", bytes.len() as u64, 0o644), &bytes)]);
    let (place, result) = unpacked(&stream);
    result.unwrap();
    let about = fs::metadata(place.path().join("sparse")).unwrap();
    assert_eq!(about.len(), 8 << 20);
    assert!(about.blocks() * 512 < 1 << 20, "{} blocks", about.blocks());
    assert_eq!(fs::read(place.path().join("sparse")).unwrap(), bytes);
}

#[test]
fn lengths_that_would_take_memory_are_refused_before_it_is_taken() {
    let mut long = header(EntryType::GNULongName, "././@LongLink", u64::MAX >> 1, 0);
    long.set_cksum();
    refused(long.as_bytes(), "longer than 1 MiB");
    let mut pax = header(EntryType::XHeader, "x", 2 << 20, 0);
    pax.set_cksum();
    refused(pax.as_bytes(), "longer than 1 MiB");
    let deep = "d/".repeat(45);
    let entries: Vec<(Header, &[u8])> = vec![(header(FILE, &deep, 0, 0o644), b"")];
    unpacked(&archive(&entries)).1.unwrap();
}

#[test]
fn long_names_times_and_attributes_of_pax_records_are_honoured() {
    let long = format!("{}/{}", "d".repeat(200), "n".repeat(200));
    let mut builder = Builder::new(Vec::new());
    let records = [
        ("path", long.as_bytes()),
        ("mtime", b"1234567890.5"),
        ("SCHILY.xattr.user.kept", b"yes"),
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
        ("SCHILY.xattr.security.capability", b"\x01"),
    ];
    builder.append_pax_extensions(records).unwrap();
    let mut plain = header(FILE, "short", 2, 0o644);
    plain.set_cksum();
    builder.append(&plain, &b"ok"[..]).unwrap();
    let (place, result) = unpacked(&builder.into_inner().unwrap());
    result.unwrap();
    let path = place.path().join(long);
    assert_eq!(fs::metadata(&path).unwrap().mtime(), 1_234_567_890);
    let mut names = vec![0; 4096];
    let read = rustix::fs::listxattr(&path, &mut names).unwrap();
    assert_eq!(&names[..read], b"user.kept\0");
}

#[test]
fn a_damaged_layer_is_told_and_never_a_panic() {
    let good = archive(&[
        (header(DIR, "a/", 0, 0o755), b""),
        (header(FILE, "a/b", 700, 0o644), &[7; 700]),
    ]);
    for cut in (1..good.len() - 1024).step_by(61) {
        if cut % 512 == 0 {
            continue;
        }
        assert!(unpacked(&good[..cut]).1.is_err(), "cut at {cut}");
    }
    // Any byte of a header changed is seen by its checksum, or means another, harmless entry.
    for at in 0..512 {
        let mut bad = good.clone();
        bad[at] ^= 0x5a;
        drop(unpacked(&bad));
    }
    let mut after = good;
    after.extend_from_slice(&[1; 100]);
    unpacked(&after).1.unwrap();
}
