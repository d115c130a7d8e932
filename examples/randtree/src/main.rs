//! Names what RandTree offers on the command line: its scenarios and its bugs.

use randtree::RandTree;
use scry::Program;

fn main() {
    println!("{}", RandTree::ABOUT);
    println!("\nscenarios");
    for scenario in RandTree::scenarios() {
        println!("  {:<15} {}", scenario.name, scenario.about);
    }
    println!("\nbugs");
    for bug in RandTree::bugs() {
        println!("  {:<15} {}", bug.name, bug.about);
    }
}
