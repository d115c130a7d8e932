//! Services whose states are no plain structs: what can be known of them, and what is left unchecked.

use proptest::strategy::{Strategy, ValueTree};
use scry_engine::{Context, Judgement, NodeId, Service, View};
use scry_properties::{PropertyFile, PropertySet, Schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A state that is one of several variants.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
enum Machine {
    Down,
    Up { term: u64 },
}

/// A state that reads itself by hand, and has a field of the same name as every node.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize)]
struct Closed {
    id: String,
    load: u32,
}

impl<'de> Deserialize<'de> for Closed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (id, load) = text
            .split_once(':')
            .ok_or_else(|| D::Error::custom("no colon"))?;
        let load = load.parse().map_err(D::Error::custom)?;
        Ok(Self {
            id: id.to_owned(),
            load,
        })
    }
}

/// A state with its fields in another struct.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
struct Flat {
    own: u32,
    #[serde(flatten)]
    inner: Inner,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
struct Inner {
    deep: bool,
}

macro_rules! services {
    ($($name:ident: $start:expr),*) => {
        $(impl Service for $name {
            type Message = ();
            type Timer = ();
            type Call = ();
            type Setup = ();
            type Disk = ();

            fn start(_cx: &mut Context<'_, Self>, _disk: Option<()>) -> Self {
                $start
            }

            fn on_message(&mut self, _cx: &mut Context<'_, Self>, _from: NodeId, (): ()) {}

            fn on_timer(&mut self, _cx: &mut Context<'_, Self>, (): ()) {}

            fn on_call(&mut self, _cx: &mut Context<'_, Self>, (): ()) {}

            fn disk(&self) {}
        })*
    };
}

services!(
    Machine: Self::Down,
    Closed: Self { id: String::new(), load: 0 },
    Flat: Self { own: 0, inner: Inner { deep: false } }
);

fn compile<S: Service>(schema: &Schema, expression: &str) -> Result<PropertySet<S>, String> {
    let source = format!("[[property]]\nname = 'x'\nalways = '''{expression}'''");
    PropertyFile::load("x", source.as_bytes(), schema, Vec::new())
        .map_err(|wrong| wrong.to_string())
}

fn judge<S: Service>(set: &PropertySet<S>, state: &S) -> Judgement {
    let view = View {
        id: NodeId::new(7),
        state,
        timers: &[],
    };
    set.always[0].predicate.judge(&[view])
}

#[test]
fn a_state_of_variants_is_asked_which_it_is() {
    let schema = Schema::of::<Machine>();
    let set = compile::<Machine>(&schema, "!has(self.Up) || self.Up.term > 2").unwrap();
    assert_eq!(judge(&set, &Machine::Down), Judgement::Holds);
    assert_eq!(judge(&set, &Machine::Up { term: 1 }), Judgement::Violated);
    let set = compile::<Machine>(&schema, "self.Up.term > 2").unwrap();
    assert_eq!(judge(&set, &Machine::Down), Judgement::Unknown);
    let wrong = compile::<Machine>(&schema, "self.Upp.term > 2").unwrap_err();
    assert!(wrong.contains("did you mean `Up`?"), "{wrong}");
}

#[test]
fn what_a_type_does_not_tell_a_sample_does() {
    let state = Closed {
        id: "a".into(),
        load: 3,
    };
    let untold = Schema::of::<Closed>();
    assert!(compile::<Closed>(&untold, "self.laod == 3").is_ok());
    let schema = untold.with_samples([&state]);
    let wrong = compile::<Closed>(&schema, "self.laod == 3").unwrap_err();
    assert!(wrong.contains("did you mean `load`?"), "{wrong}");
    // Another state might hold an empty `Option` there.
    assert!(compile::<Closed>(&schema, "self.load == null").is_ok());
    assert!(compile::<Closed>(&schema, "self.load == 'x'").is_err());
}

#[test]
fn the_services_own_id_is_read_by_index() {
    let state = Closed {
        id: "a".into(),
        load: 3,
    };
    let schema = Schema::of::<Closed>().with_samples([&state]);
    let set = compile::<Closed>(&schema, "self.id == 7 && self['id'] == 'a'").unwrap();
    assert_eq!(judge(&set, &state), Judgement::Holds);
}

#[test]
fn flattened_fields_are_read_and_not_checked() {
    let state = Flat {
        own: 1,
        inner: Inner { deep: true },
    };
    let schema = Schema::of::<Flat>().with_samples([&state]);
    let set = compile::<Flat>(&schema, "self.deep && self.own == 1").unwrap();
    assert_eq!(judge(&set, &state), Judgement::Holds);
    let set = compile::<Flat>(&schema, "self.other").unwrap();
    assert_eq!(judge(&set, &state), Judgement::Unknown);
}

#[test]
fn a_field_that_serde_leaves_out_is_an_empty_option() {
    let set = crate::zoo::always("self.log.snapshot == null || self.log.snapshot > 0");
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = [false; 2];
    for _ in 0..50 {
        let animals = crate::zoo::animals()
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let holds = animals
            .iter()
            .all(|animal| animal.state.log.snapshot != Some(0));
        let judgement = set.always[0].predicate.judge(&crate::zoo::views(&animals));
        assert_eq!(judgement, holds.into());
        seen[usize::from(holds)] = true;
    }
    assert_eq!(seen, [true, true]);
}
