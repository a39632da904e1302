//! Identifiers: what a user may call things, and the ids that backends are named after.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest name of a sandbox or workspace, in bytes (one DNS label, RFC 1123).
pub const NAME_MAX_BYTES: usize = 63;

/// Length of a sandbox or workspace id: 60 bits in base 32.
pub const ID_LEN: usize = 12;

/// Why a name or id was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// Longer than [`NAME_MAX_BYTES`].
    #[error("it has {0} bytes; at most {NAME_MAX_BYTES} are allowed")]
    TooLong(usize),
    /// A byte outside `[a-z0-9-]`.
    #[error("{0:?} is not allowed; use a-z, 0-9 and - (not at either end)")]
    Character(char),
    /// Begins or ends with a hyphen.
    #[error("it may not begin or end with -")]
    Hyphen,
    /// Not 12 characters of `[a-z2-7]`.
    #[error("not an id: 12 characters of a-z and 2-7 are expected")]
    NotAnId,
}

/// What a user calls a sandbox or a workspace: `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() {
            return Err(InvalidName::Empty);
        }
        if text.len() > NAME_MAX_BYTES {
            return Err(InvalidName::TooLong(text.len()));
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if let Some(other) = text.chars().find(|c| !allowed(*c)) {
            return Err(InvalidName::Character(other));
        }
        if text.starts_with('-') || text.ends_with('-') {
            return Err(InvalidName::Hyphen);
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Name {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

fn encode(random: [u8; 8]) -> String {
    let bits = u64::from_le_bytes(random);
    (0..ID_LEN).map(|i| char::from(ALPHABET[((bits >> (5 * i)) & 31) as usize])).collect()
}

fn parse_id(text: &str) -> Result<String, InvalidName> {
    let valid = text.len() == ID_LEN && text.bytes().all(|b| ALPHABET.contains(&b));
    valid.then(|| text.to_owned()).ok_or(InvalidName::NotAnId)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// From random bytes of the caller; the core has no randomness of its own.
            pub fn from_random(random: [u8; 8]) -> Self {
                Self(encode(random))
            }

            /// The id as text: 12 characters of `[a-z2-7]`.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                parse_id(text).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A sandbox for life; its backing's name on every backend derives from this alone.
    SandboxId
);
id!(
    /// A workspace for life.
    WorkspaceId
);
id!(
    /// A gateway's home for life; everything made on a backend carries it.
    GatewayId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_of_one_dns_label() {
        for good in ["a", "0", "a-b", &"x".repeat(63)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "ä", "a.b", "a b", &"x".repeat(64), "a\u{1b}"] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ids_come_back_from_their_text() {
        let id = SandboxId::from_random([0xff; 8]);
        assert_eq!(id.as_str(), "777777777777");
        assert_eq!(id.as_str().parse(), Ok(id));
        for bad in ["", "AAAAAAAAAAAA", "aaaaaaaaaaa", "aaaaaaaaaaaaa", "aaaaaaaaaaa1"] {
            assert!(bad.parse::<SandboxId>().is_err(), "{bad}");
        }
    }
}
