//! The mode of everything: what an operator, a signal or the configuration says, and what holds everything off whatever
//! they say: a file, or the environment of the agent.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use scry::checkpoint::Time;
use scry::hook::{SWITCH_VARIABLE, forbids_steering, is_switched_off};
use scry_protocol::filter::Mode;
use scry_protocol::record::Word;
use tracing::{info, warn};

use super::ModeSet;
use super::node::Node;
use crate::configuration::Configuration;
use crate::link::shown;

/// Something holds everything off.
pub(super) struct Hold {
    /// What, for people.
    pub(super) by: String,
    /// The mode that counts when it is over.
    pub(super) mode: Mode,
}

/// Who set the global mode.
#[derive(Clone, Copy, Default)]
pub(super) enum ModeBy {
    /// The configuration.
    #[default]
    Configuration,
    /// A command.
    Operator,
    /// SIGUSR1.
    Signal,
}

impl ModeBy {
    /// Says who, for people.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Configuration => "the configuration says so",
            Self::Operator => "an operator set it",
            Self::Signal => "a signal (SIGUSR1) set it",
        }
    }
}

impl Node {
    /// Does nothing while something holds everything off, and goes on as before when nothing does.
    pub(super) fn look_for_switches(&mut self, now: Time) {
        let files = files(&self.loaded.configuration, &self.file);
        let environment = std::env::var_os(SWITCH_VARIABLE);
        match (
            holder(&files, environment.as_deref()),
            self.standing.held.take(),
        ) {
            (Some(by), None) => {
                warn!("nothing is steered: {by}");
                let mode = self.controller.options().mode;
                self.set_mode(now, Mode::Off, &by);
                self.standing.held = Some(Hold { by, mode });
            }
            (Some(by), Some(hold)) => self.standing.held = Some(Hold { by, ..hold }),
            (None, Some(hold)) => {
                info!(mode = %hold.mode, "nothing holds steering off any more: {} no longer", hold.by);
                self.set_mode(now, hold.mode, "what held it off is gone");
            }
            (None, None) => {}
        }
    }

    /// Does what a signal asks for: nothing more, until somebody says otherwise.
    pub(super) fn steer_off(&mut self, now: Time) {
        warn!("nothing is steered from now on: a signal (SIGUSR1) says so");
        self.standing.mode_by = ModeBy::Signal;
        match &mut self.standing.held {
            Some(hold) => hold.mode = Mode::Off,
            None => self.set_mode(now, Mode::Off, "a signal"),
        }
    }

    fn set_mode(&mut self, now: Time, mode: Mode, by: &str) {
        // A mode of everything has no name that could be wrong.
        let _ = self.controller.handle_mode(now, None, mode, by);
    }

    /// Sets what an operator wants, and tells what counts now.
    pub(super) fn set_operator_mode(
        &mut self,
        now: Time,
        property: Option<String>,
        mode: Mode,
    ) -> Result<ModeSet, String> {
        info!(
            %mode,
            property = property.as_deref().map(shown),
            "an operator set the mode"
        );
        if property.is_none() {
            self.standing.mode_by = ModeBy::Operator;
            if let Some(hold) = &mut self.standing.held {
                hold.mode = mode;
                let why = match mode {
                    Mode::Off => hold.by.clone(),
                    mode => format!("{}; {mode} counts when that is over", hold.by),
                };
                return Ok(ModeSet {
                    property,
                    mode: Word(Mode::Off),
                    why: Some(why),
                    filters_fell: 0,
                });
            }
        }
        let change = self
            .controller
            .handle_operator(now, property.as_deref(), mode)
            .map_err(|unknown| unknown.to_string())?;
        let allowed = change.allowed;
        let why = match &self.standing.held {
            Some(hold) => Some(hold.by.clone()),
            None => allowed.why.filter(|_| allowed.mode != mode),
        };
        Ok(ModeSet {
            property,
            mode: Word(allowed.mode),
            why: why.or_else(|| self.host_held_off()),
            filters_fell: change.filters_fell,
        })
    }

    /// Says what forbids steering at the service itself, if anything.
    fn host_held_off(&self) -> Option<String> {
        let by = self.controller.status(self.now()).host?.held_off_by?;
        Some(format!("but the service acts on nothing: {by}"))
    }
}

/// Returns the files that forbid steering, as whole paths: the same for the agent and for the service beside it.
pub(super) fn files(configuration: &Configuration, file: &Path) -> Vec<PathBuf> {
    let steering = &configuration.steering;
    let folder = file.parent().unwrap_or(Path::new(""));
    [&steering.kill_file, &steering.switch_file]
        .into_iter()
        .filter(|path| !path.as_os_str().is_empty())
        .filter_map(|path| std::path::absolute(folder.join(path)).ok())
        .collect()
}

/// Tells what holds everything off now, for people.
pub(super) fn holder(files: &[PathBuf], environment: Option<&OsStr>) -> Option<String> {
    if is_switched_off(environment) {
        return Some(format!(
            "the agent's environment says {SWITCH_VARIABLE}=off"
        ));
    }
    let file = files.iter().find(|file| forbids_steering(file))?;
    Some(format!("the kill file {} is there", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_everything_off_unless_it_says_on() {
        let folder = std::env::temp_dir().join(format!("scry-switches-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("off");
        let files = [folder.join("other"), file.clone()];
        assert_eq!(holder(&files, None), None, "it is not there");
        for (content, holds) in [
            ("", true),
            ("off\n", true),
            ("on\n", false),
            (" ON ", false),
            ("only", true),
        ] {
            std::fs::write(&file, content).unwrap();
            assert_eq!(holder(&files, None).is_some(), holds, "{content:?}");
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(holder(&files, None).is_some(), "a folder says nothing");
        std::fs::remove_dir(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(holder(&files, None).is_some(), "nobody waits at a pipe");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_environment_comes_first() {
        let why = holder(&[], Some(OsStr::new("off")));
        assert_eq!(
            why.as_deref(),
            Some("the agent's environment says SCRY_STEER=off")
        );
        assert_eq!(holder(&[], Some(OsStr::new("on"))), None);
    }

    #[test]
    fn paths_start_from_the_configurations_folder() {
        let mut configuration = Configuration::default();
        configuration.steering.kill_file = "off".into();
        configuration.steering.switch_file = "/etc/switch/off".into();
        let found = files(&configuration, Path::new("/etc/scry/scry.toml"));
        assert_eq!(
            found,
            [Path::new("/etc/scry/off"), Path::new("/etc/switch/off")]
        );
    }
}
