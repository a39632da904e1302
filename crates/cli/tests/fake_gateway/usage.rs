//! Command lines that make no sense: exit 2, before anything is asked.

use crate::fake::Fake;
use crate::process::{end, program, sandkeep};

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_a_gateway_is_asked() {
    let fake = Fake::start();
    for arguments in [
        &[][..],
        &["nosuch"],
        &["run"],
        &["run", "ls"],
        &["create", "lab"],
        &["create", "--memory", "lots"],
        &["create", "--memory", "0"],
        &["create", "--cpus", "-1"],
        &["create", "--pids", "0"],
        &["create", "--restart", "sometimes"],
        &["create", "--label", "x"],
        &["create", "--env", "=x"],
        &["create", "--env-file", "/nonexistent"],
        &["create", "--rm", "--keep"],
        &["create", "--workspace", "a", "--new-workspace"],
        &["create", "--mount", "nowhere"],
        &["create", "--reuse"],
        &["exec"],
        &["exec", "lab"],
        &["exec", "-d", "-i", "lab", "x"],
        &["start"],
        &["start", "--all", "lab"],
        &["delete", "--selector", "nokey"],
        &["wait", "lab", "--for", "christmas"],
        &["wait", "lab", "--timeout", "soon"],
        &["list", "-o", "yaml"],
        &["logs"],
        &["logs", "lab", "--tail", "x"],
        &["completions", "cmd"],
        &["workspace"],
        &["gateway", "fly"],
    ] {
        let ended = sandkeep(&fake, arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(!ended.stderr.is_empty(), "{arguments:?}");
    }
    assert_eq!(fake.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn an_unknown_verb_gets_the_nearest_one_suggested() {
    let fake = Fake::start();
    let ended = sandkeep(&fake, &["lst"]).await;
    assert!(ended.stderr.contains("list"), "{}", ended.stderr);
}

#[tokio::test]
async fn options_after_the_command_belong_to_the_command() {
    let fake = Fake::start();
    for arguments in [
        &["exec", "lab", "ls", "-la", "-o", "x"][..],
        &["exec", "lab", "-i", "--", "ls", "-la", "-o", "x"],
        &["exec", "-i", "lab", "ls", "-la", "-o", "x"],
    ] {
        fake.exec(vec![crate::fake::attached(0, 0), crate::fake::exited(0)]);
        assert_eq!(sandkeep(&fake, arguments).await.code, 0, "{arguments:?}");
    }
    let argvs = fake.heard().into_iter().filter_map(|message| match message {
        sandkeep_proto::v1::exec_in::Message::Open(open) => Some(open.argv),
        _ => None,
    });
    let argvs: Vec<_> = argvs.collect();
    assert_eq!(argvs.len(), 3);
    assert!(argvs.iter().all(|argv| *argv == ["ls", "-la", "-o", "x"]), "{argvs:?}");
}

#[tokio::test]
async fn completions_and_version_need_no_gateway() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let ended = end(program(home.path(), &["completions", shell]).spawn().unwrap()).await;
        assert!(ended.code == 0 && ended.stdout.contains("sandkeep"), "{shell}");
    }
    let ended = end(program(home.path(), &["version"]).spawn().unwrap()).await;
    assert_eq!(ended.stdout, format!("sandkeep {}\n", env!("CARGO_PKG_VERSION")));
}
