//! A person's real work, with the host's own tools, in a sandbox of the embedded driver: what was
//! made is the same after stop, start, delete and `create --workspace`.

use std::path::PathBuf;

use sandkeep_e2e::pty::Terminal;
use sandkeep_e2e::{Home, manifest::manifest};

/// The directory that holds a sandbox's workspace.
fn workspace_path(home: &Home, name: &str) -> PathBuf {
    let path = home.get(name)["workspace"]["path"].as_str().expect("a path").to_owned();
    path.into()
}

const GIT: &str = "
set -e
cd /workspace
git init -q -b main project
cd project
git config user.name worker
git config user.email worker@example.invalid
for n in 1 2 3; do echo \"line $n\" >>notes.txt; git add notes.txt; git commit -qm \"note $n\"; done
git checkout -q -b topic
echo branch >branch.txt; git add branch.txt; git commit -qm 'on a branch'
git checkout -q main
git log --oneline --all | wc -l
";

const PYTHON: &str = "
import sqlite3, hashlib
base = sqlite3.connect('/workspace/work.db')
base.execute('create table part (id integer primary key, body blob)')
with base:
    for n in range(500):
        base.execute('insert into part (body) values (?)', (hashlib.sha512(str(n).encode()).digest() * 64,))
print(base.execute('select count(*), sum(length(body)) from part').fetchone())
";

#[test]
fn work_is_the_same_after_stop_start_delete_and_a_new_sandbox_on_its_workspace() {
    let home = Home::new();
    home.run(&["create", "--name", "lab"]).ok();
    let git = home.run(&["exec", "lab", "--", "sh", "-c", GIT]).ok();
    assert_eq!(git.text(), "4");
    let python = home.run(&["exec", "lab", "--", "/usr/bin/python3", "-c", PYTHON]).ok();
    assert_eq!(python.text(), "(500, 2048000)");
    home.run(&["exec", "lab", "--", "sh", "-c", "mkdir -p odd && cd odd && ln -s ../project link && : >'a b\tc' && mkfifo pipe && rm pipe && chmod 640 'a b\tc'"]).ok();
    let history =
        ["exec", "lab", "--", "git", "-C", "/workspace/project", "log", "--all", "--format=%H %s"];
    let commits = home.run(&history).ok().text();
    let place = workspace_path(&home, "lab");
    let before = manifest(&place);
    assert!(before.lines().count() > 30, "{before}");

    home.run(&["stop", "lab"]).ok();
    assert_eq!(home.phase("lab"), "Stopped");
    assert_eq!(manifest(&place), before, "after stop");
    home.run(&["start", "lab"]).ok();
    assert_eq!(home.run(&history).ok().text(), commits, "after start");
    let deleted = home.run(&["delete", "lab"]).ok();
    assert!(
        deleted.stderr.contains("--workspace lab") || deleted.text().contains("--workspace lab")
    );
    assert_eq!(manifest(&place), before, "after delete");
    // The workspace is kept, so its name is not simply used again.
    home.run(&["create", "--name", "lab"]).code(4);
    home.run(&["create", "--name", "second", "--workspace", "lab"]).ok();
    let second = [
        "exec",
        "second",
        "--",
        "git",
        "-C",
        "/workspace/project",
        "log",
        "--all",
        "--format=%H %s",
    ];
    assert_eq!(home.run(&second).ok().text(), commits, "in a new sandbox");
    home.run(&["exec", "second", "--", "git", "-C", "/workspace/project", "fsck", "--strict"]).ok();
    assert_eq!(manifest(&place), before, "after create --workspace");
}

#[test]
fn two_hundred_megabytes_go_in_and_out_of_exec_unchanged() {
    use sha2::{Digest, Sha256};
    let home = Home::new();
    home.run(&["create", "--name", "pipe"]).ok();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut input = Vec::with_capacity(200 << 20);
    while input.len() < 200 << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        input.extend_from_slice(&state.to_le_bytes());
    }
    let sum = format!("{:x}", Sha256::digest(&input));
    let save = [
        "exec",
        "-i",
        "pipe",
        "--",
        "sh",
        "-c",
        "cat >/workspace/big && sha256sum </workspace/big",
    ];
    let inside = home.run_with_input(&save, &input).ok();
    assert_eq!(inside.text().split(' ').next(), Some(sum.as_str()), "as it arrived");
    let out = home.run(&["exec", "pipe", "--", "cat", "/workspace/big"]).ok();
    assert_eq!(format!("{:x}", Sha256::digest(&out.stdout)), sum, "as it came back");
    // Both ways at once.
    let echo = home.run_with_input(&["exec", "-i", "pipe", "--", "cat"], &input).ok();
    assert_eq!(format!("{:x}", Sha256::digest(&echo.stdout)), sum, "through a pipe");
}

