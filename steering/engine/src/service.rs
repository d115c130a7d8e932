//! What the author of a service writes: one trait, the same for the live runtime, the checker and a unit test.
//!
//! How the handlers reach the world is [`Context`]'s subject; who calls them is the business of the engine, the
//! runtime or a test.

use std::fmt::Debug;
use std::hash::Hash;

use scry_protocol::NodeId;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use scry_protocol::Transport;

use crate::context::Context;
use crate::model::event::Step;
use crate::property::Property;

/// A plain value that can be compared, stored and sent: what messages, timers and calls are made of.
pub trait Value:
    Clone + Eq + Hash + Ord + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<T: Clone + Eq + Hash + Ord + Debug + Serialize + DeserializeOwned + Send + Sync + 'static>
    Value for T
{
}

/// What a service does about a prediction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Handling {
    /// Nothing: the filters that would prevent it are installed.
    Default,
    /// It took care of it: no filter is installed.
    Handled,
}

/// A violation that a search predicts for a service.
#[derive(Debug)]
pub struct Prediction<S: Service> {
    /// The property that would be broken.
    pub property: String,
    /// What would be wrong, in words; empty if the property cannot say.
    pub explanation: String,
    /// The steps that lead there.
    pub path: Vec<Step<S>>,
}

/// One node of a distributed service, as a state machine.
///
/// The value itself is the node's volatile state. A handler is a function of (state, event, choices): everything it
/// does to the world goes through its [`Context`], where it is collected and performed by whoever called.
///
/// What can happen to a node, in which order, and what counts as a step of a path, is told in [`model`](crate::model).
///
/// Several services stacked on one node are one `Service` that owns the others as fields and hands them a context of
/// their own with [`Context::within`].
pub trait Service:
    Clone + Eq + Hash + Debug + Serialize + DeserializeOwned + Send + Sync + Sized + 'static
{
    /// What nodes say to each other.
    type Message: Value;
    /// Which timers exist: a small enum.
    type Timer: Value;
    /// What the application above may ask of a node.
    type Call: Value;
    /// Static settings a node is started with. They are not state: handlers read them by [`Context::setup`].
    type Setup: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What survives a reset; `()` for a service that keeps nothing.
    type Disk: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Boots a node: with nothing on its first start, with what its last incarnation left on disk after a reset.
    fn start(cx: &mut Context<'_, Self>, disk: Option<Self::Disk>) -> Self;

    /// Handles a message.
    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Self::Message);

    /// Handles a timer that fired. It is no longer armed; a periodic timer sets itself again.
    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Self::Timer);

    /// Handles a call of the application.
    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: Self::Call);

    /// Learns that the connection to `peer` failed or was closed by the other side, or that nobody is there.
    ///
    /// The news can be late, and a filter may make it later: until then, what is sent to `peer` on that connection is lost.
    fn on_disconnect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let _ = (cx, peer);
    }

    /// Learns that a violation is predicted, and may take its own measures instead of the filters'.
    fn on_prediction(
        &mut self,
        cx: &mut Context<'_, Self>,
        prediction: &Prediction<Self>,
    ) -> Handling {
        let _ = (cx, prediction);
        Handling::Default
    }

    /// Returns what would be found on disk if the node were reset now.
    fn disk(&self) -> Self::Disk;

    /// Returns the calls an application might make in this state. The checker tries each.
    fn calls(&self, me: NodeId, setup: &Self::Setup) -> Vec<Self::Call> {
        let _ = (me, setup);
        Vec::new()
    }

    /// Returns the nodes whose state matters to this one, or `None` if the service does not know (CrystalBall §3.1).
    ///
    /// The agent looks at 127 of them unless its `neighborhood.neighbors_max` says otherwise; of more it takes the first as
    /// they are listed here, and tells how many it left out.
    fn neighbors(&self, me: NodeId, setup: &Self::Setup) -> Option<Vec<NodeId>> {
        let _ = (me, setup);
        None
    }

    /// Lists the properties the service brings along. A property file may name them, or replace them.
    fn properties() -> Vec<Property<Self>> {
        Vec::new()
    }

    /// Returns how a message travels.
    fn transport(message: &Self::Message) -> Transport {
        let _ = message;
        Transport::Datagram
    }
}
