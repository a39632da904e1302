//! Descriptors: whatever who started PID 1 left open reaches no child.

use std::io;

/// Marks everything that is open but 0, 1 and 2. What PID 1 opens by itself is marked already.
pub(crate) fn close_on_exec() -> io::Result<()> {
    // SAFETY: sets a flag on descriptors, closes none.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
