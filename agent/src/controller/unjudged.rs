//! Properties of which nothing is known: in no state of a run did they have an answer, so that their not being violated
//! means nothing.

use scry_protocol::link::checker;

use super::*;

/// What is known of a property that had no answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Unjudged {
    /// Why, for people.
    pub(super) why: String,
    /// In how many runs in a row.
    pub(super) runs: u64,
}

impl Controller {
    /// Takes in which properties a run could not judge. Each is written down once, until some run has judged it.
    pub(super) fn note_unjudged(&mut self, unjudged: Vec<checker::Unjudged>) {
        self.unjudged
            .retain(|name, _| unjudged.iter().any(|it| it.property == *name));
        for checker::Unjudged { property, why } in unjudged {
            if let Some(known) = self.unjudged.get_mut(&property) {
                known.runs += 1;
                known.why = why;
                continue;
            }
            self.log(What::Unjudged {
                property: property.clone(),
                why: why.clone(),
            });
            self.unjudged.insert(property, Unjudged { why, runs: 1 });
        }
    }

    /// Tells whether a snapshot shows every node of the service.
    pub(super) fn is_whole(&self, snapshot: &scry_protocol::Snapshot) -> bool {
        let members = snapshot.members.iter().map(|member| member.node);
        snapshot.missing.is_empty()
            && self
                .options
                .everyone
                .as_ref()
                .is_some_and(|everyone| *everyone == members.collect())
    }
}
