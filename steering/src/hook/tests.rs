//! The hook as its users see it, with a small agent at the other end of a real socket.

mod filters;
mod link;
mod number;
mod rig;
mod switches;
mod traffic;
