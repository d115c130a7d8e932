//! `scry cert`: certificates for a cluster.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use scry_protocol::NodeId;

use super::{EXIT_FAILED, EXIT_FINE};
use crate::certificate::{self, Authority, Info, IssueError, moment, now_s};

/// How many certificates are made at once.
const NODES_MAX: usize = 10_000;
/// The longest that certificates may count: a hundred years.
const DAYS_MAX: i64 = 36_500;

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
    /// Writes authority.pem, authority.key, an empty revocation list revoked.pem, and for each node n1.pem and n1.key. A node
    /// needs its own two files and authority.pem; authority.key belongs on none of them. Nothing that exists is
    /// overwritten.
    Init {
        /// Where the files go.
        directory: PathBuf,
        /// The nodes: `1..5` for one to five, `1,4,9`, or both.
        #[arg(long, value_parser = nodes)]
        nodes: Nodes,
        /// How many days the certificates of nodes count.
        #[arg(long, default_value_t = 365, value_parser = days())]
        days: u32,
        /// How many days the authority counts.
        #[arg(long, default_value_t = 3650, value_parser = days())]
        authority_days: u32,
    },
    /// Makes certificates for further nodes, signed by the authority that is there.
    ///
    /// Nothing that exists is overwritten.
    Issue {
        /// Where authority.pem and authority.key are and the files go.
        directory: PathBuf,
        /// The nodes.
        #[arg(long, value_parser = nodes)]
        nodes: Nodes,
        /// How many days the certificates count.
        #[arg(long, default_value_t = 365, value_parser = days())]
        days: u32,
    },
    /// Puts new certificates in the place of old ones.
    ///
    /// Agents load them without a restart once they are in the place of the old ones on their nodes. The old certificates count
    /// until they end: revoke one whose key somebody else may have.
    Renew {
        /// Where authority.pem, authority.key and the old files are.
        directory: PathBuf,
        /// The nodes.
        #[arg(long, value_parser = nodes)]
        nodes: Nodes,
        /// How many days the certificates count.
        #[arg(long, default_value_t = 365, value_parser = days())]
        days: u32,
        /// Makes new keys too.
        #[arg(long)]
        new_key: bool,
    },
    /// Shows whose certificates are, until when they count, and their fingerprints (SHA-256).
    ///
    /// Exits with 1 if one has ended or is revoked.
    Show {
        /// Files, or folders with files that end in .pem.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Puts certificates on the list of those that count no longer, revoked.pem.
    ///
    /// Agents whose `peers.revoked` names the list load it without a restart, refuse these certificates and close their
    /// connections.
    Revoke {
        /// Where authority.pem, authority.key and revoked.pem are.
        directory: PathBuf,
        /// The nodes whose certificates in this directory are meant.
        #[arg(long, value_parser = nodes, required_unless_present = "file")]
        nodes: Option<Nodes>,
        /// A certificate elsewhere, such as one that was replaced; may be given several times.
        #[arg(long)]
        file: Vec<PathBuf>,
    },
}

/// Nodes as they are given on a command line.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Nodes(BTreeSet<NodeId>);

impl Cert {
    /// Does what is asked, and returns the exit code.
    pub(crate) fn run(&self) -> u8 {
        let made = match &self.command {
            Command::Show { paths } => return show_all(paths),
            Command::Init {
                directory,
                nodes,
                days,
                authority_days,
            } => certificate::init(directory, &nodes.0, *authority_days, *days),
            Command::Issue {
                directory,
                nodes,
                days,
            } => Authority::open(directory).and_then(|by| by.issue(&nodes.0, *days)),
            Command::Renew {
                directory,
                nodes,
                days,
                new_key,
            } => Authority::open(directory).and_then(|by| by.renew(&nodes.0, *days, *new_key)),
            Command::Revoke {
                directory,
                nodes,
                file,
            } => revoke(directory, nodes.as_ref(), file),
        };
        match made {
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

fn revoke(
    directory: &Path,
    nodes: Option<&Nodes>,
    files: &[PathBuf],
) -> Result<Vec<PathBuf>, IssueError> {
    let of_nodes = nodes.into_iter().flat_map(|nodes| &nodes.0);
    let all: Vec<PathBuf> = of_nodes
        .map(|node| directory.join(format!("{node}.pem")))
        .chain(files.iter().cloned())
        .collect();
    let list = Authority::open(directory)?.revoke(&all)?;
    Ok(vec![list])
}

/// Shows certificates, and returns the exit code.
fn show_all(paths: &[PathBuf]) -> u8 {
    let mut code = EXIT_FINE;
    for path in paths {
        let is_directory = path.is_dir();
        let files = match is_directory {
            true => pem_files(path),
            false => vec![path.clone()],
        };
        for file in files {
            // A list of revoked certificates holds none itself.
            if is_directory && certificate::revocations(&file).is_ok() {
                continue;
            }
            let list = file.with_file_name("revoked.pem");
            let revoked = certificate::revoked_serials(&list).unwrap_or_default();
            match certificate::chain(&file) {
                Ok(chain) => {
                    for one in &chain {
                        if !show(&file, one, &revoked) {
                            code = EXIT_FAILED;
                        }
                    }
                }
                Err(why) => {
                    eprintln!("error: {}: {why}", file.display());
                    code = EXIT_FAILED;
                }
            }
        }
    }
    code
}

/// Shows one certificate, and tells whether it counts.
fn show(
    file: &Path,
    certificate: &rustls::pki_types::CertificateDer<'_>,
    revoked: &BTreeSet<String>,
) -> bool {
    let name = file.display();
    let info = match Info::of(certificate) {
        Ok(info) => info,
        Err(error) => {
            eprintln!("error: {name}: {error}");
            return false;
        }
    };
    let now_s = now_s();
    let is_revoked = revoked.contains(&info.serial);
    let standing = match (is_revoked, info.until_s < now_s) {
        (true, _) => "revoked".to_owned(),
        (_, true) => "ended".to_owned(),
        _ => format!("{} days left", info.days_left(now_s)),
    };
    println!("{name}: {}", info.who);
    println!("  until        {}, {standing}", moment(info.until_s));
    println!("  fingerprint  {}", info.fingerprint);
    println!("  serial       {}", info.serial);
    !is_revoked && info.until_s >= now_s
}

fn pem_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "pem"))
        .collect();
    files.sort();
    files
}

fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=DAYS_MAX)
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
