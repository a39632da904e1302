//! Which protocol version two sides speak.

/// The versions that one side speaks, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// Oldest.
    pub oldest: u32,
    /// Newest.
    pub newest: u32,
}

/// What this code speaks.
pub const OURS: Versions = Versions { oldest: crate::OLDEST_VERSION, newest: crate::VERSION };

/// Nothing in common: one side must be brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no common protocol version: {}..{} here, {}..{} there",
    ours.oldest, ours.newest, theirs.oldest, theirs.newest
)]
pub struct NoCommonVersion {
    /// Spoken here.
    pub ours: Versions,
    /// Spoken there.
    pub theirs: Versions,
}

/// The newest version that both speak.
pub fn agree(ours: Versions, theirs: Versions) -> Result<u32, NoCommonVersion> {
    let newest = ours.newest.min(theirs.newest);
    if newest >= ours.oldest && newest >= theirs.oldest {
        return Ok(newest);
    }
    Err(NoCommonVersion { ours, theirs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_spoken() {
        let check = |ours: (u32, u32), theirs: (u32, u32), expect: Option<u32>| {
            let side = |(oldest, newest)| Versions { oldest, newest };
            assert_eq!(agree(side(ours), side(theirs)).ok(), expect, "{ours:?} {theirs:?}");
        };
        check((1, 1), (1, 1), Some(1));
        check((1, 3), (2, 5), Some(3));
        check((2, 5), (1, 3), Some(3));
        check((1, 1), (2, 2), None);
        check((2, 2), (1, 1), None);
        // A side that contradicts itself has nothing to offer.
        check((1, 3), (3, 1), None);
    }
}
