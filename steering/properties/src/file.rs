//! Reading `properties.toml`: which properties there are, and where in the file each of their parts stands.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Complaint, Diagnostics};
use crate::syntax::{self, Syntax};
use scry_engine::property::Kind;

/// How many bytes a property file may have.
pub const FILE_BYTES_MAX: usize = 256 << 10;
/// How many properties a file may hold.
pub const PROPERTIES_MAX: usize = 1024;
/// How many bytes the name of a property may have.
pub const NAME_BYTES_MAX: usize = 256;

const KEYS: [&str; 7] = [
    "name",
    "always",
    "eventually",
    "sometimes",
    "mode",
    "description",
    "steps",
];
/// The keys that introduce what must hold.
const KINDS: [Kind; 3] = [Kind::Always, Kind::Eventually, Kind::Sometimes];
const MODES: [&str; 3] = ["off", "audit", "steer"];

/// A property file whose expressions are read but not yet held against a service.
#[derive(Clone, Debug)]
pub struct PropertyFile {
    name: String,
    source: String,
    entries: Vec<Entry>,
}

/// What may be done about a predicted violation of a property. The lower of this and the global mode wins.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Mode {
    /// It is not looked at.
    Off,
    /// Violations are reported.
    Audit,
    /// Violations are steered around.
    Steer,
}

/// One `[[property]]`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) name_span: Range<usize>,
    pub(crate) description: Option<String>,
    pub(crate) mode: Option<Mode>,
    /// How many steps a judgement may take, if the file says so; 0 for no limit.
    pub(crate) steps: Option<u64>,
    /// What must hold; without it, the entry switches on a property registered in Rust.
    pub(crate) formula: Option<(Kind, Formula)>,
}

/// An expression and where in the file it stands.
#[derive(Clone, Debug)]
pub(crate) struct Formula {
    pub(crate) text: String,
    pub(crate) syntax: Syntax,
    places: Places,
}

/// Where in the file each byte of a string came from, escapes considered.
#[derive(Clone, Debug)]
struct Places(Vec<usize>);

impl PropertyFile {
    /// Reads a file: its TOML and the syntax of its expressions, without a service to check them against.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Diagnostics> {
        let (file, diagnostics) = Self::read(name, bytes);
        match diagnostics.is_empty() {
            true => Ok(file),
            false => Err(diagnostics),
        }
    }

    /// Reads what can be read of a file.
    pub(crate) fn read(name: &str, bytes: &[u8]) -> (Self, Diagnostics) {
        let refused = |source: &str, complaint| {
            let mut diagnostics = Diagnostics::new(name, source);
            diagnostics.push(complaint);
            let file = Self {
                name: name.to_owned(),
                source: source.to_owned(),
                entries: Vec::new(),
            };
            (file, diagnostics)
        };
        if bytes.len() > FILE_BYTES_MAX {
            let message = format!("this file has {} bytes", bytes.len());
            let help = format!("a property file may have at most {FILE_BYTES_MAX} bytes");
            return refused("", Complaint::new(0..0, message).help(help));
        }
        let source = match std::str::from_utf8(bytes) {
            Ok(source) => source,
            Err(error) => {
                let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let at = good.len();
                let shown = format!("{good}\u{fffd}");
                return refused(
                    &shown,
                    Complaint::new(at..shown.len(), "this file is not UTF-8 text")
                        .label("this byte is no character"),
                );
            }
        };
        let mut reading = Reading {
            source,
            diagnostics: Diagnostics::new(name, source),
            names: BTreeMap::new(),
        };
        let entries = reading.entries();
        reading.diagnostics.sort();
        let file = Self {
            name: name.to_owned(),
            source: source.to_owned(),
            entries,
        };
        (file, reading.diagnostics)
    }

    /// Lists the properties by name, each with the mode it is given, if any.
    pub fn modes(&self) -> impl Iterator<Item = (&str, Option<Mode>)> {
        self.entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.mode))
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Makes a place to collect complaints about this file in.
    pub(crate) fn diagnostics(&self) -> Diagnostics {
        Diagnostics::new(&self.name, &self.source)
    }
}

