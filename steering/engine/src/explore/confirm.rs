//! Every finding replayed on plain values, with the handlers run anew, and laid out in time.

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use scry_protocol::NodeId;

use crate::explore::report::{ALL_AT_ONCE, Dead, How, Proof, Suspicion};
use crate::explore::strategy::{Claim, Found};
use crate::explore::{LaidOut, Search, Unfit, Violation};
use crate::interned::judge::{Finding, PANIC_PROPERTY};
use crate::interned::world::StepIds;
use crate::model::event::Step;
use crate::model::simulation::{Effectiveness, Simulation};
use crate::property::{Judgement, View};
use crate::service::Service;
use crate::timing::find::{Settled, settle};
use crate::timing::{Clock, Layout, Need, Time, layout};

/// All findings of a search together may be tried as often as so many.
pub(super) const TRIES_SHARE: u32 = 4;

/// That a state is dead is proved again on plain values if no more states than this can follow.
const PLAIN_MAX: usize = 2_000;

/// What became of a finding.
#[derive(Debug)]
pub(super) enum Confirmed<S: Service> {
    /// It is real.
    Violation(Box<Violation<S>>),
    /// Its path does not replay.
    Unreplayed,
    /// Its path does not fit in time, and no other does as far as was tried.
    Unfit(Unfit),
    /// Its path is real, and what is said of where it leads is not proved.
    Suspicion(Box<Suspicion<S>>),
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
        let path = self.spell(&found.path);
        let Some(state) = self.replay(&path) else {
            return Confirmed::Unreplayed;
        };
        let elsewhere = |words: &Vec<u32>| state != self.world.decode(words);
        if found.end.as_ref().is_some_and(elsewhere) {
            return Confirmed::Unreplayed;
        }
        match &found.claim {
            Claim::Breaks(finding) => self.confirm_broken((at, found), finding, &path, &state),
            Claim::Dead {
                goals,
                critical,
                faults,
                live,
            } => {
                let Some(proof) = self.prove_dead(&state, goals, *faults) else {
                    return Confirmed::Unreplayed;
                };
                let (path, layout) = match self.settled_at((at, found), goals, &path, &state) {
                    Ok(fitting) => fitting,
                    Err(unfit) => return unfit,
                };
                let live = live.as_ref().map(|live| self.comes_true(live, goals));
                if live == Some(None) {
                    return Confirmed::Unreplayed;
                }
                Confirmed::Violation(Box::new(Violation {
                    property: self.name_of(goals),
                    how: How::Dead(Dead {
                        critical: *critical,
                        proof,
                    }),
                    nodes: Vec::new(),
                    explanation: self.explain_goals(goals, &state),
                    path,
                    layout,
                    state,
                    live: live.flatten(),
                    found_by: self.walk.finders(at),
                }))
            }
            Claim::Lasso { goals, round } => {
                let Some((stem, way)) = path.split_at_checked(path.len().wrapping_sub(*round))
                else {
                    return Confirmed::Unreplayed;
                };
                if !self.goes_round(stem, way, goals) {
                    return Confirmed::Unreplayed;
                }
                // Another path would not be this one: if it does not fit, nothing is known.
                let (path, layout) = match self.settled((at, found), &|_| false, &path) {
                    Settled::Fits(path, layout) => (path, layout),
                    Settled::Impossible(need) | Settled::Undecided(need) => {
                        return unfit_of(&self.name_of(goals), Vec::new(), false, need);
                    }
                };
                Confirmed::Violation(Box::new(Violation {
                    property: self.name_of(goals),
                    how: How::Lasso { round: *round },
                    nodes: Vec::new(),
                    explanation: self.explain_goals(goals, &state),
                    path,
                    layout,
                    state,
                    live: None,
                    found_by: self.walk.finders(at),
                }))
            }
            Claim::Suspected {
                goals,
                case,
                walks,
                steps,
                live,
            } => {
                if self.judge_goals(goals, &state) == Judgement::Holds {
                    return Confirmed::Unreplayed;
                }
                let (path, layout) = match self.settled_at((at, found), goals, &path, &state) {
                    Ok(fitting) => fitting,
                    Err(unfit) => return unfit,
                };
                let live = live.iter().map(|live| self.comes_true(live, goals));
                let Some(live) = live.collect() else {
                    return Confirmed::Unreplayed;
                };
                Confirmed::Suspicion(Box::new(Suspicion {
                    property: self.name_of(goals),
                    case: *case,
                    walks: *walks,
                    steps: *steps,
                    explanation: self.explain_goals(goals, &state),
                    path,
                    layout,
                    state,
                    live,
                }))
            }
        }
    }

    fn confirm_broken(
        &self,
        it: (usize, &Found),
        finding: &Finding,
        path: &[Step<S>],
        state: &Simulation<S>,
    ) -> Confirmed<S> {
        if !self.violates(finding, state) {
            return Confirmed::Unreplayed;
        }
        let violates = |state: &Simulation<S>| self.violates(finding, state);
        let unfit = |impossible, need| {
            let property = self.world.properties().get(finding.property);
            let name = property.map_or(PANIC_PROPERTY, |property| property.name());
            unfit_of(name, self.nodes_of(finding), impossible, need)
        };
        let (path, layout) = match self.settled(it, &violates, path) {
            Settled::Fits(path, layout) => (path, layout),
            Settled::Impossible(need) => return unfit(true, need),
            Settled::Undecided(need) => return unfit(false, need),
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
            how: How::Broken,
            nodes,
            explanation,
            path,
            layout,
            state,
            live: None,
            found_by: self.walk.finders(it.0),
        }))
    }

    /// Lays a path to where goals never hold out in time. What cannot happen if time is no matter cannot happen in time
    /// either, so it is dead in time too; only the way there must fit.
    fn settled_at(
        &self,
        it: (usize, &Found),
        goals: &[usize],
        path: &[Step<S>],
        state: &Simulation<S>,
    ) -> Result<(Vec<Step<S>>, Layout), Confirmed<S>> {
        let arrives = |other: &Simulation<S>| other == state;
        match self.settled(it, &arrives, path) {
            Settled::Fits(path, layout) => Ok((path, layout)),
            // Only this very state was looked for: that it cannot be reached in time says nothing of others like it.
            Settled::Impossible(need) | Settled::Undecided(need) => {
                Err(unfit_of(&self.name_of(goals), Vec::new(), false, need))
            }
        }
    }

    /// Tells, on plain values, whether steps lead from the end of a path back to it, without ever a state in which goals hold,
    /// and whether no step is possible all the way that is not among them.
    fn goes_round(&self, stem: &[Step<S>], round: &[Step<S>], goals: &[usize]) -> bool {
        let Some(base) = self.replay(stem) else {
            return false;
        };
        let mut state = base.clone();
        let mut owed: Option<Vec<Step<S>>> = None;
        for step in round {
            let possible = state.successors().into_iter().map(|(step, _)| step);
            let possible: Vec<Step<S>> = possible
                .filter(|step| step.event.fault().is_none())
                .collect();
            match &mut owed {
                None => owed = Some(possible),
                Some(owed) => owed.retain(|step| possible.contains(step)),
            }
            if self.judge_goals(goals, &state) != Judgement::Violated
                || state.step(step) != Ok(Effectiveness::Changed)
            {
                return false;
            }
        }
        let all_taken = |owed: &Vec<Step<S>>| owed.iter().all(|step| round.contains(step));
        state == base && owed.as_ref().is_some_and(all_taken)
    }

    /// Spells out steps from where the search begins, with what leads there before them.
    fn spell(&self, steps: &[StepIds]) -> Vec<Step<S>> {
        let steps = steps.iter().map(|step| self.world.spell(step));
        self.prefix.iter().cloned().chain(steps).collect()
    }

    /// Returns after how many steps of the prefix a goal holds first.
    pub(super) fn first_in_prefix(&self, goal: usize) -> Option<u32> {
        let mut state = self.start.clone().with_moments(None);
        for steps in 0..=self.prefix.len() {
            if self.judge_goals(&[goal], &state) == Judgement::Holds {
                return Some(steps as u32);
            }
            state.step(self.prefix.get(steps)?).ok()?;
        }
        None
    }

    fn name_of(&self, goals: &[usize]) -> String {
        match goals {
            [one] => self.world.goals()[*one].name.clone(),
            _ => ALL_AT_ONCE.to_owned(),
        }
    }

    /// Spells out an execution at whose end goals hold; nothing if it does not replay or they do not.
    fn comes_true(&self, steps: &[StepIds], goals: &[usize]) -> Option<Vec<Step<S>>> {
        let path = self.spell(steps);
        let end = self.replay(&path)?;
        (self.judge_goals(goals, &end) == Judgement::Holds).then_some(path)
    }

    /// Tells whether some goals hold at once, judged without any memory.
    fn judge_goals(&self, goals: &[usize], state: &Simulation<S>) -> Judgement {
        let parts = goals.iter().flat_map(|&at| &self.world.goals()[at].parts);
        let mut all = Judgement::Holds;
        for &part in parts {
            let property = &self.world.properties()[part];
            match property.judge_in(state.scope(), &state.views()) {
                Judgement::Violated => return Judgement::Violated,
                Judgement::Unknown => all = Judgement::Unknown,
                Judgement::Holds => {}
            }
        }
        all
    }

    fn explain_goals(&self, goals: &[usize], state: &Simulation<S>) -> Option<String> {
        let (scope, views) = (state.scope(), state.views());
        let parts = goals.iter().flat_map(|&at| &self.world.goals()[at].parts);
        let properties = parts.map(|&part| &self.world.properties()[part]);
        let missed =
            properties.filter(|property| property.judge_in(scope, &views) != Judgement::Holds);
        let mut said: Vec<String> = missed
            .filter_map(|property| property.explain_in(scope, &views))
            .collect();
        // The parts of a property in a file explain it whole, each.
        said.dedup();
        (!said.is_empty()).then(|| said.join("\n"))
    }

    /// Proves that some goals never hold at once from a state on: by everything that can follow, in plain values, if that is
    /// not too much. `None` if they do hold somewhere.
    fn prove_dead(&self, state: &Simulation<S>, goals: &[usize], faults: bool) -> Option<Proof> {
        let mut seen: HashSet<Simulation<S>, FxBuildHasher> = HashSet::default();
        let begin = state.clone().with_moments(None);
        let mut waiting = vec![begin.clone()];
        seen.insert(begin);
        while let Some(state) = waiting.pop() {
            if self.judge_goals(goals, &state) != Judgement::Violated {
                return None;
            }
            for (step, after) in state.successors() {
                if (faults || step.event.fault().is_none()) && seen.insert(after.clone()) {
                    waiting.push(after);
                }
            }
            if seen.len() > PLAIN_MAX {
                return Some(Proof::Tables);
            }
        }
        Some(Proof::Plain {
            states: seen.len() as u64,
        })
    }

    fn settled(
        &self,
        (at, found): (usize, &Found),
        violates: &dyn Fn(&Simulation<S>) -> bool,
        path: &[Step<S>],
    ) -> Settled<S> {
        let clock = self.options.clock;
        if clock.time == Time::Free {
            let layout = layout::without_times(&self.start, path);
            return Settled::Fits(path.to_vec(), layout);
        }
        if let Some(known) = self.settled.borrow().get(&at)
            && (&known.claim, &known.path) == (&found.claim, &found.path)
        {
            return known.settled.clone();
        }
        let clock = Clock {
            tries: clock.tries.min(self.tries.get()),
            ..clock
        };
        let (settled, tried) = settle(&self.start, path, violates, &clock);
        self.tries.set(self.tries.get().saturating_sub(tried));
        let known = LaidOut {
            claim: found.claim.clone(),
            path: found.path.clone(),
            settled: settled.clone(),
        };
        self.settled.borrow_mut().insert(at, known);
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
}

fn unfit_of<S: Service>(
    property: &str,
    nodes: Vec<NodeId>,
    impossible: bool,
    need: Option<Need>,
) -> Confirmed<S> {
    Confirmed::Unfit(Unfit {
        property: property.to_owned(),
        nodes,
        impossible,
        need: need.map(|need| need.to_string()),
    })
}
