//! The page is well formed whatever nodes say, and shows every run.

use std::collections::BTreeMap;
use std::time::Duration;

use scry::NodeId;

use super::*;
use crate::cluster::{Costs, Steering};
use crate::observer::{Mark, Observer};
use crate::referee::Count;

fn run(name: &str, text: &str) -> RunResult {
    let mut observer = Observer::new();
    observer.join_ms = vec![120.0, 80.0, 310.5];
    observer.marks = MarkKind::ALL
        .map(|kind| Mark {
            at_ms: 1500,
            kind,
            node: Some(NodeId::new(3)),
            text: text.to_owned(),
        })
        .to_vec();
    RunResult::new(
        name,
        (Steering::Full, 1, Duration::from_secs(3)),
        3,
        &Count::default(),
        observer,
        &BTreeMap::new(),
        Costs::default(),
        "/tmp/a&b".into(),
    )
}

/// Walks over the tags and checks that each is closed in its turn.
pub(crate) fn check_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page
        .strip_prefix("<!DOCTYPE html>\n")
        .expect("it says what it is");
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        assert!(
            !text.contains('>') || open.last() == Some(&"style"),
            "{text}"
        );
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a tag has a name"));
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_page_is_well_formed_whatever_nodes_say() {
    let nasty = "</title><script>alert('x')</script> \"&\u{7}";
    let runs = vec![run("off", nasty), run("<steered>", nasty)];
    let page = page(&Comparison::new("a \"title\" & more", runs));
    check_well_formed(&page);
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;steered&gt;"));
    assert!(!page.contains("http"), "it needs nothing else");
}

#[test]
fn a_run_without_joins_or_marks_is_drawn_too() {
    let mut empty = run("off", "");
    empty.join_ms.clear();
    empty.marks.clear();
    empty.seconds = 0.0;
    check_well_formed(&page(&Comparison::new("empty", vec![empty])));
    check_well_formed(&page(&Comparison::new("nothing", Vec::new())));
}

#[test]
fn ticks_are_round_numbers_that_end_before_the_axis_does() {
    assert_eq!(ticks(9198.0), [0.0, 2000.0, 4000.0, 6000.0, 8000.0]);
    assert_eq!(ticks(6.0), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(ticks(0.4), [0.0, 0.1, 0.2, 0.3, 0.4]);
    assert_eq!(ticks(1.0), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
}
