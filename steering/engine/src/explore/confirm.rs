//! Every finding replayed on plain values, with the handlers run anew, and laid out in time.

use scry_protocol::NodeId;

use crate::explore::strategy::{Claim, Found};
use crate::explore::{Search, Unfit, Violation};
use crate::interned::judge::{Finding, PANIC_PROPERTY};
use crate::model::event::Step;
use crate::model::simulation::{Effectiveness, Simulation};
use crate::property::{Judgement, View};
use crate::service::Service;
use crate::timing::find::{Settled, settle};
use crate::timing::{Clock, Time, layout};

/// All findings of a search together may be tried as often as so many.
pub(super) const TRIES_SHARE: u32 = 4;

/// What became of a finding.
#[derive(Debug)]
pub(super) enum Confirmed<S: Service> {
    /// It is real.
    Violation(Box<Violation<S>>),
    /// Its path does not replay.
    Unreplayed,
    /// Its path does not fit in time, and no other does as far as was tried.
    Unfit(Unfit),
}

impl<S: Service> Search<S> {
    /// Tells whether any finding is real.
    pub(super) fn is_any_confirmed(&self) -> bool {
        let found = self.all_found();
        let mut confirmed = found
            .iter()
            .enumerate()
            .map(|(at, found)| self.confirm(at, found));
        // What does not replay is told as such; it is no reason to go on.
        confirmed.any(|confirmed| !matches!(confirmed, Confirmed::Unfit(_)))
    }

    /// Replays the finding of a number, lays it out in time, and judges where it ends.
    pub(super) fn confirm(&self, at: usize, found: &Found) -> Confirmed<S> {
        let Claim::Breaks(finding) = &found.claim;
        let path: Vec<Step<S>> = found
            .path
            .iter()
            .map(|step| self.world.spell(step))
            .collect();
        let Some(state) = self.replay(&path) else {
            return Confirmed::Unreplayed;
        };
        let elsewhere = |words: &Vec<u32>| state != self.world.decode(words);
        if found.end.as_ref().is_some_and(elsewhere) || !self.violates(finding, &state) {
            return Confirmed::Unreplayed;
        }
        let (path, layout) = match self.settled(at, finding, &path) {
            Settled::Fits(path, layout) => (path, layout),
            Settled::Impossible(need) => return self.unfit_of(finding, true, need),
            Settled::Undecided(need) => return self.unfit_of(finding, false, need),
        };
        let Some(state) = self.replay(&path) else {
            return Confirmed::Unreplayed;
        };
        let nodes = self.nodes_of(finding);
        let Some((property, explanation)) = self.explain(finding, &nodes, &state) else {
            return Confirmed::Unreplayed;
        };
        Confirmed::Violation(Box::new(Violation {
            property,
            nodes,
            explanation,
            path,
            layout,
            state,
        }))
    }

    fn settled(&self, at: usize, finding: &Finding, path: &[Step<S>]) -> Settled<S> {
        let clock = self.options.clock;
        if clock.time == Time::Free {
            let layout = layout::without_times(&self.start, path);
            return Settled::Fits(path.to_vec(), layout);
        }
        if let Some(settled) = self.settled.borrow().get(&(at, path.len())) {
            return settled.clone();
        }
        let clock = Clock {
            tries: clock.tries.min(self.tries.get()),
            ..clock
        };
        let violates = |state: &Simulation<S>| self.violates(finding, state);
        let (settled, tried) = settle(&self.start, path, &violates, &clock);
        self.tries.set(self.tries.get().saturating_sub(tried));
        self.settled
            .borrow_mut()
            .insert((at, path.len()), settled.clone());
        settled
    }

    fn replay(&self, path: &[Step<S>]) -> Option<Simulation<S>> {
        let mut state = self.start.clone().with_moments(None);
        for step in path {
            if state.step(step) != Ok(Effectiveness::Changed) {
                return None;
            }
        }
        Some(state)
    }

    fn nodes_of(&self, finding: &Finding) -> Vec<NodeId> {
        let members = self.world.members();
        finding.nodes.iter().map(|&at| members[at]).collect()
    }

    /// Tells whether a state is wrong in the way of a finding.
    fn violates(&self, finding: &Finding, state: &Simulation<S>) -> bool {
        let nodes = self.nodes_of(finding);
        let about = |id: &NodeId| nodes.is_empty() || nodes.contains(id);
        match self.world.properties().get(finding.property) {
            Some(property) => {
                let mut views: Vec<View<'_, S>> = state.views();
                views.retain(|view| about(&view.id));
                property.judge_in(state.scope(), &views) == Judgement::Violated
            }
            None => state
                .nodes()
                .iter()
                .any(|(id, node)| about(id) && node.local.panic.is_some()),
        }
    }

    fn explain(
        &self,
        finding: &Finding,
        nodes: &[NodeId],
        state: &Simulation<S>,
    ) -> Option<(String, Option<String>)> {
        match self.world.properties().get(finding.property) {
            Some(property) => {
                let explanation = property.explain_in(state.scope(), &state.views());
                Some((property.name().to_owned(), explanation))
            }
            None => {
                let id = nodes.first()?;
                let said = state.nodes()[id].local.panic.as_ref()?;
                Some((PANIC_PROPERTY.to_owned(), Some(format!("{id}: {said}"))))
            }
        }
    }

    fn unfit_of(
        &self,
        finding: &Finding,
        impossible: bool,
        need: Option<crate::timing::Need>,
    ) -> Confirmed<S> {
        let property = self.world.properties().get(finding.property);
        Confirmed::Unfit(Unfit {
            property: property
                .map_or(PANIC_PROPERTY, |property| property.name())
                .to_owned(),
            nodes: self.nodes_of(finding),
            impossible,
            need: need.map(|need| need.to_string()),
        })
    }
}
