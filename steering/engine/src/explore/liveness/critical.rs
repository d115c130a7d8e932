//! The critical transition of an execution by walks (MaceMC Alg. 3): which states to probe, and what follows from the answers.
//!
//! An execution no longer reaches a goal from some state on. A state of it *recovers* if one of k random walks from it reaches the
//! goal. The step looked for is that from the last state that recovers to the first that does not: doubling finds a state
//! that does not, halving finds the step.
//!
//! Two things are not as published. Doubling from 0 would stay at 0, so it goes on with 1 (B-47). And where the state before the
//! first one asked about is live itself, that one is the answer if it does not recover: nothing earlier can be.

/// How sure it is that the step is the critical one (B-50).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Case {
    /// Before it walks recover, after it none does.
    C1,
    /// It is not decided: the walks were too short to tell, or none recovers at all.
    C2,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::explore) enum Next {
    /// Whether the state after so many steps recovers.
    Ask(usize),
    /// The state after so many steps is the first that does not.
    Found(usize, Case),
}

/// A search for the critical transition.
#[derive(Clone, Copy, Debug)]
pub(in crate::explore) struct Critical {
    /// From here to the end the execution does not reach the goal.
    init: usize,
    /// Whether the state before that does.
    after_live: bool,
    /// The last state of the execution.
    end: usize,
    /// The last state known to recover.
    low: Option<usize>,
    /// The first state that does not.
    high: Option<usize>,
    next: Next,
}

impl Critical {
    /// Begins. `stuck` says that at the end of the execution nothing can happen any more.
    pub(in crate::explore) fn new(init: usize, after_live: bool, end: usize, stuck: bool) -> Self {
        let known = stuck && init == end && after_live;
        Self {
            init,
            after_live,
            end,
            low: None,
            high: stuck.then_some(end),
            next: match known {
                true => Next::Found(init, Case::C1),
                false => Next::Ask(init),
            },
        }
    }

    pub(in crate::explore) fn next(&self) -> Next {
        self.next
    }

    /// Takes the answer to what was asked last.
    pub(in crate::explore) fn answer(&mut self, recovers: bool) {
        let Next::Ask(asked) = self.next else {
            return;
        };
        match recovers {
            true => self.low = Some(asked),
            false => self.high = Some(asked),
        }
        self.next = match (self.low, self.high) {
            (None, _) if self.after_live => Next::Found(self.init, Case::C1),
            (None, _) => Next::Found(self.init, Case::C2),
            (Some(low), Some(high)) if high - low == 1 => Next::Found(high, Case::C1),
            (Some(low), Some(high)) => Next::Ask(low + (high - low) / 2),
            (Some(low), None) => {
                let doubled = (2 * low).max(1);
                // Beyond the middle, walks have fewer steps left than it took to get there.
                match doubled > self.end / 2 {
                    true => Next::Found(doubled.min(self.end), Case::C2),
                    false => Next::Ask(doubled),
                }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches where states before `first` recover, and counts the questions.
    fn search(init: usize, after_live: bool, end: usize, stuck: bool, first: usize) -> (Next, u32) {
        let mut critical = Critical::new(init, after_live, end, stuck);
        let mut asked = 0;
        while let Next::Ask(at) = critical.next() {
            asked += 1;
            assert!((init..=end).contains(&at));
            critical.answer(at < first);
        }
        (critical.next(), asked)
    }

    #[test]
    fn b_45_b_46_b_48_b_49_the_step_is_found_with_few_questions() {
        for init in [0, 1, 7, 100] {
            for first in init + 1..5_000 {
                let (found, asked) = search(init, init > 0, 20_000, false, first);
                assert_eq!(found, Next::Found(first, Case::C1));
                // One more where it begins at the start state, which doubling does not leave.
                let most = 2.0 * (first as f64).log2() + 2.0 + f64::from(u8::from(init == 0));
                assert!(f64::from(asked) <= most, "{first}: {asked}");
            }
            // Beyond the middle nothing is decided.
            let (found, _) = search(init, false, 1_000, false, 900);
            assert!(
                matches!(found, Next::Found(at, Case::C2) if at > 500),
                "{found:?}"
            );
        }
        assert_eq!(
            search(0, false, 1_000, false, 0),
            (Next::Found(0, Case::C2), 1)
        );
        assert_eq!(
            search(5, true, 1_000, false, 0),
            (Next::Found(5, Case::C1), 1)
        );
    }

    #[test]
    fn b_47_doubling_from_nothing_ends() {
        assert_eq!(search(0, false, 100, false, 1).0, Next::Found(1, Case::C1));
        assert_eq!(
            search(0, false, 100, false, 13).0,
            Next::Found(13, Case::C1)
        );
    }

    #[test]
    fn b_16_where_nothing_can_happen_any_more_the_end_is_known() {
        for first in 3..=900 {
            assert_eq!(
                search(2, true, 900, true, first).0,
                Next::Found(first, Case::C1)
            );
        }
        assert_eq!(search(4, true, 4, true, 4), (Next::Found(4, Case::C1), 0));
        assert_eq!(search(0, false, 0, true, 0).0, Next::Found(0, Case::C2));
    }
}
