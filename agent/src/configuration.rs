//! `scry.toml`: one reader for the start, for `scry validate` and for a reload.
//!
//! A value comes from the file or, above it, from a variable such as `SCRY__CHECKER__TIME_MS`. Everything that is wrong is
//! told at once. What is read here was checked: nothing of it is checked again elsewhere.

mod check;
mod lenient;
mod read;
mod sections;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use scry::properties::{Diagnostics, PropertyFile};
use scry_protocol::{Digest, NodeId};

pub(crate) use check::AdminAddress;
pub(crate) use lenient::Lenient;
pub(crate) use sections::{Configuration, Mode, Peer, Source, Time};

use crate::certificate::{Files, Identity, now_s};
use crate::files;
use read::Reading;

/// A configuration with the files it names.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// What was read.
    pub(crate) configuration: Configuration,
    /// The node's id.
    pub(crate) node: NodeId,
    /// Where operators reach the agent.
    pub(crate) admin: AdminAddress,
    /// The certificates, unless there are no peers.
    pub(crate) identity: Option<Identity>,
    /// The property file.
    pub(crate) properties: Properties,
    /// Where metrics may be read from outside, if anywhere.
    pub(crate) metrics: Option<SocketAddr>,
    /// Names all of the above but the certificates and the node's id: nodes of one service agree on it.
    pub(crate) hash: String,
}

/// What a property file says, as far as that is clear without the service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Properties {
    /// The text; empty if there is no file.
    pub(crate) text: String,
    /// The names in it, if there is a file.
    pub(crate) names: Option<BTreeSet<String>>,
    /// The modes it gives.
    pub(crate) modes: BTreeMap<String, Mode>,
}

/// Everything that is wrong with a configuration.
#[derive(Debug)]
pub(crate) struct ConfigurationError {
    file: Option<Diagnostics>,
    elsewhere: Vec<String>,
}

impl std::error::Error for ConfigurationError {}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.iter().map(ToString::to_string);
        let all: Vec<String> = file.chain(self.elsewhere.iter().cloned()).collect();
        f.write_str(&all.join("\n\n"))
    }
}

impl From<Diagnostics> for ConfigurationError {
    fn from(diagnostics: Diagnostics) -> Self {
        Self {
            file: Some(diagnostics),
            elsewhere: Vec::new(),
        }
    }
}

/// Returns the variables of this process that are meant for the configuration.
pub(crate) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            // A value that is no text is no value of ours; shown with replacements, it fails where it is read.
            let value = value.to_string_lossy().into_owned();
            name.starts_with("SCRY__").then_some((name, value))
        })
        .collect()
}

impl Loaded {
    /// Reads a configuration and the files it names.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub(crate) fn load(
        path: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigurationError> {
        let name = path.display().to_string();
        let source = files::read_text(path).map_err(|error| ConfigurationError {
            file: None,
            elsewhere: vec![format!("error: cannot read {name}: {error}")],
        })?;
        let folder = path.parent().map(PathBuf::from).unwrap_or_default();
        let (mut reading, mut configuration) = read_values(&name, &source, environment)?;
        let hash_of = shared_by_nodes(&configuration);
        // One file may list all nodes and be the same everywhere: this node is not its own peer.
        configuration
            .peers
            .known
            .retain(|peer| Some(peer.id) != configuration.node.id);
        let identity = check::identity(&mut reading, &configuration, &folder);
        let properties = properties(&mut reading, &configuration, &folder);
        check::modes(&mut reading, &configuration, &properties);
        let admin = AdminAddress::parse(&configuration.admin.listen);
        reading.mistakes.sort();
        if let (true, true, Some(node), Ok(admin)) = (
            reading.mistakes.is_empty(),
            reading.elsewhere.is_empty(),
            configuration.node.id,
            admin,
        ) {
            let text = serde_json::to_string(&(&hash_of, &properties.text))
                .expect("a configuration can be written");
            return Ok(Self {
                hash: Digest::of(text.as_bytes()).to_string(),
                // What is not an address was complained of above.
                metrics: configuration.admin.metrics_listen.parse().ok(),
                configuration,
                node,
                admin,
                identity,
                properties,
            });
        }
        Err(ConfigurationError {
            file: (!reading.mistakes.is_empty()).then_some(reading.mistakes),
            elsewhere: reading.elsewhere,
        })
    }

    /// Returns where the certificates are; `file` is where the configuration was read from.
    pub(crate) fn certificate_files(&self, file: &Path) -> Files {
        let folder = file.parent().unwrap_or(Path::new(""));
        check::certificate_files(&self.configuration, folder)
    }

