//! A real Debian 12 that reboots, is reset and loses power in the middle of work: afterwards every
//! sandbox is as it was asked for with no verb, and everything that was acknowledged is there.

use std::collections::BTreeMap;

use sandkeep_e2e::{Guest, Speaker, Way, until};

/// Work of an hour ago: finished, synced, summed up.
const GIT: &str = "
set -e
cd /workspace; git init -q -b main project; cd project
git config user.name worker; git config user.email worker@example.invalid
git config core.fsync all
for n in 1 2 3; do echo line $n >>notes; git add notes; git commit -qm note-$n; done
git fsck --strict; cp -a . ../kept; head -c 1000000 /dev/urandom >../kept/data
echo kept >/usr/local/share/mark; sync
";

/// Says a number once its row is committed, durably.
const DATABASE: &str = "
import itertools, sqlite3
base = sqlite3.connect('/workspace/work.db')
base.execute('pragma synchronous = extra')
base.execute('create table if not exists part (id integer primary key, body text)')
base.commit()
for n in itertools.count(1):
    base.execute('insert into part values (?, ?)', (n, 'row %d' % n * 20))
    base.commit()
    print(n, flush=True)
";

/// Says a number once its commit is there.
const COMMITS: &str = "
cd /workspace/project; n=0
while :; do
    n=$((n + 1)); echo $n >>counted; git add counted; git commit -qm counted-$n; sync; echo $n
done
";

