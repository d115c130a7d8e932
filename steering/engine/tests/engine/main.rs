//! The engine and its strategies against plain values: generated services, the requirements by their ids, and the
//! defects known of peers.

mod cycles;
mod differential;
mod limits;
mod liveness;
mod local;
mod network;
mod peers_defects;
mod random_walk;
mod reference;
mod requirements;
mod scale;
mod settings;
mod stack;
mod table;
mod toys;
mod walk;
mod walk_attacks;
mod walk_paper;
