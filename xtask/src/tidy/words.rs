//! Words that do not belong in the repository: paths of one machine, hosts of one network, tests
//! that are switched off, code that is not there yet.

use std::path::Path;

use super::{TextFile, source};

/// Directories of the machines that this is written on. Split, so that this file has none.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/wo", "rk/."),
    concat!("/ro", "ot/.cargo/registry"),
    concat!("/tmp/br", "ief"),
    concat!("/tmp/ba", "sh_jo", "bs"),
];

/// Hosts that serve packages; whoever builds chooses theirs.
const PACKAGE_HOSTS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("artif", "actory"),
    concat!("regi", "stry.npmjs"),
    concat!("py", "pi.org"),
    concat!("deb.", "debian.org"),
    concat!("proxy.", "golang.org"),
];

/// What never stands in code that is called done.
const NOT_IN_CODE: &[&str] = &["#[ignore", "todo!(", "unimplemented!("];

pub(super) fn faults(files: &[TextFile]) -> Vec<String> {
    let mut faults = Vec::new();
    let own_home = own_home();
    for file in files.iter().filter(|file| file.path != Path::new("Cargo.lock")) {
        for (number, line) in file.text.lines().enumerate() {
            for word in MACHINE_PATHS.iter().chain(PACKAGE_HOSTS) {
                if line.contains(word) {
                    faults.push(file.fault(number + 1, format!("{word} is of one machine only")));
                }
            }
            if own_home.as_ref().is_some_and(|home| line.contains(home)) {
                faults.push(file.fault(number + 1, "your own home directory"));
            }
        }
        if file.is_rust() {
            let code = source::without_literals(&file.text);
            for (number, line) in code.lines().enumerate() {
                for word in NOT_IN_CODE.iter().filter(|word| line.contains(**word)) {
                    faults.push(file.fault(number + 1, format!("{word} is not done")));
                }
            }
        }
    }
    faults
}

/// `/home/NAME/` of whoever runs this; root's is among the machine paths.
fn own_home() -> Option<String> {
    let home = std::env::var("HOME").ok()?;
    home.starts_with("/home/").then(|| format!("{}/", home.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        faults(&[TextFile { path: path.into(), text: text.to_owned() }]).len()
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        assert_eq!(found("a.md", concat!("see /wo", "rk/main/x")), 1);
        assert_eq!(found("a.md", "see /home/user/x, /home/*, /root and /workspace"), 0);
    }

    #[test]
    fn unfinished_code_is_found_but_not_its_mention() {
        assert_eq!(found("a.rs", "//! A.\nfn f() { todo!() }"), 1);
        assert_eq!(found("a.rs", "//! A todo!() in words.\nconst X: &str = \"todo!(\";"), 0);
    }
}
