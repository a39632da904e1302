//! Names and digests of images, checked before anything is asked or stored.

use std::fmt;
use std::str::FromStr;

use oci_client::Reference;
use serde::{Deserialize, Serialize};

use crate::error::ImageError;

/// A name in its whole form: `docker.io/library/debian:12`, or with `@sha256:…`.
///
/// Short names are completed as Docker does it: no registry means Docker Hub, no tag `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName(Reference);

impl ImageName {
    /// What the registry is asked for.
    pub(crate) const fn reference(&self) -> &Reference {
        &self.0
    }

    /// Host, and port where there is one.
    pub fn registry(&self) -> &str {
        self.0.registry()
    }

    /// The digest that the name pins, if it does.
    pub fn pinned(&self) -> Option<Digest> {
        self.0.digest().and_then(|digest| digest.parse().ok())
    }
}

impl FromStr for ImageName {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self, ImageError> {
        let reference = Reference::try_from(text).map_err(|error| {
            ImageError::invalid(
                "InvalidImageName",
                format!("{text:?} is no image name ({error}); one looks like debian:12"),
            )
        })?;
        if let Some(digest) = reference.digest() {
            digest.parse::<Digest>()?;
        }
        Ok(Self(reference))
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.whole())
    }
}

/// `sha256:` and 64 lowercase hexadecimal digits; the only kind that registries still make.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self::from_hash(&sha2::Sha256::digest(bytes))
    }

    pub(crate) fn from_hash(hash: &[u8]) -> Self {
        use fmt::Write as _;
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in hash {
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// The 64 digits, safe as a file name.
    pub fn hex(&self) -> &str {
        &self.0[7..]
    }

    /// With its algorithm in front.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Digest {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self, ImageError> {
        let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix("sha256:") {
            Some(hex) if hex.len() == 64 && hex.bytes().all(plain) => Ok(Self(text.to_owned())),
            _ => Err(ImageError::invalid(
                "InvalidDigest",
                format!("{text:?} is no sha256 digest; it has sha256: and 64 digits"),
            )),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = ImageError;

    fn try_from(text: String) -> Result<Self, ImageError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_completed_as_docker_does() {
        let whole = |text: &str| text.parse::<ImageName>().unwrap().to_string();
        assert_eq!(whole("debian"), "docker.io/library/debian:latest");
        assert_eq!(whole("debian:12"), "docker.io/library/debian:12");
        assert_eq!(whole("me/tool"), "docker.io/me/tool:latest");
        assert_eq!(whole("127.0.0.1:5000/a/b:c"), "127.0.0.1:5000/a/b:c");
    }

    #[test]
    fn what_is_no_name_is_refused_with_an_example() {
        let many = "a".repeat(300);
        for bad in ["", "UPPER", "a b", "a:b:c", "-x", "../x", "a@sha256:12", "x\n", many.as_str()]
        {
            let error = bad.parse::<ImageName>().expect_err(bad);
            assert_eq!(error.kind, crate::ErrorKind::Invalid, "{bad}");
        }
    }

    #[test]
    fn a_digest_is_64_lowercase_digits_and_nothing_else() {
        let good = Digest::of(b"");
        assert_eq!(good.as_str().parse::<Digest>().unwrap(), good);
        assert!(good.hex().starts_with("e3b0c442"));
        for bad in
            ["sha256:E3", "sha512:00", "e3b0", &good.as_str().to_uppercase(), "sha256:../../x"]
        {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
