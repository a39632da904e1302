//! Who a process runs as: `name|uid[:group|gid]`, looked up in the sandbox's own files.
//!
//! The files belong to the sandbox and are read as hostile: never blocking (a FIFO in place of
//! `/etc/passwd`), at most [`MAX_FILE_BYTES`]. No libc lookup: PID 1 is static and loads nothing.

use std::io;

use rustix::fs::{FileType, Mode, OFlags};

const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Whom to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups, in the order of the file.
    pub groups: Vec<u32>,
    /// For `USER`.
    pub name: String,
}

/// Looks a user up. The error is a sentence for the user.
pub fn look_up(user: &str) -> Result<Identity, String> {
    if matches!(user, "" | "0" | "root" | "0:0" | "root:root") {
        return Ok(Identity { uid: 0, gid: 0, groups: Vec::new(), name: "root".to_owned() });
    }
    let passwd = read_file("/etc/passwd").unwrap_or_default();
    let group = read_file("/etc/group").unwrap_or_default();
    look_up_in(user, &passwd, &group)
}

fn look_up_in(user: &str, passwd: &str, group: &str) -> Result<Identity, String> {
    let (who, group_wanted) = match user.split_once(':') {
        Some((who, group)) => (who, Some(group)),
        None => (user, None),
    };
    let entry = passwd.lines().find_map(|line| passwd_entry(line, who));
    let (uid, own_gid, name) = match (entry, who.parse::<u32>()) {
        (Some(entry), _) => entry,
        (None, Ok(uid)) => (uid, 0, who.to_owned()),
        (None, Err(_)) => return Err(format!("there is no user {who} in /etc/passwd")),
    };
    let (gid, groups) = match group_wanted {
        Some(wanted) => (group_id(wanted, group)?, Vec::new()),
        None => (own_gid, groups_of(&name, own_gid, group)),
    };
    if uid == u32::MAX || gid == u32::MAX {
        return Err(format!("{user} is not a user id"));
    }
    Ok(Identity { uid, gid, groups, name })
}

/// uid, gid and name, if the line is about `who` (a name, or a number).
fn passwd_entry(line: &str, who: &str) -> Option<(u32, u32, String)> {
    let mut fields = line.split(':');
    let (name, uid) = (fields.next()?, fields.nth(1)?.parse::<u32>().ok()?);
    let gid = fields.next()?.parse().ok()?;
    let meant = name == who || who.parse() == Ok(uid);
    meant.then(|| (uid, gid, name.to_owned()))
}

fn group_id(wanted: &str, group: &str) -> Result<u32, String> {
    let by_name = group.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == wanted).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    by_name
        .or_else(|| wanted.parse().ok())
        .ok_or_else(|| format!("there is no group {wanted} in /etc/group"))
}

fn groups_of(name: &str, own_gid: u32, group: &str) -> Vec<u32> {
    let has = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let gid = fields.next()?.parse::<u32>().ok()?;
        let member = fields.next()?.split(',').any(|member| member == name);
        (member && gid != own_gid).then_some(gid)
    };
    // The kernel takes at most 65536; nobody needs more than this.
    group.lines().filter_map(has).take(1024).collect()
}

fn read_file(path: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = vec![0; MAX_FILE_BYTES];
    let mut filled = 0;
    loop {
        let count = rustix::io::read(&file, &mut bytes[filled..])?;
        filled += count;
        if count == 0 {
            bytes.truncate(filled);
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:100::/home/ann:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nusers:x:100:ann\ndev:x:200:bob,ann\nvideo:x:44:bob\n";

    #[test]
    fn users_are_found_by_name_and_number() {
        let check = |user, uid, gid, groups: &[u32], name: &str| {
            let expect = Identity { uid, gid, groups: groups.to_vec(), name: name.to_owned() };
            assert_eq!(look_up_in(user, PASSWD, GROUP), Ok(expect), "{user}");
        };
        check("ann", 1000, 100, &[200], "ann");
        check("1000", 1000, 100, &[200], "ann");
        check("ann:video", 1000, 44, &[], "ann");
        check("ann:7", 1000, 7, &[], "ann");
        check("4711", 4711, 0, &[], "4711");
        check("4711:4712", 4711, 4712, &[], "4711");
    }

    #[test]
    fn who_is_not_there_is_named() {
        let check = |user, expect: &str| {
            assert_eq!(look_up_in(user, PASSWD, GROUP), Err(expect.to_owned()));
        };
        check("eve", "there is no user eve in /etc/passwd");
        check("ann:wheel", "there is no group wheel in /etc/group");
        check("4294967295", "4294967295 is not a user id");
    }
}
