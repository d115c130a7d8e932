//! How much may be done about a property: the lowest of what the global mode, the property file, the configuration and an
//! operator allow, for what must come true again and again also of `checker.liveness`, and audit if it did too much harm.
//!
//! The global mode is the last that the configuration, an operator or a signal set; a kill switch holds everything off
//! whatever was set, and when it is gone, what was set last counts.
//!
//! Modes are set by name, and a name that no property has is an error: with a property file its names are the ones there
//! are, without one those that the service brings along, which the checker tells when it is up.

use scry::interned::PANIC_PROPERTY;
use scry::properties::closest;
use scry_protocol::limit::PROPERTIES_MAX;
use scry_protocol::link::host::{Held, SetMode};

use super::*;

/// How many names an error lists.
const NAMES_SHOWN_MAX: usize = 16;

/// How much may be done about a property.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Allowed {
    /// The mode that counts.
    pub mode: Mode,
    /// What keeps it from being higher, for people; nothing if it is the highest.
    pub why: Option<String>,
}

/// What became of a mode that was set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ModeChange {
    /// How much may be done now.
    pub allowed: Allowed,
    /// How many filters fell because of it.
    pub filters_fell: usize,
    /// Why that is not what was set, or does nothing at the service, if so; for people.
    pub why: Option<String>,
}

/// Who set the global mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ModeBy {
    /// The configuration.
    Configuration,
    /// A command.
    Operator,
    /// SIGUSR1.
    Signal,
}

impl ModeBy {
    /// Says who, for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Configuration => "the configuration says so",
            Self::Operator => "an operator set it",
            Self::Signal => "a signal (SIGUSR1) set it",
        }
    }
}

/// The mode of everything, and where it comes from. What counts of it is the mode in the controller's options.
#[derive(Debug)]
pub(super) struct GlobalMode {
    /// What was set last.
    set: Mode,
    by: ModeBy,
    /// What the configuration said last: only something new sets the mode again.
    configured: Mode,
    /// What holds everything off, for people.
    held_off_by: Option<String>,
}

/// What became of a kill switch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HoldChange {
    /// Everything is held off from now on.
    Begun,
    /// Nothing holds everything off any more.
    Over {
        /// What did.
        by: String,
        /// The mode that counts again.
        mode: Mode,
    },
}

impl GlobalMode {
    pub(super) fn new(configured: Mode) -> Self {
        Self {
            set: configured,
            by: ModeBy::Configuration,
            configured,
            held_off_by: None,
        }
    }

    /// Takes in what the configuration says now, and returns what counts.
    pub(super) fn configure(&mut self, configured: Mode) -> Mode {
        if self.configured != configured {
            self.configured = configured;
            self.set = configured;
            self.by = ModeBy::Configuration;
        }
        match self.held_off_by {
            Some(_) => Mode::Off,
            None => self.set,
        }
    }
}

/// A name that no property has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no property {name:?}{hint}")]
pub struct UnknownProperty {
    name: String,
    /// What was probably meant, and what there is.
    hint: String,
}

impl Controller {
    /// Learns that an operator set a mode, of a property or of everything, and tells how much may be done now. Those that did
    /// too much harm get another chance if they are to steer.
    ///
    /// # Errors
    ///
    /// When there is no property of that name.
    pub fn handle_operator(
        &mut self,
        now: Time,
        property: Option<&str>,
        mode: Mode,
    ) -> Result<ModeChange, UnknownProperty> {
        const BY: &str = "an operator";
        if let Some(property) = property {
            self.check_name(property)?;
        } else if let Some(by) = self.global.held_off_by.clone() {
            self.global.set = mode;
            self.global.by = ModeBy::Operator;
            let why = match mode {
                Mode::Off => by,
                mode => format!("{by}; {mode} counts when that is over"),
            };
            return Ok(ModeChange {
                allowed: Allowed {
                    mode: Mode::Off,
                    why: Some(why.clone()),
                },
                filters_fell: 0,
                why: Some(why),
            });
        }
        if mode == Mode::Steer {
            self.harm.forgive(property);
        }
        let (allowed, filters_fell) = match property {
            Some(property) => {
                self.log_mode(Some(property), mode, BY);
                self.set_modes.insert(property.to_owned(), mode);
                let filters_fell = self.apply_modes(now);
                (self.allowed(property), filters_fell)
            }
            None => {
                self.global.set = mode;
                self.global.by = ModeBy::Operator;
                let filters_fell = self.set_global(now, mode, BY);
                (Allowed { mode, why: None }, filters_fell)
            }
        };
        let lower = allowed.why.clone().filter(|_| allowed.mode != mode);
        let why = self.global.held_off_by.clone().or(lower);
        Ok(ModeChange {
            why: why.or_else(|| self.held_off_at_host()),
            allowed,
            filters_fell,
        })
    }

