//! What must hold in every state; `properties.toml` says the same in CEL.

use paxos::properties::agreement;
use scry::Property;

use crate::service::OnePaxos;

/// No two nodes take different values for chosen, index by index.
pub const ONE_VALUE: &str = "at most one value is chosen";
/// The same of the Paxos below.
pub const ONE_CHANGE: &str = "at most one change is chosen";

/// Lists the properties.
pub fn all() -> Vec<Property<OnePaxos>> {
    vec![
        agreement(ONE_VALUE, |node| &node.chosen),
        agreement(ONE_CHANGE, |node| &node.utility.chosen),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_same_properties() {
        let file = include_str!("../properties.toml");
        let names: Vec<&str> = file
            .lines()
            .filter_map(|line| line.strip_prefix("name")?.split('"').nth(1))
            .collect();
        let properties = all();
        let expected: Vec<&str> = properties.iter().map(Property::name).collect();
        assert_eq!(names, expected);
    }
}
