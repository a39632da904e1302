//! What a sandbox may reach: hosts by name, by suffix or by address, each with its ports.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Ports of a rule that names none: the web, plain and encrypted.
const WEB: [u16; 2] = [80, 443];

/// A host as rules and requests name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// Lower case, without a dot at the end.
    Name(String),
    /// Never in the form that maps version 4 into version 6.
    Address(IpAddr),
}

/// `HOST[:PORT]`, as the user wrote it but for letters' case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    host: Pattern,
    /// `None`: [`WEB`].
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pattern {
    Exactly(Host),
    /// Any name below this one, and not the name itself.
    Below(String),
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not HOST[:PORT]: {why}")]
pub struct RuleError {
    text: String,
    why: &'static str,
}

/// All rules of one sandbox; none allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// In the order in which they are looked at.
    pub const fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// The first rule that lets this host and port be reached.
    pub fn matching(&self, host: &Host, port: u16) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.allows(host, port))
    }

    /// Whether a rule names this very address: only then is an inner one reached.
    pub fn name_address(&self, address: IpAddr, port: u16) -> bool {
        self.matching(&Host::Address(address.to_canonical()), port).is_some()
    }

    /// Nothing is allowed.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Rule {
    fn allows(&self, host: &Host, port: u16) -> bool {
        let port_fits = match self.port {
            Some(only) => only == port,
            None => WEB.contains(&port),
        };
        let host_fits = match (&self.host, host) {
            (Pattern::Exactly(exactly), host) => exactly == host,
            (Pattern::Below(suffix), Host::Name(name)) => {
                name.strip_suffix(suffix.as_str()).is_some_and(|above| above.ends_with('.'))
            }
            (Pattern::Below(_), Host::Address(_)) => false,
        };
        port_fits && host_fits
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = |why| RuleError { text: text.to_owned(), why };
        let (host, port) = split_port(text).map_err(wrong)?;
        let host = match host.strip_prefix("*.") {
            Some(suffix) => match host_of(suffix).map_err(wrong)? {
                Host::Name(name) if name.contains('.') => Pattern::Below(name),
                Host::Name(_) => return Err(wrong("a whole top-level domain is too much")),
                Host::Address(_) => return Err(wrong("an address has nothing below it")),
            },
            None => Pattern::Exactly(host_of(host).map_err(wrong)?),
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Pattern::Below(suffix) => write!(f, "*.{suffix}")?,
            Pattern::Exactly(Host::Address(IpAddr::V6(address))) if self.port.is_some() => {
                write!(f, "[{address}]")?;
            }
            Pattern::Exactly(host) => write!(f, "{host}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for Host {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        host_of(text)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// `[V6]:PORT`, `HOST:PORT`, or a host alone; a bare version 6 address has no port.
fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    let port = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err("the port is a number from 1 to 65535"),
        Ok(port) => Ok(Some(port)),
    };
    if let Some(inside) = text.strip_prefix('[') {
        let (host, after) = inside.split_once(']').ok_or("the bracket is not closed")?;
        return match after.strip_prefix(':') {
            Some(after) => Ok((host, port(after)?)),
            None if after.is_empty() => Ok((host, None)),
            None => Err("only a port follows a bracket"),
        };
    }
    match text.split_once(':') {
        Some((_, after)) if after.contains(':') => Ok((text, None)),
        Some((host, after)) => Ok((host, port(after)?)),
        None => Ok((text, None)),
    }
}

fn host_of(text: &str) -> Result<Host, &'static str> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(Host::Address(address.to_canonical()));
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.is_empty() || name.len() > 253 {
        return Err("a host name has 1 to 253 characters");
    }
    if !name.split('.').all(label_fits) {
        return Err("a host name has letters, digits, hyphens and dots (other scripts as xn--…)");
    }
    // What old resolvers take for an address (127.1, 0x7f.0.0.1, 2130706433) is not a name either.
    if name.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit())) {
        return Err("an address is written in full: 127.0.0.1");
    }
    Ok(Host::Name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        Rules::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn allows(rule: &str, host: &str, port: u16) -> bool {
        rules(&[rule]).matching(&host.parse().unwrap(), port).is_some()
    }

    #[test]
    fn a_name_allows_itself_on_the_ports_of_the_web() {
        assert!(
            allows("docs.example", "docs.example", 443)
                && allows("docs.example", "Docs.Example.", 80)
        );
        for (host, port) in
            [("docs.example", 22), ("a.docs.example", 443), ("docs.example.evil.com", 443)]
        {
            assert!(!allows("docs.example", host, port), "{host}:{port}");
        }
        assert!(
            allows("docs.example:22", "docs.example", 22)
                && !allows("docs.example:22", "docs.example", 443)
        );
    }

    #[test]
    fn a_star_allows_what_is_below_and_nothing_beside() {
        assert!(allows("*.docs.example", "files.docs.example", 443));
        assert!(allows("*.docs.example", "a.b.docs.example", 443));
        for host in ["docs.example", "evildocs.example", "docs.example.evil.com"] {
            assert!(!allows("*.docs.example", host, 443), "{host}");
        }
    }

    #[test]
    fn addresses_are_compared_as_addresses() {
        assert!(allows("127.0.0.1:8000", "127.0.0.1", 8000));
        assert!(allows("127.0.0.1:8000", "::ffff:127.0.0.1", 8000));
        assert!(allows("[::1]:8000", "[::1]", 8000) && allows("::1", "::1", 80));
        assert!(!allows("[::1]:8000", "127.0.0.1", 8000));
        assert!(rules(&["[::ffff:10.0.0.1]:80"]).name_address("10.0.0.1".parse().unwrap(), 80));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_reason() {
        for bad in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:b",
            "a b",
            "http://a",
            "a/b",
            "*",
            "*.com",
            "*.127.0.0.1",
            "a*.com",
            "[::1",
            "[::1]x",
            "127.1",
            "0x7f.0.0.1",
            "2130706433",
            "ä.de",
            "-a.com",
            "a..b",
            "user@host",
            "127.0.0.1.",
        ] {
            assert!(bad.parse::<Rule>().is_err(), "{bad:?} is a rule");
        }
        let error = "a:0".parse::<Rule>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"a:0\" is not HOST[:PORT]: the port is a number from 1 to 65535"
        );
    }

    #[test]
    fn a_rule_reads_back_as_it_is_written() {
        for text in ["docs.example", "*.docs.example:8443", "127.0.0.1:8000", "[::1]:8000", "::1"] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
    }
}
