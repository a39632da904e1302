//! One download: gone on with where it was cut, checked to the last byte.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use oci_client::client::BlobResponse;
use sandkeep_archive::has_room;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::progress;
use super::registry::{Descriptor, Registry};
use super::{Puller, blocking, failure};
use crate::error::{ErrorKind, ImageError, While};
use crate::name::Digest;
use crate::unpack::KEPT_FREE_BYTES;

/// Tries in a row that bring nothing, before whoever asked decides. With the waits below, about half
/// a minute.
const FRUITLESS_TRIES: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Pieces on their way to the disk; a piece is at most what one read of the socket gives.
const PIECES_AHEAD: usize = 16;

impl Puller {
    /// Downloads a blob whole and gives its path. An earlier try's part is gone on with.
    pub(super) async fn download(
        &self,
        registry: &Registry,
        blob: &Descriptor,
        progress: &progress::Bytes,
    ) -> Result<PathBuf, ImageError> {
        let path = self.store.partial_path(&blob.digest);
        let mut fresh = false;
        loop {
            self.fetch_all(registry, blob, &path, progress).await?;
            let found = {
                let path = path.clone();
                blocking(move || digest_of(&path)).await?
            };
            if found == blob.digest {
                return Ok(path);
            }
            std::fs::remove_file(&path).when("a download could not be removed")?;
            // What an earlier try left may have been wrong; what came in one piece was sent so.
            if std::mem::replace(&mut fresh, true) {
                let message = format!("the registry sent {found} for {}", blob.digest);
                return Err(ImageError::invalid("WrongDigest", message));
            }
        }
    }

    /// Brings the file to the blob's length, over as many connections as it takes.
    async fn fetch_all(
        &self,
        registry: &Registry,
        blob: &Descriptor,
        path: &Path,
        progress: &progress::Bytes,
    ) -> Result<(), ImageError> {
        let mut patience = Patience::default();
        loop {
            let have = length(path)?;
            progress.done(have);
            if have >= blob.bytes {
                return Ok(());
            }
            let error = match fetch(registry, blob, path, have, progress).await {
                Ok(()) if length(path)? > have => continue,
                Ok(()) => ImageError {
                    kind: ErrorKind::Unavailable,
                    reason: "RegistryUnavailable",
                    message: format!("the registry sent nothing for {}", blob.digest),
                },
                Err(error) if error.kind == ErrorKind::Unavailable => error,
                Err(error) => return Err(error),
            };
            if length(path)? > have {
                patience = Patience::default();
            }
            patience.wait(error, progress).await?;
        }
    }
}

/// Asks again while the registry is only unavailable.
pub(super) async fn patiently<T, F>(
    progress: &progress::Bytes,
    mut ask: impl FnMut() -> F,
) -> Result<T, ImageError>
where
    F: Future<Output = Result<T, ImageError>>,
{
    let mut patience = Patience::default();
    loop {
        match ask().await {
            Err(error) if error.kind == ErrorKind::Unavailable => {
                patience.wait(error, progress).await?;
            }
            answer => return answer,
        }
    }
}

/// Growing waits between fruitless tries.
#[derive(Debug, Default)]
struct Patience {
    tries: u32,
}

impl Patience {
    async fn wait(
        &mut self,
        error: ImageError,
        progress: &progress::Bytes,
    ) -> Result<(), ImageError> {
        self.tries += 1;
        if self.tries >= FRUITLESS_TRIES {
            return Err(error);
        }
        progress.retrying(&error.message);
        tokio::time::sleep((FIRST_WAIT * 2_u32.pow(self.tries - 1)).min(LONGEST_WAIT)).await;
        Ok(())
    }
}

/// One connection's worth of bytes, written behind what is there.
async fn fetch(
    registry: &Registry,
    blob: &Descriptor,
    path: &Path,
    have: u64,
    progress: &progress::Bytes,
) -> Result<(), ImageError> {
    let doing = || format!("{} broke off at byte {have}", blob.digest);
    let digest = blob.digest.as_str();
    let (stream, from) = if have == 0 {
        let answer = registry.client.pull_blob_stream(&registry.reference, digest).await;
        (answer.map_err(|error| failure::of(&doing(), &error))?.stream, 0)
    } else {
        let answer =
            registry.client.pull_blob_stream_partial(&registry.reference, digest, have, None).await;
        match answer.map_err(|error| failure::of(&doing(), &error))? {
            // The registry cannot go on in the middle: from the start, over what is there.
            BlobResponse::Full(whole) => (whole.stream, 0),
            BlobResponse::Partial(rest) => (rest.stream, have),
        }
    };
    write_stream(stream, path, from, blob.bytes, progress).await
}

/// Writes on a thread that may wait for the disk; the channel bounds what is in memory.
async fn write_stream(
    mut stream: BoxStream<'static, Result<Bytes, io::Error>>,
    path: &Path,
    from: u64,
    whole: u64,
    progress: &progress::Bytes,
) -> Result<(), ImageError> {
    let (pieces, mut queue) = mpsc::channel::<Bytes>(PIECES_AHEAD);
    let path = path.to_owned();
    let writer = tokio::spawn(blocking(move || {
        let doing = "a download could not be written";
        let mut file = OpenOptions::new().append(true).create(true).open(&path).when(doing)?;
        file.set_len(from).when(doing)?;
        has_room(&file, whole - from, KEPT_FREE_BYTES)?;
        while let Some(piece) = queue.blocking_recv() {
            file.write_all(&piece).when(doing)?;
        }
        Ok(())
    }));
    let mut done = from;
    let mut broken = None;
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(piece) => {
                done += piece.len() as u64;
                if done > whole {
                    broken = Some(ImageError::invalid(
                        "WrongDigest",
                        "the registry sends more than the manifest says",
                    ));
                    break;
                }
                if pieces.send(piece).await.is_err() {
                    break;
                }
                progress.done(done);
            }
            Err(error) => {
                broken = Some(ImageError {
                    kind: ErrorKind::Unavailable,
                    reason: "RegistryUnavailable",
                    message: format!("the connection broke off at byte {done}: {error}"),
                });
                break;
            }
        }
    }
    drop(pieces);
    let written = match writer.await {
        Ok(result) => result,
        Err(error) => Err(ImageError::io("a download ended", &io::Error::other(error))),
    };
    written?;
    broken.map_or(Ok(()), Err)
}

fn length(path: &Path) -> Result<u64, ImageError> {
    match std::fs::metadata(path) {
        Ok(about) => Ok(about.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(ImageError::io("a download is not readable", &error)),
    }
}

fn digest_of(path: &Path) -> Result<Digest, ImageError> {
    let doing = "a download is not readable";
    let mut file = match File::open(path) {
        // An empty blob needs no byte, and has a digest all the same.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            File::create_new(path).when(doing)?
        }
        result => result.when(doing)?,
    };
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let read = file.read(&mut buffer).when(doing)?;
        if read == 0 {
            return Ok(Digest::from_hash(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}
