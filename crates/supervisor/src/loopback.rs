//! The loopback interface: up, or programs that talk to themselves fail.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Sets `lo` up. Harmless if it is.
pub fn set_up() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: a zeroed ifreq is valid; the name is shorter than its field.
    let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    let fd = socket.as_raw_fd();
    // SAFETY: both calls get an ifreq that outlives them; the first fills the flags.
    unsafe {
        if libc::ioctl(fd, libc::SIOCGIFFLAGS, &raw mut request) < 0 {
            return Err(io::Error::last_os_error());
        }
        #[allow(clippy::cast_possible_truncation, reason = "IFF_UP is 1")]
        let up = libc::IFF_UP as libc::c_short;
        if request.ifr_ifru.ifru_flags & up != 0 {
            return Ok(());
        }
        request.ifr_ifru.ifru_flags |= up;
        if libc::ioctl(fd, libc::SIOCSIFFLAGS, &raw const request) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
