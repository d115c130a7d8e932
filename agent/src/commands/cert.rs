//! `scry cert`: certificates for a cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Subcommand;
use scry_protocol::NodeId;

use super::{EXIT_FAILED, EXIT_FINE};
use crate::certificate;

/// How many certificates are made at once.
const NODES_MAX: usize = 10_000;

/// What `cert` can be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Cert {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes an authority and one certificate for each node.
    ///
    /// Writes authority.pem, authority.key and for each node n1.pem and n1.key. A node needs its own two files and
    /// authority.pem; authority.key belongs on none of them. Nothing that exists is overwritten.
    Init {
        /// Where the files go.
        directory: PathBuf,
        /// The nodes: `1..5` for one to five, `1,4,9`, or both.
        #[arg(long, value_parser = nodes)]
        nodes: Nodes,
    },
}

/// Nodes as they are given on a command line.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Nodes(BTreeSet<NodeId>);

impl Cert {
    /// Makes the files, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let Command::Init { directory, nodes } = &self.command;
        match certificate::init(directory, &nodes.0) {
            Ok(files) => {
                for file in files {
                    println!("{}", file.display());
                }
                EXIT_FINE
            }
            Err(error) => {
                eprintln!("error: {error}");
                EXIT_FAILED
            }
        }
    }
}

fn nodes(text: &str) -> Result<Nodes, String> {
    let one = |text: &str| {
        text.trim()
            .parse::<NodeId>()
            .map_err(|error| error.to_string())
    };
    let mut nodes = BTreeSet::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => {
                nodes.insert(one(part)?);
            }
            Some((first, last)) => {
                let (first, last) = (one(first)?, one(last.trim_start_matches('='))?);
                if first > last {
                    return Err(format!("{first} is after {last}"));
                }
                if (last.get() - first.get()) as usize >= NODES_MAX {
                    return Err(format!("more than {NODES_MAX} nodes"));
                }
                nodes.extend((first.get()..=last.get()).map(NodeId::new));
            }
        }
    }
    if nodes.len() > NODES_MAX {
        return Err(format!("more than {NODES_MAX} nodes"));
    }
    Ok(Nodes(nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_given_as_ranges_and_lists() {
        let check = |text, expect: &[u32]| {
            let expect = Nodes(expect.iter().copied().map(NodeId::new).collect());
            assert_eq!(nodes(text), Ok(expect), "{text}");
        };
        check("1..3", &[1, 2, 3]);
        check("4", &[4]);
        check("1..2,n7", &[1, 2, 7]);
        assert!(nodes("3..1").is_err());
        assert!(nodes("").is_err());
        assert!(nodes("0..4294967295").is_err());
    }
}
