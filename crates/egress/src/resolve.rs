//! Names to addresses, by the machine's own resolver settings.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use hickory_resolver::TokioResolver;

/// Gives the addresses of a name.
#[async_trait]
pub trait Resolve: Send + Sync + std::fmt::Debug {
    /// In the order in which they are to be tried; empty: the name has none.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// What decides how a name is resolved; read anew when one of them changes (a laptop that moved, a
/// VPN that came up).
const SETTINGS: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

type Stamp = [Option<SystemTime>; 2];

/// The machine's resolver, without the C library's: a static binary has no plug-ins.
#[derive(Debug, Default)]
pub struct SystemResolver {
    current: Mutex<Option<(Stamp, Arc<TokioResolver>)>>,
}

impl SystemResolver {
    fn resolver(&self) -> io::Result<Arc<TokioResolver>> {
        let changed =
            |path: &str| Path::new(path).metadata().and_then(|about| about.modified()).ok();
        let stamp = SETTINGS.map(changed);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, resolver)) = current.as_ref()
            && *read == stamp
        {
            return Ok(Arc::clone(resolver));
        }
        let built = TokioResolver::builder_tokio().and_then(|builder| builder.build());
        let resolver = Arc::new(built.map_err(io::Error::other)?);
        *current = Some((stamp, Arc::clone(&resolver)));
        Ok(resolver)
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        // With a dot at the end: no search list is gone through, the name means what it says. A
        // name without any is of this machine's settings alone.
        let name = if name.contains('.') { format!("{name}.") } else { name.to_owned() };
        match self.resolver()?.lookup_ip(name).await {
            Ok(found) => Ok(found.iter().collect()),
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
