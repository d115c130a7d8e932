//! The seam of a strategy: what one is given, what it answers, and what the rest of scry knows of it.
//!
//! A strategy is a file in this folder with an [`Entry`]: its name, a line of help, the settings it has of its own, and
//! how to start a [`Walk`]. It is listed once, in [`explore`](crate::explore). Everything else (the search, the checker,
//! remedies, `check --help`, reports) works from that: nobody asks which strategy it is. CONTRIBUTING.md shows how to
//! add one.
//!
//! What a strategy finds is a path of (node, event, tosses) from the start state, and what it claims of that path. The
//! claim is believed when the path was replayed on plain values.

use std::fmt;
use std::str::FromStr;

use crate::explore::limits::{Limits, Stop};
use crate::explore::liveness::Case;
use crate::explore::report::GoalReport;
use crate::explore::{Counts, STRATEGIES};
use crate::interned::judge::Finding;
use crate::interned::world::{Space, StepIds};

/// A way to go through a system's states, by name.
#[derive(Clone, Copy)]
pub struct Strategy(&'static Entry);

/// What is known of a strategy.
#[derive(Debug)]
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What can be set of it, and of no other.
    pub settings: &'static [Setting],
    /// Whether it can work on several threads. The report does not depend on their number.
    pub threads: bool,
    /// Whether it throws dice, so that a seed makes a difference.
    pub seeded: bool,
    /// Whether it judges `eventually` and `sometimes` properties. If not, reports say of each that it was not judged.
    pub goals: bool,
    /// Why it cannot run beside a service, in words that complete "it …", such as "needs a second snapshot"; `None` if it
    /// can.
    pub offline: Option<&'static str>,
    /// Begins a search in a state.
    pub start: fn(&mut Space, &[u32], Plan) -> Box<dyn Walk>,
}

/// Something that can be set of a strategy.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What it is called. On the command line it is an option of that name too. A name with a dot is one of several of the
    /// same sort: `weight.call` is set by `--weight call=8`.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What values it takes, and which it has if nobody sets it.
    pub kind: Kind,
}

/// What values a setting takes, with its default.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `on` or `off`.
    Switch(bool),
    /// A number, at least 1.
    Count(u64),
    /// A number, which may be 0.
    Amount(u64),
    /// One of these words, of which the first is the default.
    Word(&'static [&'static str]),
}

/// What a strategy is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// When to stop.
    pub limits: Limits,
    /// On how many threads; 1 if the strategy works on one.
    pub threads: usize,
    /// What its dice begin with.
    pub seed: u64,
    /// What was set of it.
    pub settings: Settings,
}

/// A search at rest, to be continued bit by bit. It is a function of the world, the start state and the plan, however
/// often and far it is continued.
pub trait Walk: fmt::Debug + Send {
    /// Goes on for about this many steps, and tells why the search ended if it did.
    fn advance(&mut self, world: &mut Space, steps: u64) -> Option<Stop>;

    /// Returns how far it is.
    fn counts(&self) -> Counts;

    /// Returns how much was done, in steps: at least the [transitions](Counts::transitions).
    fn work(&self) -> u64 {
        self.counts().transitions
    }

    /// Shows the words of every state that waits to be expanded.
    fn for_each_waiting(&self, see: &mut dyn FnMut(&[u32]));

    /// Returns how many findings there are.
    fn found_count(&self) -> usize;

    /// Lists what was found, in order of discovery. The path of a finding may become shorter, the finding stays.
    fn found(&self, world: &Space, start: &[u32]) -> Vec<Found>;

    /// Names the strategies that found something, the first of them first: one finding of several that work together.
    fn finders(&self, found: usize) -> Vec<&'static str> {
        let _ = found;
        Vec::new()
    }

    /// Goes on after what was found so far, if it stopped for that: there turned out to be no time for it.
    fn pass_over_found(&mut self, world: &Space);

    /// Draws the conclusions for which a search must be at rest, as far as about this many steps go, and tells whether all
    /// are drawn. What it concludes is [found](Self::found) afterwards. It is asked when the search is over or cut, and a
    /// search that is continued all the same forgets them.
    fn conclude(&mut self, world: &mut Space, steps: u64) -> bool {
        let _ = (world, steps);
        true
    }

    /// Tells what came of each goal, once all conclusions are drawn.
    fn goals(&self, world: &Space) -> Vec<GoalReport> {
        let _ = world;
        Vec::new()
    }

    /// Returns how many bytes it took to judge goals.
    fn goal_bytes(&self) -> u64 {
        0
    }

    /// Says where it looked, once it has [nothing left to explore](Stop::Exhausted), in words that complete "no violation …";
    /// `None` if everywhere.
    fn extent(&self) -> Option<&'static str> {
        None
    }

    /// Returns what else it counted, by name.
    fn tallies(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Tells whether it has looked where it promises to look, and goes on beyond that only because there is time left.
    fn has_covered(&self) -> bool {
        false
    }
}

