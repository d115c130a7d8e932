//! The pages in `docs/` say what is so: names of settings, tests and files are those of the code.

mod configuration;
mod failures;
mod names;
mod requirements;
mod tested;

use crate::text;

/// Reads the tables of a page: the cells of each row that is neither heading nor line.
fn rows(page: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = page.lines().collect();
    let is_rule = |line: &str| line.starts_with("|--");
    let mut rows = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_heading = lines.get(at + 1).is_some_and(|next| is_rule(next));
        if !line.starts_with('|') || is_rule(line) || is_heading {
            continue;
        }
        let cells = line.trim_matches('|').split('|');
        rows.push(cells.map(|cell| cell.trim().to_owned()).collect());
    }
    rows
}

/// Returns what stands between backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_page_is_found_from_the_readme() {
    let readme = text("README.md");
    for page in [
        "operating",
        "configuration",
        "failures",
        "security",
        "steering-log",
        "requirements",
    ] {
        let link = format!("docs/{page}.md");
        text(&link);
        assert!(readme.contains(&link), "the README does not name {link}");
    }
}
