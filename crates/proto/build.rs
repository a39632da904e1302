//! Compiles the interface with a protobuf compiler written in Rust: nothing to install.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = protox::compile(["sandkeep/v1/sandkeep.proto"], ["proto"])?;
    println!("cargo:rerun-if-changed=proto");
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}
