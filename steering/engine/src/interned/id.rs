//! One integer type per kind of interned value, so that none is taken for another.

/// An integer that stands for an interned value.
pub trait Id: Copy + Eq + std::fmt::Debug {
    /// Wraps a position.
    ///
    /// # Panics
    ///
    /// When there are more values than the id can number.
    fn from_index(index: usize) -> Self;
    /// Returns the position.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(u32);

        impl $name {
            /// The id of whatever is interned first.
            pub const ZERO: Self = Self(0);
        }

        impl Id for $name {
            fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than four billion interned values"))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// What the handlers of one node see: service state, timers, ticks.
    LocalId,
    /// The same without the node: equal at two nodes that are in the same state.
    PlainId,
    /// A message.
    MessageId,
    /// A timer.
    TimerId,
    /// A call of the application.
    CallId,
    /// One way the dice fell.
    TossesId,
    /// A node's view of its connections.
    LinksId,
    /// What is on its way to a node.
    InboxId,
    /// What one step leaves for one node.
    BundleId,
    /// A node with its connections and inbox: one word of a global state.
    NodeStateId,
    /// A node's local state and the peers it is connected to: what internal actions depend on.
    ActorId,
    /// An event at a node.
    EventId,
    /// A projected value of a property.
    ProjectionId,
}
