//! A service that counts too far, and may learn of it in time.

use std::collections::BTreeSet;

use scry::{
    Context, Handling, NodeId, Prediction, Program, Property, Request, Scenario, Service, System,
};
use serde::{Deserialize, Serialize};

/// The property that a pupil breaks.
pub(crate) const SMALL: &str = "the count is small";
/// The first count that is too large.
const TOO_LARGE: u32 = 3;

/// A node that counts.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pupil {
    count: u32,
    /// Whether it takes care not to count too far.
    careful: bool,
    /// Whether it looks out of the window: it has something to do when it may not count.
    dreams: bool,
}

/// What it may be asked.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Call {
    /// To count on.
    Count,
    /// To look out of the window, or back.
    Dream,
}

/// How it is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Whether it handles predictions itself.
    handles: bool,
}

impl Service for Pupil {
    type Message = ();
    type Timer = ();
    type Call = Call;
    type Setup = Setup;
    type Disk = ();

    fn start(_: &mut Context<'_, Self>, _: Option<()>) -> Self {
        Self {
            count: 0,
            careful: false,
            dreams: false,
        }
    }

    fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, (): ()) {}

    fn on_timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}

    fn on_call(&mut self, _: &mut Context<'_, Self>, call: Call) {
        if call == Call::Dream {
            self.dreams = !self.dreams;
            return;
        }
        let last = if self.careful {
            TOO_LARGE - 1
        } else {
            TOO_LARGE
        };
        self.count = (self.count + 1).min(last);
    }

    fn on_prediction(
        &mut self,
        cx: &mut Context<'_, Self>,
        prediction: &Prediction<Self>,
    ) -> Handling {
        let known = prediction.property == SMALL && !prediction.path.is_empty();
        if !cx.setup().handles || !known {
            return Handling::Default;
        }
        self.careful = true;
        Handling::Handled
    }

    fn disk(&self) {}

    fn calls(&self, _: NodeId, _: &Setup) -> Vec<Call> {
        vec![Call::Count, Call::Dream]
    }

    fn neighbors(&self, _: NodeId, _: &Setup) -> Option<Vec<NodeId>> {
        Some(Vec::new())
    }

    fn properties() -> Vec<Property<Self>> {
        vec![Property::node(SMALL, |view: &scry::View<'_, Self>| {
            view.state.count < TOO_LARGE
        })]
    }
}

/// A pupil has no options of its own.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {}

impl Program for Pupil {
    type Options = Options;

    const ABOUT: &'static str = "A node that counts";

    fn setup(_: NodeId, _: &[NodeId], _: &BTreeSet<&'static str>) -> Option<Setup> {
        None
    }

    fn scenarios() -> Vec<Scenario<Self>> {
        vec![Scenario {
            name: "start",
            about: "a pupil that has not counted yet",
            build: |_: &Request<'_, Self>| {
                let setup = Setup { handles: false };
                Ok(System::new([(NodeId::new(1), setup)]))
            },
        }]
    }
}
