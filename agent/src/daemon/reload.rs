//! Another configuration for a running agent: all of it, or nothing.

use scry::checkpoint::Time;
use scry_protocol::record::What;
use tracing::{error, info};

use super::node::Node;
use super::{Reloaded, options};
use crate::configuration::{Loaded, environment};

impl Node {
    /// Reads the configuration again, and keeps the old one if the new one is bad.
    pub(super) fn reload(&mut self, now: Time) -> Result<Reloaded, String> {
        self.notifier.tell("RELOADING=1");
        let outcome = match Loaded::load(&self.file, &environment()) {
            Ok(new) => {
                let needs_restart = self.loaded.needs_restart(&new);
                self.adopt(now, new, &needs_restart);
                self.standing.reloads += 1;
                info!(
                    hash = self.loaded.hash,
                    ?needs_restart,
                    "the configuration was loaded anew"
                );
                Ok(Reloaded {
                    hash: self.loaded.hash.clone(),
                    needs_restart,
                })
            }
            Err(wrong) => {
                self.standing.reloads_failed += 1;
                error!("the new configuration is bad, the old one stays:\n{wrong}");
                Err(wrong.to_string())
            }
        };
        let reload = What::ConfigReload {
            loaded: outcome.is_ok(),
            configuration: self.loaded.hash.clone(),
            why: outcome.as_ref().err().cloned(),
        };
        self.journal.record(now, reload.into());
        self.notifier.tell("READY=1");
        outcome
    }

    fn adopt(&mut self, now: Time, new: Loaded, needs_restart: &[&'static str]) {
        self.standing.needs_restart = needs_restart.to_vec();
        if let Some(peers) = &self.peers {
            peers.set_known(&new.configuration.peers.known);
        }
        self.checker.set(options::checker(&new.configuration));
        let options = options::controller(&new, &self.file);
        self.controller.handle_options(now, options);
        self.loaded = new;
        // It may name other files.
        self.look_for_switches(now);
    }
}
