//! Static checking: every name resolved and every type held against the service's shape, all errors at once.

use std::ops::Range;

use crate::diagnostic::Complaint;
use crate::schema::Schema;
use crate::shape::{Sort, Type};
use crate::syntax::{Operator, Syntax, SyntaxKind};
use crate::term::{Term, TermKind, Variable, for_all_nodes};
use crate::value::Value;

pub(super) mod call;
mod field;

/// An expression that fits the service.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) term: Term,
    /// The variables' names as the author wrote them.
    pub(crate) names: Vec<String>,
}

/// Checks an expression that must come to a bool.
pub(crate) fn check(
    schema: &Schema,
    text: &str,
    syntax: &Syntax,
) -> Result<Checked, Vec<Complaint>> {
    let mut checker = Checker {
        schema,
        text,
        names: Vec::new(),
        scope: Vec::new(),
        own: None,
        complaints: Vec::new(),
    };
    let mut term = checker.bool(syntax, "a property");
    if let Some(own) = checker.own {
        // An expression about `self` is about every node.
        term = for_all_nodes(own, term);
    }
    match checker.complaints.is_empty() {
        true => Ok(Checked {
            term,
            names: checker.names,
        }),
        false => Err(checker.complaints),
    }
}

struct Checker<'c> {
    schema: &'c Schema,
    text: &'c str,
    names: Vec<String>,
    scope: Vec<(String, Variable, Type)>,
    /// The variable that stands for `self`, once it was mentioned.
    own: Option<Variable>,
    complaints: Vec<Complaint>,
}