impl Formula {
    /// Moves a complaint from the expression to the file.
    pub(crate) fn place(&self, complaint: Complaint) -> Complaint {
        self.places.place(complaint)
    }
}

impl Places {
    fn place(&self, mut complaint: Complaint) -> Complaint {
        let at = |position: usize| self.0[position.min(self.0.len() - 1)];
        complaint.span = at(complaint.span.start)..at(complaint.span.end);
        complaint
    }
}

type Value<'i> = Spanned<DeValue<'i>>;

struct Reading<'s> {
    source: &'s str,
    diagnostics: Diagnostics,
    names: BTreeMap<String, usize>,
}

impl<'s> Reading<'s> {
    fn entries(&mut self) -> Vec<Entry> {
        let (document, errors) = DeTable::parse_recoverable(self.source);
        let is_toml = errors.is_empty();
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            self.complain(Complaint::new(span, error.message().trim()));
        }
        let mut entries = Vec::new();
        let mut count = 0;
        for (key, value) in document.get_ref() {
            if key.get_ref() != "property" {
                if !is_toml {
                    // Below a header that cannot be read, keys end up where they do not belong.
                    continue;
                }
                let complaint =
                    Complaint::new(key.span(), format!("unknown key `{}`", key.get_ref()))
                        .help("properties are written as `[[property]]`");
                self.complain(complaint);
                continue;
            }
            let DeValue::Array(properties) = value.get_ref() else {
                let complaint = Complaint::new(key.span(), "`property` is not a list");
                self.complain(complaint.help("write `[[property]]`, with two brackets"));
                count += 1;
                continue;
            };
            for property in properties.iter() {
                count += 1;
                match property.get_ref() {
                    DeValue::Table(table) => {
                        entries.extend(self.entry(table, property.span(), is_toml));
                    }
                    _ => self.complain(Complaint::new(property.span(), "this is not a property")),
                }
            }
        }
        if count > PROPERTIES_MAX {
            let message = format!("this file holds {count} properties");
            let help = format!("a file may hold at most {PROPERTIES_MAX}");
            self.complain(Complaint::new(0..0, message).help(help));
        } else if count == 0 && self.diagnostics.is_empty() {
            let complaint = Complaint::new(0..0, "this file holds no property")
                .help("write `[[property]]` with a `name` and an `always`, an `eventually` or a `sometimes`");
            self.complain(complaint);
        }
        entries
    }

    fn complain(&mut self, complaint: Complaint) {
        self.diagnostics.push(complaint);
    }

    /// Reads one property. After an error in the TOML itself, what is missing is not complained about: it may be
    /// there, just not readable.
    fn entry(&mut self, table: &DeTable<'s>, span: Range<usize>, is_toml: bool) -> Option<Entry> {
        let mut is_misspelt = false;
        for key in table.keys() {
            let name = key.get_ref();
            if is_toml && !KEYS.contains(&name.as_ref()) {
                let complaint = Complaint::new(key.span(), format!("unknown key `{name}`"))
                    .help(format!("a property has {}", list(&KEYS)))
                    .suggest(name, KEYS);
                self.complain(complaint);
                is_misspelt = true;
            }
        }
        let header = header_of(self.source, span);
        let named = match table.get("name") {
            Some(value) => self.name(value),
            None if is_toml => {
                self.complain(Complaint::new(header, "this property has no `name`"));
                None
            }
            None => None,
        };
        let description = table
            .get("description")
            .and_then(|value| self.text("description", value))
            .map(Cow::into_owned);
        let mode = table.get("mode").and_then(|value| self.mode(value));
        let steps = table.get("steps").and_then(|value| self.steps(value));
        let said = KINDS.map(|kind| Some((kind, table.get(kind.as_str())?)));
        let mut said = said.into_iter().flatten();
        let formula = match (said.next(), said.next()) {
            (Some(_), Some((_, second))) => {
                self.complain(
                    Complaint::new(
                        second.span(),
                        "a property is either `always`, `eventually` or `sometimes`",
                    )
                    .help("write two properties"),
                );
                return None;
            }
            (Some((kind, value)), None) => Some((kind, self.formula(kind.as_str(), value)?)),
            (None, _) if named.is_none() || is_misspelt || !is_toml => return None,
            (None, _) => None,
        };
        // Without a name the file is refused already, but its expression is still checked.
        let (name, name_span) = named.unwrap_or_default();
        Some(Entry {
            name,
            name_span,
            description,
            mode,
            steps,
            formula,
        })
    }

    fn name(&mut self, value: &Value<'s>) -> Option<(String, Range<usize>)> {
        let name = self.text("name", value)?.trim().to_owned();
        let wrong = if name.is_empty() {
            Some("the name is empty".to_owned())
        } else if name.len() > NAME_BYTES_MAX {
            Some(format!("the name is longer than {NAME_BYTES_MAX} bytes"))
        } else if name.contains(scry_protocol::text::is_unseen) {
            Some("the name must be one line of text".to_owned())
        } else {
            None
        };
        if let Some(message) = wrong {
            self.complain(Complaint::new(value.span(), message));
            return None;
        }
        let line = self.source[..value.span().start].matches('\n').count() + 1;
        if let Some(first) = self.names.get(&name) {
            let complaint = Complaint::new(
                value.span(),
                format!("there are two properties of the name {name:?}"),
            )
            .label(format!("the first is in line {first}"));
            self.complain(complaint);
            return None;
        }
        self.names.insert(name.clone(), line);
        Some((name, value.span()))
    }

    fn mode(&mut self, value: &Value<'s>) -> Option<Mode> {
        let mode = self.text("mode", value)?;
        match mode.as_ref() {
            "off" => Some(Mode::Off),
            "audit" => Some(Mode::Audit),
            "steer" => Some(Mode::Steer),
            other => {
                let complaint = Complaint::new(value.span(), format!("unknown mode {other:?}"))
                    .help(format!("a mode is one of {}", list(&MODES)))
                    .suggest(other, MODES);
                self.complain(complaint);
                None
            }
        }
    }

    fn steps(&mut self, value: &Value<'s>) -> Option<u64> {
        let steps = match value.get_ref() {
            DeValue::Integer(number) => {
                let digits = number.as_str().replace('_', "");
                u64::from_str_radix(&digits, number.radix()).ok()
            }
            _ => None,
        };
        if steps.is_none() {
            let complaint = Complaint::new(value.span(), "`steps` is not a number of steps")
                .help("write a whole number, 0 for no limit");
            self.complain(complaint);
        }
        steps
    }

    fn formula(&mut self, key: &str, value: &Value<'s>) -> Option<Formula> {
        let text = self.text(key, value)?.into_owned();
        let places = places(self.source, value.span(), &text);
        match syntax::parse(&text) {
            Ok(syntax) => Some(Formula {
                text,
                syntax,
                places,
            }),
            Err(complaints) => {
                for complaint in complaints {
                    self.complain(places.place(complaint));
                }
                None
            }
        }
    }

    fn text(&mut self, key: &str, value: &Value<'s>) -> Option<Cow<'s, str>> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.clone()),
            other => {
                let message = format!("`{key}` is {} instead of a string", article(other));
                self.complain(Complaint::new(value.span(), message));
                None
            }
        }
    }
}

