//! Verdicts that need not be asked for again: a retransmitted message, a timer in a state that does not change.
//!
//! A verdict is a function of (state, event, rules, neighbors' states, which of them count) if the handler looked at neither
//! dice nor clock. CheckSettings and neighbors clear the memory when they change.

use std::hash::{Hash, Hasher};

use hashbrown::HashMap;
use rustc_hash::{FxBuildHasher, FxHasher};

use crate::safety::trial::Verdict;
use scry_checkpoint::cut::Standing;
use scry_engine::model::event::InputOf;
use scry_engine::model::handler::{Local, mix};
use scry_engine::service::Service;

/// How many verdicts are kept. When there are more, all go: they are cheap to get again.
const VERDICTS_MAX: usize = 4096;

/// Names a state with an event: two independent hashes, so that no verdict is ever taken for another's.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Key(u64, u64);

#[derive(Debug, Default)]
pub(super) struct Memory {
    verdicts: HashMap<Key, Verdict, FxBuildHasher>,
}

impl Memory {
    pub(super) fn key<S: Service>(
        local: &Local<S>,
        input: &InputOf<S>,
        standing: &[Standing],
    ) -> Key {
        let half = |seed: u64| {
            let mut hasher = FxHasher::default();
            (seed, local, input, standing).hash(&mut hasher);
            mix(hasher.finish())
        };
        Key(half(0x5afe), half(0xc0de_0001_f00d))
    }

    pub(super) fn recall(&self, key: Key) -> Option<Verdict> {
        self.verdicts.get(&key).cloned()
    }

    pub(super) fn remember(&mut self, key: Key, verdict: Verdict) {
        if self.verdicts.len() == VERDICTS_MAX {
            self.verdicts.clear();
        }
        self.verdicts.insert(key, verdict);
    }

    pub(super) fn clear(&mut self) {
        self.verdicts.clear();
    }
}
