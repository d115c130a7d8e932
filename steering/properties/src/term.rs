//! Checked expressions: every name resolved, every part typed, every macro named.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use crate::shape::{Sort, Type};
use crate::syntax::Operator;
use crate::value::Value;

/// A variable of a macro. Within one property no two macros share one.
pub(crate) type Variable = u32;

/// A part of a checked expression.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) kind: TermKind,
    pub(crate) of: Type,
    /// Where in the expression's text it stands.
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum TermKind {
    Literal(Value),
    Variable(Variable),
    /// All nodes in view.
    Nodes,
    /// The node of an id.
    Lookup(Box<Term>),
    /// A node's id.
    Id(Box<Term>),
    /// The names of a node's armed timers.
    Timers(Box<Term>),
    Field {
        operand: Box<Term>,
        name: Arc<str>,
        /// Whether a struct is known to have it, so that one left out by serde was an empty `Option`.
        absent_is_null: bool,
    },
    Has(Box<Term>, Arc<str>),
    Index(Box<[Term; 2]>),
    Not(Box<Term>),
    Negate(Box<Term>),
    And(Vec<Term>),
    Or(Vec<Term>),
    Binary(Operator, Box<[Term; 2]>),
    Conditional(Box<[Term; 3]>),
    List(Vec<Term>),
    Map(Vec<(Term, Term)>),
    Loop(Box<Loop>),
    Call(Function, Vec<Term>),
    Reach(Box<Reach>),
    /// What was projected of a node, by position.
    Slot(Box<Term>, usize),
}

/// A macro over the elements of a list or the keys of a map.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) name: Macro,
    pub(crate) variable: Variable,
    pub(crate) range: Term,
    /// Which elements `map` takes, in its form with three arguments.
    pub(crate) condition: Option<Term>,
    pub(crate) body: Term,
    /// Whether it was seen that condition and body have an answer for every element, before parts of them became slots.
    pub(crate) sure: bool,
}

impl Loop {
    /// Tells whether condition and body have an answer for every element there could be.
    pub(crate) fn is_sure(&self) -> bool {
        let is_bool = |term: &Term| term.is_total() && term.of.is_only(Sort::Bool);
        let body = match self.name {
            Macro::Map => self.body.is_total(),
            _ => is_bool(&self.body),
        };
        self.sure || (body && self.condition.as_ref().is_none_or(is_bool))
    }
}

/// The nodes that are reached from a node by following pointers, at least one.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) start: Term,
    pub(crate) variable: Variable,
    /// Where the pointers of `variable` lead: an id, null, or a list of ids.
    pub(crate) step: Term,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Macro {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Function {
    Size,
    Distinct,
    Intersects,
    Contains,
    Equivalent,
    TextContains,
    StartsWith,
    EndsWith,
    ToInt,
    ToDouble,
    ToText,
}

impl Function {
    /// Returns the sorts of arguments to which it always has an answer.
    fn always_answers(self) -> Option<&'static [Sort]> {
        match self {
            Self::Size => Some(&[Sort::List, Sort::Map, Sort::Text, Sort::Bytes]),
            Self::Distinct | Self::Intersects | Self::Contains | Self::Equivalent => {
                Some(&[Sort::List])
            }
            Self::TextContains | Self::StartsWith | Self::EndsWith => Some(&[Sort::Text]),
            Self::ToInt | Self::ToDouble | Self::ToText => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Distinct => "distinct",
            Self::Intersects => "sets.intersects",
            Self::Contains => "sets.contains",
            Self::Equivalent => "sets.equivalent",
            Self::TextContains => "contains",
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::ToInt => "int",
            Self::ToDouble => "double",
            Self::ToText => "string",
        }
    }
}

impl Macro {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Exists => "exists",
            Self::ExistsOne => "exists_one",
            Self::Map => "map",
            Self::Filter => "filter",
        }
    }
}

impl Term {
    pub(crate) fn new(kind: TermKind, of: Type, span: Range<usize>) -> Self {
        Self { kind, of, span }
    }

