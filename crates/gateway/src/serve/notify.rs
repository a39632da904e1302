//! Tells systemd how the gateway stands (sd_notify(3)): a datagram to the socket in
//! `NOTIFY_SOCKET`, if there is one.

use std::io;
use std::os::unix::net::UnixDatagram;

/// Verbs are answered.
pub(super) fn ready() {
    tell("READY=1\nSTATUS=serving\n");
}

/// It ends.
pub(super) fn stopping() {
    tell("STOPPING=1\nSTATUS=stopping; sandboxes go on\n");
}

fn tell(state: &str) {
    let Ok(socket) = std::env::var("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "systemd was not told: {}", state.lines().next().unwrap_or(""));
    }
}

/// To a path, or with a leading `@` to a name of the abstract namespace.
fn send(socket: &str, state: &str) -> io::Result<()> {
    let datagram = UnixDatagram::unbound()?;
    let sent = match socket.strip_prefix('@') {
        None => datagram.send_to(state.as_bytes(), socket)?,
        Some(name) => send_abstract(&datagram, name, state)?,
    };
    if sent == state.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

#[cfg(target_os = "linux")]
fn send_abstract(datagram: &UnixDatagram, name: &str, state: &str) -> io::Result<usize> {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    datagram.send_to_addr(state.as_bytes(), &address)
}

#[cfg(not(target_os = "linux"))]
fn send_abstract(_: &UnixDatagram, _: &str, _: &str) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_hears_at_a_path_and_at_an_abstract_name() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        send(path.to_str().unwrap(), "READY=1\n").unwrap();
        let mut heard = [0; 64];
        let length = listener.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"READY=1\n");
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt;
            let name = format!("sandkeep-notify-{}", std::process::id());
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
            let listener = UnixDatagram::bind_addr(&address).unwrap();
            send(&format!("@{name}"), "STOPPING=1\n").unwrap();
            let length = listener.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], b"STOPPING=1\n");
        }
    }
}
