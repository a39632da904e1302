//! Workspaces for people and programs.

use sandkeep_proto::v1::Workspace;

use super::table::{Table, fields};
use super::time::{age, now_ms, rfc3339};
use super::{document, json, result};
use crate::args::Format;
use crate::error::Failure;

/// `workspace list`.
pub(crate) fn list(workspaces: Vec<Workspace>, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => result(&table(&workspaces, now_ms())),
        Format::Json => document(&json::WorkspaceList::from(workspaces)),
        Format::Name => result(&names(&workspaces)),
    }
}

/// `workspace get`.
pub(crate) fn pages(
    mut workspaces: Vec<Workspace>,
    single: bool,
    format: Format,
) -> Result<(), Failure> {
    match format {
        Format::Table => {
            let pages: Vec<String> = workspaces.iter().map(page).collect();
            result(&pages.join("\n"))
        }
        Format::Json if single && workspaces.len() == 1 => {
            document(&json::Workspace::from(workspaces.remove(0)))
        }
        Format::Json => document(&json::WorkspaceList::from(workspaces)),
        Format::Name => result(&names(&workspaces)),
    }
}

fn names(workspaces: &[Workspace]) -> String {
    workspaces.iter().map(|workspace| super::escape::line(&workspace.name) + "\n").collect()
}

/// `lab: deleted`, a line each.
pub(crate) fn words(workspaces: &[Workspace], word: &str) -> String {
    let line = |w: &Workspace| format!("{}: {word}\n", super::escape::line(&w.name));
    workspaces.iter().map(line).collect()
}

fn table(workspaces: &[Workspace], now: u64) -> String {
    let mut table = Table::new(&["NAME", "STATE", "HELD BY", "SIZE", "AGE", "DRIVER"]);
    for workspace in workspaces {
        table.row([
            workspace.name.clone(),
            workspace.state.clone(),
            workspace.holder.clone(),
            size(workspace),
            age(workspace.created_at_ms, now),
            workspace.driver.clone(),
        ]);
    }
    table.text()
}

fn page(workspace: &Workspace) -> String {
    fields(&[
        ("Name", workspace.name.clone()),
        ("Id", workspace.id.clone()),
        ("State", workspace.state.clone()),
        ("Held by", workspace.holder.clone()),
        ("Size", size(workspace)),
        ("Path", workspace.path.clone()),
        ("Driver", workspace.driver.clone()),
        ("Created", rfc3339(workspace.created_at_ms).unwrap_or_default()),
    ])
}

/// `1.5 GiB`; empty when it was never measured.
fn size(workspace: &Workspace) -> String {
    if !workspace.bytes_known {
        return String::new();
    }
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut tenths = u128::from(workspace.bytes) * 10;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < units.len() {
        tenths /= 1024;
        unit += 1;
    }
    match unit {
        0 => format!("{} B", workspace.bytes),
        _ => format!("{}.{} {}", tenths / 10, tenths % 10, units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_decimal_and_unmeasured_ones_are_not_zero() {
        let of =
            |bytes, bytes_known| size(&Workspace { bytes, bytes_known, ..Workspace::default() });
        assert_eq!(of(0, false), "");
        assert_eq!(of(0, true), "0 B");
        assert_eq!(of(1023, true), "1023 B");
        assert_eq!(of(1536, true), "1.5 KiB");
        assert_eq!(of(3 << 30, true), "3.0 GiB");
        assert_eq!(of(u64::MAX, true), "15.9 EiB");
    }

    #[test]
    fn a_kept_workspace_shows_that_nobody_holds_it() {
        let kept = Workspace {
            name: "lab".into(),
            state: "Kept".into(),
            driver: "local".into(),
            created_at_ms: 1000,
            ..Workspace::default()
        };
        assert_eq!(
            table(&[kept], 61_000),
            "NAME   STATE   HELD BY   SIZE   AGE   DRIVER\nlab    Kept    -         -      60s   local\n"
        );
    }
}