    pub(crate) fn bool(value: bool, span: Range<usize>) -> Self {
        Self::new(TermKind::Literal(value.into()), Type::Bool, span)
    }

    pub(crate) fn node(variable: Variable, span: Range<usize>) -> Self {
        Self::new(TermKind::Variable(variable), Type::Node, span)
    }

    pub(crate) fn not(self) -> Self {
        let span = self.span.clone();
        Self::new(TermKind::Not(Box::new(self)), Type::Bool, span)
    }

    pub(crate) fn is_true(&self) -> bool {
        matches!(self.kind, TermKind::Literal(Value::Bool(true)))
    }

    pub(crate) fn is_false(&self) -> bool {
        matches!(self.kind, TermKind::Literal(Value::Bool(false)))
    }

    pub(crate) fn children(&self) -> Vec<&Self> {
        match &self.kind {
            TermKind::Literal(_) | TermKind::Variable(_) | TermKind::Nodes => Vec::new(),
            TermKind::Lookup(inner)
            | TermKind::Id(inner)
            | TermKind::Timers(inner)
            | TermKind::Field { operand: inner, .. }
            | TermKind::Has(inner, _)
            | TermKind::Not(inner)
            | TermKind::Negate(inner)
            | TermKind::Slot(inner, _) => vec![inner],
            TermKind::Index(both) | TermKind::Binary(_, both) => both.iter().collect(),
            TermKind::And(all)
            | TermKind::Or(all)
            | TermKind::List(all)
            | TermKind::Call(_, all) => all.iter().collect(),
            TermKind::Conditional(all) => all.iter().collect(),
            TermKind::Map(entries) => entries
                .iter()
                .flat_map(|(key, value)| [key, value])
                .collect(),
            TermKind::Loop(of) => {
                let mut all = vec![&of.range];
                all.extend(&of.condition);
                all.push(&of.body);
                all
            }
            TermKind::Reach(of) => vec![&of.start, &of.step],
        }
    }

    fn children_mut(&mut self) -> Vec<&mut Self> {
        match &mut self.kind {
            TermKind::Literal(_) | TermKind::Variable(_) | TermKind::Nodes => Vec::new(),
            TermKind::Lookup(inner)
            | TermKind::Id(inner)
            | TermKind::Timers(inner)
            | TermKind::Field { operand: inner, .. }
            | TermKind::Has(inner, _)
            | TermKind::Not(inner)
            | TermKind::Negate(inner)
            | TermKind::Slot(inner, _) => vec![inner],
            TermKind::Index(both) | TermKind::Binary(_, both) => both.iter_mut().collect(),
            TermKind::And(all)
            | TermKind::Or(all)
            | TermKind::List(all)
            | TermKind::Call(_, all) => all.iter_mut().collect(),
            TermKind::Conditional(all) => all.iter_mut().collect(),
            TermKind::Map(entries) => entries
                .iter_mut()
                .flat_map(|(key, value)| [key, value])
                .collect(),
            TermKind::Loop(of) => {
                let mut all = vec![&mut of.range];
                all.extend(&mut of.condition);
                all.push(&mut of.body);
                all
            }
            TermKind::Reach(of) => vec![&mut of.start, &mut of.step],
        }
    }

    /// Replaces parts from the top down: where `replace` has an answer, the part's own parts are not looked at.
    pub(crate) fn rewrite(&mut self, replace: &mut impl FnMut(&Self) -> Option<Self>) {
        if let Some(new) = replace(self) {
            *self = new;
            return;
        }
        for child in self.children_mut() {
            child.rewrite(replace);
        }
    }

    /// Replaces parts from the bottom up, each after its own parts.
    pub(crate) fn rewrite_up(&mut self, replace: &mut impl FnMut(&mut Self)) {
        for child in self.children_mut() {
            child.rewrite_up(replace);
        }
        replace(self);
    }

    /// Notes of every macro whether its parts always have an answer, as long as that can be seen.
    pub(crate) fn note_sure(&mut self) {
        self.rewrite_up(&mut |part| {
            if let TermKind::Loop(of) = &mut part.kind {
                of.sure = of.is_sure();
            }
        });
    }

