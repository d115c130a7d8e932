//! Moves corpora between their files and the folders that an engine works in, for `tests/fuzz/run`.
//!
//! ```text
//! scry-fuzz list                  the targets, each with the longest input worth trying
//! scry-fuzz unpack TARGET FOLDER  writes the corpus as one file for each input
//! scry-fuzz pack TARGET FOLDER    makes the files of a folder the corpus
//! scry-fuzz replay TARGET FILE    runs one input
//! ```

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use scry_fuzz::{Target, corpus, targets};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["list"] => targets().for_each(|target| println!("{} {}", target.name, target.bytes_max)),
        ["unpack", target, folder] => {
            fs::create_dir_all(folder)?;
            // A target that is new has no corpus yet.
            let inputs = corpus::read(find(target)?.name).unwrap_or_default();
            for (at, input) in inputs.iter().enumerate() {
                fs::write(Path::new(folder).join(format!("kept-{at}")), input)?;
            }
        }
        ["pack", target, folder] => {
            let entries = fs::read_dir(folder)?;
            let read = entries.map(|entry| fs::read(entry?.path()));
            corpus::write(find(target)?.name, read.collect::<Result<_, _>>()?)?;
        }
        ["replay", target, file] => (find(target)?.run)(&fs::read(file)?),
        _ => return Err("what is asked for? see tests/fuzz/src/main.rs".into()),
    }
    Ok(())
}

fn find(name: &str) -> Result<&'static Target, String> {
    let found = targets().find(|target| target.name == name);
    found.ok_or_else(|| format!("there is no target {name}"))
}
