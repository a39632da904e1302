//! What people see of a sandbox, held against files.

use super::*;
use crate::render::golden::{check, full_sandbox};

#[test]
fn the_page_of_a_sandbox_tells_everything_and_obeys_no_control_character() {
    check("sandbox.txt", &page(&full_sandbox(), 1_796_076_060_000));
}

#[test]
fn the_table_of_sandboxes_has_a_line_each() {
    let bare = Sandbox { name: "new".into(), phase: "Ready".into(), ..Sandbox::default() };
    check("list.txt", &table(&[full_sandbox(), bare], 1_796_076_060_000));
}

#[test]
fn a_command_is_shown_as_it_could_be_typed() {
    let argv = ["sh", "-c", "echo 'hi' there", ""].map(String::from);
    assert_eq!(shell_words(&argv), "sh -c 'echo '\\''hi'\\'' there' ''");
}
