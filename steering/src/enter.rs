//! The one line in a service's `main` that lets its own executable be started again as checker or speculator.

use crate::checker::process;
use crate::safety;
use scry_engine::service::Service;

/// The environment variable by which an agent gives a process its role.
pub const ROLE_VARIABLE: &str = "SCRY_ROLE";

/// The process was started in a role that this version does not know (`EX_USAGE`).
const EXIT_UNKNOWN_ROLE: i32 = 64;

/// Returns at once in a normal start; plays another role, and never returns, if an agent started this process for one.
///
/// Call it first in `main`, before there are threads: a checker shuts itself off from files and network.
pub fn enter<S: Service>() {
    let Some(role) = std::env::var_os(ROLE_VARIABLE) else {
        return;
    };
    match role.to_str() {
        Some("checker") => process::main::<S>(),
        Some("speculator") => {
            safety::serve::<S>();
            std::process::exit(0);
        }
        _ => {
            eprintln!("{ROLE_VARIABLE}={}: there is no such role", role.display());
            std::process::exit(EXIT_UNKNOWN_ROLE);
        }
    }
}
