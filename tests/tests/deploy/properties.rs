//! The sample property file fits the service it says it is about.

use randtree::RandTree;
use scry::Service;
use scry::properties::{PropertyFile, Schema};

use crate::text;

#[test]
fn the_sample_properties_fit_randtree_and_show_every_key() {
    let sample = text("deploy/properties.toml");
    let schema = Schema::of::<RandTree>();
    let set = PropertyFile::load(
        "deploy/properties.toml",
        sample.as_bytes(),
        &schema,
        RandTree::properties(),
    )
    .unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(!set.always.is_empty() && !set.eventually.is_empty());
    let rules = || set.always.iter().chain(&set.eventually);
    assert!(rules().any(|rule| rule.mode.is_some()));
    assert!(rules().any(|rule| rule.description.is_some()));
}

/// The predicates of MaceMC's Table 1, as the examples' files have them.
#[test]
fn f_29_each_predicate_of_the_papers_table_takes_one_line() {
    let all = "every node is reached along successors from every node";
    let predicates = [
        ("pastry", "eventually", all),
        (
            "pastry",
            "always",
            "the leaf set is as large as its two sides",
        ),
        ("chord", "eventually", all),
        (
            "chord",
            "always",
            "a node is its own predecessor exactly if it is its own successor",
        ),
        ("randtree", "eventually", "there is exactly one root"),
        (
            "randtree",
            "always",
            "the recovery timer runs while there are peers",
        ),
        ("mace-transport", "eventually", "nothing is in flight"),
    ];
    for (service, kind, name) in predicates {
        let file = text(&format!("examples/{service}/properties.toml"));
        let entry = file
            .split("[[property]]")
            .find(|entry| entry.contains(&format!("\"{name}\"")));
        let entry = entry.unwrap_or_else(|| panic!("{service} has {name}"));
        let line = entry.lines().find(|line| line.starts_with(kind));
        let line = line.unwrap_or_else(|| panic!("{name} is {kind}"));
        assert!(line.ends_with('"') && !line.ends_with("\"\"\""), "{line}");
    }
}
