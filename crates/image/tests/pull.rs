//! Pulling from a registry that is slow, strict, broken or lying.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod registry;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use registry::{Registry, layer, noise};
use sandkeep_image::{
    ErrorKind, ImageError, ImageName, ImageStore, Mirror, Owners, Progress, PullOptions, Puller,
    StoredImage, Whiteouts,
};
use tempfile::TempDir;

struct Home {
    directory: TempDir,
    store: ImageStore,
}

impl Home {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let root = directory.path().join("images");
        let store = ImageStore::open(&root, Owners::Ours, Whiteouts::User).unwrap();
        Self { directory, store }
    }

    fn puller(&self, options: PullOptions) -> Puller {
        // Never the credentials of whoever runs the test.
        let credentials = options.credentials.or_else(|| Some(PathBuf::from("/nonexistent")));
        Puller::new(self.store.clone(), PullOptions { credentials, ..options })
    }

    async fn pull(&self, name: &str) -> Result<StoredImage, ImageError> {
        self.puller(PullOptions::default()).pull(&name.parse().unwrap(), Arc::new(|_| {})).await
    }

    fn file(&self, image: &StoredImage, path: &str) -> Option<Vec<u8>> {
        let lowers = self.store.lower_directories(image);
        lowers.iter().find_map(|lower| fs::read(lower.join(path)).ok())
    }

    fn left_over(&self, what: &str) -> usize {
        fs::read_dir(self.directory.path().join("images").join(what)).unwrap().count()
    }
}

fn name(text: &str) -> ImageName {
    text.parse().unwrap()
}

#[tokio::test]
async fn an_image_comes_whole_and_is_found_by_name_and_digest() {
    let (registry, home) = (Registry::start().await, Home::new());
    let digest =
        registry.add("1", &[layer(&[("a", b"low"), ("b", b"low")]), layer(&[("a", b"top")])]);
    let image = home.pull(&registry.name("1")).await.unwrap();
    assert_eq!(home.file(&image, "a").unwrap(), b"top");
    assert_eq!(home.file(&image, "b").unwrap(), b"low");
    assert_eq!((image.config.user.as_str(), image.bytes()), ("1000", 9));

    let pinned = name(&format!("{}@{digest}", registry.name("1")));
    for name in [name(&registry.name("1")), pinned] {
        assert_eq!(home.store.find(&name).unwrap().unwrap().id, image.id);
    }
    let listed = home.store.list().unwrap();
    assert_eq!(listed[0].1, [registry.name("1")]);
    assert!(listed[0].0.stored_at_ms > 1_600_000_000_000);
    assert_eq!((home.left_over("partial"), home.left_over("staging")), (0, 0));
}

#[tokio::test]
async fn layers_that_are_here_are_not_fetched_again() {
    let (registry, home) = (Registry::start().await, Home::new());
    let shared = layer(&[("shared", &noise(50_000))]);
    registry.add("1", &[shared.clone(), layer(&[("one", b"1")])]);
    registry.add("2", &[shared.clone(), shared, layer(&[("two", b"2")])]);
    home.pull(&registry.name("1")).await.unwrap();
    let before = registry.inner.lock().unwrap().seen.blob_bytes;
    let image = home.pull(&registry.name("2")).await.unwrap();
    let after = registry.inner.lock().unwrap().seen.blob_bytes;
    assert!(after - before < 10_000, "{} bytes came again", after - before);
    assert_eq!(home.store.lower_directories(&image).len(), 2, "a layer twice is one directory");
    assert_eq!(home.left_over("layers"), 3);
}

