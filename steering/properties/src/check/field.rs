//! Checking what is read from nodes, structs, lists and maps.

use std::ops::Range;
use std::sync::Arc;

use super::Checker;
use crate::diagnostic::Complaint;
use crate::shape::{Record, Sort, Type};
use crate::syntax::Syntax;
use crate::term::{Term, TermKind};
use crate::value::Value;

impl Checker<'_> {
    pub(super) fn select(
        &mut self,
        operand: &Syntax,
        field: &str,
        field_span: Range<usize>,
        span: Range<usize>,
    ) -> Term {
        let operand = self.term(operand);
        match (&operand.of, field) {
            (Type::Node, "id") => Term::new(TermKind::Id(Box::new(operand)), Type::Int, span),
            (Type::Node, "timers") => {
                let names = Type::Text(self.schema.timers.clone());
                let of = Type::list(names);
                Term::new(TermKind::Timers(Box::new(operand)), of, span)
            }
            _ => self.field(operand, field, field_span, span),
        }
    }

    /// Reads a field that comes from serde.
    fn field(
        &mut self,
        operand: Term,
        field: &str,
        field_span: Range<usize>,
        span: Range<usize>,
    ) -> Term {
        let Some((of, absent_is_null)) = self.field_of(&operand, field, field_span) else {
            return Term::new(TermKind::Literal(Value::Unknown), Type::Any, span);
        };
        let kind = TermKind::Field {
            operand: Box::new(operand),
            name: field.into(),
            absent_is_null,
        };
        Term::new(kind, of, span)
    }

    /// Finds a field, or complains. The second answer is whether a struct is known to have it.
    fn field_of(
        &mut self,
        operand: &Term,
        field: &str,
        field_span: Range<usize>,
    ) -> Option<(Type, bool)> {
        if operand.of == Type::Node {
            return self.field_of_a_node(field, field_span);
        }
        let mut found: Option<Type> = None;
        let mut known = true;
        let mut named: Vec<String> = Vec::new();
        for choice in operand.of.choices() {
            let (of, is_struct) = match choice {
                Type::Any | Type::Never => (Type::Any, false),
                Type::Record(Record {
                    fields,
                    open,
                    variant,
                }) => match fields.get(field) {
                    Some(of) => (of.clone(), !variant),
                    None if *open => (Type::Any, false),
                    None => {
                        named.extend(fields.keys().cloned());
                        continue;
                    }
                },
                Type::Map(key, value) if key.can_be(Sort::Text) => ((**value).clone(), false),
                _ => continue,
            };
            known &= is_struct;
            found = Some(found.unwrap_or_default().join(of));
        }
        if found.is_none() {
            let complaint = if named.is_empty() {
                let what = self.source(&operand.span).to_owned();
                Complaint::new(field_span, format!("`{what}` has no fields"))
                    .label(format!("`{what}` is {}", operand.of))
            } else {
                let what = self.source(&operand.span);
                Complaint::new(field_span, format!("`{what}` has no field `{field}`"))
                    .help(format!("it has {}", quoted(named.iter())))
                    .suggest(field, named.iter().map(String::as_str))
            };
            self.complain(complaint);
        }
        found.map(|of| (of, known))
    }

    fn field_of_a_node(&mut self, field: &str, field_span: Range<usize>) -> Option<(Type, bool)> {
        match self.schema.state.fields.get(field) {
            Some(of) => Some((of.clone(), self.schema.is_struct)),
            None if self.schema.state.open => Some((Type::Any, false)),
            None => {
                let candidates = self.schema.state.fields.keys().map(String::as_str);
                let complaint =
                    Complaint::new(field_span, format!("a node has no field `{field}`"))
                        .help(self.fields_of_a_node())
                        .suggest(field, candidates.chain(["id", "timers"]));
                self.complain(complaint);
                None
            }
        }
    }

    fn fields_of_a_node(&self) -> String {
        let own = ["id".to_owned(), "timers".to_owned()];
        format!(
            "it has {}",
            quoted(self.schema.state.fields.keys().chain(&own))
        )
    }

    pub(super) fn has(&mut self, argument: &Syntax, span: Range<usize>) -> Term {
        let term = self.term(argument);
        match term.kind {
            TermKind::Field { operand, name, .. } => {
                Term::new(TermKind::Has(operand, name), Type::Bool, span)
            }
            TermKind::Id(_) | TermKind::Timers(_) => Term::bool(true, span),
            // The complaint is made already.
            TermKind::Literal(Value::Unknown) => term,
            _ => self.wrong(
                Complaint::new(term.span, "`has` asks for a field")
                    .help("write `has(x.field)`, or compare with `null`"),
            ),
        }
    }

    pub(super) fn index(&mut self, operand: &Syntax, index: &Syntax, span: Range<usize>) -> Term {
        let operand = self.term(operand);
        let index = self.term(index);
        let literal = match &index.kind {
            TermKind::Literal(Value::Text(text)) => Some(Arc::clone(text)),
            _ => None,
        };
        let is_named = matches!(operand.of, Type::Node | Type::Record(_));
        if is_named && let Some(name) = literal {
            // `n["id"]` is the service's own field, where `n.id` is the node's.
            return self.field(operand, &name, index.span, span);
        }
        let containers = "only lists and maps can be indexed";
        if operand.of == Type::Node {
            return self.wrong(
                Complaint::new(index.span, "a node is indexed by the name of a field")
                    .help("write `n.field` or `n[\"field\"]`"),
            );
        }
        if !self.expect(&operand, &[Sort::List, Sort::Map], containers) {
            return Term::new(TermKind::Literal(Value::Unknown), Type::Any, span);
        }
        let mut of = Type::Never;
        let mut fits = false;
        for choice in operand.of.choices() {
            match choice {
                Type::List(element) => {
                    fits |= index.of.can_be(Sort::Number);
                    of = of.join((**element).clone());
                }
                Type::Map(key, value) => {
                    fits |= index.of.overlaps(key);
                    of = of.join((**value).clone());
                }
                Type::Record(record) => {
                    fits |= index.of.can_be(Sort::Text);
                    let fields = record.fields.values().cloned();
                    of = fields.fold(of, Type::join);
                }
                Type::Null => {}
                _ => {
                    fits = true;
                    of = Type::Any;
                }
            }
        }
        if !fits {
            let what = self.source(&operand.span).to_owned();
            let complaint =
                Complaint::new(index.span.clone(), format!("`{what}` has no such index"))
                    .label(format!("{} into {}", index.of, operand.of));
            self.complain(complaint);
        }
        if of == Type::Never {
            of = Type::Any;
        }
        Term::new(TermKind::Index(Box::new([operand, index])), of, span)
    }
}

fn quoted<'n>(names: impl Iterator<Item = &'n String>) -> String {
    const SHOWN_MAX: usize = 12;
    let mut all: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if all.len() > SHOWN_MAX {
        all.truncate(SHOWN_MAX);
        all.push("…".into());
    }
    all.join(", ")
}