fn article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a bool",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

/// Returns the first line of a place, so that a missing key underlines `[[property]]` only.
fn header_of(source: &str, span: Range<usize>) -> Range<usize> {
    let text = source.get(span.clone()).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    span.start..span.start + line.len()
}

/// Follows a TOML string from its quotes through its escapes.
fn places(source: &str, span: Range<usize>, decoded: &str) -> Places {
    let raw = source.get(span.clone()).unwrap_or_default();
    let quote = ["\"\"\"", "'''", "\"", "'"]
        .into_iter()
        .find(|quote| raw.starts_with(quote));
    let quote_len = quote.map_or(0, str::len);
    let escapes = quote.is_some_and(|quote| quote.starts_with('"'));
    let mut at = span.start + quote_len;
    if quote_len == 3 {
        let inner = &source[at..];
        at += if inner.starts_with("\r\n") {
            2
        } else {
            usize::from(inner.starts_with('\n'))
        };
    }
    let mut map = Vec::with_capacity(decoded.len() + 1);
    for letter in decoded.chars() {
        let rest = source.get(at..span.end).unwrap_or_default();
        let rest = match escapes {
            true => skip_continuation(rest),
            false => rest,
        };
        at = span.end - rest.len();
        map.extend(std::iter::repeat_n(at, letter.len_utf8()));
        at += match rest.strip_prefix('\\').filter(|_| escapes) {
            Some(escape) => 1 + escape_len(escape),
            None if rest.starts_with("\r\n") && letter == '\n' => 2,
            None => rest.chars().next().map_or(0, char::len_utf8),
        };
        at = at.min(span.end);
    }
    map.push(at);
    Places(map)
}

