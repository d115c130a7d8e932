//! A service whose kinds and fields are known only at run time: a table, read from a text. It is explored, judged by a property
//! file and told of as a service whose types the compiler knows.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use scry_engine::explore::{Options, Search};
use scry_engine::kind::{Record, Variant};
use scry_engine::model::steering::{NodeFilter, Steering};
use scry_engine::{Context, NodeId, Report, Service, Simulation, System};
use scry_properties::{FieldType, PropertyFile, Schema};
use scry_protocol::filter::{Action, Matcher};
use serde::{Deserialize, Serialize, Serializer};

/// A lock that two nodes give each other, and send again if they think it is lost.
const LOCK: &str = "
    field holds false
    field given 0
    field phase Idle
    at n1 holds true
    start arm Retry
    on call Give if holds true do add given 1; set holds false; set phase Waiting; send Lock given
    on message Lock do set holds true; set phase Holding
    on timer Retry if phase Waiting do set phase Idle; send Lock given
";

/// Two of them are broken: the lock is sent again although it arrived, and a node that gives twice may still retry.
const PROPERTIES: &str = "
    [[property]]
    name = 'at most one node holds the lock'
    always = 'nodes.all(a, nodes.all(b, a.id == b.id || !(a.holds && b.holds)))'

    [[property]]
    name = 'who waits has given'
    always = 'self.phase != \"Waiting\" || self.given > 0'

    [[property]]
    name = 'who gave twice does not retry'
    always = 'self.given <= 1 || !(\"Retry\" in self.timers)'
";

/// What a field holds.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
enum Datum {
    Bool(bool),
    Int(i64),
    Text(String),
}

/// A state: fields by name.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Deserialize)]
#[serde(transparent)]
struct Row(BTreeMap<String, Datum>);

/// A message, timer or call: a name, and what it carries.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize)]
#[serde(from = "Written")]
struct Word {
    name: String,
    content: Option<Datum>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Bare(String),
    With(BTreeMap<String, Datum>),
}

/// What the service is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Table {
    fields: BTreeMap<String, Datum>,
    starts: Vec<Deed>,
    rules: Vec<Rule>,
    next: Option<NodeId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rule {
    class: String,
    name: String,
    condition: Option<(String, Datum)>,
    deeds: Vec<Deed>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Deed {
    Set(String, Datum),
    Add(String, i64),
    Send { name: String, field: String },
    Arm(String),
}

impl Serialize for Row {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        Record(&self.0).serialize(serializer)
    }
}

impl Serialize for Word {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        let (name, content) = (self.name.as_str(), self.content.as_ref());
        Variant { name, content }.serialize(serializer)
    }
}

impl From<Written> for Word {
    fn from(written: Written) -> Self {
        let (name, content) = match written {
            Written::Bare(name) => (name, None),
            Written::With(map) => {
                let (name, content) = map.into_iter().next().unwrap();
                (name, Some(content))
            }
        };
        Self { name, content }
    }
}

impl fmt::Debug for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.content {
            Some(content) => write!(f, "({content:?})"),
            None => Ok(()),
        }
    }
}

fn word(name: &str, content: Option<Datum>) -> Word {
    let name = name.to_owned();
    Word { name, content }
}

fn datum(text: &str) -> Datum {
    match (text.parse(), text.parse()) {
        (Ok(bool), _) => Datum::Bool(bool),
        (_, Ok(int)) => Datum::Int(int),
        _ => Datum::Text(text.to_owned()),
    }
}

