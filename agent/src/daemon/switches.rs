//! What an operator or a signal says about modes, and what holds everything off: a file, or the environment of the agent. What
//! counts of it the controller decides.

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
use crate::controller::HoldChange;
use crate::link::shown;

impl Node {
    /// Looks whether anything holds everything off.
    pub(super) fn look_for_switches(&mut self, now: Time) {
        let files = files(&self.loaded.configuration, &self.file);
        let environment = std::env::var_os(SWITCH_VARIABLE);
        let by = holder(&files, environment.as_deref());
        match self.controller.handle_held_off(now, by) {
            Some(HoldChange::Begun) => {
                let by = self.controller.held_off_by();
                warn!("nothing is steered: {}", by.unwrap_or_default());
            }
            Some(HoldChange::Over { by, mode }) => {
                info!(%mode, "nothing holds steering off any more: {by} no longer");
            }
            None => {}
        }
    }

    /// Does what a signal asks for.
    pub(super) fn steer_off(&mut self, now: Time) {
        warn!("nothing is steered from now on: a signal (SIGUSR1) says so");
        self.controller.handle_signal(now);
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
        let change = self
            .controller
            .handle_operator(now, property.as_deref(), mode)
            .map_err(|unknown| unknown.to_string())?;
        Ok(ModeSet {
            property,
            mode: Word(change.allowed.mode),
            why: change.why,
            filters_fell: change.filters_fell,
        })
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