/// Verbs in a row on three sandboxes. `?`: about to ask; `!`: it was acknowledged.
const VERBS: &str = "
one() { echo \"? $1 $2\"; sandkeep $1 $3 $2 --no-wait >/dev/null 2>&1 && echo \"! $1 $2\"; }
while :; do
    for name in x y z; do one create $name --name; done
    one stop x; one start y; one stop z; one start x; one delete z --discard-workspace
    one stop y; one start y; one stop x; one delete x --discard-workspace; one stop y
    one delete y --discard-workspace
    for name in x y z; do sandkeep wait $name --for deleted >/dev/null 2>&1; done
done
";

#[test]
fn after_a_reboot_all_is_as_it_was_asked_for() {
    goes_down("reboot", Way::Reboot);
}

#[test]
fn after_a_reset_all_that_was_acknowledged_is_there() {
    goes_down("hard", Way::Hard);
}

#[test]
fn after_a_loss_of_power_all_that_was_acknowledged_is_there() {
    goes_down("power", Way::Power);
}

fn goes_down(name: &str, way: Way) {
    let Some(guest) = Guest::with_home(name) else { return };
    let stays = "sh -c 'while :; do sleep 1000; done'";
    for create in ["git", "base", "rest", "tight --pids 55 --memory 96m"] {
        guest.run(&format!("sandkeep create --name {create} -- {stays}")).ok();
    }
    guest.run(&format!("sandkeep exec git -- sh -c '{GIT}'")).ok();
    guest.run("sandkeep stop rest").ok();
    let before = sums(&guest);
    assert!(before.lines().count() > 10, "{before}");

    let rows = guest.listen(&format!("sandkeep exec base -- python3 -c \"{DATABASE}\""));
    let commits = guest.listen(&format!("sandkeep exec git -- sh -c '{COMMITS}'"));
    let verbs = guest.listen(VERBS);
    let enough = || said(&verbs, "!") >= 9 && said(&rows, "") >= 20 && said(&commits, "") >= 2;
    assert!(until(120, enough), "nobody works: {:?}", [verbs.lines(), rows.lines()]);
    guest.reset(way);

    let (rows, commits, verbs) = (rows.end(), commits.end(), verbs.end());
    comes_back(&guest, name);
    assert_eq!(sums(&guest), before, "what was synced before");
    git_has(&guest, commits.last());
    database_has(&guest, rows.last());
    verbs_were_kept(&guest, &verbs);
}

fn said(speaker: &Speaker, mark: &str) -> usize {
    speaker.lines().iter().filter(|line| line.starts_with(mark)).count()
}

/// A checksum of each file that nobody has touched since it was synced.
fn sums(guest: &Guest) -> String {
    let kept = "cd $SANDKEEP_HOME/local/workspaces && find . -type f -path '*/kept/*' -print0";
    guest.run(&format!("{kept} | sort -z | xargs -0 sha256sum")).ok().text()
}

/// Starts the gateway, and nothing else.
#[allow(clippy::disallowed_methods, reason = "the time a user waits")]
fn comes_back(guest: &Guest, what: &str) {
    let begin = std::time::Instant::now();
    guest.run("sandkeep gateway start").ok();
    let there =
        |name: &str, phase: &str| guest.get(name).is_some_and(|sandbox| sandbox["phase"] == phase);
    let ready = || ["git", "base", "tight"].iter().all(|name| there(name, "Ready"));
    assert!(until(120, ready), "{}", guest.run("sandkeep list").text());
    println!("{what}: gateway started and all Ready again after {:?}", begin.elapsed());
    assert!(there("rest", "Stopped"), "what was stopped stays so");
    for name in ["git", "base", "tight"] {
        let sandbox = guest.get(name).expect("it is there");
        assert_eq!(sandbox["incarnation"], 2, "{sandbox:#}");
    }
    let limits = "cat /sys/fs/cgroup/sandkeep/*/*/pids.max | sort -n | head -n 1
                  cat /sys/fs/cgroup/sandkeep/*/*/memory.max | sort -n | tail -n 1";
    assert_eq!(guest.run(limits).ok().text(), format!("55\n{}", 96 << 20), "limits hold again");
    let mark = guest.run("sandkeep exec git -- cat /usr/local/share/mark").ok();
    assert_eq!(mark.text(), "kept", "the root file system");
}

fn git_has(guest: &Guest, last: Option<&String>) {
    let last = last.expect("commits were made");
    let script = format!(
        "cd /workspace/project && git fsck --strict >&2 &&
         git log --format=%s | grep -cE ^note- && git log --format=%s | grep -x counted-{last}"
    );
    let seen = guest.run(&format!("sandkeep exec git -- sh -c '{script}'")).ok();
    assert_eq!(seen.text(), format!("3\ncounted-{last}"));
}

fn database_has(guest: &Guest, last: Option<&String>) {
    let last = last.expect("rows were written");
    let script = "import sqlite3
base = sqlite3.connect('/workspace/work.db')
print(base.execute('pragma integrity_check').fetchone()[0])
print(base.execute('select count(*), max(id) from part').fetchone())";
    let seen = guest.run(&format!("sandkeep exec base -- python3 -c \"{script}\"")).ok().text();
    let (check, rows) = seen.split_once('\n').expect("two answers");
    assert_eq!(check, "ok");
    let (count, highest) = rows.trim_matches(['(', ')']).split_once(", ").expect("two numbers");
    assert_eq!(count, highest, "no row is missing in between");
    // More may have been committed than was said: it was on its way here when the way ended.
    let last: u64 = last.parse().expect("a number");
    assert!(highest.parse::<u64>().expect("a number") >= last, "said {last}, there is {rows}");
}

/// The last acknowledged verb on each sandbox tells how it has to be; one that was asked for and
/// not answered may have been taken or not.
fn verbs_were_kept(guest: &Guest, lines: &[String]) {
    let mut wanted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [mark, verb, name] = words[..] else { panic!("{line}") };
        let end = match verb {
            "create" | "start" => "Ready",
            "stop" => "Stopped",
            _ => "gone",
        };
        let ends = wanted.entry(name).or_insert_with(|| vec!["gone"]);
        if mark == "!" {
            ends.clear();
        }
        ends.push(end);
    }
    println!("verbs: {} acknowledged", lines.iter().filter(|line| line.starts_with('!')).count());
    for (name, ends) in wanted {
        let phase = || {
            let sandbox = guest.get(name);
            sandbox.map_or("gone".to_owned(), |sandbox| {
                sandbox["phase"].as_str().unwrap_or_default().to_owned()
            })
        };
        let kept = until(60, || ends.contains(&phase().as_str()));
        assert!(kept, "{name} is {} and should be {ends:?}: {lines:?}", phase());
    }
}
