//! Builds the supervisor static, by a second cargo with a target and flags of its own, and leaves
//! the binary and its digest where the library embeds them from.
//!
//! `SANDKEEP_SUPERVISOR_BINARY=PATH` embeds a ready binary instead: for hosts that cannot build
//! for Linux (macOS without a cross linker).

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

const PREBUILT: &str = "SANDKEEP_SUPERVISOR_BINARY";

/// What the outer cargo says to its own compiler must not reach the inner one.
const NOT_INHERITED: [&str; 13] = [
    "CARGO",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_INCREMENTAL",
    "CARGO_TARGET_DIR",
    "RUSTC",
    "RUSTC_LINKER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    for input in ["crates/supervisor", "crates/frames", "Cargo.lock", "Cargo.toml"] {
        for path in inputs(&root.join(input))? {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={PREBUILT}");

    let out = PathBuf::from(env::var("OUT_DIR")?);
    let binary = match env::var_os(PREBUILT) {
        Some(path) => PathBuf::from(path),
        None => build(&root, &out)?,
    };
    let bytes = fs::read(&binary)?;
    let digest: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
    fs::write(out.join("sandkeep-supervisor"), bytes)?;
    println!("cargo::rustc-env=SANDKEEP_SUPERVISOR_DIGEST={digest}");
    Ok(())
}

/// A directory's `src` and manifest, not its tests; a file itself.
fn inputs(path: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if path.is_dir() {
        return Ok(vec![path.join("src"), path.join("Cargo.toml")]);
    }
    Ok(vec![path.to_owned()])
}

fn build(root: &Path, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let target = format!("{}-unknown-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH")?);
    // OUT_DIR is TARGET_DIR/PROFILE/build/CRATE-HASH/out. Beside `build` the inner target
    // directory outlives a new hash, so that dependencies are compiled once.
    let beside = out.ancestors().nth(3).ok_or("OUT_DIR is not in a target directory")?;
    let target_dir = beside.join("supervisor-image");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let of_outer = text.starts_with("CARGO_PROFILE_")
            || text.starts_with("CARGO_CFG_")
            || text.starts_with("CARGO_FEATURE_")
            || (text.starts_with("CARGO_TARGET_") && text.ends_with("_RUSTFLAGS"));
        if of_outer {
            command.env_remove(&name);
        }
    }
    command
        .current_dir(root)
        .arg("build")
        .args(["--profile", "supervisor", "-p", "sandkeep-supervisor", "--bins"])
        .args(["--target", &target])
        .arg("--target-dir")
        .arg(&target_dir)
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        // Static, and at a fixed address: nothing of the sandbox's root file system is loaded
        // into PID 1, and it starts where there is no libc at all.
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            "-Ctarget-feature=+crt-static\x1f-Crelocation-model=static",
        );
    let status = command.status()?;
    if !status.success() {
        return Err(format!("building the supervisor for {target} failed: {status}").into());
    }
    Ok(target_dir.join(target).join("supervisor").join("sandkeep-supervisor"))
}