fn escape_len(escape: &str) -> usize {
    match escape.chars().next() {
        Some('x') => 3,
        Some('u') => 5,
        Some('U') => 9,
        Some(letter) => letter.len_utf8(),
        None => 0,
    }
}

/// Passes over a backslash at the end of a line, which swallows the white space after it.
fn skip_continuation(rest: &str) -> &str {
    match rest.strip_prefix('\\') {
        Some(after)
            if after
                .trim_start_matches([' ', '\t'])
                .starts_with(['\n', '\r']) =>
        {
            skip_continuation(after.trim_start())
        }
        _ => rest,
    }
}

impl Mode {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Audit => "audit",
            Self::Steer => "steer",
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_place_in_an_expression_is_a_place_in_the_file() {
        let check = |source: &str, word: &str| {
            let file = PropertyFile::parse("f", source.as_bytes()).unwrap();
            let (_, formula) = file.entries()[0].formula.as_ref().unwrap();
            let start = formula.text.find(word).unwrap();
            let complaint = formula.place(Complaint::new(start..start + word.len(), ""));
            assert_eq!(&source[complaint.span], word, "{source}");
        };
        let head = "[[property]]\nname = 'x'\nalways = ";
        check(&format!("{head}'a == bb'"), "bb");
        check(&format!("{head}\"\\u0061 == \\\"ä\\\" && bb\""), "bb");
        check(&format!("{head}\"\"\"\na ==\n  bb\"\"\""), "bb");
        check(&format!("{head}\"\"\"a == \\\n    bb\"\"\""), "bb");
        check(&format!("{head}'''\r\na ==\r\nbb'''"), "bb");
    }

    #[test]
    fn an_entry_keeps_its_settings() {
        let source = "[[property]]\nname = 'x'\nmode = 'audit'\ndescription = 'why'\neventually = 'a'\n[[property]]\nname = 'y'";
        let file = PropertyFile::parse("f", source.as_bytes()).unwrap();
        let [x, y] = file.entries() else { panic!() };
        assert_eq!(x.mode, Some(Mode::Audit));
        assert_eq!(x.description.as_deref(), Some("why"));
        assert_eq!(x.formula.as_ref().unwrap().0, Kind::Eventually);
        assert!(y.formula.is_none());
    }

    #[test]
    fn each_kind_has_its_key_and_a_property_has_one_kind() {
        for kind in KINDS {
            let source = format!("[[property]]\nname = 'x'\n{} = 'a'", kind.as_str());
            let file = PropertyFile::parse("f", source.as_bytes()).unwrap();
            assert_eq!(file.entries()[0].formula.as_ref().unwrap().0, kind);
            let other = KINDS.into_iter().find(|&other| other != kind).unwrap();
            let source = format!("{source}\n{} = 'a'", other.as_str());
            assert!(PropertyFile::parse("f", source.as_bytes()).is_err());
        }
    }
}
