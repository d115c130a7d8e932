//! The states that can follow one, nearest first: whether a goal is among them, as far as a bound on states goes.

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use crate::explore::liveness::book::Book;
use crate::interned::world::Space;

/// What lies ahead of a state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::explore) enum Ahead {
    /// The steps to the nearest state in which the target holds.
    Reached(Vec<u32>),
    /// It holds in none of the states that can follow.
    Never,
    /// There are more states than were looked at, or the target is unknown in one.
    Undecided,
}

/// How far all states that are found may be away, added up. What is on its way may become more with every step, so that the bytes of
/// a state grow with its distance: a bound on states alone would bound nothing.
const DISTANCES_MAX: usize = 1_000_000;

/// Looks for a state in which a target holds, the first state not counted unless `now`. Returns how many states it found, too.
pub(in crate::explore) fn ahead(
    world: &mut Space,
    book: &mut Book,
    from: &[u32],
    target: usize,
    (faults, now): (bool, bool),
    states_max: usize,
) -> (Ahead, usize) {
    let width = from.len();
    let mut seen: HashSet<u64, FxBuildHasher> = HashSet::default();
    seen.insert(world.tables().fingerprint(from));
    let mut states = from.to_vec();
    // By state, whence it came and by which step.
    let mut origins: Vec<(usize, u32)> = vec![(0, 0)];
    let mut at = 0;
    // How far the state that is looked at is away, and where the states that are farther begin.
    let (mut distance, mut farther) = (0, 1);
    let mut distances = 0;
    let mut decided = true;
    while at < origins.len() {
        if at == farther {
            distance += 1;
            farther = origins.len();
        }
        let words = states[at * width..(at + 1) * width].to_vec();
        let judged = book.judge(world, &words);
        if (at > 0 || now) && judged.holds >> target & 1 != 0 {
            let mut path = Vec::new();
            while at > 0 {
                path.push(origins[at].1);
                at = origins[at].0;
            }
            path.reverse();
            return (Ahead::Reached(path), origins.len());
        }
        decided &= judged.unknown >> target & 1 == 0;
        for step in world.steps_from(&words) {
            if !faults && world.tables().details[step as usize].fault.is_some() {
                continue;
            }
            let mut after = words.clone();
            world.tables().patch(&mut after, step);
            if seen.insert(world.tables().fingerprint(&after)) {
                states.extend_from_slice(&after);
                origins.push((at, step));
                distances += distance + 1;
            }
        }
        if origins.len() > states_max || distances > DISTANCES_MAX {
            return (Ahead::Undecided, origins.len());
        }
        at += 1;
    }
    let lies = match decided && !world.transitions().is_truncated() {
        true => Ahead::Never,
        false => Ahead::Undecided,
    };
    (lies, origins.len())
}
