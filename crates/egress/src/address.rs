//! Which addresses are not out in the world: the machine's own, its networks', its cloud's.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is reached only when a rule names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    /// The gateway's own machine.
    Loopback,
    /// The link it is on, clouds' metadata services among them.
    LinkLocal,
    /// Networks that are not routed in the world.
    Private,
    /// No single machine of the world: unspecified, multicast, broadcast, for documents, reserved.
    NoHost,
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "this machine itself",
            Self::LinkLocal => "a link-local or metadata address",
            Self::Private => "a private network",
            Self::NoHost => "no host of the world",
        })
    }
}

/// `None`: an address of the world.
///
/// By IANA's special-purpose registries for both versions. An address that carries one of version 4
/// inside (mapped, compatible, NAT64, 6to4, Teredo) is taken for that one too: a translator on the
/// way would reach it.
pub(crate) fn inner(address: IpAddr) -> Option<Inner> {
    match address.to_canonical() {
        IpAddr::V4(address) => inner_v4(address),
        IpAddr::V6(address) => inner_v6(address),
    }
}

fn inner_v4(address: Ipv4Addr) -> Option<Inner> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Some(Inner::Loopback),
        // Linux takes the whole block for "this machine".
        (0, ..) => Some(Inner::NoHost),
        (169, 254, _) => Some(Inner::LinkLocal),
        // Alibaba's metadata service.
        (100, 100, 100) if address.octets()[3] == 200 => Some(Inner::LinkLocal),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some(Inner::Private),
        (100, 64..=127, _) => Some(Inner::Private),
        (198, 18 | 19, _) => Some(Inner::Private),
        (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => Some(Inner::NoHost),
        (224..=255, ..) => Some(Inner::NoHost),
        _ => None,
    }
}

fn inner_v6(address: Ipv6Addr) -> Option<Inner> {
    let segments = address.segments();
    let [a, b, ..] = segments;
    let last_two = || Ipv4Addr::from((u32::from(segments[6]) << 16) | u32::from(segments[7]));
    if address.is_loopback() {
        return Some(Inner::Loopback);
    }
    match (a, b) {
        _ if address.is_unspecified() => Some(Inner::NoHost),
        // Compatible with version 4, long out of use.
        (0, 0) if segments[..6].iter().all(|segment| *segment == 0) => {
            inner_v4(last_two()).or(Some(Inner::NoHost))
        }
        // NAT64: the well-known prefix, and the one for local use.
        (0x64, 0xff9b) if segments[2] == 1 => Some(Inner::Private),
        (0x64, 0xff9b) => inner_v4(last_two()),
        // 6to4 has the address after its prefix, Teredo the client's at the end, inverted.
        (0x2002, _) => {
            inner_v4(Ipv4Addr::from((u32::from(segments[1]) << 16) | u32::from(segments[2])))
        }
        (0x2001, 0) => inner_v4(Ipv4Addr::from(!u32::from(last_two()))),
        (0xfe80..=0xfebf, _) => Some(Inner::LinkLocal),
        // Amazon's metadata service lies in its unique local block.
        (0xfd00, 0xec2) => Some(Inner::LinkLocal),
        (0xfc00..=0xfdff, _) | (0xfec0..=0xfeff, _) => Some(Inner::Private),
        (0x2001, 0xdb8) | (0x2001, 2) | (0x2001, 0x10..=0x2f) | (0x3fff, 0..=0xfff) => {
            Some(Inner::NoHost)
        }
        (0x100, 0) => Some(Inner::NoHost),
        // The world's addresses are 2000::/3.
        (0x2000..=0x3fff, _) => None,
        _ => Some(Inner::NoHost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_is_the_world() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "192.169.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(inner(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn what_is_near_is_inner_in_every_way_of_writing_it() {
        let table = [
            (
                Inner::Loopback,
                &[
                    "127.0.0.1",
                    "127.255.0.9",
                    "::1",
                    "::ffff:127.0.0.1",
                    "::127.0.0.1",
                    "64:ff9b::127.0.0.1",
                    "2002:7f00:1::",
                    "2001:0:1::80ff:fffe",
                ][..],
            ),
            (
                Inner::LinkLocal,
                &[
                    "169.254.169.254",
                    "fe80::1",
                    "::ffff:169.254.169.254",
                    "fd00:ec2::254",
                    "100.100.100.200",
                    "64:ff9b::a9fe:a9fe",
                ],
            ),
            (
                Inner::Private,
                &[
                    "10.0.0.1",
                    "172.16.0.1",
                    "172.31.255.255",
                    "192.168.1.1",
                    "100.64.0.1",
                    "198.18.0.1",
                    "fc00::1",
                    "fd12::1",
                    "fec0::1",
                    "64:ff9b:1::1",
                    "::ffff:10.0.0.1",
                    "2002:a00:1::",
                ],
            ),
            (
                Inner::NoHost,
                &[
                    "0.0.0.0",
                    "0.1.2.3",
                    "224.0.0.1",
                    "255.255.255.255",
                    "240.0.0.1",
                    "::",
                    "ff02::1",
                    "2001:db8::1",
                    "100::1",
                    "4000::1",
                    "192.0.2.1",
                ],
            ),
        ];
        for (expected, addresses) in table {
            for address in addresses {
                assert_eq!(inner(address.parse().unwrap()), Some(expected), "{address}");
            }
        }
    }
}
