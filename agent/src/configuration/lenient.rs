//! The few values that a command needs to reach an agent, or to switch it off without one, from whatever configuration
//! there is. Nothing wrong with the rest keeps an operator from the switch: what cannot be read has its default, and that
//! is told.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::check::AdminAddress;
use super::sections::{Admin, Steering};

/// A configuration is not larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What could be read of a configuration.
#[derive(Debug)]
pub(crate) struct Lenient {
    /// Where operators reach the agent.
    pub(crate) admin: AdminAddress,
    /// The kill file, unless the configuration says that there is none.
    pub(crate) kill_file: Option<PathBuf>,
    /// What could not be read, and what counts instead.
    pub(crate) notes: Vec<String>,
}

impl Lenient {
    /// Reads what it can of a file and of the environment above it.
    pub(crate) fn read(path: &Path, environment: &BTreeMap<String, String>) -> Self {
        let mut notes = Vec::new();
        let source = read(path).unwrap_or_else(|error| {
            notes.push(format!("cannot read {}: {error}", path.display()));
            String::new()
        });
        let (document, errors) = DeTable::parse_recoverable(&source);
        if !errors.is_empty() {
            notes.push(format!(
                "{} is not all TOML: what can be read of it counts (`scry validate` says more)",
                path.display()
            ));
        }
        let value = |section: &str, key: &str| -> Option<String> {
            let name = format!("SCRY__{section}__{key}").to_uppercase();
            if let Some(value) = environment.get(&name) {
                return Some(value.clone());
            }
            let DeValue::Table(section) = document.get_ref().get(section)?.get_ref() else {
                return None;
            };
            match section.get(key)?.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            }
        };
        let default = Admin::default().listen;
        let listen = value("admin", "listen").unwrap_or_else(|| default.clone());
        let admin = AdminAddress::parse(&listen).unwrap_or_else(|what| {
            notes.push(format!("admin.listen: {listen:?} {what}"));
            AdminAddress::parse(&default).expect("the default is an address")
        });
        let kill_file = match value("steering", "kill_file") {
            None => Steering::default().kill_file,
            Some(text) => path.parent().unwrap_or(Path::new("")).join(text),
        };
        Self {
            admin,
            // An empty name becomes the folder.
            kill_file: Some(kill_file).filter(|file| !file.is_dir()),
            notes,
        }
    }
}

/// Reads a file that is one: at a pipe nobody waits.
fn read(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: Option<&str>, environment: &[(&str, &str)]) -> (AdminAddress, usize) {
        let name = format!("scry-lenient-{}-{:p}", std::process::id(), &source);
        let path = std::env::temp_dir().join(name);
        if let Some(source) = source {
            std::fs::write(&path, source).unwrap();
        }
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let lenient = Lenient::read(&path, &environment);
        let _ = std::fs::remove_file(&path);
        (lenient.admin, lenient.notes.len())
    }

    fn socket(path: &str) -> AdminAddress {
        AdminAddress::Socket(path.into())
    }

    fn default() -> AdminAddress {
        AdminAddress::parse(&Admin::default().listen).unwrap()
    }

    #[test]
    fn an_address_is_found_whatever_else_is_wrong() {
        let good = "[admin]\nlisten = \"/run/a.sock\"\n";
        check_is(Some(good), socket("/run/a.sock"), 0);
        let unknown = format!("[nonsense]\nx = 1\n{good}[node]\nid = \"seven\"\n");
        check_is(Some(&unknown), socket("/run/a.sock"), 0);
        let broken = format!("{good}[node\nid = = 3\n");
        check_is(Some(&broken), socket("/run/a.sock"), 1);
        check_is(Some("[node]\nid = 1\n"), default(), 0);
        check_is(Some("[admin]\nlisten = 7\n"), default(), 0);
        check_is(Some("[admin]\nlisten = \"0.0.0.0:1\"\n"), default(), 1);
        check_is(Some("\u{0}\u{1}= ["), default(), 1);
        check_is(None, default(), 1);
    }

    fn check_is(source: Option<&str>, expect: AdminAddress, notes: usize) {
        assert_eq!(check(source, &[]), (expect, notes), "{source:?}");
    }

    #[test]
    fn the_environment_is_above_the_file_here_too() {
        let variable = [("SCRY__ADMIN__LISTEN", "/run/b.sock")];
        let file = Some("[admin]\nlisten = \"/run/a.sock\"\n");
        assert_eq!(check(file, &variable), (socket("/run/b.sock"), 0));
    }

    #[test]
    fn nobody_waits_at_a_pipe() {
        let path = std::env::temp_dir().join(format!("scry-lenient-pipe-{}", std::process::id()));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let lenient = Lenient::read(&path, &BTreeMap::new());
        std::fs::remove_file(&path).unwrap();
        assert_eq!((lenient.admin, lenient.notes.len()), (default(), 1));
    }
}