impl Checker<'_> {
    fn complain(&mut self, complaint: Complaint) {
        self.complaints.push(complaint);
    }

    /// Complains, and goes on with a part that nothing more can be said about.
    fn wrong(&mut self, complaint: Complaint) -> Term {
        let span = complaint.span.clone();
        self.complain(complaint);
        Term::new(TermKind::Literal(Value::Unknown), Type::Any, span)
    }

    fn source(&self, span: &Range<usize>) -> &str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    fn fresh(&mut self, name: &str) -> Variable {
        self.names.push(name.to_owned());
        Variable::try_from(self.names.len() - 1).expect("an expression has few variables")
    }

    /// Checks a part that must be a bool.
    fn bool(&mut self, syntax: &Syntax, what: &str) -> Term {
        let term = self.term(syntax);
        self.expect(&term, &[Sort::Bool], &format!("{what} must be a bool"));
        term
    }

    /// Complains if a part can be none of some sorts.
    fn expect(&mut self, term: &Term, sorts: &[Sort], message: &str) -> bool {
        let fits = sorts.iter().any(|&sort| term.of.can_be(sort));
        if !fits {
            let complaint = Complaint::new(term.span.clone(), message);
            self.complain(complaint.label(format!("this is {}", term.of)));
        }
        fits
    }

    fn term(&mut self, syntax: &Syntax) -> Term {
        let span = syntax.span.clone();
        match &syntax.kind {
            SyntaxKind::Literal(value) => {
                Term::new(TermKind::Literal(value.clone()), literal_type(value), span)
            }
            SyntaxKind::Name(name) => self.name(name, span),
            SyntaxKind::Select {
                operand,
                field,
                field_span,
            } => self.select(operand, field, field_span.clone(), span),
            SyntaxKind::Index(operand, index) => self.index(operand, index, span),
            SyntaxKind::Not(inner) => {
                let inner = self.bool(inner, "what follows `!`");
                Term::new(TermKind::Not(Box::new(inner)), Type::Bool, span)
            }
            SyntaxKind::Negate(inner) => {
                let inner = self.term(inner);
                self.expect(&inner, &[Sort::Number], "what follows `-` must be a number");
                let of = inner.of.clone();
                Term::new(TermKind::Negate(Box::new(inner)), of, span)
            }
            SyntaxKind::And(parts) => {
                let parts = parts.iter().map(|part| self.bool(part, "a side of `&&`"));
                Term::new(TermKind::And(parts.collect()), Type::Bool, span)
            }
            SyntaxKind::Or(parts) => {
                let parts = parts.iter().map(|part| self.bool(part, "a side of `||`"));
                Term::new(TermKind::Or(parts.collect()), Type::Bool, span)
            }
            SyntaxKind::Binary(operator, left, right) => self.binary(*operator, left, right, span),
            SyntaxKind::Conditional(parts) => self.conditional(parts, span),
            SyntaxKind::List(items) => self.list(items, span),
            SyntaxKind::Map(entries) => self.map(entries, span),
            SyntaxKind::Call {
                target,
                function,
                name_span,
                arguments,
            } => self.call(
                target.as_deref(),
                function,
                name_span.clone(),
                arguments,
                span,
            ),
        }
    }

    fn conditional(&mut self, parts: &[Syntax; 3], span: Range<usize>) -> Term {
        let [condition, yes, no] = parts;
        let condition = self.bool(condition, "what stands before `?`");
        let (yes, no) = (self.term(yes), self.term(no));
        let of = self.joined(&[&yes, &no], "the two sides of `:`", &span);
        Term::new(
            TermKind::Conditional(Box::new([condition, yes, no])),
            of,
            span,
        )
    }

    fn list(&mut self, items: &[Syntax], span: Range<usize>) -> Term {
        let items: Vec<Term> = items.iter().map(|item| self.term(item)).collect();
        let refs: Vec<&Term> = items.iter().collect();
        let of = self.joined(&refs, "the elements of a list", &span);
        Term::new(TermKind::List(items), Type::list(of), span)
    }

    fn map(&mut self, entries: &[(Syntax, Syntax)], span: Range<usize>) -> Term {
        let entries: Vec<(Term, Term)> = entries
            .iter()
            .map(|(key, value)| (self.term(key), self.term(value)))
            .collect();
        let keys: Vec<&Term> = entries.iter().map(|(key, _)| key).collect();
        let values: Vec<&Term> = entries.iter().map(|(_, value)| value).collect();
        let keys = self.joined(&keys, "the keys of a map", &span);
        let values = self.joined(&values, "the values of a map", &span);
        let of = Type::Map(Box::new(keys), Box::new(values));
        Term::new(TermKind::Map(entries), of, span)
    }

    /// Returns the type of what is one of several. Nodes stay among themselves, so that it is always known where a
    /// node's state is read.
    fn joined(&mut self, terms: &[&Term], what: &str, span: &Range<usize>) -> Type {
        let with_nodes = terms.iter().filter(|term| term.of.has_node()).count();
        let of = terms
            .iter()
            .map(|term| term.of.clone())
            .fold(Type::Never, Type::join);
        let mixed = with_nodes > 0 && (with_nodes < terms.len() || matches!(of, Type::OneOf(_)));
        if mixed {
            let message = format!("{what} must all be nodes or none of them");
            self.complain(Complaint::new(span.clone(), message));
            return Type::Any;
        }
        match of {
            Type::Never => Type::Any,
            of => of,
        }
    }

    fn name(&mut self, name: &str, span: Range<usize>) -> Term {
        if let Some((_, variable, of)) = self.scope.iter().rev().find(|(known, ..)| known == name) {
            return Term::new(TermKind::Variable(*variable), of.clone(), span);
        }
        match name {
            "nodes" => Term::new(TermKind::Nodes, Type::list(Type::Node), span),
            "self" => {
                let own = match self.own {
                    Some(own) => own,
                    None => self.fresh("self"),
                };
                self.own = Some(own);
                Term::node(own, span)
            }
            _ => {
                let known: Vec<&str> = self.scope.iter().map(|(name, ..)| name.as_str()).collect();
                let complaint = Complaint::new(span, format!("unknown name `{name}`"))
                    .suggest(name, known.into_iter().chain(["nodes", "self"]));
                let complaint = match &complaint.help {
                    None if self.schema.state.fields.contains_key(name) => complaint.help(format!(
                        "a field is read from a node: `nodes.all(n, … n.{name} …)` or `self.{name}`"
                    )),
                    None => {
                        complaint.help("an expression starts from `nodes`, `self` or `node(id)`")
                    }
                    Some(_) => complaint,
                };
                self.wrong(complaint)
            }
        }
    }

    fn binary(
        &mut self,
        operator: Operator,
        left: &Syntax,
        right: &Syntax,
        span: Range<usize>,
    ) -> Term {
        let (left, right) = (self.term(left), self.term(right));
        let of = match operator {
            Operator::Equal | Operator::NotEqual => {
                self.comparable(&left, &right, operator, &span);
                Type::Bool
            }
            Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
                self.ordered(&left, &right, operator, &span);
                Type::Bool
            }
            Operator::In => {
                self.contained(&left, &right);
                Type::Bool
            }
            _ => self.arithmetic(operator, &left, &right, &span),
        };
        Term::new(
            TermKind::Binary(operator, Box::new([left, right])),
            of,
            span,
        )
    }

    fn comparable(&mut self, left: &Term, right: &Term, operator: Operator, span: &Range<usize>) {
        if !left.of.overlaps(&right.of) {
            let answer = match operator {
                Operator::Equal => "equal",
                _ => "anything but different",
            };
            let (a, b) = (self.source(&left.span), self.source(&right.span));
            let message = match (&left.of, &right.of) {
                (_, Type::Null) => format!("`{a}` is never null"),
                (Type::Null, _) => format!("`{b}` is never null"),
                _ => format!("`{a}` and `{b}` are never {answer}"),
            };
            let label = format!("{} and {}", left.of, right.of);
            let mut complaint = Complaint::new(span.clone(), message).label(label);
            let of_node = (left.of == Type::Node, right.of == Type::Node);
            if of_node == (true, false) || of_node == (false, true) {
                complaint = complaint.help("compare a node's `id`");
            }
            self.complain(complaint);
            return;
        }
        self.word(left, &right.of);
        self.word(right, &left.of);
    }

    /// Complains about a text that is none of the words an enum has.
    fn word(&mut self, literal: &Term, other: &Type) {
        let TermKind::Literal(Value::Text(word)) = &literal.kind else {
            return;
        };
        let words = other.choices().iter().find_map(|choice| match choice {
            Type::Text(Some(words)) => Some(words),
            _ => None,
        });
        if let Some(words) = words.filter(|words| !words.contains(&**word)) {
            let known: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            let complaint = Complaint::new(
                literal.span.clone(),
                format!("{word:?} is not one of its values"),
            )
            .help(format!("there are {}", known.join(", ")))
            .suggest(word, words.iter().map(String::as_str));
            self.complain(complaint);
        }
    }

    fn ordered(&mut self, left: &Term, right: &Term, operator: Operator, span: &Range<usize>) {
        const ORDERED: [Sort; 4] = [Sort::Number, Sort::Text, Sort::Bytes, Sort::Bool];
        let fits = ORDERED
            .iter()
            .any(|&sort| left.of.can_be(sort) && right.of.can_be(sort));
        if !fits {
            let message = format!("`{}` cannot compare these", operator.symbol());
            let label = format!("{} and {}", left.of, right.of);
            self.complain(Complaint::new(span.clone(), message).label(label));
        }
    }

    fn contained(&mut self, element: &Term, container: &Term) {
        let right = "what stands after `in` must be a list or a map";
        if !self.expect(container, &[Sort::List, Sort::Map], right) {
            return;
        }
        let elements = elements_of(&container.of);
        if !element.of.overlaps(&elements) {
            let (a, b) = (self.source(&element.span), self.source(&container.span));
            let message = format!("`{a}` is never in `{b}`");
            let label = format!("{} in {}", element.of, container.of);
            let span = element.span.start..container.span.end;
            let mut complaint = Complaint::new(span, message).label(label);
            if element.of == Type::Node {
                complaint = complaint.help("look for the node's `id`");
            }
            self.complain(complaint);
            return;
        }
        self.word(element, &elements);
        if let TermKind::List(items) = &container.kind {
            for item in items {
                self.word(item, &element.of);
            }
        }
    }

    fn arithmetic(
        &mut self,
        operator: Operator,
        left: &Term,
        right: &Term,
        span: &Range<usize>,
    ) -> Type {
        if left.of.is_unchecked() || right.of.is_unchecked() {
            if left.of.has_node() || right.of.has_node() {
                self.joined(&[left, right], "the two sides of `+`", span);
            }
            return Type::Any;
        }
        let both = |sort| left.of.can_be(sort) && right.of.can_be(sort);
        if operator == Operator::Add {
            if both(Sort::List) {
                return self.joined(&[left, right], "the two sides of `+`", span);
            }
            if both(Sort::Text) {
                return Type::TEXT;
            }
            if both(Sort::Bytes) {
                return Type::Bytes;
            }
        }
        let message = format!("`{}` cannot combine these", operator.symbol());
        let label = format!("{} and {}", left.of, right.of);
        let complaint = Complaint::new(span.clone(), message).label(label);
        if !both(Sort::Number) {
            self.complain(complaint);
            return Type::Any;
        }
        match (&left.of, &right.of) {
            (Type::Int, Type::Int) => Type::Int,
            (Type::Double, Type::Double) => Type::Double,
            (Type::Int, Type::Double) | (Type::Double, Type::Int) => {
                self.complain(complaint.help("turn the integer into a double: `double(x)`"));
                Type::Any
            }
            _ => Type::Int.join(Type::Double),
        }
    }
}

/// Returns what `in` and the macros find in a list or a map.
fn elements_of(container: &Type) -> Type {
    let elements = container.choices().iter().map(|choice| match choice {
        Type::List(element) => (**element).clone(),
        Type::Map(key, _) => (**key).clone(),
        Type::Record(_) => Type::TEXT,
        Type::Any => Type::Any,
        _ => Type::Never,
    });
    match elements.fold(Type::Never, Type::join) {
        Type::Never => Type::Any,
        of => of,
    }
}

fn literal_type(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Double(_) => Type::Double,
        Value::Text(_) => Type::TEXT,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Any,
    }
}