    /// Looks at every part.
    pub(crate) fn any(&self, test: &mut impl FnMut(&Self) -> bool) -> bool {
        test(self) || self.children().into_iter().any(|child| child.any(test))
    }

    /// Puts a term in the place of a variable.
    pub(crate) fn substitute(mut self, variable: Variable, term: &Self) -> Self {
        self.rewrite(&mut |part| match part.kind {
            TermKind::Variable(this) if this == variable => Some(term.clone()),
            _ => None,
        });
        self
    }

    pub(crate) fn mentions(&self, variable: Variable) -> bool {
        self.any(&mut |part| matches!(part.kind, TermKind::Variable(this) if this == variable))
    }

    /// Tells whether it depends on more of the view than the nodes its variables stand for.
    pub(crate) fn looks_around(&self) -> bool {
        self.any(&mut |part| {
            matches!(
                part.kind,
                TermKind::Nodes | TermKind::Lookup(_) | TermKind::Reach(_)
            )
        })
    }

    /// Counts the parts.
    pub(crate) fn size(&self) -> usize {
        1 + self.children().into_iter().map(Self::size).sum::<usize>()
    }

    /// Tells whether it always has an answer. `false` only says that this cannot be seen from its types.
    pub(crate) fn is_total(&self) -> bool {
        let children = || self.children().into_iter().all(Self::is_total);
        match &self.kind {
            TermKind::Literal(value) => *value != Value::Unknown,
            TermKind::Variable(_) | TermKind::Nodes => true,
            TermKind::Lookup(_) | TermKind::Index(_) | TermKind::Reach(_) | TermKind::Slot(..) => {
                false
            }
            TermKind::Id(_)
            | TermKind::Timers(_)
            | TermKind::Has(..)
            | TermKind::List(_)
            | TermKind::Map(_) => children(),
            TermKind::Field {
                operand,
                absent_is_null,
                ..
            } => {
                *absent_is_null
                    && matches!(operand.of, Type::Node | Type::Record(_))
                    && operand.is_total()
            }
            TermKind::Not(_) | TermKind::And(_) | TermKind::Or(_) => {
                children()
                    && self
                        .children()
                        .into_iter()
                        .all(|child| child.is_only(&[Sort::Bool]))
            }
            // Numbers can overflow.
            TermKind::Negate(_) => false,
            TermKind::Binary(operator, sides) => children() && always_answers(*operator, sides),
            TermKind::Conditional(parts) => parts[0].is_only(&[Sort::Bool]) && children(),
            TermKind::Loop(of) => {
                let needs_bool = of.name != Macro::Map;
                of.range.is_only(&[Sort::List, Sort::Map])
                    && children()
                    && (!needs_bool || of.body.is_only(&[Sort::Bool]))
                    && of
                        .condition
                        .as_ref()
                        .is_none_or(|condition| condition.is_only(&[Sort::Bool]))
            }
            TermKind::Call(function, arguments) => {
                let fits = |sorts| arguments.iter().all(|argument| argument.is_only(sorts));
                function.always_answers().is_some_and(fits) && children()
            }
        }
    }

    fn is_only(&self, sorts: &[Sort]) -> bool {
        sorts.iter().any(|&sort| self.of.is_only(sort))
    }

    /// Writes it down so that equal terms have equal texts, wherever they stand.
    pub(crate) fn key(&self) -> String {
        self.written(&|variable| format!("${variable}"))
    }

    /// Writes it as an author would.
    pub(crate) fn written(&self, name: &dyn Fn(Variable) -> String) -> String {
        let mut out = String::new();
        self.write(name, &mut out);
        out
    }

