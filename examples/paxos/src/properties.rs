//! What must hold in every state of both deployments; `properties.toml` says the same in CEL.

use std::collections::{BTreeMap, BTreeSet};

use scry::{Property, Service, View};

use crate::service::Paxos;
use crate::{Index, Value};

/// The values that a node takes for chosen, index by index.
pub type Chosen<S> = fn(&S) -> &BTreeMap<Index, Value>;

/// Lists the properties.
pub fn all() -> Vec<Property<Paxos>> {
    vec![agreement("at most one value is chosen", |node| {
        &node.chosen
    })]
}

/// The safety property of consensus: no two nodes take different values for chosen, index by index.
pub fn agreement<S: Service>(name: &str, chosen: Chosen<S>) -> Property<S> {
    Property::pair(
        name,
        move |node: &View<'_, S>| {
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
fn disputed<S: Service>(nodes: &[View<'_, S>], chosen: Chosen<S>) -> BTreeSet<Index> {
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
