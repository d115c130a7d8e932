//! From the text of `scry.toml` and the environment to a configuration, or to everything that is wrong with them.
//!
//! Values are read one by one: whatever does not fit is reported, put aside, and the rest is read again without it. So one
//! reading tells all mistakes, each with its place.

use std::collections::BTreeMap;
use std::ops::Range;

use scry::properties::{Complaint, Diagnostics};
use scry_protocol::NodeId;
use serde_json::Value;
use serde_path_to_error::Segment;
use toml::de::{DeTable, DeValue};

use super::sections::{Configuration, Peer};

/// What begins every variable of the environment that is meant for the configuration.
const PREFIX: &str = "SCRY__";
/// Where lists are expected, for variables of the environment: `SCRY__NEIGHBORHOOD__MEMBERS=2,3`.
const LISTS: [&str; 2] = ["neighborhood.members", "checker.command"];
/// More mistakes than this are not looked for.
const MISTAKES_MAX: usize = 64;

/// A place in the configuration: the keys that lead to it.
pub(super) type Path = Vec<String>;

/// Collects what is wrong, each thing where it was said: in the file or in the environment.
pub(super) struct Reading<'s> {
    document: DeTable<'s>,
    environment: BTreeMap<String, String>,
    pub(super) mistakes: Diagnostics,
    pub(super) elsewhere: Vec<String>,
    /// What was complained about: once is enough.
    said: Vec<Path>,
}

impl<'s> Reading<'s> {
    /// Reads the TOML.
    pub(super) fn new(
        file: &str,
        source: &'s str,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, Diagnostics> {
        let (document, errors) = DeTable::parse_recoverable(source);
        let mut mistakes = Diagnostics::new(file, source);
        for error in errors {
            mistakes.push(Complaint::new(
                error.span().unwrap_or(0..0),
                error.message().trim(),
            ));
        }
        if !mistakes.is_empty() {
            // What follows a line that cannot be read is not where it seems to be.
            return Err(mistakes);
        }
        let environment = environment
            .iter()
            .filter_map(|(name, value)| {
                let path = name.strip_prefix(PREFIX)?.to_lowercase().replace("__", ".");
                Some((path, value.clone()))
            })
            .collect();
        Ok(Self {
            document: document.into_inner(),
            environment,
            mistakes,
            elsewhere: Vec::new(),
            said: Vec::new(),
        })
    }

    /// Reads everything that can be read.
    pub(super) fn configuration(&mut self, source: &str) -> Configuration {
        let mut value = match self.merged(source) {
            Ok(value) => value,
            Err(error) => {
                self.elsewhere.push(format!("error: {error}"));
                return Configuration::default();
            }
        };
        let reference = serde_json::to_value(Configuration {
            peers: super::sections::Peers {
                known: vec![Peer {
                    id: NodeId::new(1),
                    address: String::new(),
                }],
                ..Default::default()
            },
            ..Default::default()
        })
        .expect("a configuration can be written");
        self.drop_unknown(&mut value, &reference, &mut Vec::new());
        for _ in 0..MISTAKES_MAX {
            let error = match serde_path_to_error::deserialize::<_, Configuration>(&value) {
                Ok(configuration) => return configuration,
                Err(error) => error,
            };
            let path: Path = error.path().iter().filter_map(segment).collect();
            self.complain(&path, &error.inner().to_string(), None);
            if path.is_empty() || !remove(&mut value, &path, &reference) {
                break;
            }
        }
        Configuration::default()
    }

    fn merged(&self, source: &str) -> Result<Value, config::ConfigError> {
        let mut environment = config::Environment::with_prefix("SCRY")
            .prefix_separator("__")
            .separator("__")
            .try_parsing(true)
            .list_separator(",");
        for list in LISTS {
            environment = environment.with_list_parse_key(list);
        }
        let variables = self
            .environment
            .iter()
            .map(|(path, value)| {
                let name = format!("{PREFIX}{}", path.replace('.', "__").to_uppercase());
                (name, value.clone())
            })
            .collect::<std::collections::HashMap<_, _>>();
        let mut merged: Value = config::Config::builder()
            .add_source(config::File::from_str(source, config::FileFormat::Toml))
            .add_source(environment.source(Some(variables.into_iter().collect())))
            .build()?
            .try_deserialize()?;
        nodes_as_numbers(&mut merged);
        Ok(merged)
    }

    /// Complains about every key that does not exist, and removes it.
    fn drop_unknown(&mut self, value: &mut Value, reference: &Value, path: &mut Path) {
        match (value, reference) {
            (Value::Object(table), Value::Object(known)) => {
                // Only the modes of properties have keys of the operator's own choice.
                if path.join(".") == "properties.modes" {
                    return;
                }
                let names: Vec<String> = table.keys().cloned().collect();
                for name in names {
                    path.push(name.clone());
                    match known.get(&name) {
                        Some(inner) => {
                            if let Some(value) = table.get_mut(&name) {
                                self.drop_unknown(value, inner, path);
                            }
                        }
                        None => {
                            let what = match path.len() {
                                1 => format!("unknown section `{name}`"),
                                _ => format!("unknown key `{name}`"),
                            };
                            self.complain_of_key(path, &what, &name, known.keys());
                            table.remove(&name);
                        }
                    }
                    path.pop();
                }
            }
            (Value::Array(items), Value::Array(known)) => {
                for (at, item) in items.iter_mut().enumerate() {
                    if let Some(inner) = known.first() {
                        path.push(at.to_string());
                        self.drop_unknown(item, inner, path);
                        path.pop();
                    }
                }
            }
            _ => {}
        }
    }