#[test]
fn a_terminal_in_a_sandbox_behaves_like_one() {
    let home = Home::new();
    home.run(&["create", "--name", "tty"]).ok();
    let shell = home.command(&["exec", "-it", "tty", "--", "sh"]);
    let mut terminal = Terminal::start(&shell, 31, 97);
    terminal.send("stty size; tty\n");
    terminal.expect("31 97");
    terminal.expect("/dev/pts/");
    terminal.resize(40, 120);
    terminal.send("sleep 1000; echo after-$?\n");
    terminal.expect("sleep 1000");
    terminal.send("\u{3}");
    terminal.send("echo interrupted-$?\n");
    terminal.expect("interrupted-130");
    terminal.send("stty size\n");
    terminal.expect("40 120");
    // A full-screen program: it asks for the size, paints, reads keys and puts the screen back.
    terminal.send("seq 1 500 >/tmp/numbers; TERM=xterm less /tmp/numbers\n");
    terminal.expect("/tmp/numbers");
    terminal.send("G");
    terminal.expect("500");
    terminal.send("q");
    terminal.send("exit 3 \n");
    assert_eq!(terminal.wait(), 3);

    let mut terminal = Terminal::start(&home.command(&["exec", "-it", "tty", "--", "cat"]), 24, 80);
    terminal.send("hello\n");
    terminal.expect("hello\r\nhello");
    terminal.send("\u{4}");
    assert_eq!(terminal.wait(), 0, "Ctrl-D ends the input");
}

#[test]
fn fifty_sandboxes_work_side_by_side() {
    let home = Home::new();
    let names: Vec<String> = (0..50).map(|n| format!("many-{n}")).collect();
    std::thread::scope(|scope| {
        for chunk in names.chunks(10) {
            let home = &home;
            scope.spawn(move || {
                for name in chunk {
                    home.run(&["create", "--name", name]).ok();
                    let write = format!("echo {name} >/workspace/own");
                    home.run(&["exec", name, "--", "sh", "-c", &write]).ok();
                }
            });
        }
    });
    for name in &names {
        let own = home.run(&["exec", name, "--", "cat", "/workspace/own"]).ok();
        assert_eq!(own.text(), *name);
        assert_eq!(home.phase(name), "Ready");
    }
    home.run(&["stop", "--all"]).ok();
    for name in &names {
        assert_eq!(home.phase(name), "Stopped");
    }
    home.run(&["start", "--all"]).ok();
    for name in &names {
        let own = home.run(&["exec", name, "--", "cat", "/workspace/own"]).ok();
        assert_eq!(own.text(), *name);
    }
}

#[test]
fn six_cycles_of_stop_and_start_keep_a_growing_manifest() {
    let home = Home::new();
    home.run(&["create", "--name", "grow"]).ok();
    let place = workspace_path(&home, "grow");
    let mut kept = String::new();
    for round in 0..6 {
        let write = format!(
            "mkdir -p /workspace/{round} && head -c {} /dev/urandom >/workspace/{round}/data && echo {round} >>/workspace/all && echo {round} >>/usr/local/share/all",
            (round + 1) * 100_000
        );
        home.run(&["exec", "grow", "--", "sh", "-c", &write]).ok();
        let before = manifest(&place);
        let old: Vec<&str> = kept.lines().filter(|line| !line.ends_with(" all")).collect();
        assert!(
            old.iter().all(|line| before.contains(line)),
            "round {round}: what was there stays"
        );
        home.run(&["stop", "grow"]).ok();
        home.run(&["start", "grow"]).ok();
        assert_eq!(manifest(&place), before, "round {round}");
        kept = before;
    }
    let all =
        home.run(&["exec", "grow", "--", "cat", "/workspace/all", "/usr/local/share/all"]).ok();
    assert_eq!(all.text().lines().count(), 12, "workspace and root file system: {}", all.text());
}
