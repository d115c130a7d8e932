//! Rewriting an expression into a conjunction of "for all nodes a, b, …: matrix", without changing any answer.
//!
//! Every rule keeps the third truth value: a rule that would turn an unknown into an answer, or the other way round, is
//! applied only where the types show that nothing can be unknown ([`Term::is_total`]).

use std::ops::Range;

use crate::shape::{Sort, Type};
use crate::syntax::Operator;
use crate::term::{Function, Loop, Macro, Term, TermKind, Variable, for_all_nodes};
use crate::value::Value;

/// How many conjuncts one disjunction may be multiplied out to.
const CONJUNCTS_MAX: usize = 16;
/// How large a condition may be to be written twice.
const CONDITION_SIZE_MAX: usize = 16;

/// "For all nodes `prefix`: `matrix`".
#[derive(Clone, Debug)]
pub(crate) struct Conjunct {
    pub(crate) prefix: Vec<Variable>,
    pub(crate) matrix: Term,
}

/// Takes an expression apart. `names` is where new variables are entered.
pub(crate) fn conjuncts(term: &Term, names: &mut Vec<String>) -> Vec<Conjunct> {
    let normal = Normal { names }.push(term.clone(), false);
    let mut all = Vec::new();
    for part in multiply(normal) {
        let mut conjunct = Conjunct {
            prefix: Vec::new(),
            matrix: part,
        };
        while let Some((variable, matrix)) = pull(&conjunct.matrix, !conjunct.prefix.is_empty()) {
            conjunct.prefix.push(variable);
            conjunct.matrix = matrix;
        }
        conjunct.drop_unused();
        fold(&mut conjunct.matrix);
        if !conjunct.matrix.is_true() {
            all.push(conjunct);
        }
    }
    all
}

impl Conjunct {
    /// A variable nobody reads only asks for a node to exist, which another one asks for as well.
    fn drop_unused(&mut self) {
        let used = |variable: &Variable| self.matrix.mentions(*variable);
        match self.prefix.iter().any(used) {
            true => self
                .prefix
                .retain(|variable| self.matrix.mentions(*variable)),
            false => self.prefix.truncate(1),
        }
    }
}

struct Normal<'n> {
    names: &'n mut Vec<String>,
}

