//! Puts a gateway together: the drivers of this build, their supervisor, and `sandkeep-gateway`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use sandkeep_driver::Driver;
use sandkeep_gateway::config::Config;
use sandkeep_gateway::refusal::{Refusal, RefusalKind};
use sandkeep_gateway::{DriverPlace, GatewayOptions};

use crate::client::plain_os_words;
use crate::error::{Failure, exit};
use crate::home::Home;

/// Two threads carry a thousand sandboxes; more would only cost memory.
const WORKERS: usize = 2;

/// Serves until SIGTERM or SIGINT.
pub(crate) fn serve(home: &Home, config: &Config) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("gateway")
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        Failure::new(
            exit::FAILED,
            "the gateway was not started",
            plain_os_words(&error),
            "close other programs and try again",
        )
    })?;
    let names = config.drivers.value.clone();
    let options = GatewayOptions {
        home: home.path().to_owned(),
        metrics_listen: config.metrics_listen.value,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        drivers: Box::new(move |place| names.iter().map(|name| driver(name, place)).collect()),
    };
    let served = runtime.block_on(sandkeep_gateway::serve(options));
    // What is under way on backends is settled by the next gateway: it is not waited for.
    runtime.shutdown_background();
    Ok(served?)
}

fn driver(name: &str, place: &DriverPlace) -> Result<Arc<dyn Driver>, Refusal> {
    match name {
        #[cfg(target_os = "linux")]
        "local" => local(place),
        _ => Err(Refusal::new(
            RefusalKind::Invalid,
            "UnknownDriver",
            "the gateway was not started",
            format!("this build has no driver of the name {name:?}"),
            "known drivers: local",
        )),
    }
}

#[cfg(target_os = "linux")]
fn local(place: &DriverPlace) -> Result<Arc<dyn Driver>, Refusal> {
    use sandkeep_driver_local::{
        DEFAULT_UID_BASE, HELPER_ARG, HelperCommand, LocalConfig, LocalDriver,
    };

    let supervisors = place.home.join("supervisors");
    let supervisor = sandkeep_supervisor_image::unpack(&supervisors)
        .map_err(|error| not_made(&supervisors, &error))?;
    // The same build as this gateway, whatever lies at its path by now.
    let program = "/proc/self/exe".into();
    let config = LocalConfig {
        home: place.home.join("local"),
        gateway: place.gateway.clone(),
        supervisor,
        helper: HelperCommand { program, args: vec![HELPER_ARG.to_owned()] },
        uid_base: DEFAULT_UID_BASE,
        knobs: knobs(),
    };
    let driver = LocalDriver::new(config).map_err(|error| {
        Refusal::new(
            RefusalKind::Failed,
            "DriverNotMade",
            "the gateway was not started",
            format!("the driver local cannot work here: {error}"),
            "mend that, or name another driver: sandkeep gateway start --driver NAME",
        )
    })?;
    Ok(Arc::new(driver))
}

/// What end-to-end tests turn: `SANDKEEP_TEST_BOOT_ID` is a reboot as far as the driver can tell.
#[cfg(all(target_os = "linux", feature = "failpoints"))]
fn knobs() -> sandkeep_driver_local::Knobs {
    sandkeep_driver_local::Knobs {
        boot_id: std::env::var("SANDKEEP_TEST_BOOT_ID").ok(),
        ..sandkeep_driver_local::Knobs::default()
    }
}

#[cfg(all(target_os = "linux", not(feature = "failpoints")))]
fn knobs() -> sandkeep_driver_local::Knobs {
    sandkeep_driver_local::Knobs::default()
}

fn not_made(path: &Path, error: &io::Error) -> Refusal {
    Refusal::new(
        RefusalKind::Failed,
        "DriverNotMade",
        "the gateway was not started",
        format!("{}: {}", path.display(), plain_os_words(error)),
        "make room or rights there, or name another home: --home DIR",
    )
}
