//! A pseudo-terminal that drives the real binary as a person at a keyboard would.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::Winsize;

/// A command in a terminal of its own.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    /// Starts `command` with a terminal of this size, as its controlling terminal (by setsid(1)).
    pub fn start(command: &Command, rows: u16, columns: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
        grantpt(&controller).expect("grantpt");
        unlockpt(&controller).expect("unlockpt");
        let path = ptsname(&controller, Vec::new()).expect("ptsname").into_string().expect("UTF-8");
        let user = File::options().read(true).write(true).open(&path).expect("the terminal");
        set_size(&controller, rows, columns);
        let mut whole = Command::new("setsid");
        whole.arg("--ctty").arg("--wait").arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => whole.env(key, value),
                None => whole.env_remove(key),
            };
        }
        let side = || Stdio::from(user.try_clone().expect("a copy"));
        let child = whole.stdin(side()).stdout(side()).stderr(side()).spawn().expect("it starts");
        let keyboard = File::from(controller);
        let screen = follow(keyboard.try_clone().expect("a copy"));
        Self { child, keyboard, screen, seen: String::new() }
    }

    /// Types.
    pub fn send(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("a terminal that takes input");
    }

    /// Changes the size of the window.
    pub fn resize(&self, rows: u16, columns: u16) {
        set_size(&self.keyboard, rows, columns);
    }

    /// Reads on until `text` is on the screen; ends the test when it does not come.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        while !self.seen.contains(text) {
            match self.screen.recv_timeout(Duration::from_secs(30)) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} did not appear; the screen: {:?}", self.seen),
            }
        }
        let end = self.seen.find(text).expect("just seen") + text.len();
        self.seen.drain(..end);
    }

    /// Waits for the command's end and gives its exit code.
    pub fn wait(mut self) -> i32 {
        self.child.wait().expect("it ends").code().unwrap_or(-1)
    }

    /// The pid of the program under setsid(1)'s care.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

fn set_size(terminal: impl std::os::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(terminal, size).expect("a terminal's size");
}

fn follow(mut screen: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // EIO: the last user of the terminal is gone.
        while let Ok(count) = screen.read(&mut buffer) {
            if count == 0 || sender.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}
