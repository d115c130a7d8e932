//! Every state, nearest first (CrystalBall Fig. 5).

use crate::explore::Strategy;
use crate::explore::breadth::{Breadth, Pruning};
use crate::explore::liveness::{CYCLES, FAULT_RECOVERY, Wanted};
use crate::explore::strategy::Entry;

pub(super) static ENTRY: Entry = Entry {
    name: "exhaustive",
    about: "every state, nearest first; says of each whether `eventually` properties can still come true",
    settings: &[FAULT_RECOVERY, CYCLES],
    threads: true,
    seeded: false,
    goals: true,
    offline: None,
    start: |world, start, plan| {
        let wanted = Wanted::of(world, &plan.settings).map(|wanted| Wanted {
            bytes_max: plan.limits.bytes,
            ..wanted
        });
        Box::new(Breadth::new(world, start, Pruning::Off, wanted, plan))
    },
};

impl Strategy {
    /// Every state, nearest first.
    pub const EXHAUSTIVE: Self = Self::of(&ENTRY);
}
