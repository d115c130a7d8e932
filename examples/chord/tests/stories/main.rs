//! The papers' stories played step by step, and searches that find them by themselves.

mod c1;
mod c2;
mod engine;
mod fixed;
mod healing;
mod liveness;
mod start;
mod world;
