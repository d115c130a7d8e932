//! What must hold in every state; `properties.toml` says the same in CEL.

use std::collections::{BTreeMap, BTreeSet};

use paxos::{Index, Value};
use scry::{Property, View};

use crate::service::OnePaxos;

/// No two nodes take different values for chosen, index by index.
pub const ONE_VALUE: &str = "at most one value is chosen";
/// The same of the Paxos below.
pub const ONE_CHANGE: &str = "at most one change is chosen";

type Chosen = fn(&OnePaxos) -> &BTreeMap<Index, Value>;

/// Lists the properties.
pub fn all() -> Vec<Property<OnePaxos>> {
    vec![
        agreed(ONE_VALUE, |node| &node.chosen),
        agreed(ONE_CHANGE, |node| &node.utility.chosen),
    ]
}

fn agreed(name: &'static str, chosen: Chosen) -> Property<OnePaxos> {
    Property::pair(
        name,
        move |node: &View<'_, OnePaxos>| {
            let chosen = chosen(node.state);
            (!chosen.is_empty()).then(|| chosen.clone())
        },
        |(_, left), (_, right)| {
            left.iter()
                .all(|(index, value)| right.get(index).is_none_or(|other| other == value))
        },
    )
    .saying(move |nodes| {
        let disputed = disputed(nodes, chosen);
        let mut said = Vec::new();
        for node in nodes {
            for (index, value) in chosen(node.state) {
                if disputed.contains(index) {
                    said.push(format!("{} chose {value} for index {index}", node.id));
                }
            }
        }
        said.join(", ")
    })
    .telling_apart(move |nodes| {
        let disputed = disputed(nodes, chosen).into_iter();
        disputed.map(|index| format!("index {index}")).collect()
    })
}

/// Lists the indices for which nodes have chosen different values.
fn disputed(nodes: &[View<'_, OnePaxos>], chosen: Chosen) -> BTreeSet<Index> {
    let mut values: BTreeMap<Index, BTreeSet<Value>> = BTreeMap::new();
    for (&index, &value) in nodes.iter().flat_map(|node| chosen(node.state)) {
        values.entry(index).or_default().insert(value);
    }
    values.retain(|_, values| values.len() > 1);
    values.into_keys().collect()
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
