//! Names that are free again.

use std::time::Duration;

use sandkeep_proto::v1;

use crate::scene::Scene;

#[tokio::test]
async fn the_name_of_a_workspace_that_is_discarded_is_free_at_once() {
    let mut scene = Scene::new().await;
    let old = scene.create("lab").await;
    scene.until("lab", "Ready").await;
    // Nothing is removed before the next create has been looked at.
    scene.store.set_delay(Duration::from_millis(300));
    let delete =
        v1::DeleteRequest { name: "lab".to_owned(), discard_workspace: true, ..Default::default() };
    scene.client.delete(delete).await.unwrap();
    let new = scene.create("lab").await;
    scene.store.set_delay(Duration::ZERO);
    let (old, new) = (old.workspace.unwrap(), new.workspace.unwrap());
    assert_ne!(old.id, new.id);
    scene.until("lab", "Ready").await;
}