#[tokio::test]
async fn a_cut_download_goes_on_where_it_was_cut() {
    let (registry, home) = (Registry::start().await, Home::new());
    registry.add("1", &[layer(&[("big", &noise(400_000))])]);
    registry.inner.lock().unwrap().faults.cut_after = vec![100_000, 1, 150_000];
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let image = home
        .puller(PullOptions::default())
        .pull(&name(&registry.name("1")), Arc::new(move |step| sink.lock().unwrap().push(step)))
        .await
        .unwrap();
    assert_eq!(home.file(&image, "big").unwrap(), noise(400_000));
    let sent = registry.inner.lock().unwrap().seen.blob_bytes;
    assert!(sent < 440_000, "{sent} bytes were sent for 400,000");
    let told = told.lock().unwrap();
    let retries = told.iter().filter(|step| matches!(step, Progress::Retrying { .. })).count();
    assert_eq!(retries, 3, "{told:?}");
    let mut most = 0;
    for step in told.iter() {
        if let Progress::Downloaded { done, total, .. } = step {
            assert!(*done >= most && done <= total, "{told:?}");
            most = *done;
        }
    }
    assert_eq!(told.last(), Some(&Progress::Here { layer: 0 }));
}

#[tokio::test]
async fn a_killed_pull_is_gone_on_with_by_the_next() {
    let (registry, home) = (Registry::start().await, Home::new());
    registry.add("1", &[layer(&[("big", &noise(400_000))])]);
    // As many cuts as one pull takes before it gives up, each after nothing new.
    registry.inner.lock().unwrap().faults.cut_after = vec![200_000, 0, 0, 0, 0, 0, 0];
    let puller = home.puller(PullOptions::default());
    let image = name(&registry.name("1"));
    let half = home.directory.path().join("images/partial");
    let pull = puller.pull(&image, Arc::new(|_| {}));
    let watch = async {
        loop {
            let have = fs::read_dir(&half)
                .unwrap()
                .filter_map(|entry| entry.ok()?.metadata().ok().map(|about| about.len()));
            if have.max() >= Some(200_000) {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = watch => {}
        result = pull => panic!("the pull ended by itself: {result:?}"),
    }
    let store =
        ImageStore::open(&home.directory.path().join("images"), Owners::Ours, Whiteouts::User)
            .unwrap();
    let home = Home { store, directory: home.directory };
    {
        let mut inner = registry.inner.lock().unwrap();
        inner.faults.cut_after.clear();
        inner.seen.blob_bytes = 0;
    }
    let image = home.pull(&registry.name("1")).await.unwrap();
    assert_eq!(home.file(&image, "big").unwrap(), noise(400_000));
    assert!(registry.inner.lock().unwrap().seen.blob_bytes < 230_000);
}

#[tokio::test]
async fn a_registry_without_ranges_sends_all_again_and_that_is_right() {
    let (registry, home) = (Registry::start().await, Home::new());
    registry.add("1", &[layer(&[("big", &noise(200_000))])]);
    {
        let faults = &mut registry.inner.lock().unwrap().faults;
        faults.cut_after = vec![100_000];
        faults.no_ranges = true;
    }
    let image = home.pull(&registry.name("1")).await.unwrap();
    assert_eq!(home.file(&image, "big").unwrap(), noise(200_000));
}

#[tokio::test]
async fn a_registry_that_asks_for_patience_gets_it() {
    let (registry, home) = (Registry::start().await, Home::new());
    registry.add("1", &[layer(&[("a", b"x")])]);
    registry.inner.lock().unwrap().faults.too_many = 2;
    home.pull(&registry.name("1")).await.unwrap();
}

#[tokio::test]
async fn wrong_bytes_once_are_fetched_again_and_twice_are_refused() {
    let (registry, home) = (Registry::start().await, Home::new());
    registry.add("1", &[layer(&[("a", b"x")])]);
    registry.inner.lock().unwrap().faults.wrong = 1;
    home.pull(&registry.name("1")).await.unwrap();

    registry.add("2", &[layer(&[("b", b"y")])]);
    registry.inner.lock().unwrap().faults.wrong = 99;
    let error = home.pull(&registry.name("2")).await.unwrap_err();
    assert_eq!((error.kind, error.reason), (ErrorKind::Invalid, "WrongDigest"), "{error}");
    assert!(home.store.find(&name(&registry.name("2"))).unwrap().is_none());
    assert_eq!(home.left_over("partial"), 0, "what is wrong is not kept");
}

#[tokio::test]
async fn a_layer_that_is_not_what_the_configuration_says_is_refused() {
    let (registry, home) = (Registry::start().await, Home::new());
    let good = registry::image_of(&[layer(&[("a", b"good")])]);
    let evil = registry::image_of(&[layer(&[("a", b"evil")])]);
    let mut manifest: serde_json::Value = serde_json::from_slice(&good.manifest).unwrap();
    let other: serde_json::Value = serde_json::from_slice(&evil.manifest).unwrap();
    manifest["layers"] = other["layers"].clone();
    let bytes = serde_json::to_vec(&manifest).unwrap();
    {
        let mut inner = registry.inner.lock().unwrap();
        for blob in good.blobs.into_iter().chain(evil.blobs) {
            inner.blobs.insert(sandkeep_image::Digest::of(&blob).to_string(), blob);
        }
        let kind = "application/vnd.oci.image.manifest.v1+json".to_owned();
        inner.manifests.insert("x".to_owned(), (kind, bytes));
    }
    let error = home.pull(&registry.name("x")).await.unwrap_err();
    assert_eq!(error.reason, "WrongDigest", "{error}");
    assert_eq!((home.left_over("layers"), home.left_over("staging")), (0, 0));
}

#[tokio::test]
async fn a_list_of_manifests_gives_the_one_for_this_machine() {
    let (registry, home) = (Registry::start().await, Home::new());
    let ours = registry.add("ours", &[layer(&[("a", b"ours")])]);
    let other = registry.add("other", &[layer(&[("a", b"other")])]);
    let here = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let entry = |digest: &sandkeep_image::Digest, architecture: &str| {
        serde_json::json!({"mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest, "size": 1, "platform": {"os": "linux", "architecture": architecture}})
    };
    let list = serde_json::json!({"schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry(&other, "s390x"), entry(&ours, here)]});
    let kind = "application/vnd.oci.image.index.v1+json".to_owned();
    let bytes = serde_json::to_vec(&list).unwrap();
    registry.inner.lock().unwrap().manifests.insert("all".to_owned(), (kind, bytes));
    let image = home.pull(&registry.name("all")).await.unwrap();
    assert_eq!(home.file(&image, "a").unwrap(), b"ours");
    assert!(image.answers_to(&ours));
}

#[tokio::test]
async fn credentials_come_from_dockers_file_and_a_refusal_is_told_as_one() {
    let (registry, home) = (Registry::start().await, Home::new());
    registry.add("1", &[layer(&[("a", b"x")])]);
    registry.inner.lock().unwrap().faults.log_in = Some(("user".into(), "secret".into()));
    let error = home.pull(&registry.name("1")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");

    let file = home.directory.path().join("config.json");
    let entry =
        serde_json::json!({"auths": {registry.at.to_string(): {"auth": "dXNlcjpzZWNyZXQ="}}});
    fs::write(&file, entry.to_string()).unwrap();
    let options = PullOptions { credentials: Some(file.clone()), ..PullOptions::default() };
    let puller = home.puller(options.clone());
    puller.pull(&name(&registry.name("1")), Arc::new(|_| {})).await.unwrap();

    fs::write(&file, "{").unwrap();
    let puller = home.puller(options);
    let error = puller.pull(&name(&registry.name("1")), Arc::new(|_| {})).await.unwrap_err();
    assert_eq!(error.reason, "CredentialsUnreadable", "{error}");
}

#[tokio::test]
async fn a_mirror_is_asked_first_and_the_registry_when_it_fails() {
    let (registry, mirror, home) = (Registry::start().await, Registry::start().await, Home::new());
    registry.add("1", &[layer(&[("a", b"registry")])]);
    let of = registry.at.to_string();
    let options = PullOptions {
        mirrors: vec![Mirror { of, at: mirror.at.to_string() }],
        ..PullOptions::default()
    };
    let puller = home.puller(options);
    let image = puller.pull(&name(&registry.name("1")), Arc::new(|_| {})).await.unwrap();
    assert_eq!(home.file(&image, "a").unwrap(), b"registry");

    mirror.add("2", &[layer(&[("a", b"mirror")])]);
    let image = puller.pull(&name(&registry.name("2")), Arc::new(|_| {})).await.unwrap();
    assert_eq!(home.file(&image, "a").unwrap(), b"mirror");

    let error = puller.pull(&name(&registry.name("3")), Arc::new(|_| {})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(error.message.contains(&format!("mirror {}", mirror.at)), "{error}");
}

#[tokio::test]
async fn two_pulls_of_one_image_at_once_fetch_it_once() {
    let (registry, home) = (Registry::start().await, Home::new());
    registry.add("1", &[layer(&[("a", &noise(100_000))]), layer(&[("b", &noise(100_000))])]);
    let name = registry.name("1");
    let (one, two) = tokio::join!(home.pull(&name), home.pull(&name));
    assert_eq!(one.unwrap().id, two.unwrap().id);
    let sent = registry.inner.lock().unwrap().seen.blob_bytes;
    assert!(sent < 230_000, "{sent} bytes were sent for 200,000");
}

#[tokio::test]
async fn deleting_takes_what_nothing_else_needs_and_spares_what_is_in_use() {
    let (registry, home) = (Registry::start().await, Home::new());
    let shared = layer(&[("shared", b"s")]);
    registry.add("1", &[shared.clone(), layer(&[("one", b"1")])]);
    registry.add("2", &[shared, layer(&[("two", b"2")])]);
    let one = home.pull(&registry.name("1")).await.unwrap();
    let two = home.pull(&registry.name("2")).await.unwrap();

    let error = home.store.delete(&name(&registry.name("1")), &HashSet::from([one.id.clone()]));
    assert_eq!(error.unwrap_err().kind, ErrorKind::InUse);
    let removed = home.store.delete(&name(&registry.name("1")), &HashSet::new()).unwrap();
    assert_eq!((removed.names.len(), removed.images.len(), removed.bytes), (1, 1, 1));
    assert_eq!(home.file(&two, "shared").unwrap(), b"s");
    let error = home.store.delete(&name(&registry.name("1")), &HashSet::new()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);

    // A name that moves on leaves its image without one: kept while a sandbox has it.
    registry.add("2", &[layer(&[("new", b"n")])]);
    home.pull(&registry.name("2")).await.unwrap();
    home.store.collect(&HashSet::from([two.id.clone()])).unwrap();
    assert_eq!(home.file(&two, "two").unwrap(), b"2");
    let removed = home.store.collect(&HashSet::new()).unwrap();
    assert_eq!(removed.images, [two.id]);
    assert_eq!(home.left_over("layers"), 1);
}

#[tokio::test]
async fn a_damaged_record_costs_its_own_image_and_no_layer() {
    let (registry, home) = (Registry::start().await, Home::new());
    registry.add("1", &[layer(&[("a", b"1")])]);
    registry.add("2", &[layer(&[("b", b"2")])]);
    let one = home.pull(&registry.name("1")).await.unwrap();
    let two = home.pull(&registry.name("2")).await.unwrap();
    let record = home.directory.path().join(format!("images/images/{}.json", one.id.hex()));
    fs::write(record, "{\"half").unwrap();
    assert_eq!(home.store.list().unwrap().len(), 1);
    home.store.collect(&HashSet::new()).unwrap();
    assert_eq!(home.left_over("layers"), 2, "what a damaged record needs is not known");
    assert_eq!(home.file(&two, "b").unwrap(), b"2");
    // Pulling it again makes it whole.
    home.pull(&registry.name("1")).await.unwrap();
    assert_eq!(home.store.list().unwrap().len(), 2);
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_unavailable() {
    let home = Home::new();
    let error = home.pull("127.0.0.1:1/image:1").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}
