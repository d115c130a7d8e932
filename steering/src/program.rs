//! What a service adds to be run from the command line: its scenarios and its known bugs.

use std::collections::BTreeSet;

use scry_protocol::NodeId;

use scry_engine::model::System;
use scry_engine::service::Service;

/// A known bug that can be switched on.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// The name on the command line.
    pub name: &'static str,
    /// One line on what goes wrong.
    pub about: &'static str,
}

/// A situation to start from.
pub struct Scenario<S: Program> {
    /// The name on the command line.
    pub name: &'static str,
    /// One line on what it shows.
    pub about: &'static str,
    /// Makes the system, or says what is wrong with the options.
    pub build: fn(&Request<'_, S>) -> Result<System<S>, String>,
}

/// What the command line asked of a scenario.
#[derive(Debug)]
pub struct Request<'a, S: Program> {
    /// The bugs that are switched on.
    pub bugs: &'a BTreeSet<&'static str>,
    /// How many nodes, if the command line says so.
    pub nodes: Option<u32>,
    /// The service's own options.
    pub options: &'a S::Options,
}

/// A service that can be run by [`scry::main`](crate::cli::main).
pub trait Program: Service {
    /// Options of the service's own, shown beside the common ones.
    type Options: clap::Args + std::fmt::Debug + Clone + Send + Sync + 'static;

    /// One line on what the service is.
    const ABOUT: &'static str;

    /// Lists the bugs that `--bug` knows.
    fn bugs() -> &'static [Bug] {
        &[]
    }

    /// Returns the settings of one node of a live deployment with these members and bugs, or `None` if the command line
    /// has to say them all. What it says beside them wins.
    fn setup(me: NodeId, members: &[NodeId], bugs: &BTreeSet<&'static str>) -> Option<Self::Setup> {
        let _ = (me, members, bugs);
        None
    }

    /// Lists the scenarios that `--scenario` knows. The first is the default.
    fn scenarios() -> Vec<Scenario<Self>>;
}

impl<S: Program> Request<'_, S> {
    /// Tells whether a bug is switched on.
    pub fn has_bug(&self, name: &str) -> bool {
        self.bugs.contains(name)
    }
}

impl<S: Program> std::fmt::Debug for Scenario<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