    /// Learns that a signal says to do nothing any more, until somebody says otherwise.
    pub fn handle_signal(&mut self, now: Time) {
        self.global.set = Mode::Off;
        self.global.by = ModeBy::Signal;
        if self.global.held_off_by.is_none() {
            self.set_global(now, Mode::Off, "a signal");
        }
    }

    /// Learns what holds everything off now, for people; `None` if nothing does. It is above everything that was or will be
    /// set. Tells what that changed.
    pub fn handle_held_off(&mut self, now: Time, by: Option<String>) -> Option<HoldChange> {
        let before = std::mem::replace(&mut self.global.held_off_by, by.clone());
        match (before, by) {
            (None, Some(by)) => {
                self.set_global(now, Mode::Off, &by);
                Some(HoldChange::Begun)
            }
            (Some(by), None) => {
                let mode = self.global.set;
                self.set_global(now, mode, "what held it off is gone");
                Some(HoldChange::Over { by, mode })
            }
            (Some(_), Some(_)) | (None, None) => None,
        }
    }

    /// Returns what holds everything off here, if anything, for people.
    pub fn held_off_by(&self) -> Option<&str> {
        self.global.held_off_by.as_deref()
    }

    /// Returns who set the global mode that counts, or will when nothing holds everything off any more.
    pub fn mode_by(&self) -> ModeBy {
        self.global.by
    }

    /// Says what forbids steering at the service itself, if anything.
    fn held_off_at_host(&self) -> Option<String> {
        let held = self.host.as_ref()?.stats.held;
        (held != Held::No).then(|| format!("but the service acts on nothing: {held}"))
    }

    /// Makes a global mode count, and tells how many filters fell.
    fn set_global(&mut self, now: Time, mode: Mode, by: &str) -> usize {
        self.log_mode(None, mode, by);
        self.options.mode = mode;
        self.tell_mode(mode);
        self.apply_modes(now)
    }

    fn log_mode(&mut self, property: Option<&str>, mode: Mode, by: &str) {
        self.log(What::Mode {
            mode: Word(mode),
            property: property.map(str::to_owned),
            by: by.to_owned(),
        });
    }

    /// Tells everybody what may be done now, and tells how many filters fell.
    fn apply_modes(&mut self, now: Time) -> usize {
        self.settled = None;
        self.tell_rules();
        self.lower_filters(now)
    }

    /// Returns how much may be done about a property.
    pub fn mode_of(&self, property: &str) -> Mode {
        self.allowed(property).mode
    }

    /// Returns how much may be done about a property, and what keeps it from being more.
    pub fn allowed(&self, property: &str) -> Allowed {
        let options = &self.options;
        let fallen = self.harm.fallen(property);
        let limits = [
            (Some(options.mode), "the global mode is lower"),
            (
                options.file_modes.get(property).copied(),
                "the property file says so",
            ),
            (
                options.property_modes.get(property).copied(),
                "`[properties.modes]` says so",
            ),
            (
                self.set_modes.get(property).copied(),
                "an operator has set it",
            ),
            (
                self.eventually
                    .contains(property)
                    .then_some(options.liveness),
                "`checker.liveness` says so",
            ),
            (fallen.map(|_| Mode::Audit), ""),
        ];
        let limits = limits
            .into_iter()
            .filter_map(|(mode, why)| Some((mode?, why)));
        let (mode, why) = limits
            .min_by_key(|(mode, _)| *mode)
            .unwrap_or((Mode::Off, ""));
        let why = match (mode, why, fallen) {
            (Mode::Steer, ..) => None,
            (_, "", Some(fallen)) => Some(format!("it did too much harm: {}", fallen.why)),
            (_, why, _) => Some(why.to_owned()),
        };
        Allowed { mode, why }
    }

    /// Learns that a property is one that must come true again and again: how much may be done about it is also for
    /// `checker.liveness` to say.
    pub(super) fn learn_eventually(&mut self, property: &str) {
        if !self.eventually.contains(property) && self.eventually.len() < PROPERTIES_MAX {
            self.eventually.insert(property.to_owned());
        }
    }

    /// Lists the properties that are known by name or have a mode of their own.
    pub fn properties(&self) -> BTreeSet<String> {
        let options = &self.options;
        let modes = options
            .file_modes
            .keys()
            .chain(options.property_modes.keys());
        let fallen = self.harm.all_fallen().iter().map(|fallen| &fallen.property);
        let harmed = self.harm.total().keys().filter(|name| !name.is_empty());
        let mut all: BTreeSet<String> = modes
            .chain(self.set_modes.keys())
            .chain(fallen)
            .chain(harmed)
            .chain(self.unjudged.keys())
            .chain(self.by_property.names())
            .cloned()
            .collect();
        all.extend(self.names().into_iter().flatten().map(str::to_owned));
        all
    }