/// Something a strategy found.
#[derive(Clone, Debug)]
pub struct Found {
    /// What is claimed.
    pub claim: Claim,
    /// The steps from the start state.
    pub path: Vec<StepIds>,
    /// The words of the state they lead to, if the strategy knows them: replayed, the path must lead there.
    pub end: Option<Vec<u32>>,
}

/// What is claimed of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Claim {
    /// The state it leads to breaks a property.
    Breaks(Finding),
    /// From the state it leads to, no state can be reached in which some goals hold at once (B-3), without faults unless
    /// those count.
    Dead {
        /// The goals, by position.
        goals: Vec<usize>,
        /// Whether the state before its last step is known to have a way back, so that this step is the critical one.
        critical: bool,
        /// Whether faults count as ways to recover.
        faults: bool,
        /// The steps, from the start state on, of an execution that shares as much as can be with the path, and in which the
        /// goals come true after they part.
        live: Option<Vec<StepIds>>,
    },
    /// Its last steps lead round, back to where they begin, and some goals never hold at once there, although no step is possible
    /// all the way round that is not taken.
    Lasso {
        /// The goals, by position.
        goals: Vec<usize>,
        /// How many of the last steps are the way round.
        round: usize,
    },
    /// From the state it leads to, walks did not reach a state in which some goals hold at once. That is no proof.
    Suspected {
        /// The goals, by position.
        goals: Vec<usize>,
        /// Whether walks from the state before do.
        case: Case,
        /// How many walks failed.
        walks: u64,
        /// How many steps each of them had.
        steps: u64,
        /// The steps, from the start state on, of executions that share much with the path and in which the goals come true:
        /// the one that shares most first.
        live: Vec<Vec<StepIds>>,
    },
}

/// What was set of a strategy: a few names and values.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Settings([Option<(&'static str, u64)>; SETTINGS_MAX]);

/// How many settings a strategy can have.
const SETTINGS_MAX: usize = 12;

/// Why a text names no strategy.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no strategy `{0}`; there are {list}", list = listed(Strategy::all().map(Strategy::name)))]
pub struct UnknownStrategy(String);

/// Why something cannot be set.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// The strategy has no such setting.
    #[error("{strategy} has no setting `{name}`; {has}{others}", has = has(*strategy), others = others(name))]
    Unknown {
        /// The strategy.
        strategy: Strategy,
        /// What was to be set.
        name: String,
    },
    /// The setting takes other values.
    #[error("`{name}` of {strategy} is {takes}, not `{value}`")]
    Value {
        /// The strategy.
        strategy: Strategy,
        /// The setting.
        name: &'static str,
        /// What it takes.
        takes: &'static str,
        /// What was given.
        value: String,
    },
}

fn has(strategy: Strategy) -> String {
    match strategy.settings() {
        [] => "it has none".to_owned(),
        all => format!("it has {}", listed(all.iter().map(|setting| setting.name))),
    }
}

/// Says which strategies have a setting of this name.
fn others(name: &str) -> String {
    let having = |it: &Strategy| it.settings().iter().any(|setting| setting.name == name);
    let others: Vec<&str> = Strategy::all().filter(having).map(Strategy::name).collect();
    match others.as_slice() {
        [] => String::new(),
        [one] => format!(" (`{name}` is of {one})"),
        all => format!(" (`{name}` is of {})", listed(all.iter().copied())),
    }
}

/// Lists names with commas, and with "and" before the last.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

impl Strategy {
    /// Names a strategy that is listed.
    pub(super) const fn of(entry: &'static Entry) -> Self {
        Self(entry)
    }

    /// Lists every strategy.
    pub fn all() -> impl Iterator<Item = Self> {
        STRATEGIES.iter().map(|entry| Self(entry))
    }

