//! The safety properties in Rust, under the names they have in `properties.toml`.

use crate::service::Pastry;

type Property = scry::Property<Pastry>;

/// The property file of this service: these properties, and what must hold again and again.
pub const FILE: &str = include_str!("../properties.toml");
/// What must hold again and again (MaceMC, Table 1): the name it has in `properties.toml`.
pub const ALL_NODES: &str = "every node is reached along successors from every node";
/// MaceMC, Table 1 (SizeMatch).
pub const SIZE_MATCH: &str = "the leaf set is as large as its two sides";
/// A node knows others, not itself.
pub const NOT_ITSELF: &str = "nobody is its own leaf";

/// Returns the safety properties.
pub fn all() -> Vec<Property> {
    vec![
        Property::node(SIZE_MATCH, |view| {
            let state = view.state;
            state.left.len() + state.right.len() == state.leaves.len()
        }),
        Property::node(NOT_ITSELF, |view| !view.state.leaves.contains(&view.id)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_same_properties() {
        let file = include_str!("../properties.toml");
        for name in [ALL_NODES, SIZE_MATCH, NOT_ITSELF] {
            assert!(file.contains(&format!("\"{name}\"")), "{name}");
        }
        let safety = file.lines().filter(|line| line.starts_with("always"));
        assert_eq!(safety.count(), all().len());
    }
}
