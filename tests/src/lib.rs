//! Helpers shared by the scenario tests.