    fn write(&self, name: &dyn Fn(Variable) -> String, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match &self.kind {
            TermKind::Literal(value) => write!(out, "{value}"),
            TermKind::Variable(variable) => write!(out, "{}", name(*variable)),
            TermKind::Nodes => write!(out, "nodes"),
            TermKind::Lookup(id) => write!(out, "node({})", id.written(name)),
            TermKind::Id(node) => write!(out, "{}.id", node.written(name)),
            TermKind::Timers(node) => write!(out, "{}.timers", node.written(name)),
            TermKind::Field {
                operand,
                name: field,
                ..
            } => write!(out, "{}.{field}", operand.guarded(name)),
            TermKind::Has(operand, field) => write!(out, "has({}.{field})", operand.guarded(name)),
            TermKind::Index(both) => {
                let [operand, index] = &**both;
                write!(out, "{}[{}]", operand.guarded(name), index.written(name))
            }
            TermKind::Not(inner) => write!(out, "!{}", inner.guarded(name)),
            TermKind::Negate(inner) => write!(out, "-{}", inner.guarded(name)),
            TermKind::And(all) => write!(out, "{}", joined(all, " && ", true, name)),
            TermKind::Or(all) => write!(out, "{}", joined(all, " || ", true, name)),
            TermKind::Binary(operator, both) => {
                let [left, right] = &**both;
                let (left, right) = (left.guarded(name), right.guarded(name));
                write!(out, "{left} {} {right}", operator.symbol())
            }
            TermKind::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let (condition, yes) = (condition.guarded(name), yes.guarded(name));
                write!(out, "{condition} ? {yes} : {}", no.guarded(name))
            }
            TermKind::List(items) => write!(out, "[{}]", joined(items, ", ", false, name)),
            TermKind::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, value)| format!("{}: {}", key.written(name), value.written(name)));
                write!(out, "{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            TermKind::Loop(of) => {
                let condition = of.condition.as_ref();
                let condition = condition.map(|condition| condition.written(name) + ", ");
                write!(
                    out,
                    "{}.{}({}, {}{})",
                    of.range.guarded(name),
                    of.name.name(),
                    name(of.variable),
                    condition.unwrap_or_default(),
                    of.body.written(name)
                )
            }
            TermKind::Call(function, arguments) => {
                write!(
                    out,
                    "{}({})",
                    function.name(),
                    joined(arguments, ", ", false, name)
                )
            }
            TermKind::Reach(of) => {
                let (start, step) = (of.start.written(name), of.step.written(name));
                write!(out, "reach({start}, {} -> {step})", name(of.variable))
            }
            TermKind::Slot(node, slot) => write!(out, "{}#{slot}", node.written(name)),
        };
    }

    fn guarded(&self, name: &dyn Fn(Variable) -> String) -> String {
        let text = self.written(name);
        match self.kind {
            TermKind::And(_)
            | TermKind::Or(_)
            | TermKind::Binary(..)
            | TermKind::Conditional(_) => format!("({text})"),
            _ => text,
        }
    }
}

/// "For all nodes: body".
pub(crate) fn for_all_nodes(variable: Variable, body: Term) -> Term {
    let span = body.span.clone();
    let kind = TermKind::Loop(Box::new(Loop {
        name: Macro::All,
        variable,
        range: Term::new(TermKind::Nodes, Type::list(Type::Node), span.clone()),
        condition: None,
        body,
        sure: false,
    }));
    Term::new(kind, Type::Bool, span)
}

/// Tells whether an operator always has an answer for two sides that have one.
fn always_answers(operator: Operator, sides: &[Term; 2]) -> bool {
    let [left, right] = sides;
    match operator {
        Operator::Equal | Operator::NotEqual => true,
        Operator::In => right.is_only(&[Sort::List]),
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            (left.of == Type::Int && right.of == Type::Int)
                || (left.is_only(&[Sort::Text]) && right.is_only(&[Sort::Text]))
        }
        // Numbers can overflow.
        _ => false,
    }
}

fn joined(all: &[Term], between: &str, guard: bool, name: &dyn Fn(Variable) -> String) -> String {
    let written = all.iter().map(|term| match (guard, &term.kind) {
        (true, TermKind::And(_) | TermKind::Or(_) | TermKind::Conditional(_)) => term.guarded(name),
        _ => term.written(name),
    });
    written.collect::<Vec<_>>().join(between)
}
