//! What cannot be done here is refused before anything is made.

use sandkeep_core::{Backing, Image, Limits};

use super::fixture::{Fixture, Wishes, fine, refused};
use super::{Outcome, Skip};
use crate::ErrorKind;

pub(super) async fn a_limit_that_cannot_be_enforced_is_refused_unless_accepted(
    fixture: &dyn Fixture,
) -> Outcome {
    let driver = fixture.driver();
    let can = driver.capabilities();
    let size = 1 << 30;
    let limits = [
        ("cpu", can.cpu_limit, Limits { cpu_millis: Some(500), ..Limits::default() }),
        ("memory", can.memory_limit, Limits { memory_bytes: Some(size), ..Limits::default() }),
        ("pids", can.pids_limit, Limits { pids: Some(64), ..Limits::default() }),
        ("disk", can.disk_limit, Limits { disk_bytes: Some(size), ..Limits::default() }),
    ];
    for (seed, (name, enforced, limits)) in (1..).zip(limits) {
        let wishes = Wishes::new(fixture, seed);
        fine("workspace", driver.ensure_workspace(&wishes.workspace(false)).await);
        let mut request = wishes.backing(1);
        request.spec.limits = limits;
        if !enforced {
            assert_eq!(refused(name, driver.create(&request).await), ErrorKind::Invalid);
            assert_eq!(wishes.state(&*driver).await, Backing::Absent);
            request.spec.unenforced = true;
        }
        fine(name, driver.create(&request).await);
        wishes.started(&*driver).await;
        let report = fine("inspect", driver.inspect(&wishes.id).await);
        let unenforced: &[&str] = if enforced { &[] } else { &[name] };
        assert_eq!(report.unenforced_limits, unenforced);
        fine("remove", driver.remove(&wishes.id).await);
    }
    Ok(())
}

pub(super) async fn an_image_that_cannot_run_here_is_invalid_and_nothing_is_made(
    fixture: &dyn Fixture,
) -> Outcome {
    let driver = fixture.driver();
    let can = driver.capabilities();
    let images = [
        (can.host_image, Image::Host),
        (can.directory_image, Image::Directory("/srv/does-not-exist".into())),
        (can.oci_image, Image::Oci("sandkeep.invalid/none:1".into())),
    ];
    let mut tried = 0;
    let wishes = Wishes::new(fixture, 1);
    fine("workspace", driver.ensure_workspace(&wishes.workspace(false)).await);
    let missing_directory = Image::Directory("/srv/does-not-exist".into());
    for (supported, image) in images {
        if supported && image != missing_directory {
            continue;
        }
        let mut request = wishes.backing(1);
        request.spec.image = image;
        assert_eq!(refused("create", driver.create(&request).await), ErrorKind::Invalid);
        assert_eq!(wishes.state(&*driver).await, Backing::Absent);
        tried += 1;
    }
    if tried == 0 { Err(Skip("every kind of image runs here".into())) } else { Ok(()) }
}
