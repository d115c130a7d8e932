//! The command line of the Chord example.

use chord::Chord;
use scry::Program;

fn main() {
    println!("{}", Chord::ABOUT);
    for scenario in Chord::scenarios() {
        println!("  {:<10}{}", scenario.name, scenario.about);
    }
}