impl Table {
    /// Reads what the node `me` is to be.
    fn read(text: &str, me: &str) -> Self {
        let mut table = Self::default();
        for line in text.lines() {
            let (line, deeds) = line.split_once(" do ").unwrap_or((line, ""));
            let deeds = deeds.split("; ").filter(|deed| !deed.is_empty());
            let deeds = deeds.map(deed).collect();
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [] => {}
                ["field", name, value] => {
                    table.fields.insert(name.to_owned(), datum(value));
                }
                ["at", node, name, value] if node == me => {
                    table.fields.insert(name.to_owned(), datum(value));
                }
                ["at", ..] => {}
                ["start", ..] => table
                    .starts
                    .push(deed(line.trim_start_matches("    start "))),
                ["on", class, name, ref rest @ ..] => table.rules.push(Rule {
                    class: class.to_owned(),
                    name: name.to_owned(),
                    condition: match rest {
                        ["if", field, value] => Some(((*field).to_owned(), datum(value))),
                        _ => None,
                    },
                    deeds,
                }),
                _ => panic!("what is {line:?}?"),
            }
        }
        table
    }

    fn schema(&self) -> Schema {
        let fields = self.fields.iter().map(|(name, value)| {
            let of = match value {
                Datum::Bool(_) => FieldType::Bool,
                Datum::Int(_) => FieldType::Int,
                Datum::Text(_) => {
                    let values = self.values_of(name);
                    FieldType::Enum(values.map(|value| (value, None)).collect())
                }
            };
            (name.clone(), of)
        });
        let timers = self.rules.iter().filter(|rule| rule.class == "timer");
        Schema::told(fields, timers.map(|rule| rule.name.clone()))
    }

    /// Lists the texts that a field can hold.
    fn values_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let deeds = self.rules.iter().flat_map(|rule| &rule.deeds);
        let set = deeds.filter_map(move |deed| match deed {
            Deed::Set(field, value) if field == name => Some(value),
            _ => None,
        });
        set.chain(self.fields.get(name))
            .filter_map(|value| match value {
                Datum::Text(text) => Some(text.clone()),
                _ => None,
            })
    }
}

fn deed(text: &str) -> Deed {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["set", field, value] => Deed::Set(field.to_owned(), datum(value)),
        ["add", field, value] => Deed::Add(field.to_owned(), value.parse().unwrap()),
        ["send", name, field] => Deed::Send {
            name: name.to_owned(),
            field: field.to_owned(),
        },
        ["arm", name] => Deed::Arm(name.to_owned()),
        _ => panic!("what is {text:?}?"),
    }
}

impl Row {
    fn follow(&mut self, cx: &mut Context<'_, Self>, class: &str, name: &str) {
        let table = cx.setup().clone();
        let fits = |rule: &&Rule| {
            let condition = rule.condition.as_ref();
            let met = condition.is_none_or(|(field, value)| self.0[field] == *value);
            rule.class == class && rule.name == name && met
        };
        let rule = table.rules.iter().find(fits);
        rule.into_iter()
            .flat_map(|rule| &rule.deeds)
            .for_each(|deed| self.perform(cx, deed));
    }

    fn perform(&mut self, cx: &mut Context<'_, Self>, deed: &Deed) {
        match deed {
            Deed::Set(field, value) => {
                self.0.insert(field.clone(), value.clone());
            }
            Deed::Add(field, more) => match self.0.get_mut(field) {
                Some(Datum::Int(value)) => *value += more,
                other => panic!("{other:?} is no number"),
            },
            Deed::Send { name, field } => {
                let to = cx.setup().next.unwrap();
                cx.send(to, word(name, Some(self.0[field].clone())));
            }
            Deed::Arm(name) => cx.set_timer(word(name, None), Duration::from_secs(1)),
        }
    }
}

impl Service for Row {
    type Message = Word;
    type Timer = Word;
    type Call = Word;
    type Setup = Table;
    type Disk = ();

    fn start(cx: &mut Context<'_, Self>, _: Option<()>) -> Self {
        let mut row = Self(cx.setup().fields.clone());
        for deed in &cx.setup().starts.clone() {
            row.perform(cx, deed);
        }
        row
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, message: Word) {
        self.follow(cx, "message", &message.name);
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Word) {
        self.follow(cx, "timer", &timer.name);
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: Word) {
        self.follow(cx, "call", &call.name);
    }

    fn disk(&self) {}

    /// One call of each kind that something would come of.
    fn calls(&self, _: NodeId, table: &Table) -> Vec<Word> {
        let rules = table.rules.iter().filter(|rule| rule.class == "call");
        let met = rules.filter(|rule| {
            let condition = rule.condition.as_ref();
            condition.is_none_or(|(field, value)| self.0[field] == *value)
        });
        met.map(|rule| word(&rule.name, None)).collect()
    }
}

