//! The sandbox's /etc: made from a list, never filtered from the host's.
//!
//! Small files are copied, so that the agent may change them; large directories that tools
//! expect (certificates, alternatives) are shown read-only as the host has them. Nothing is copied
//! that others may not read on the host.

use std::fs;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink,
};
use std::path::{Path, PathBuf};

use crate::tree::remove_as_root;

/// Copied when the host has them and everybody may read them. None of them holds a secret on any
/// distribution; files in which people put tokens (pip.conf, npmrc, gitconfig, environment) are
/// left out.
const COPIED: &[&str] = &[
    "alpine-release",
    "bash.bashrc",
    "bashrc",
    "debian_version",
    "ethertypes",
    "gai.conf",
    "host.conf",
    "inputrc",
    "issue",
    "ld.so.cache",
    "ld.so.conf",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "magic",
    "mailcap",
    "manpath.config",
    "mime.types",
    "mke2fs.conf",
    "networks",
    "os-release",
    "profile",
    "protocols",
    "redhat-release",
    "rpc",
    "services",
    "shells",
    "system-release",
    "timezone",
    "wgetrc",
    "xattr.conf",
    "ssl/openssl.cnf",
];

/// Shown read-only. `*` stands for anything at the end or in the middle of a name.
const SHOWN: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "java-*-openjdk",
    "ld.so.conf.d",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "python3",
    "python3.*",
    "ssl/certs",
    "terminfo",
];

const PASSWD: &str = "\
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
man:x:6:12:man:/var/cache/man:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
";

const GROUP: &str = "\
root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
mail:x:8:
man:x:12:
www-data:x:33:
utmp:x:43:
staff:x:50:
users:x:100:
nogroup:x:65534:
";

const NSSWITCH: &str = "\
passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
";

/// What [`make`] depends on.
pub(super) fn sources() -> impl Iterator<Item = PathBuf> {
    let copied = COPIED.iter().map(|name| Path::new("/etc").join(name));
    copied.chain(shown().into_iter().map(|name| Path::new("/etc").join(name)))
}

/// Makes the part of /etc that all sandboxes share at `target`, which is not there and which no
/// agent can reach.
pub(super) fn make(target: &Path, owner: u32) -> io::Result<()> {
    let etc = Making { target, owner };
    etc.dir("")?;
    let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
    etc.file("passwd", &format!("root:x:0:0:root:/workspace:{shell}\n{PASSWD}"))?;
    etc.file("group", GROUP)?;
    etc.file("nsswitch.conf", NSSWITCH)?;
    etc.file("resolv.conf", "")?;
    etc.link("mtab", Path::new("/proc/self/mounts"))?;
    for name in COPIED {
        etc.copy(name)?;
    }
    for name in shown() {
        let mut so_far = PathBuf::new();
        for part in &name {
            so_far.push(part);
            etc.dir(&so_far.to_string_lossy())?;
        }
    }
    Ok(())
}

/// Makes the files of /etc that differ between sandboxes, in the upper layer of one that was never
/// started: `target` is its /etc. Done when that is there. They are made at `aside`, on the same
/// file system, so that a full disk or a crash leaves all of them or none.
pub(crate) fn own_files(aside: &Path, target: &Path, hostname: &str, owner: u32) -> io::Result<()> {
    if target.symlink_metadata().is_ok() {
        return Ok(());
    }
    remove_as_root(aside)?;
    let etc = Making { target: aside, owner };
    etc.dir("")?;
    etc.file("hostname", &format!("{hostname}\n"))?;
    etc.file("hosts", &format!("127.0.0.1 localhost {hostname}\n::1 localhost {hostname}\n"))?;
    etc.file("machine-id", &machine_id()?)?;
    fs::rename(aside, target)
}

/// One of its own for each sandbox: the host's would tell sandboxes of one host.
fn machine_id() -> io::Result<String> {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(format!("{}\n", uuid.trim().replace('-', "")))
}

struct Making<'a> {
    target: &'a Path,
    owner: u32,
}

impl Making<'_> {
    fn dir(&self, name: &str) -> io::Result<()> {
        let path = self.target.join(name);
        match fs::DirBuilder::new().mode(0o755).create(&path) {
            Ok(()) => lchown(&path, Some(self.owner), Some(self.owner)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn file(&self, name: &str, text: &str) -> io::Result<()> {
        self.bytes(name, text.as_bytes(), 0o644)
    }

    fn bytes(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        let path = self.target.join(name);
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(&path)?;
        io::Write::write_all(&mut file, bytes)?;
        lchown(&path, Some(self.owner), Some(self.owner))
    }

    fn link(&self, name: &str, to: &Path) -> io::Result<()> {
        let path = self.target.join(name);
        symlink(to, &path)?;
        lchown(&path, Some(self.owner), Some(self.owner))
    }

    fn copy(&self, name: &str) -> io::Result<()> {
        let source = Path::new("/etc").join(name);
        let Ok(metadata) = source.symlink_metadata() else { return Ok(()) };
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.dir(parent)?;
        }
        if metadata.is_symlink() {
            return self.link(name, &fs::read_link(&source)?);
        }
        let for_everybody = metadata.is_file() && metadata.mode() & 0o004 != 0;
        match fs::read(&source) {
            Ok(bytes) if for_everybody => {
                self.bytes(name, &bytes, metadata.permissions().mode() & 0o755)
            }
            _ => Ok(()),
        }
    }
}

/// The directories of the host's /etc to be shown, as paths below /etc, sorted.
pub(crate) fn shown() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for pattern in SHOWN {
        match pattern.split_once('*') {
            None => found.push(PathBuf::from(pattern)),
            Some((before, after)) => {
                let Ok(entries) = fs::read_dir("/etc") else { continue };
                found.extend(entries.flatten().map(|entry| entry.file_name()).filter_map(|name| {
                    let name = name.to_str()?;
                    let fits = name.len() >= before.len() + after.len()
                        && name.starts_with(before)
                        && name.ends_with(after);
                    fits.then(|| PathBuf::from(name))
                }));
            }
        }
    }
    // A link would lead to wherever the host points it: real directories only.
    found.retain(|name| {
        Path::new("/etc").join(name).symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
    });
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sandbox_has_its_own_name_and_machine_id() {
        let dir = tempfile::tempdir().unwrap();
        let owner = rustix::process::getuid().as_raw();
        let mut ids = Vec::new();
        for name in ["one", "two"] {
            let target = dir.path().join(name);
            // Half of it, as a crash leaves it.
            let aside = dir.path().join("aside");
            fs::create_dir(&aside).unwrap();
            fs::write(aside.join("hosts"), "").unwrap();
            own_files(&aside, &target, name, owner).unwrap();
            own_files(&aside, &target, "another", owner).unwrap();
            assert!(!aside.exists());
            assert!(fs::read_to_string(target.join("hosts")).unwrap().contains(name));
            assert_eq!(fs::read_to_string(target.join("hostname")).unwrap(), format!("{name}\n"));
            ids.push(fs::read_to_string(target.join("machine-id")).unwrap());
        }
        assert_eq!(ids[0].trim().len(), 32);
        assert_ne!(ids[0], ids[1]);
        assert_ne!(Some(&ids[0]), fs::read_to_string("/etc/machine-id").ok().as_ref());
    }
}
