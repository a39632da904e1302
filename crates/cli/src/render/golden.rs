//! Golden files in `tests/golden`: rewritten with `SANDKEEP_GOLDEN=write`, read as a diff.

use std::path::Path;

use sandkeep_proto::v1::{Condition, ErrorNote, Exit, Sandbox, Spec, Workspace};

/// Holds `text` against the file of that name.
pub(crate) fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let text = format!("{}\n", text.trim_end());
    if std::env::var_os("SANDKEEP_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let expect = std::fs::read_to_string(&path)
        .unwrap_or_else(|_| panic!("{name} is missing; write it with SANDKEEP_GOLDEN=write"));
    assert_eq!(
        text, expect,
        "{name} differs; rewrite it with SANDKEEP_GOLDEN=write and read the diff"
    );
}

/// A sandbox with something in every field.
pub(crate) fn full_sandbox() -> Sandbox {
    let at = 1_796_076_000_000;
    Sandbox {
        id: "abcdefghijkl".into(),
        name: "lab".into(),
        phase: "Error".into(),
        reason: "BackingOff".into(),
        message: "start failed 4 times\x1b[31m".into(),
        since_ms: at,
        waits_for: "time".into(),
        next: "start again".into(),
        next_at_ms: at + 68_000,
        want: "Running".into(),
        run: 2,
        generation: 5,
        observed_generation: 5,
        driver: "local".into(),
        spec: Some(full_spec()),
        incarnation: 3,
        restarts: 1,
        workspace: Some(Workspace {
            id: "bcdefghijklm".into(),
            name: "lab".into(),
            driver: "local".into(),
            state: "Bound".into(),
            holder: "lab".into(),
            path: "/home/workspaces/bcdefghijklm".into(),
            bytes: 1536,
            bytes_known: true,
            created_at_ms: at,
        }),
        conditions: vec![Condition {
            r#type: "Ready".into(),
            status: "False".into(),
            reason: "BackingOff".into(),
            message: "the last try failed".into(),
            since_ms: at,
        }],
        last_error: Some(ErrorNote {
            stage: "start".into(),
            reason: "Exhausted".into(),
            message: "no memory left".into(),
            first_at_ms: at - 60_000,
            at_ms: at,
        }),
        exit: Some(Exit {
            code: 137,
            signal: 9,
            oom: true,
            finished_at_ms: at,
            run: 2,
            ..Exit::default()
        }),
        created_at_ms: at - 120_000,
        hostname: "lab".into(),
        revision: 9,
        asked_by: "uid 0".into(),
        asked_at_ms: at - 120_000,
    }
}

fn full_spec() -> Spec {
    Spec {
        image: "host".into(),
        command: vec!["sh".into(), "-c".into(), "sleep 1".into()],
        env: [("SECRET".into(), "not shown".into())].into(),
        user: "1000".into(),
        workdir: "/srv".into(),
        cpu_millis: 500,
        memory_bytes: 1 << 29,
        pids: 100,
        restart: "on-failure".into(),
        labels: [("team".into(), "x".into()), ("app".into(), "y".into())].into(),
        ..Spec::default()
    }
}