fn start(text: &str) -> (Simulation<Row>, Schema) {
    let [a, b] = [1, 2].map(NodeId::new);
    let node = |me: NodeId, next| Table {
        next: Some(next),
        ..Table::read(text, &me.to_string())
    };
    let system = System::new([(a, node(a, b)), (b, node(b, a))]);
    (system.start().unwrap().0, node(a, b).schema())
}

fn explore(start: &Simulation<Row>, schema: &Schema) -> Report<Row> {
    let set = PropertyFile::load("lock.toml", PROPERTIES.as_bytes(), schema, Vec::new()).unwrap();
    let options = Options {
        limits: scry_engine::Limits {
            depth: Some(6),
            ..Default::default()
        },
        ..Options::default()
    };
    let search = Search::new(start, set.properties(), options).unwrap();
    search.run()
}

fn path_to(report: &Report<Row>, property: &str) -> Option<Vec<String>> {
    let broken = report
        .violations
        .iter()
        .find(|it| it.property == property)?;
    let steps = broken.path.iter();
    Some(
        steps
            .map(|step| format!("{}: {}", step.node, step.event))
            .collect(),
    )
}

#[test]
fn what_is_known_at_run_time_only_is_explored_judged_confirmed_and_spelled() {
    let (start, schema) = start(LOCK);
    let report = explore(&start, &schema);
    // What was found was replayed, and every property had an answer.
    assert_eq!((report.unconfirmed, report.unjudged.len()), (0, 0));
    // The lock is sent again although it has arrived, and arrives again when it has been given back.
    let twice = path_to(&report, "at most one node holds the lock").unwrap();
    assert_eq!(
        twice,
        [
            "n1: call Give",
            "n1: timer Retry",
            "n2: Lock(1) from n1",
            "n2: call Give",
            "n1: Lock(1) from n2",
            "n2: Lock(1) from n1",
        ]
    );
    let late = path_to(&report, "who gave twice does not retry").unwrap();
    assert_eq!(
        late,
        [
            "n1: call Give",
            "n2: Lock(1) from n1",
            "n2: call Give",
            "n1: Lock(1) from n2",
            "n1: call Give",
        ]
    );
    assert_eq!(path_to(&report, "who waits has given"), None);
    let said = report.violations[0].explanation.as_deref().unwrap();
    assert!(said.contains("self.given is 2"), "{said}");
}

#[test]
fn a_filter_knows_events_by_names_of_run_time() {
    let (start, schema) = start(LOCK);
    let [a, b] = [1, 2].map(NodeId::new);
    let under = |node, matcher, action| {
        let rule = NodeFilter {
            node,
            matcher,
            action,
        };
        explore(&start.clone().steered(Steering::new(vec![rule])), &schema)
    };
    let message = |kind: &str| Matcher::Message {
        kind: kind.to_owned(),
        source: b,
        destination: a,
        content: None,
    };
    let name = "at most one node holds the lock";
    assert!(path_to(&under(a, message("Key"), Action::Drop), name).is_some());
    assert!(path_to(&under(a, message("Lock"), Action::Drop), name).is_none());
    let timer = |kind: &str| Matcher::Timer {
        kind: kind.to_owned(),
        content: None,
    };
    assert!(path_to(&under(a, timer("Hurry"), Action::Postpone), name).is_some());
    assert!(path_to(&under(a, timer("Retry"), Action::Postpone), name).is_none());
}

#[test]
fn a_property_file_is_held_against_names_of_run_time() {
    let (_, schema) = start(LOCK);
    let wrong = |expression: &str| {
        let source = format!("[[property]]\nname = 'x'\nalways = '''{expression}'''");
        let set = PropertyFile::load::<Row>("x", source.as_bytes(), &schema, Vec::new());
        set.map(|_| ()).unwrap_err().to_string()
    };
    for (expression, says) in [
        ("self.hold", "did you mean `holds`?"),
        ("self.holds > 3", "bool"),
        ("self.phase == 'Wating'", "Waiting"),
        ("'Retrie' in self.timers", "Retry"),
    ] {
        let told = wrong(expression);
        assert!(told.contains(says), "{expression}: {told}");
    }
}
