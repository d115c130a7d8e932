//! What steering took from the service, by property: messages, connections, calls, and time.

use std::collections::BTreeMap;

use scry_protocol::filter::Action;
use scry_protocol::limit::HARM_MAX;
use scry_protocol::link::host::Harm;

/// What was done to the service instead of handling an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kept {
    /// A message never reaches its handler.
    Dropped,
    /// A connection was reset.
    Reset,
    /// A call was refused.
    Refused,
    /// A timer or a message was put off.
    Delayed,
}

/// Counts by property, for a bounded number of them.
#[derive(Debug, Default)]
pub(super) struct HarmCounts(BTreeMap<String, Harm>);

impl HarmCounts {
    /// Counts what was done for the sake of a property.
    pub(super) fn note(&mut self, property: &str, kept: Kept) {
        // The last entry is for all properties that have no room of their own.
        let full = self.0.len() >= HARM_MAX - 1 && !self.0.contains_key(property);
        let name = if full { "" } else { property };
        let harm = self.0.entry(name.to_owned()).or_insert_with(|| Harm {
            property: name.to_owned(),
            ..Harm::default()
        });
        match kept {
            Kept::Dropped => harm.dropped += 1,
            Kept::Reset => harm.reset += 1,
            Kept::Refused => harm.refused += 1,
            Kept::Delayed => harm.delayed += 1,
        }
    }

    /// Counts an act of a filter.
    pub(super) fn note_action(&mut self, property: &str, action: Action) {
        match action {
            Action::Drop => self.note(property, Kept::Dropped),
            Action::Reset => {
                self.note(property, Kept::Dropped);
                self.note(property, Kept::Reset);
            }
            Action::Refuse => self.note(property, Kept::Refused),
            Action::Postpone | Action::Hold => self.note(property, Kept::Delayed),
            // What is refused then is counted as a veto.
            Action::Check => {}
        }
    }

    /// Lists what was counted, by name.
    pub(super) fn list(&self) -> Vec<Harm> {
        self.0.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_counted_by_property_and_kind() {
        let mut counts = HarmCounts::default();
        counts.note_action("a", Action::Drop);
        counts.note_action("a", Action::Reset);
        counts.note_action("b", Action::Refuse);
        counts.note_action("b", Action::Postpone);
        counts.note_action("b", Action::Hold);
        let expect = [
            Harm {
                property: "a".into(),
                dropped: 2,
                reset: 1,
                ..Harm::default()
            },
            Harm {
                property: "b".into(),
                refused: 1,
                delayed: 2,
                ..Harm::default()
            },
        ];
        assert_eq!(counts.list(), expect);
    }

    #[test]
    fn many_properties_share_the_last_entry() {
        let mut counts = HarmCounts::default();
        for number in 0..200 {
            counts.note(&format!("p{number:03}"), Kept::Dropped);
        }
        let list = counts.list();
        assert_eq!(list.len(), HARM_MAX);
        assert_eq!(list[0].property, "");
        assert_eq!(list.iter().map(|harm| harm.dropped).sum::<u64>(), 200);
    }
}