    /// Returns what it is called.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns what it does, in a line.
    pub const fn about(self) -> &'static str {
        self.0.about
    }

    /// Returns what can be set of it.
    pub const fn settings(self) -> &'static [Setting] {
        self.0.settings
    }

    /// Tells whether a seed makes a difference.
    pub const fn is_seeded(self) -> bool {
        self.0.seeded
    }

    /// Tells whether it judges `eventually` and `sometimes` properties.
    pub const fn judges_goals(self) -> bool {
        self.0.goals
    }

    /// Tells whether it can work on several threads.
    pub const fn uses_threads(self) -> bool {
        self.0.threads
    }

    /// Says why it cannot run beside a service, in words that complete "it …"; `None` if it can.
    pub const fn offline(self) -> Option<&'static str> {
        self.0.offline
    }

    pub(super) const fn entry(self) -> &'static Entry {
        self.0
    }

    /// Reads a setting, for example `pruning=off`.
    ///
    /// # Errors
    ///
    /// If the strategy has no such setting or it takes other values.
    pub fn set(
        self,
        settings: Settings,
        name: &str,
        value: &str,
    ) -> Result<Settings, SettingError> {
        let found = self.settings().iter().find(|it| it.name == name);
        let setting = found.ok_or_else(|| SettingError::Unknown {
            strategy: self,
            name: name.to_owned(),
        })?;
        let read = match (setting.kind, value) {
            (Kind::Switch(_), "on") => Some(1),
            (Kind::Switch(_), "off") => Some(0),
            (Kind::Switch(_), _) => None,
            (Kind::Count(_), text) => text.parse().ok().filter(|&count| count > 0),
            (Kind::Amount(_), text) => text.parse().ok(),
            (Kind::Word(words), text) => {
                let place = words.iter().position(|word| *word == text);
                place.map(|place| place as u64)
            }
        };
        match read {
            Some(read) => Ok(settings.with(setting.name, read)),
            None => Err(SettingError::Value {
                strategy: self,
                name: setting.name,
                takes: setting.kind.takes(),
                value: value.to_owned(),
            }),
        }
    }

    /// Refuses what was set of another strategy.
    pub(super) fn check(self, settings: &Settings) -> Result<(), SettingError> {
        for &(name, _) in settings.0.iter().flatten() {
            if self.settings().iter().all(|setting| setting.name != name) {
                return Err(SettingError::Unknown {
                    strategy: self,
                    name: name.to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// Spells out successors as steps.
pub(super) fn steps(world: &Space, successors: &[u32]) -> Vec<StepIds> {
    successors.iter().map(|&at| world.step_of(at)).collect()
}

impl Found {
    /// Claims something of the path that takes these successors from a state.
    pub(super) fn at(world: &Space, start: &[u32], successors: &[u32], claim: Claim) -> Self {
        let mut words = start.to_vec();
        for &successor in successors {
            world.tables().patch(&mut words, successor);
        }
        Self {
            claim,
            path: steps(world, successors),
            end: Some(words),
        }
    }
}

impl Kind {
    /// Says what it takes.
    pub const fn takes(self) -> &'static str {
        match self {
            Self::Switch(_) => "`on` or `off`",
            Self::Count(_) => "a number, at least 1",
            Self::Amount(_) => "a number",
            Self::Word(_) => "one of the words its help names",
        }
    }

    fn usual(self) -> u64 {
        match self {
            Self::Switch(on) => u64::from(on),
            Self::Count(count) | Self::Amount(count) => count,
            Self::Word(_) => 0,
        }
    }
}

impl fmt::Display for Kind {
    /// Writes the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(true) => f.write_str("on"),
            Self::Switch(false) => f.write_str("off"),
            Self::Count(count) | Self::Amount(count) => write!(f, "{count}"),
            Self::Word(words) => f.write_str(words[0]),
        }
    }
}

impl Settings {
    /// Nothing was set but these switches and counts. For code that names them itself: texts are read by
    /// [`Strategy::set`].
    pub fn of(chosen: &[(&'static str, u64)]) -> Self {
        chosen
            .iter()
            .fold(Self::default(), |all, &(name, value)| all.with(name, value))
    }

    fn with(mut self, name: &'static str, value: u64) -> Self {
        let at = self
            .0
            .iter()
            .position(|it| it.is_none_or(|(known, _)| known == name));
        let at = at.expect("no strategy has more settings than there is room for");
        self.0[at] = Some((name, value));
        self
    }

    /// Returns a number that was set, or its default.
    pub(super) fn count(&self, setting: &Setting) -> u64 {
        let chosen = self
            .0
            .iter()
            .flatten()
            .find(|(name, _)| *name == setting.name);
        chosen.map_or_else(|| setting.kind.usual(), |&(_, value)| value)
    }

    /// Tells whether something is switched on.
    pub(super) fn is_on(&self, setting: &Setting) -> bool {
        self.count(setting) != 0
    }
}

impl fmt::Debug for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl PartialEq for Strategy {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Strategy {}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::all().find(|strategy| strategy.name() == text);
        found.ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_and_settings_read() {
        for strategy in Strategy::all() {
            assert_eq!(strategy.name().parse(), Ok(strategy));
            assert!(strategy.settings().len() <= SETTINGS_MAX);
            for setting in strategy.settings() {
                let parts: Vec<&str> = setting.name.split('.').collect();
                assert!(parts.len() <= 2 && !parts.contains(&""), "{}", setting.name);
            }
        }
        let unknown = "depht"
            .parse::<Strategy>()
            .expect_err("no such")
            .to_string();
        assert!(
            unknown.starts_with("there is no strategy `depht`; there are exhaustive, "),
            "{unknown}"
        );
        let strategy = Strategy::CONSEQUENCE;
        let off = strategy.set(Settings::default(), "pruning", "off");
        assert_eq!(off, Ok(Settings::of(&[("pruning", 0)])));
        let wrong = strategy
            .set(Settings::default(), "pruning", "no")
            .expect_err("it is refused");
        assert_eq!(
            wrong.to_string(),
            "`pruning` of consequence is `on` or `off`, not `no`"
        );
        let other = Strategy::EXHAUSTIVE
            .set(Settings::default(), "pruning", "off")
            .expect_err("it is refused");
        assert_eq!(
            other.to_string(),
            "exhaustive has no setting `pruning`; it has fault-recovery and cycles (`pruning` is of consequence)"
        );
    }
}
