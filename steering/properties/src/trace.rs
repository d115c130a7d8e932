//! The shape of a type, learned by letting its `Deserialize` ask for its parts.
//!
//! A type is deserialised from nothing, over and over: whatever it asks for is noted and answered with a made-up value,
//! an enum with another variant each time. A type that asks for "anything" (untagged enums, say) stays unchecked; one
//! that refuses every made-up value leaves the parts it would have asked for next unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::catch_unwind;

use serde::Deserializer;
use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use crate::shape::{Record, Type};

/// How often a type is deserialised at most; one that has not told everything by then is not checked at all.
const RUNS_MAX: usize = 4096;
/// How deep a type is followed; a recursive one ends here.
const DEPTH_MAX: usize = 12;
/// Made-up texts, tried in turn until the type accepts one.
const TEXTS: [&str; 4] = ["", "a", "0", "127.0.0.1"];

/// Returns what is known of a type.
pub(crate) fn trace<T: DeserializeOwned>() -> Type {
    // The type's own code runs here, on values it may never have seen before.
    catch_unwind(trace_here::<T>).unwrap_or(Type::Any)
}

fn trace_here<T: DeserializeOwned>() -> Type {
    let mut known = Type::Never;
    let mut notes = Notes::default();
    for answers in 0..TEXTS.len() {
        notes.answers = answers;
        let mut runs = 0;
        loop {
            notes.path.clear();
            notes.active.clear();
            let before = notes.changes;
            let mut seen = Type::Never;
            let ended = T::deserialize(Tracer {
                out: &mut seen,
                notes: &mut notes,
                depth: 0,
            });
            known = known.join(seen);
            if notes.changes == before {
                if ended.is_ok() {
                    return known;
                }
                break;
            }
            runs += 1;
            if runs > RUNS_MAX {
                return Type::Any;
            }
        }
        notes.retry();
    }
    known
}

/// What is remembered from one run to the next.
#[derive(Default)]
struct Notes {
    /// The way to the part being asked for.
    path: Vec<String>,
    /// By the way to an enum: what is known of its variants.
    variants: BTreeMap<String, Variants>,
    /// Counts variants tried for the first time and variants found to have no more to tell.
    changes: usize,
    answers: usize,
    /// The enums being read, outermost first, told apart by where their variants' names are.
    active: Vec<usize>,
    /// By enum, a variant that could be read to its end.
    ending: BTreeMap<usize, usize>,
}

#[derive(Default)]
struct Variants {
    tried: BTreeSet<usize>,
    /// Those that have nothing more to tell: all enums inside them are done as well.
    done: BTreeSet<usize>,
    accepted: Option<usize>,
}

impl Notes {
    fn here(&mut self) -> &mut Variants {
        self.variants.entry(self.path.join("/")).or_default()
    }

    /// Picks a variant that has something to tell, or one that is known to work.
    fn pick(&mut self, count: usize) -> usize {
        let here = self.here();
        let next = (0..count).find(|variant| !here.done.contains(variant));
        let variant = next.or(here.accepted).unwrap_or(0);
        if here.tried.insert(variant) {
            self.changes += 1;
        }
        variant
    }

    /// Notes how a variant went; it is done if nothing inside it was new.
    fn leave(&mut self, variant: usize, told_nothing: bool, accepted: bool) {
        let here = self.here();
        if accepted {
            here.accepted = Some(variant);
        }
        if told_nothing && here.done.insert(variant) {
            self.changes += 1;
        }
    }

    /// Forgets which variants failed, so that other answers get a chance.
    fn retry(&mut self) {
        self.variants.retain(|_, here| here.accepted.is_some());
    }
}

struct Tracer<'t> {
    out: &'t mut Type,
    notes: &'t mut Notes,
    depth: usize,
}

/// A type that refused what it was given.
#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self
    }
}

impl Tracer<'_> {
    fn note(&mut self, seen: Type) {
        *self.out = std::mem::take(self.out).join(seen);
    }

    fn answer(&self) -> usize {
        self.notes.answers
    }

    fn is_deep(&self) -> bool {
        self.depth >= DEPTH_MAX
    }
}

