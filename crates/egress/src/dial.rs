//! One host and port: allowed, resolved, checked, connected; and what is told of it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::address::{Inner, inner};
use crate::resolve::Resolve;
use crate::rule::{Host, Rules};

/// Names: longer than any resolver takes for its own retries.
const RESOLVING: Duration = Duration::from_secs(15);
/// Each address: a connection that takes longer is not one to work with.
const CONNECTING: Duration = Duration::from_secs(10);

/// One decision about a way out, as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// As asked for.
    pub host: String,
    /// As asked for.
    pub port: u16,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Connected, by this rule, to this address.
    Allowed {
        /// As the user wrote it.
        rule: String,
        /// The one that answered.
        address: SocketAddr,
    },
    /// Not connected.
    Refused(Refusal),
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request cannot be understood.
    #[error("the request is not one that a proxy takes: {0}")]
    NotUnderstood(String),
    /// No rule names it.
    #[error("{host} port {port} is not allowed; --allow {host}:{port} allows it")]
    NotAllowed {
        /// As asked for.
        host: String,
        /// As asked for.
        port: u16,
    },
    /// It is allowed by name and lies where only its address would allow it.
    #[error(
        "{host} is {address}, {inner}; only a rule that names the address allows that: \
             --allow {address}:{port}"
    )]
    InnerAddress {
        /// As asked for.
        host: String,
        /// What it means.
        address: IpAddr,
        /// As asked for.
        port: u16,
        /// Where that is.
        inner: Inner,
    },
    /// The name has no address now.
    #[error("{host} could not be resolved: {why}")]
    NotResolved {
        /// As asked for.
        host: String,
        /// The resolver's answer.
        why: String,
    },
    /// It is allowed and does not answer.
    #[error("{host} port {port} does not answer: {why}")]
    NotReached {
        /// As asked for.
        host: String,
        /// As asked for.
        port: u16,
        /// The last address' answer.
        why: String,
    },
}

/// One sandbox's way out.
#[derive(Clone)]
pub struct Dialer {
    rules: Arc<Rules>,
    resolver: Arc<dyn Resolve>,
    tell: Arc<dyn Fn(Decision) + Send + Sync>,
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Dialer {
    /// `tell` is called once for each decision, and must return quickly.
    pub fn new(
        rules: Rules,
        resolver: Arc<dyn Resolve>,
        tell: Arc<dyn Fn(Decision) + Send + Sync>,
    ) -> Self {
        Self { rules: Arc::new(rules), resolver, tell }
    }

    /// Connects, or says why not. Told either way.
    pub(crate) async fn connect(&self, host: &Host, port: u16) -> Result<TcpStream, Refusal> {
        let (outcome, result) = match self.try_connect(host, port).await {
            Ok((rule, address, stream)) => (Outcome::Allowed { rule, address }, Ok(stream)),
            Err(refusal) => (Outcome::Refused(refusal.clone()), Err(refusal)),
        };
        (self.tell)(Decision { host: host.to_string(), port, outcome });
        result
    }

    /// Told as what it is: a request that names no host, or a host that is none.
    pub(crate) fn refuse(&self, asked: &str, why: &str) -> Refusal {
        let refusal = Refusal::NotUnderstood(why.to_owned());
        let outcome = Outcome::Refused(refusal.clone());
        (self.tell)(Decision { host: asked.chars().take(300).collect(), port: 0, outcome });
        refusal
    }

    async fn try_connect(
        &self,
        host: &Host,
        port: u16,
    ) -> Result<(String, SocketAddr, TcpStream), Refusal> {
        let named = host.to_string();
        let not_allowed = || Refusal::NotAllowed { host: named.clone(), port };
        let rule = self.rules.matching(host, port).ok_or_else(not_allowed)?.to_string();
        let addresses = self.addresses(host).await?;
        // All of them are checked before any is dialled: a name that means both is a trick.
        for address in &addresses {
            if let Some(inner) = inner(*address)
                && !self.rules.name_address(*address, port)
            {
                return Err(Refusal::InnerAddress { host: named, address: *address, port, inner });
            }
        }
        let mut why = String::new();
        for address in addresses {
            let address = SocketAddr::new(address, port);
            match timeout(CONNECTING, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Small writes of interactive protocols are not held back.
                    drop(stream.set_nodelay(true));
                    return Ok((rule, address, stream));
                }
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => why = format!("no answer within {} s", CONNECTING.as_secs()),
            }
        }
        Err(Refusal::NotReached { host: named, port, why })
    }

    async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, Refusal> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name,
        };
        let answer = match timeout(RESOLVING, self.resolver.addresses(name)).await {
            Ok(answer) => answer,
            Err(_) => Err(io::Error::other("the resolver does not answer")),
        };
        let why = match answer {
            Ok(addresses) if addresses.is_empty() => "it has no address".to_owned(),
            Ok(addresses) => {
                return Ok(addresses.into_iter().map(|address| address.to_canonical()).collect());
            }
            Err(error) => error.to_string(),
        };
        Err(Refusal::NotResolved { host: name.clone(), why })
    }
}
