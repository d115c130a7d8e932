//! What must hold in every state. `properties.toml` says the same in the property language, under the same name, and adds what must
//! hold again and again.

use scry::{Property, View};

use crate::service::{Incoming, MaceTransport};

/// The property file of this service: these properties, and what must hold again and again.
pub const FILE: &str = include_str!("../properties.toml");
/// What must hold again and again (MaceMC, Table 1): the name it has in `properties.toml`.
pub const ALL_ACKED: &str = "nothing is in flight";
/// What the repair keeps to.
pub const NEVER_BACK: &str = "nobody goes back to an older connection";

/// Returns the safety properties.
pub fn all() -> Vec<Property<MaceTransport>> {
    vec![
        Property::node(NEVER_BACK, |view| gone_back(view).next().is_none()).saying(|views| {
            let all = views.iter().flat_map(|view| {
                gone_back(view).map(|from| {
                    format!(
                        "{} had connection {} from {} and went back to {}, which began with packet {}",
                        view.id, from.youngest, from.peer, from.connection, from.first
                    )
                })
            });
            all.collect::<Vec<_>>().join("; ")
        }),
    ]
}

fn gone_back<'a>(view: &View<'a, MaceTransport>) -> impl Iterator<Item = &'a Incoming> + use<'a> {
    let incoming = view.state.incoming.iter();
    incoming.filter(|from| from.connection < from.youngest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_the_same_properties() {
        let file = include_str!("../properties.toml");
        for name in [NEVER_BACK, ALL_ACKED] {
            assert!(file.contains(&format!("\"{name}\"")), "{name}");
        }
        let safety = file.lines().filter(|line| line.starts_with("always"));
        assert_eq!(safety.count(), all().len());
    }
}
