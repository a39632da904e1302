//! Where a gateway keeps all of its state.

use std::path::{Path, PathBuf};

use crate::error::{Failure, exit};

/// A gateway's home: an absolute path, whether it is there or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home(PathBuf);

impl Home {
    /// The home that was given (flag or `SANDKEEP_HOME`), or the default of this user:
    /// `/var/lib/sandkeep` for root, `sandkeep` in the XDG state directory for others.
    pub(crate) fn resolve(given: Option<&Path>) -> Result<Self, Failure> {
        let path = match given {
            Some(path) if path.as_os_str().is_empty() => return Self::default_of_user(),
            Some(path) => path.to_owned(),
            None => return Self::default_of_user(),
        };
        let absolute = std::path::absolute(&path).map_err(|error| {
            Failure::new(
                exit::FAILED,
                format!("the home {} cannot be used", path.display()),
                error.to_string(),
                "name an absolute path: --home DIR, or SANDKEEP_HOME",
            )
        })?;
        Ok(Self(absolute))
    }

    fn default_of_user() -> Result<Self, Failure> {
        if rustix::process::geteuid().is_root() {
            return Ok(Self(PathBuf::from("/var/lib/sandkeep")));
        }
        let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        if let Some(state) = state.filter(|path| path.is_absolute()) {
            return Ok(Self(state.join("sandkeep")));
        }
        match std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(home) => Ok(Self(home.join(".local/state/sandkeep"))),
            None => Err(Failure::new(
                exit::FAILED,
                "there is no place for the gateway's state",
                "neither SANDKEEP_HOME nor XDG_STATE_HOME nor HOME is set",
                "name one: --home DIR",
            )),
        }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Where the gateway listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("gateway.sock")
    }

    /// Where a gateway in the background logs to.
    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("gateway.log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_home_is_made_absolute_so_that_a_gateway_elsewhere_finds_it() {
        let home = Home::resolve(Some(Path::new("some/where"))).unwrap();
        assert!(home.path().is_absolute());
        assert!(home.socket().ends_with("some/where/gateway.sock"));
    }

    #[test]
    fn an_empty_setting_means_the_default() {
        assert_eq!(Home::resolve(Some(Path::new(""))), Home::resolve(None));
    }
}
