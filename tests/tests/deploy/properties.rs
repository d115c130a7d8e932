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