macro_rules! integers {
    ($($method:ident $visit:ident $type:ty),*) => {
        $(fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
            self.note(Type::Int);
            visitor.$visit(self.answer() as $type)
        })*
    };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Refused;

    integers!(
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_i128 visit_i128 i128, deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
        deserialize_u128 visit_u128 u128
    );

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Type::Any);
        match self.answer() {
            0 => visitor.visit_unit(),
            1 => visitor.visit_u64(0),
            2 => visitor.visit_str("a"),
            _ => visitor.visit_map(Empty),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Type::Bool);
        visitor.visit_bool(self.answer() % 2 == 1)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Type::Double);
        visitor.visit_f64(self.answer() as f64)
    }

    fn deserialize_char<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Type::TEXT);
        visitor.visit_char('a')
    }

    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Type::TEXT);
        visitor.visit_str(TEXTS[self.answer()])
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Type::Bytes);
        visitor.visit_bytes(&[])
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Type::Null);
        if self.is_deep() {
            self.note(Type::Any);
            return visitor.visit_none();
        }
        let mut inner = Type::Never;
        let ended = visitor.visit_some(Tracer {
            out: &mut inner,
            notes: self.notes,
            depth: self.depth + 1,
        });
        self.note(inner);
        ended
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Type::Null);
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let count = usize::from(!self.is_deep());
        self.deserialize_tuple(count, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        mut self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let mut element = Type::Never;
        let ended = visitor.visit_seq(Parts {
            element: &mut element,
            notes: self.notes,
            depth: self.depth + 1,
            left: len,
        });
        self.note(Type::list(element));
        ended
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let (mut key, mut value) = (Type::Never, Type::Never);
        let ended = visitor.visit_map(Entries {
            key: &mut key,
            value: &mut value,
            depth: self.depth + 1,
            done: self.is_deep(),
            notes: self.notes,
        });
        self.note(Type::Map(Box::new(key), Box::new(value)));
        ended
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let unseen = fields.iter().map(|name| ((*name).to_owned(), Type::Never));
        let mut record = Record {
            variant: false,
            open: false,
            fields: unseen.collect(),
        };
        let ended = visitor.visit_map(Fields {
            record: &mut record,
            names: fields,
            at: 0,
            depth: self.depth + 1,
            notes: self.notes,
        });
        self.note(Type::Record(record));
        ended
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let which = variants.as_ptr() as usize;
        let is_within_itself = self.notes.active.contains(&which);
        let variant = match is_within_itself {
            // A recursive enum is followed once; inside itself it takes any variant that is known to end.
            true => {
                self.note(Type::Any);
                *self.notes.ending.get(&which).ok_or(Refused)?
            }
            false => self.notes.pick(variants.len()),
        };
        let name = variants.get(variant).ok_or(Refused)?;
        let mut seen = Type::Never;
        let before = self.notes.changes;
        let depth = self.notes.path.len();
        self.notes.path.push((*name).to_owned());
        self.notes.active.push(which);
        let ended = visitor.visit_enum(Variant {
            name,
            out: &mut seen,
            depth: self.depth + 1,
            notes: self.notes,
        });
        self.notes.path.truncate(depth);
        self.notes.active.pop();
        if is_within_itself {
            return ended;
        }
        let told_nothing = self.notes.changes == before;
        self.notes.leave(variant, told_nothing, ended.is_ok());
        if ended.is_ok() {
            self.notes.ending.entry(which).or_insert(variant);
        }
        self.note(seen);
        ended
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_str(TEXTS[self.answer()])
    }
}

/// The elements of a list or tuple.
struct Parts<'t> {
    element: &'t mut Type,
    notes: &'t mut Notes,
    depth: usize,
    left: usize,
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.notes.path.push(format!("[{}]", self.left));
        let ended = seed.deserialize(Tracer {
            out: self.element,
            notes: self.notes,
            depth: self.depth,
        });
        self.notes.path.pop();
        ended.map(Some)
    }
}

/// The entry of a map.
struct Entries<'t> {
    key: &'t mut Type,
    value: &'t mut Type,
    notes: &'t mut Notes,
    depth: usize,
    done: bool,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(None);
        }
        self.notes.path.push("key".into());
        let ended = seed.deserialize(Tracer {
            out: self.key,
            notes: self.notes,
            depth: self.depth,
        });
        self.notes.path.pop();
        ended.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        self.notes.path.push("value".into());
        let ended = seed.deserialize(Tracer {
            out: self.value,
            notes: self.notes,
            depth: self.depth,
        });
        self.notes.path.pop();
        ended
    }
}

/// The fields of a struct.
struct Fields<'t> {
    record: &'t mut Record,
    names: &'static [&'static str],
    at: usize,
    notes: &'t mut Notes,
    depth: usize,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        let Some(name) = self.names.get(self.at) else {
            return Ok(None);
        };
        let name: StrDeserializer<'_, Refused> = (*name).into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let name = self.names[self.at];
        self.at += 1;
        self.notes.path.push(name.to_owned());
        let ended = seed.deserialize(Tracer {
            out: self.record.fields.entry(name.to_owned()).or_default(),
            notes: self.notes,
            depth: self.depth,
        });
        self.notes.path.pop();
        ended
    }
}

