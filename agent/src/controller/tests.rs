//! The controller through its public face.
