//! A log that is followed: read as far as it is written, then waited for, until nothing can come.
//!
//! It ends by state and never by time. What is asked before each read decides what the end of that
//! read means, so nothing that was written before the end is missed.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use futures::stream::{BoxStream, StreamExt};
use sandkeep_core::SandboxId;
use sandkeep_frames::log_entry::LogEntry;
use tokio::sync::watch;

use super::name::main_run;
use super::prospects::{Outlook, Prospects};
use super::reading::{More, Reader};
use super::select::Selection;
use super::{LogError, LogStore, blocking};

/// What a follower listens to.
pub(super) struct Listening {
    pub(super) id: SandboxId,
    /// Changes at each write; closed when the logs are forgotten.
    pub(super) news: watch::Receiver<u64>,
    /// Begins with how it is now; its end is the sandbox's.
    pub(super) coming: BoxStream<'static, Prospects>,
    /// The newest of them.
    pub(super) now: Prospects,
    /// Where the writer is. `Weak`: a follower keeps no log store alive.
    pub(super) store: Weak<LogStore>,
}

impl Listening {
    /// Hears how it is now.
    pub(super) async fn begin(&mut self) {
        self.now = self.coming.next().await.unwrap_or(Prospects::gone());
    }

    /// What may come of this log, asked before it is read. Once nobody can write it any more,
    /// everything that came before is written when this returns.
    pub(super) async fn outlook(&mut self, source: &str) -> Outlook {
        let outlook = self.now.outlook(source);
        if outlook == Outlook::Over
            && let Some(store) = self.store.upgrade()
        {
            store.written(&self.id).await;
        }
        self.news.borrow_and_update();
        outlook
    }

    /// Waits until there may be something new. False: the logs are gone.
    pub(super) async fn changed(&mut self) -> bool {
        tokio::select! {
            told = self.news.changed() => told.is_ok(),
            prospects = self.coming.next(), if self.now != Prospects::gone() => {
                self.now = prospects.unwrap_or(Prospects::gone());
                true
            }
        }
    }
}

/// A stream under way.
pub(super) struct Reading {
    /// `None` after a failure.
    reader: Option<Reader>,
    source: Arc<str>,
    selection: Selection,
    /// `None`: not followed.
    listening: Option<Listening>,
    ready: VecDeque<LogEntry>,
}

impl Reading {
    /// From where the reader is.
    pub(super) fn new(
        reader: Reader,
        source: &str,
        selection: Selection,
        listening: Option<Listening>,
    ) -> Self {
        let (reader, source) = (Some(reader), source.into());
        Self { reader, source, selection, listening, ready: VecDeque::new() }
    }

    /// The next entry, and where it goes on. Cancelled: begins again from where it was.
    pub(super) async fn next(mut self) -> Option<(Result<LogEntry, LogError>, Self)> {
        loop {
            while let Some(entry) = self.ready.pop_front() {
                if let Some(entry) = self.selection.pass(entry) {
                    return Some((Ok(entry), self));
                }
            }
            let outlook = match &mut self.listening {
                Some(listening) => listening.outlook(&self.source).await,
                None => Outlook::Over,
            };
            let mut reader = self.reader.take()?;
            let read = blocking(move || {
                let mut entries = VecDeque::new();
                let more = reader.read(&mut entries)?;
                Ok((reader, entries, more))
            });
            let (reader, entries, more) = match read.await {
                Ok(read) => read,
                Err(error) => return Some((Err(error.into()), self)),
            };
            self.reader = Some(reader);
            self.ready = entries;
            if more == More::Entries {
                continue;
            }
            if is_over(&self.source, outlook, more) || !self.listening.as_mut()?.changed().await {
                return None;
            }
        }
    }
}

/// Whether a read that brought nothing was the last.
fn is_over(source: &str, outlook: Outlook, more: More) -> bool {
    match more {
        More::Entries => false,
        More::Never => true,
        // The next execution of the same run goes on with it.
        More::Ended => outlook != Outlook::Growing || main_run(source).is_none(),
        More::Later => outlook == Outlook::Over,
    }
}