/// One variant of an enum.
struct Variant<'t> {
    name: &'static str,
    out: &'t mut Type,
    notes: &'t mut Notes,
    depth: usize,
}

impl Variant<'_> {
    fn note_data(&mut self, data: Type) {
        *self.out = Type::Record(Record {
            variant: true,
            open: false,
            fields: [(self.name.to_owned(), data)].into(),
        });
    }

    fn data<R>(
        &mut self,
        run: impl FnOnce(Tracer<'_>) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        let mut data = Type::Never;
        let ended = run(Tracer {
            out: &mut data,
            notes: self.notes,
            depth: self.depth,
        });
        self.note_data(data);
        ended
    }
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Refused> {
        let name: StrDeserializer<'_, Refused> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        *self.out = Type::Text(Some([self.name.to_owned()].into()));
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        mut self,
        seed: T,
    ) -> Result<T::Value, Refused> {
        self.data(|tracer| seed.deserialize(tracer))
    }

    fn tuple_variant<V: Visitor<'de>>(
        mut self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.data(|tracer| tracer.deserialize_tuple(len, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.data(|tracer| tracer.deserialize_struct("", fields, visitor))
    }
}

/// A map without entries.
struct Empty;

impl<'de> MapAccess<'de> for Empty {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        _seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _seed: V) -> Result<V::Value, Refused> {
        Err(Refused)
    }
}

#[cfg(test)]
mod tests {
    #![expect(dead_code, reason = "the types are only asked for their shape")]

    use std::collections::{BTreeMap, BTreeSet};
    use std::num::NonZeroU8;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct State {
        term: u64,
        parent: Option<u32>,
        children: BTreeSet<u32>,
        phase: Phase,
        votes: BTreeMap<u32, bool>,
        positive: NonZeroU8,
        #[serde(rename = "newName")]
        renamed: String,
        anything: Untagged,
        after: u8,
    }

    #[derive(Deserialize)]
    enum Phase {
        Idle,
        Leading { term: u64 },
        Following(u32),
        Lost,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Number(u32),
        Text(String),
    }

    #[derive(Deserialize)]
    struct Tree {
        children: Vec<Tree>,
        next: Option<Box<Tree>>,
    }

    fn fields(of: Type) -> BTreeMap<String, Type> {
        match of {
            Type::Record(record) => record.fields,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_struct_tells_its_fields() {
        let fields = fields(trace::<State>());
        let check = |name: &str, expect: &str| {
            assert_eq!(fields[name].to_string(), expect, "{name}");
        };
        check("term", "an integer");
        check("parent", "null or an integer");
        check("children", "a list of integers");
        check("phase", r#"one of "Idle", "Lost" or a variant"#);
        check("votes", "a map");
        check("positive", "an integer");
        check("newName", "a string");
        check("anything", "anything");
        check("after", "an integer");
    }

    #[derive(Deserialize)]
    enum Outer {
        First(Inner),
        Second { inner: Inner },
        Third,
    }

    #[derive(Deserialize)]
    enum Inner {
        A,
        B,
        C,
    }

    #[derive(Deserialize)]
    enum Formula {
        And(Box<Formula>, Box<Formula>),
        Not(Box<Formula>),
        True,
    }

    struct Panics;

    impl<'de> Deserialize<'de> for Panics {
        fn deserialize<D: Deserializer<'de>>(_deserializer: D) -> Result<Self, D::Error> {
            panic!("never made for this")
        }
    }

    #[test]
    fn a_recursive_type_ends() {
        assert_eq!(fields(trace::<Tree>()).len(), 2);
        let formula = trace::<Formula>();
        assert_eq!(formula.to_string(), r#"a variant or one of "True""#);
    }

    #[test]
    fn every_variant_of_every_enum_is_seen() {
        let inner = r#"one of "A", "B", "C""#;
        let Type::OneOf(choices) = trace::<Outer>() else {
            panic!()
        };
        let [Type::Record(variants), Type::Text(Some(words))] = &choices[..] else {
            panic!("{choices:?}")
        };
        assert!(words.contains("Third"));
        assert_eq!(variants.fields["First"].to_string(), inner);
        assert_eq!(
            fields(variants.fields["Second"].clone())["inner"].to_string(),
            inner
        );
    }

    #[test]
    fn a_type_that_panics_is_not_checked() {
        assert_eq!(trace::<Panics>(), Type::Any);
    }
}