    /// Returns what is not wrong, but somebody should do something about.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let own = self.identity.iter().map(|identity| &identity.own);
        own.filter_map(|own| own.warning(now_s())).collect()
    }

    /// Reads a text without the files it names, and returns what it says as JSON.
    pub(crate) fn read_text(
        name: &str,
        source: &str,
        environment: &BTreeMap<String, String>,
    ) -> Result<String, String> {
        let (mut reading, configuration) =
            read_values(name, source, environment).map_err(|mistakes| mistakes.to_string())?;
        check::modes(&mut reading, &configuration, &Properties::default());
        reading.mistakes.sort();
        if !reading.mistakes.is_empty() {
            reading.elsewhere.push(reading.mistakes.to_string());
        }
        match reading.elsewhere.is_empty() {
            true => {
                Ok(serde_json::to_string(&configuration).expect("a configuration can be written"))
            }
            false => Err(reading.elsewhere.join("\n")),
        }
    }

    /// Names the sections that differ from another configuration and cannot change while the agent runs.
    pub(crate) fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let (one, two) = (&self.configuration, &other.configuration);
        let known = |configuration: &Configuration| {
            let mut peers = configuration.peers.clone();
            peers.known.clear();
            peers
        };
        [
            ("node", one.node != two.node),
            ("host", one.host != two.host),
            ("peers", known(one) != known(two)),
            ("neighborhood", one.neighborhood != two.neighborhood),
            ("checkpoint", one.checkpoint != two.checkpoint),
            ("log", one.log != two.log),
            ("admin", one.admin != two.admin),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect()
    }
}

/// Returns what is the same on every node of a service, if its operator keeps it so: all but the node's id.
fn shared_by_nodes(configuration: &Configuration) -> Configuration {
    let mut shared = configuration.clone();
    shared.node.id = None;
    shared
}

/// Reads what a text and the environment say, and holds the values against each other.
fn read_values<'s>(
    name: &str,
    source: &'s str,
    environment: &BTreeMap<String, String>,
) -> Result<(Reading<'s>, Configuration), Diagnostics> {
    let mut reading = Reading::new(name, source, environment)?;
    let configuration = reading.configuration(source);
    check::values(&mut reading, &configuration);
    Ok((reading, configuration))
}

