//! Moments by a node's own clock, and where each was read.
//!
//! To a service a [`Stamp`] is a number of milliseconds. In the checker all stamps that handlers read are the same number,
//! so that states which differ only in time are one state; each carries beside that, unseen by comparisons, at which
//! reading of the clock it was made. When a path is laid out in time, that says which event a question such as "have
//! 500 ms passed since?" is about, through whatever fields, messages and disks the stamp went.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment by the node's own clock, to be compared only by [`Context::expired`](crate::Context::expired).
///
/// In the checker every stamp is the same. A handler that compares stamps by other means, or does arithmetic with their
/// milliseconds, finds them equal there; its paths are then reported without being laid out in time.
#[derive(Clone, Copy)]
pub struct Stamp {
    millis: u64,
    origin: Origin,
}

/// At which reading of a clock a stamp was made.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Origin(u32);

impl Origin {
    /// The stamp is a constant of the program.
    pub(crate) const LITERAL: Self = Self(0);
    /// The stamp was read in a search, where nobody keeps track of readings.
    pub(crate) const SOMEWHERE: Self = Self(u32::MAX);
    /// Below are the stamps that were found in a snapshot, above those read on a path.
    const PATH_FROM: u32 = 1 << 20;

    /// Returns the origin of a reading on a path, by how many there were before it.
    pub(crate) fn on_path(count: u32) -> Self {
        Self((Self::PATH_FROM + count).min(u32::MAX - 1))
    }

    /// Tells whether the value of the stamp is known: a constant, or found in a snapshot.
    fn is_valued(self) -> bool {
        self.0 < Self::PATH_FROM
    }
}

thread_local! {
    static MET: RefCell<Option<Vec<Origin>>> = const { RefCell::new(None) };
    static NUMBERS: RefCell<Option<BTreeMap<u64, Origin>>> = const { RefCell::new(None) };
    static LOOKED_INTO: Cell<bool> = const { Cell::new(false) };
}

impl Stamp {
    /// Wraps milliseconds of a clock of the caller's choice.
    pub const fn from_millis(millis: u64) -> Self {
        Self {
            millis,
            origin: Origin::LITERAL,
        }
    }

    /// Makes the stamp of a reading in the checker.
    pub(crate) const fn read_at(origin: Origin) -> Self {
        Self { millis: 0, origin }
    }

    /// Returns the milliseconds.
    pub fn as_millis(self) -> u64 {
        self.note_look();
        self.millis
    }

    pub(crate) fn origin(self) -> Origin {
        self.origin
    }

    /// Tells whether two stamps are surely one moment by one clock.
    pub(crate) fn is_surely(self, other: Self) -> bool {
        self.origin == other.origin && self.origin.is_valued() && self.millis == other.millis
    }

    fn note_look(self) {
        if !self.origin.is_valued() {
            LOOKED_INTO.set(true);
        }
    }

    fn note_comparison(self, other: Self) {
        if self.origin != other.origin {
            self.note_look();
            other.note_look();
        }
    }
}

/// Runs a handler, and tells whether it compared stamps, or looked at their milliseconds, that only stand for moments.
pub(crate) fn noting_looks<R>(run: impl FnOnce() -> R) -> (R, bool) {
    let before = LOOKED_INTO.replace(false);
    let result = run();
    (result, LOOKED_INTO.replace(before))
}

/// Lists the origins of the stamps inside a value, in the order in which it is written.
pub fn origins_in<T: Serialize>(value: &T) -> Vec<Origin> {
    let outer = MET.replace(Some(Vec::new()));
    // Whatever the value cannot be written as, the stamps before that place are met.
    let _ = rmp_serde::encode::write(&mut std::io::sink(), value);
    MET.replace(outer).unwrap_or_default()
}

/// Reads something that holds stamps, and returns beside it the origin that each different stamp was given.
pub fn numbering<R>(
    known: BTreeMap<u64, Origin>,
    read: impl FnOnce() -> R,
) -> (R, BTreeMap<u64, Origin>) {
    let outer = NUMBERS.replace(Some(known));
    let result = read();
    (result, NUMBERS.replace(outer).unwrap_or_default())
}

impl Default for Stamp {
    fn default() -> Self {
        Self::from_millis(0)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stamp").field(&self.millis).finish()
    }
}

impl PartialEq for Stamp {
    fn eq(&self, other: &Self) -> bool {
        self.note_comparison(*other);
        self.millis == other.millis
    }
}

impl Eq for Stamp {}

impl PartialOrd for Stamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Stamp {
    fn cmp(&self, other: &Self) -> Ordering {
        self.note_comparison(*other);
        self.millis.cmp(&other.millis)
    }
}

impl Hash for Stamp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.millis.hash(state);
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        MET.with_borrow_mut(|met| {
            if let Some(met) = met {
                met.push(self.origin);
            }
        });
        serializer.serialize_u64(self.millis)
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let millis = u64::deserialize(deserializer)?;
        let origin = NUMBERS.with_borrow_mut(|numbers| {
            let numbers = numbers.as_mut()?;
            // One that counts from another zero than the clock is a constant such as "never".
            let next = Origin((numbers.len() as u32 + 1).min(Origin::PATH_FROM - 1));
            (millis > 0).then(|| *numbers.entry(millis).or_insert(next))
        });
        Ok(Self {
            millis,
            origin: origin.unwrap_or(Origin::LITERAL),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_see_the_moment_only_and_are_noticed() {
        let (one, other) = (
            Stamp::read_at(Origin::on_path(1)),
            Stamp::read_at(Origin::on_path(2)),
        );
        let (equal, looked) = noting_looks(|| one == other);
        assert!(equal && looked);
        let ((), looked) = noting_looks(|| assert_eq!(Stamp::from_millis(3).as_millis(), 3));
        assert!(!looked);
        assert!(noting_looks(|| one.max(other)).1);
        assert!(!noting_looks(|| one == one).1);
    }

    #[test]
    fn stamps_inside_a_value_are_met_in_order() {
        let (one, other) = (Origin::on_path(4), Origin::on_path(9));
        let value = (
            7_u32,
            Some(Stamp::read_at(one)),
            vec![Stamp::read_at(other), Stamp::read_at(one)],
        );
        assert_eq!(origins_in(&value), [one, other, one]);
        assert!(origins_in(&"none").is_empty());
    }

    #[test]
    fn stamps_are_numbers_on_the_wire_and_numbered_when_asked() {
        let bytes = rmp_serde::to_vec(&vec![
            Stamp::from_millis(5),
            Stamp::from_millis(9),
            Stamp::from_millis(5),
            Stamp::default(),
        ])
        .expect("stamps are numbers");
        assert_eq!(
            rmp_serde::from_slice::<Vec<u64>>(&bytes).expect("so they are numbers"),
            [5, 9, 5, 0]
        );
        let (read, numbers) = numbering(BTreeMap::new(), || {
            rmp_serde::from_slice::<Vec<Stamp>>(&bytes).expect("and stamps again")
        });
        assert_eq!(numbers.len(), 2);
        assert_eq!(read[0].origin(), read[2].origin());
        assert_ne!(read[0].origin(), read[1].origin());
        assert_eq!(read[3].origin(), Origin::LITERAL);
    }
}
