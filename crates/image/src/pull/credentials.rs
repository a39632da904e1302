//! Credentials as `docker login` left them: the file, or the program that it names.

use std::env;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use docker_credential::{CredentialRetrievalError, DockerCredential};
use oci_client::secrets::RegistryAuth;

use crate::error::ImageError;

/// Docker Hub's entry has this name in Docker's file.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// What there is for a registry in `file` (Docker's `config.json`), or in the one of this process's
/// user; anonymous when there is nothing.
///
/// # Errors
/// Only when there is an entry and it cannot be used: going on without it would end in a refusal
/// that does not say why. Blocks: it may run a program.
pub(super) fn of(registry: &str, file: Option<&Path>) -> Result<RegistryAuth, ImageError> {
    let server = match registry {
        "docker.io" | "index.docker.io" => DOCKER_HUB,
        other => other,
    };
    let unreadable = |error: &dyn std::fmt::Display| {
        let message = format!("Docker's credentials for {registry} are not readable: {error}");
        ImageError::invalid("CredentialsUnreadable", message)
    };
    let Some(path) = file.map(Path::to_owned).or_else(users_own) else {
        return Ok(RegistryAuth::Anonymous);
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(RegistryAuth::Anonymous);
        }
        Err(error) => return Err(unreadable(&error)),
    };
    match docker_credential::get_credential_from_reader(BufReader::new(file), server) {
        Ok(DockerCredential::UsernamePassword(user, password)) => {
            Ok(RegistryAuth::Basic(user, password))
        }
        Ok(DockerCredential::IdentityToken(token)) => Ok(RegistryAuth::Bearer(token)),
        Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(RegistryAuth::Anonymous),
        // Helpers say so in their own words when they have nothing.
        Err(CredentialRetrievalError::HelperFailure { stdout, .. })
            if stdout.contains("credentials not found") =>
        {
            Ok(RegistryAuth::Anonymous)
        }
        Err(error) => Err(unreadable(&error)),
    }
}

/// Where `docker login` writes.
fn users_own() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".docker"));
    let directory = env::var_os("DOCKER_CONFIG").map(PathBuf::from).or_else(home)?;
    Some(directory.join("config.json"))
}