/// Reads the property file, as far as that goes without the service.
fn properties(
    reading: &mut Reading<'_>,
    configuration: &Configuration,
    folder: &Path,
) -> Properties {
    let file = &configuration.properties.file;
    if file.as_os_str().is_empty() {
        return Properties::default();
    }
    let path = folder.join(file);
    let name = path.display().to_string();
    let bytes = match files::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            reading.complain(
                &["properties".to_owned(), "file".to_owned()],
                &format!("cannot read {name}: {error}"),
                None,
            );
            return Properties::default();
        }
    };
    match PropertyFile::parse(&name, &bytes) {
        Ok(file) => Properties {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            names: Some(file.modes().map(|(name, _)| name.to_owned()).collect()),
            modes: file
                .modes()
                .filter_map(|(name, mode)| Some((name.to_owned(), mode?.into())))
                .collect(),
        },
        Err(diagnostics) => {
            reading.elsewhere.push(diagnostics.to_string());
            Properties::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str, environment: &[(&str, &str)]) -> Result<Configuration, String> {
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let mut reading = Reading::new("scry.toml", source, &environment)
            .map_err(|diagnostics| diagnostics.to_string())?;
        let configuration = reading.configuration(source);
        check::values(&mut reading, &configuration);
        reading.mistakes.sort();
        match reading.mistakes.is_empty() && reading.elsewhere.is_empty() {
            true => Ok(configuration),
            false => Err(ConfigurationError {
                file: (!reading.mistakes.is_empty()).then_some(reading.mistakes),
                elsewhere: reading.elsewhere,
            }
            .to_string()),
        }
    }

    #[test]
    fn the_sample_lists_every_value_with_its_default() {
        let sample = include_str!("../../deploy/scry.toml");
        let mut expect = Configuration::default();
        expect.node.id = Some(NodeId::new(1));
        assert_eq!(read(sample, &[]).unwrap(), expect);
        // Equal to the defaults would also be a file in which a value is left out: each key must be there.
        let there: serde_json::Value = config::Config::builder()
            .add_source(config::File::from_str(sample, config::FileFormat::Toml))
            .build()
            .and_then(config::Config::try_deserialize)
            .unwrap();
        let every = serde_json::to_value(&expect).unwrap();
        assert_eq!(there, every);
    }

    #[test]
    fn the_environment_is_above_the_file() {
        let source = "[node]\nid = 3\n[checker]\ntime_ms = 7\n[peers]\nknown = [{ id = 1, address = \"a:1\" }, { id = 2, address = \"b:1\" }]";
        let environment = [
            ("SCRY__CHECKER__TIME_MS", "9"),
            ("SCRY__STEERING__MODE", "steer"),
            ("SCRY__NEIGHBORHOOD__MEMBERS", "1,2"),
            ("SCRY__CHECKPOINT__GATHER", "false"),
        ];
        let configuration = read(source, &environment).unwrap();
        assert_eq!(configuration.checker.time_ms, 9);
        assert_eq!(configuration.steering.mode, Mode::Steer);
        assert_eq!(configuration.neighborhood.members, [1, 2].map(NodeId::new));
        assert!(!configuration.checkpoint.gather);
    }

    #[test]
    fn a_mistake_in_the_environment_names_its_variable() {
        let said = read("[node]\nid = 3", &[("SCRY__CHECKER__NICE", "30")]).unwrap_err();
        assert_eq!(said, "error: SCRY__CHECKER__NICE: is not between 0 and 19");
        let said = read("[node]\nid = 3", &[("SCRY__CHECKER__TIM", "30")]).unwrap_err();
        assert_eq!(said, "error: SCRY__CHECKER__TIM: unknown key `tim`");
    }

    #[test]
    fn a_strategy_on_one_thread_is_not_given_two() {
        let source = "[node]\nid = 3\n[checker]\nthreads = 2\nstrategy = \"depth-first\"";
        let said = read(source, &[]).unwrap_err();
        assert!(
            said.contains("checker.threads: is 2, and depth-first runs on one"),
            "{said}"
        );
        for strategy in scry::Strategy::all().filter(|it| it.offline().is_none()) {
            let source = format!("[node]\nid = 3\n[checker]\nstrategy = \"{strategy}\"");
            let configuration = read(&source, &[]).unwrap();
            assert_eq!(configuration.checker.strategy, strategy.name());
        }
    }

    #[test]
    fn all_mistakes_are_told_at_once_with_their_places() {
        let source = "[node]\nid = \"one\"\n[steering]\nmod = \"steer\"\nttl_ms = -5\n[chekcer]\n[checker]\nnice = 77\nstrategy = \"consequense\"\n[peers]\nknown = [{ id = 1 }, { id = 2, adress = \"a:1\", address = \"a\" }, { id = 2, address = \"b:1\" }]\n";
        let said = read(source, &[]).unwrap_err();
        for expect in [
            "scry.toml:2:6",
            "unknown key `mod`",
            "did you mean `mode`?",
            "scry.toml:5:10",
            "unknown section `chekcer`",
            "did you mean `checker`?",
            "checker.nice: is not between 0 and 19",
            "checker.strategy: there is no strategy `consequense`; there are exhaustive, ",
            "did you mean \"consequence\"?",
            "missing field `address`",
            "unknown key `adress`",
            "peers.known.1.address: is not `host:port`",
            "n2 was named before",
        ] {
            assert!(said.contains(expect), "{expect} is missing in\n{said}");
        }
    }

    #[test]
    fn a_mode_is_of_a_property_in_the_file() {
        let source = "[node]\nid = 3\n[properties.modes]\n\"one rot\" = \"off\"\n\"no handler panics\" = \"audit\"\n\"one root\" = \"off\"";
        let mut reading = Reading::new("scry.toml", source, &BTreeMap::new()).unwrap();
        let configuration = reading.configuration(source);
        let names = |names: &[&str]| Properties {
            names: Some(names.iter().map(|&name| name.to_owned()).collect()),
            ..Properties::default()
        };
        check::modes(&mut reading, &configuration, &Properties::default());
        assert!(
            reading.mistakes.is_empty(),
            "without a file the service tells"
        );
        check::modes(&mut reading, &configuration, &names(&["one root", "x"]));
        let said = reading.mistakes.to_string();
        assert!(
            said.contains("is not a property of the property file"),
            "{said}"
        );
        assert!(said.contains("did you mean \"one root\"?"), "{said}");
        assert!(said.contains("scry.toml:4"), "{said}");
    }

    #[test]
    fn nodes_agree_on_the_hash_of_their_configuration() {
        let folder = std::env::temp_dir().join(format!("scry-hash-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("scry.toml");
        let source = "[peers]\nlisten = \"\"\nknown = [{ id = 1, address = \"a:1\" }, { id = 2, address = \"b:1\" }]\n";
        std::fs::write(&file, source).unwrap();
        let load = |variables: &[(&str, &str)]| {
            let variables = variables.iter();
            let environment = variables
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            Loaded::load(&file, &environment).unwrap()
        };
        let one = load(&[("SCRY__NODE__ID", "1")]);
        let two = load(&[("SCRY__NODE__ID", "2")]);
        assert_ne!(one.node, two.node);
        assert_eq!(one.hash, two.hash);
        let other = load(&[("SCRY__NODE__ID", "2"), ("SCRY__CHECKER__TIME_MS", "7")]);
        assert_ne!(other.hash, two.hash);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn nothing_but_loopback_and_sockets_is_for_operators() {
        assert!(AdminAddress::parse("0.0.0.0:7701").is_err());
        assert!(AdminAddress::parse("10.1.2.3:7701").is_err());
        assert!(AdminAddress::parse("[::1]:7701").is_ok());
        assert!(AdminAddress::parse("/run/a.sock").is_ok());
        assert!(AdminAddress::parse("run/a.sock").is_err());
    }
}
