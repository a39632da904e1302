//! Files of images: what `docker save` writes, OCI layouts, and what is neither.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod registry;

use std::fs;
use std::path::{Path, PathBuf};

use registry::{image_of, layer};
use sandkeep_image::{
    Digest, ErrorKind, ImageError, ImageName, ImageStore, Owners, StoredImage, Whiteouts, import,
};
use tempfile::TempDir;

fn store(directory: &TempDir) -> ImageStore {
    let root = directory.path().join("images");
    ImageStore::open(&root, Owners::Ours, Whiteouts::User).unwrap()
}

fn archive(directory: &TempDir, files: &[(&str, &[u8])]) -> PathBuf {
    let path = directory.path().join("image.tar");
    fs::write(&path, layer(files)).unwrap();
    path
}

fn taken(
    directory: &TempDir,
    path: &Path,
) -> Result<Vec<(StoredImage, Vec<ImageName>)>, ImageError> {
    let result = import(&store(directory), path, None);
    let left = fs::read_dir(directory.path().join("images/staging")).unwrap().count();
    assert_eq!(left, 0, "an import leaves nothing half-done");
    result
}

/// A layout's files: name and content.
fn layout_files(tag: &str) -> Vec<(String, Vec<u8>)> {
    let image = image_of(&[layer(&[("a", b"x")])]);
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": Digest::of(&image.manifest), "size": image.manifest.len(),
        "annotations": {"io.containerd.image.name": tag},
    }]});
    let mut files = vec![
        ("oci-layout".to_owned(), b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec()),
        ("index.json".to_owned(), serde_json::to_vec(&index).unwrap()),
    ];
    for blob in image.blobs.into_iter().chain([image.manifest]) {
        files.push((format!("blobs/sha256/{}", Digest::of(&blob).hex()), blob));
    }
    files
}

#[test]
fn what_docker_save_writes_is_taken_in_with_its_names() {
    let directory = TempDir::new().unwrap();
    let content = layer(&[("a", b"x")]);
    let image = image_of(std::slice::from_ref(&content));
    let manifest =
        br#"[{"Config":"c.json","RepoTags":["test:1","test:2"],"Layers":["1/layer.tar"]}]"#;
    let path = archive(
        &directory,
        &[("1/layer.tar", &content), ("c.json", &image.config), ("manifest.json", manifest)],
    );
    let images = taken(&directory, &path).unwrap();
    assert_eq!(images[0].0.id, Digest::of(&image.config));
    assert_eq!(images[0].1.len(), 2);
    let store = store(&directory);
    for name in ["test:1", "docker.io/library/test:2"] {
        let found = store.find(&name.parse().unwrap()).unwrap().expect(name);
        let lower = &store.lower_directories(&found)[0];
        assert_eq!(fs::read(lower.join("a")).unwrap(), b"x");
    }
}

#[test]
fn a_layout_is_taken_in_from_an_archive_and_from_a_directory() {
    let directory = TempDir::new().unwrap();
    let files = layout_files("example.com/tool:3");
    let named: Vec<(&str, &[u8])> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let from_archive = taken(&directory, &archive(&directory, &named)).unwrap();

    let layout = directory.path().join("layout");
    for (name, bytes) in &files {
        let path = layout.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let from_directory = taken(&directory, &layout).unwrap();
    assert_eq!(from_archive[0].1, from_directory[0].1);
    assert_eq!(from_archive[0].1[0].to_string(), "example.com/tool:3");
    assert_eq!(from_archive[0].0.id, from_directory[0].0.id);
}

#[test]
fn a_name_of_the_users_own_takes_the_place_of_the_files() {
    let directory = TempDir::new().unwrap();
    let files = layout_files("other:1");
    let named: Vec<(&str, &[u8])> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let path = archive(&directory, &named);
    let name: ImageName = "mine:1".parse().unwrap();
    let store = store(&directory);
    import(&store, &path, Some(&name)).unwrap();
    assert!(store.find(&name).unwrap().is_some());
    assert!(store.find(&"other:1".parse().unwrap()).unwrap().is_none());
}

#[test]
fn what_is_no_image_is_refused_in_words() {
    let directory = TempDir::new().unwrap();
    let refused = |path: &Path, because: &str| {
        let error = taken(&directory, path).expect_err(because);
        assert!(error.message.contains(because), "{error}");
        error.kind
    };
    assert_eq!(refused(&directory.path().join("none"), "no file"), ErrorKind::NotFound);
    let text = directory.path().join("text");
    fs::write(&text, "this is no archive at all, however long it may be").unwrap();
    assert_eq!(refused(&text, "cut within a header"), ErrorKind::Invalid);
    refused(&archive(&directory, &[("a", b"x")]), "holds no image");
    refused(&archive(&directory, &[("manifest.json", b"{")]), "not valid");
    let lacking = br#"[{"Config":"c.json","Layers":["l"]}]"#;
    refused(&archive(&directory, &[("manifest.json", lacking)]), "lacks \"c.json\"");
    let out = br#"[{"Config":"../../../etc/hostname","Layers":[]}]"#;
    refused(&archive(&directory, &[("manifest.json", out)]), "lacks");
}

#[test]
fn nothing_outside_a_layouts_directory_is_read() {
    let directory = TempDir::new().unwrap();
    let layout = directory.path().join("layout");
    fs::create_dir_all(&layout).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", layout.join("manifest.json")).unwrap();
    let error = taken(&directory, &layout).unwrap_err();
    assert!(!error.message.contains("not valid"), "the host's file was read: {error}");
}

#[test]
fn a_damaged_layout_is_refused() {
    let directory = TempDir::new().unwrap();
    for damaged in 2..5 {
        let mut files = layout_files("a:1");
        files[damaged].1.push(b' ');
        let named: Vec<(&str, &[u8])> =
            files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let result = taken(&directory, &archive(&directory, &named));
        // A byte after a gzip stream is no damage to its content.
        assert!(damaged == 3 || result.is_err(), "{damaged}: {result:?}");
    }
}
