//! How much may be done: the lower of the global mode and the property's own.

use scry_protocol::link::host::SetMode;

use super::*;

impl Controller {
    /// Learns that somebody set a mode: of a property, or of everything.
    pub fn handle_mode(&mut self, now: Time, property: Option<&str>, mode: Mode, by: &str) {
        self.log(What::Mode {
            mode: Word(mode),
            property: property.map(str::to_owned),
            by: by.to_owned(),
        });
        self.settled = None;
        match property {
            Some(property) => {
                self.options
                    .property_modes
                    .insert(property.to_owned(), mode);
                self.tell_rules();
            }
            None => {
                self.options.mode = mode;
                self.tell_mode(mode);
            }
        }
        self.lower_filters(now);
    }

    /// Returns how much may be done about a property.
    pub fn mode_of(&self, property: &str) -> Mode {
        match self.options.property_modes.get(property) {
            Some(&own) => own.min(self.options.mode),
            None => self.options.mode,
        }
    }

    pub(super) fn tell_mode(&mut self, mode: Mode) {
        if self.host.is_some() {
            self.outputs
                .push_back(Output::Host(SetMode { mode }.into()));
        }
    }

    /// Withdraws the filters that may do more than is allowed now. Those that may do less stay as they are until a run
    /// proves them again.
    pub(super) fn lower_filters(&mut self, now: Time) {
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
    }
}