    fn complain_of_key<'k>(
        &mut self,
        path: &Path,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'k String>,
    ) {
        let dotted = path.join(".");
        let span = self.key_span(path).unwrap_or(0..0);
        let complaint = Complaint::new(span, what).suggest(name, known.map(String::as_str));
        if self.is_from_environment(&dotted) {
            self.elsewhere
                .push(format!("error: {}: {what}", variable(&dotted)));
        } else {
            self.mistakes.push(complaint);
        }
    }

    /// Complains about the value at a path, or about the section in which it is missing.
    pub(super) fn complain(&mut self, path: &[String], what: &str, help: Option<&str>) {
        if self.said.iter().any(|said| path.starts_with(said)) {
            return;
        }
        self.said.push(path.to_vec());
        let dotted = path.join(".");
        if self.is_from_environment(&dotted) {
            let help = help.map(|help| format!(" ({help})")).unwrap_or_default();
            self.elsewhere
                .push(format!("error: {}: {what}{help}", variable(&dotted)));
            return;
        }
        let mut complaint = Complaint::new(self.value_span(path), format!("{dotted}: {what}"));
        if let Some(help) = help {
            complaint = complaint.help(help);
        }
        self.mistakes.push(complaint);
    }

    fn is_from_environment(&self, dotted: &str) -> bool {
        self.environment.keys().any(|path| {
            path == dotted
                || dotted
                    .strip_prefix(path.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
        })
    }

    /// Returns where the value at a path stands, or the innermost part of the way to it that is there.
    fn value_span(&self, path: &[String]) -> Range<usize> {
        let mut span = 0..0;
        let mut table = Some(&self.document);
        let mut array: Option<&toml::de::DeArray<'s>> = None;
        for name in path {
            let value = match (table, array) {
                (Some(table), _) => table
                    .iter()
                    .find(|(key, _)| key.get_ref() == name.as_str())
                    .map(|(_, value)| value),
                (None, Some(array)) => name.parse().ok().and_then(|at: usize| array.get(at)),
                (None, None) => None,
            };
            let Some(value) = value else { break };
            span = value.span();
            (table, array) = match value.get_ref() {
                DeValue::Table(inner) => (Some(inner), None),
                DeValue::Array(inner) => (None, Some(inner)),
                _ => (None, None),
            };
        }
        span
    }

    fn key_span(&self, path: &[String]) -> Option<Range<usize>> {
        let mut value: Option<&DeValue<'s>> = None;
        let mut span = None;
        for name in path {
            let (key, inner) = match value {
                None => find(&self.document, name)?,
                Some(DeValue::Table(table)) => find(table, name)?,
                Some(DeValue::Array(array)) => {
                    let item = array.get(name.parse::<usize>().ok()?)?;
                    (item.span(), item.get_ref())
                }
                Some(_) => return None,
            };
            span = Some(key);
            value = Some(inner);
        }
        span
    }
}

fn find<'t, 's>(table: &'t DeTable<'s>, name: &str) -> Option<(Range<usize>, &'t DeValue<'s>)> {
    table
        .iter()
        .find(|(key, _)| key.get_ref() == name)
        .map(|(key, value)| (key.span(), value.get_ref()))
}

/// Lets nodes be written as everywhere else (`n13`), and as the environment gives them (`"13"`).
fn nodes_as_numbers(merged: &mut Value) {
    let number = |value: &mut Value| {
        if let Some(node) = value.as_str().and_then(|text| text.parse::<NodeId>().ok()) {
            *value = node.get().into();
        }
    };
    if let Some(id) = merged.pointer_mut("/node/id") {
        number(id);
    }
    if let Some(Value::Array(members)) = merged.pointer_mut("/neighborhood/members") {
        members.iter_mut().for_each(number);
    }
    if let Some(Value::Array(known)) = merged.pointer_mut("/peers/known") {
        known
            .iter_mut()
            .filter_map(|peer| peer.get_mut("id"))
            .for_each(number);
    }
}

fn variable(dotted: &str) -> String {
    format!("{PREFIX}{}", dotted.replace('.', "__").to_uppercase())
}

fn segment(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// Removes the value at a path, or the innermost part of the way to it that can be done without.
fn remove(value: &mut Value, path: &[String], reference: &Value) -> bool {
    let [first, rest @ ..] = path else {
        return false;
    };
    let Value::Object(table) = value else {
        return false;
    };
    let known = reference.get(first);
    match (rest, table.get_mut(first), known) {
        ([], _, _) => table.remove(first).is_some(),
        (_, Some(inner @ Value::Object(_)), Some(known)) => {
            remove(inner, rest, known) || table.remove(first).is_some()
        }
        (_, Some(Value::Array(items)), Some(Value::Array(known))) => {
            let at = rest[0].parse().unwrap_or(usize::MAX);
            match (items.get_mut(at), known.first()) {
                // The elements after it keep their places, so that their mistakes are found where they are.
                (Some(item), Some(known)) if *item != *known => {
                    item.clone_from(known);
                    true
                }
                _ => table.remove(first).is_some(),
            }
        }
        _ => table.remove(first).is_some(),
    }
}
