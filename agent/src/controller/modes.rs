//! How much may be done about a property: the lowest of what the global mode, the property file, the configuration and an
//! operator allow, and audit if it did too much harm.
//!
//! Modes are set by name, and a name that no property has is an error: with a property file its names are the ones there
//! are, without one those that the service brings along, which the checker tells when it is up.

use scry::interned::PANIC_PROPERTY;
use scry::properties::closest;
use scry_protocol::limit::PROPERTIES_MAX;
use scry_protocol::link::host::SetMode;

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
    /// Learns that an operator set a mode. Those that did too much harm get another chance if they are to steer.
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
        if mode == Mode::Steer {
            self.harm.forgive(property);
        }
        self.handle_mode(now, property, mode, "an operator")
    }

    /// Learns that a mode was set: of a property, or of everything. Tells how much may be done now.
    ///
    /// # Errors
    ///
    /// When there is no property of that name.
    pub fn handle_mode(
        &mut self,
        now: Time,
        property: Option<&str>,
        mode: Mode,
        by: &str,
    ) -> Result<ModeChange, UnknownProperty> {
        if let Some(property) = property {
            self.check_name(property)?;
        }
        self.log(What::Mode {
            mode: Word(mode),
            property: property.map(str::to_owned),
            by: by.to_owned(),
        });
        self.settled = None;
        match property {
            Some(property) => {
                self.set_modes.insert(property.to_owned(), mode);
            }
            None => {
                self.options.mode = mode;
                self.tell_mode(mode);
            }
        }
        self.tell_rules();
        let filters_fell = self.lower_filters(now);
        let allowed = match property {
            Some(property) => self.allowed(property),
            None => Allowed { mode, why: None },
        };
        Ok(ModeChange {
            allowed,
            filters_fell,
        })
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
