//! The `scry` binary.

fn main() {
    println!("scry {}", env!("CARGO_PKG_VERSION"));
}