    /// Returns the names of all properties, if they are known by now.
    fn names(&self) -> Option<BTreeSet<&str>> {
        let names = match &self.options.file_names {
            Some(names) => names,
            None => self.service_names.as_ref()?,
        };
        let names = names.iter().map(String::as_str);
        Some(names.chain([PANIC_PROPERTY]).collect())
    }

    fn check_name(&self, property: &str) -> Result<(), UnknownProperty> {
        let Some(names) = self.names() else {
            // Nobody knows the service's properties yet. When the checker tells them, a wrong name is told.
            return Ok(());
        };
        match names.contains(property) {
            true => Ok(()),
            false => Err(UnknownProperty {
                name: property.to_owned(),
                hint: hint(property, &names),
            }),
        }
    }

    /// Learns which properties the service brings along, and tells of modes for such as it does not.
    pub(super) fn learn_names(&mut self, names: Vec<String>) {
        self.service_names = Some(names.into_iter().collect());
        self.complain_about_names();
    }

    /// Tells of modes for properties that do not exist.
    pub(super) fn complain_about_names(&mut self) {
        let own = &self.options.property_modes;
        let modes = own.keys().chain(self.set_modes.keys());
        let unknown: Vec<String> = modes
            .filter_map(|name| self.check_name(name).err())
            .map(|unknown| format!("a mode is set, but {unknown}"))
            .collect();
        for detail in unknown {
            self.fail_open("property-unknown", 1, detail);
        }
    }

    /// Lists the modes that the host and the checker must know: those of all properties with less than the global one.
    pub(super) fn own_modes(&self) -> Vec<PropertyMode> {
        let options = &self.options;
        let fallen = self.harm.all_fallen().iter().map(|fallen| &fallen.property);
        let names: BTreeSet<&String> = options
            .file_modes
            .keys()
            .chain(options.property_modes.keys())
            .chain(self.set_modes.keys())
            .chain(fallen)
            .collect();
        names
            .into_iter()
            .map(|name| PropertyMode {
                property: name.clone(),
                mode: self.mode_of(name),
            })
            .take(PROPERTIES_MAX)
            .collect()
    }

    /// Properties that do too much harm are in audit from now on.
    pub(super) fn fall_back(&mut self, now: Time, fallen: Vec<harm::Fallen>) {
        for harm::Fallen {
            property,
            why,
            until,
        } in fallen
        {
            self.counts.harm_fallbacks += 1;
            self.log(What::Harm {
                mode: Word(self.mode_of(&property)),
                property,
                why,
                pause_ms: until.map(|until| until.millis_since(now)),
            });
        }
        self.settled = None;
        self.tell_rules();
        self.lower_filters(now);
    }

    /// Properties whose pause is over may do again what they may.
    pub(super) fn end_pauses(&mut self, now: Time) {
        let back = self.harm.handle_timeout(now);
        for fallen in &back {
            self.log(What::Harm {
                mode: Word(self.mode_of(&fallen.property)),
                property: fallen.property.clone(),
                why: "the pause is over".to_owned(),
                pause_ms: None,
            });
        }
        if !back.is_empty() {
            self.settled = None;
            self.tell_rules();
        }
    }

    pub(super) fn tell_mode(&mut self, mode: Mode) {
        if self.host.is_some() {
            self.outputs
                .push_back(Output::Host(SetMode { mode }.into()));
        }
    }

    /// Withdraws the filters that may do more than is allowed now, and tells how many that were. Those that may do less stay
    /// as they are until a run proves them again.
    pub(super) fn lower_filters(&mut self, now: Time) -> usize {
        let above: Vec<FilterId> = self
            .active
            .iter()
            .filter(|(_, active)| active.filter.mode > self.mode_of(&active.filter.property))
            .map(|(id, _)| *id)
            .collect();
        self.withdraw(&above, "mode");
        if self.options.mode == Mode::Off {
            self.cancel_run(now);
        }
        above.len()
    }
}

/// Says what was probably meant, and what there is.
fn hint(wrong: &str, names: &BTreeSet<&str>) -> String {
    let meant = match closest(wrong, names.iter().copied()) {
        Some(close) => format!("; did you mean {close:?}?"),
        None => String::new(),
    };
    let shown: Vec<String> = names
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(|name| format!("{name:?}"))
        .collect();
    let more = match names.len() > NAMES_SHOWN_MAX {
        true => ", …",
        false => "",
    };
    format!("{meant} (there are: {}{more})", shown.join(", "))
}