impl Normal<'_> {
    /// Pushes negations down to the leaves.
    fn push(&mut self, term: Term, negated: bool) -> Term {
        let span = term.span.clone();
        if !negated && let Some(paired) = self.pairs(&term) {
            return self.push(paired, false);
        }
        let kind = match term.kind {
            TermKind::Not(inner) if is_bool(&inner) => return self.push(*inner, !negated),
            TermKind::And(parts) => self.connective(parts, negated, !negated),
            TermKind::Or(parts) => self.connective(parts, negated, negated),
            TermKind::Loop(of) if matches!(of.name, Macro::All | Macro::Exists) => {
                return self.quantifier(*of, negated, span);
            }
            TermKind::Conditional(parts) if can_be_written_twice(&parts[0], &term.of) => {
                let [condition, yes, no] = *parts;
                let first = vec![condition.clone().not(), yes];
                let second = vec![condition, no];
                let both = [first, second]
                    .map(|sides| Term::new(TermKind::Or(sides), Type::Bool, span.clone()));
                let both = Term::new(TermKind::And(both.to_vec()), Type::Bool, span);
                return self.push(both, negated);
            }
            TermKind::Binary(Operator::Equal, both) if negated => {
                TermKind::Binary(Operator::NotEqual, both)
            }
            TermKind::Binary(Operator::NotEqual, both) if negated => {
                TermKind::Binary(Operator::Equal, both)
            }
            TermKind::Literal(Value::Bool(value)) => {
                TermKind::Literal(Value::Bool(value != negated))
            }
            kind => {
                let leaf = Term::new(kind, term.of, span);
                return if negated { leaf.not() } else { leaf };
            }
        };
        Term::new(kind, Type::Bool, span)
    }

    fn connective(&mut self, parts: Vec<Term>, negated: bool, is_and: bool) -> TermKind {
        let mut flat = Vec::new();
        for part in parts {
            let part = self.push(part, negated);
            match (part.kind, is_and) {
                (TermKind::And(inner), true) | (TermKind::Or(inner), false) => flat.extend(inner),
                (kind, _) => flat.push(Term::new(kind, part.of, part.span)),
            }
        }
        match is_and {
            true => TermKind::And(flat),
            false => TermKind::Or(flat),
        }
    }

    fn quantifier(&mut self, mut of: Loop, negated: bool, span: Range<usize>) -> Term {
        let is_all = (of.name == Macro::All) != negated;
        // Over what `filter` keeps: over everything, with the filter as a condition.
        while let TermKind::Loop(filter) = &of.range.kind
            && filter.name == Macro::Filter
            && filter.body.is_total()
            && is_bool(&filter.body)
        {
            let Type::List(element) = &filter.range.of else {
                break;
            };
            let element = Term::new(
                TermKind::Variable(of.variable),
                (**element).clone(),
                filter.body.span.clone(),
            );
            let kept = filter.body.clone().substitute(filter.variable, &element);
            let body_span = of.body.span.clone();
            let kind = match of.name {
                Macro::All => TermKind::Or(vec![kept.not(), of.body]),
                _ => TermKind::And(vec![kept, of.body]),
            };
            of.body = Term::new(kind, Type::Bool, body_span);
            of.range = filter.range.clone();
        }
        of.name = if is_all { Macro::All } else { Macro::Exists };
        of.body = self.push(of.body, negated);
        Term::new(TermKind::Loop(Box::new(of)), Type::Bool, span)
    }

    /// Turns "all different" and "at most one" into statements about pairs.
    fn pairs(&mut self, term: &Term) -> Option<Term> {
        match &term.kind {
            TermKind::Call(Function::Distinct, arguments) => {
                let TermKind::Loop(map) = &arguments[0].kind else {
                    return None;
                };
                if map.name != Macro::Map || map.condition.is_some() || !map.body.is_total() {
                    return None;
                }
                let kept = kept_nodes(&map.range)?;
                Some(self.every_two(&term.span, kept, Some((map.variable, &map.body))))
            }
            TermKind::Binary(operator, both) => {
                let [size, limit] = &**both;
                let at_most_one = matches!(
                    (operator, &limit.kind),
                    (Operator::LessEqual, TermKind::Literal(Value::Int(1)))
                        | (Operator::Less, TermKind::Literal(Value::Int(2)))
                );
                let TermKind::Call(Function::Size, arguments) = &size.kind else {
                    return None;
                };
                let kept = kept_nodes(&arguments[0])?;
                (at_most_one && kept.is_some()).then(|| self.every_two(&term.span, kept, None))
            }
            _ => None,
        }
    }

    /// "For every two different nodes: one is not kept, or their values differ."
    fn every_two(
        &mut self,
        span: &Range<usize>,
        kept: Option<(Variable, &Term)>,
        value: Option<(Variable, &Term)>,
    ) -> Term {
        let [first, second] = ["a", "b"].map(|name| {
            self.names.push(name.to_owned());
            Variable::try_from(self.names.len() - 1).expect("a property has few variables")
        });
        let (a, b) = (
            Term::node(first, span.clone()),
            Term::node(second, span.clone()),
        );
        let of = |term: Option<(Variable, &Term)>, node: &Term| {
            term.map(|(variable, term)| term.clone().substitute(variable, node))
        };
        let binary = |operator, left, right| {
            let kind = TermKind::Binary(operator, Box::new([left, right]));
            Term::new(kind, Type::Bool, span.clone())
        };
        let mut sides = vec![binary(Operator::Equal, a.clone(), b.clone())];
        sides.extend(of(kept, &a).map(Term::not));
        sides.extend(of(kept, &b).map(Term::not));
        if let (Some(left), Some(right)) = (of(value, &a), of(value, &b)) {
            sides.push(binary(Operator::NotEqual, left, right));
        }
        let matrix = Term::new(TermKind::Or(sides), Type::Bool, span.clone());
        for_all_nodes(first, for_all_nodes(second, matrix))
    }
}

/// Returns the condition of `nodes` or `nodes.filter(…)`, if it is one of them and its condition always has an answer.
fn kept_nodes(range: &Term) -> Option<Option<(Variable, &Term)>> {
    match &range.kind {
        TermKind::Nodes => Some(None),
        TermKind::Loop(filter)
            if filter.name == Macro::Filter
                && matches!(filter.range.kind, TermKind::Nodes)
                && filter.body.is_total()
                && is_bool(&filter.body) =>
        {
            Some(Some((filter.variable, &filter.body)))
        }
        _ => None,
    }
}

fn is_bool(term: &Term) -> bool {
    term.of.is_only(Sort::Bool)
}

/// `c ? x : y` is `(!c || x) && (c || y)` if `c` always has an answer.
fn can_be_written_twice(condition: &Term, of: &Type) -> bool {
    of.is_only(Sort::Bool)
        && condition.is_total()
        && is_bool(condition)
        && condition.size() <= CONDITION_SIZE_MAX
        && !condition
            .any(&mut |part| matches!(part.kind, TermKind::Loop(_) | TermKind::Conditional(_)))
}

/// Multiplies out, within bounds: a conjunction is split wherever it stands below `all` and `||`.
fn multiply(term: Term) -> Vec<Term> {
    let span = term.span.clone();
    match term.kind {
        TermKind::And(parts) => parts.into_iter().flat_map(multiply).collect(),
        TermKind::Or(parts) => {
            let whole = Term::new(TermKind::Or(parts.clone()), Type::Bool, span.clone());
            let factors: Vec<Vec<Term>> = parts.into_iter().map(multiply).collect();
            let count = factors
                .iter()
                .try_fold(1_usize, |count, factor| count.checked_mul(factor.len()));
            if count.is_none_or(|count| count > CONJUNCTS_MAX) {
                return vec![whole];
            }
            let mut products = vec![Vec::new()];
            for factor in factors {
                let extend = |product: Vec<Term>| {
                    factor.iter().map(move |part| {
                        let mut product = product.clone();
                        product.push(part.clone());
                        product
                    })
                };
                products = products.into_iter().flat_map(extend).collect();
            }
            let or = |sides| Term::new(TermKind::Or(sides), Type::Bool, span.clone());
            products.into_iter().map(or).collect()
        }
        TermKind::Loop(of) if of.name == Macro::All => {
            let of = *of;
            let bodies = multiply(of.body.clone());
            let all = |body| {
                let kind = TermKind::Loop(Box::new(Loop { body, ..of.clone() }));
                Term::new(kind, Type::Bool, span.clone())
            };
            bodies.into_iter().map(all).collect()
        }
        kind => vec![Term::new(kind, term.of, span)],
    }
}

/// Moves one "for all nodes" to the front. Out of a loop over a list that is right only if there is a node, since the
/// list could be unknown.
fn pull(term: &Term, some_node: bool) -> Option<(Variable, Term)> {
    let again = |kind| Term::new(kind, Type::Bool, term.span.clone());
    match &term.kind {
        TermKind::Loop(of) if of.name == Macro::All => match of.range.kind {
            TermKind::Nodes => Some((of.variable, of.body.clone())),
            _ if some_node => {
                let (variable, body) = pull(&of.body, some_node)?;
                let of = Loop {
                    body,
                    ..(**of).clone()
                };
                Some((variable, again(TermKind::Loop(Box::new(of)))))
            }
            _ => None,
        },
        TermKind::Or(parts) => parts.iter().enumerate().find_map(|(at, part)| {
            let (variable, part) = pull(part, some_node)?;
            let mut parts = parts.clone();
            parts[at] = part;
            Some((variable, again(TermKind::Or(parts))))
        }),
        _ => None,
    }
}

/// Replaces what has the same answer in every state by that answer.
pub(crate) fn fold(term: &mut Term) {
    term.rewrite_up(&mut |part| {
        let answer = match &mut part.kind {
            TermKind::And(parts) => connected(parts, false),
            TermKind::Or(parts) => connected(parts, true),
            TermKind::Not(inner) if inner.is_true() => Some(false),
            TermKind::Not(inner) if inner.is_false() => Some(true),
            TermKind::Binary(operator, both) => reflexive(*operator, both),
            TermKind::Loop(of) if of.name == Macro::All && of.body.is_true() => {
                (of.range.is_total() && of.range.of.is_only(Sort::List)).then_some(true)
            }
            _ => None,
        };
        if let Some(answer) = answer {
            *part = Term::bool(answer, part.span.clone());
        }
    });
}

fn connected(parts: &mut Vec<Term>, decisive: bool) -> Option<bool> {
    let decides = |part: &Term| match decisive {
        true => part.is_true(),
        false => part.is_false(),
    };
    // A connective in a connective of its own kind is one list.
    *parts = std::mem::take(parts)
        .into_iter()
        .flat_map(|part| match part.kind {
            TermKind::Or(inner) if decisive => inner,
            TermKind::And(inner) if !decisive => inner,
            kind => vec![Term::new(kind, part.of, part.span)],
        })
        .collect();
    if parts.iter().any(decides) || is_complementary(parts) {
        return Some(decisive);
    }
    parts.retain(|part| !(part.is_true() || part.is_false()));
    parts.is_empty().then_some(!decisive)
}

/// Tells whether something is there together with its opposite.
fn is_complementary(parts: &[Term]) -> bool {
    parts.iter().any(|part| match &part.kind {
        TermKind::Not(inner) if inner.is_total() => {
            let key = inner.key();
            parts.iter().any(|other| other.key() == key)
        }
        _ => false,
    })
}

/// Compares a thing with itself.
fn reflexive(operator: Operator, both: &[Term; 2]) -> Option<bool> {
    let [left, right] = both;
    let same = left.key() == right.key() && left.is_total() && !left.of.may_hold_double();
    if !same {
        return None;
    }
    match operator {
        Operator::Equal => Some(true),
        Operator::NotEqual => Some(false),
        Operator::LessEqual | Operator::GreaterEqual if left.of == Type::Int => Some(true),
        Operator::Less | Operator::Greater if left.of == Type::Int => Some(false),
        _ => None,
    }
}
