//! Finding the tightest shape of each part of a property, and the least that must be read from a node to judge it.
//!
//! A part about one node is judged on its state. For every other part a node is projected to the values of the largest
//! sub-expressions that read from this node alone. Where the part has the form "`a` is out of it, or …", a node that is
//! out of it in every role has no projection at all: it cannot take part in a violation (LMC-OPT's E-13…E-15, found
//! instead of written by hand).

use std::collections::BTreeMap;

use crate::normal::{Conjunct, conjuncts, fold};
use crate::shape::Type;
use crate::syntax::Operator;
use crate::term::{Term, TermKind, Variable, for_all_nodes};

/// How many roles a node can play in one part; a part with more is judged without roles.
const ROLES_MAX: usize = 32;

/// A part of a property: all parts together are the property.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Holds of each node by itself.
    Node { variable: Variable, matrix: Term },
    /// Holds of every two different nodes, in both orders.
    Pair(Plan),
    /// Holds of all nodes together.
    Global(Plan),
}

/// How a part is judged through projections.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The variable that stands for the projected node in `slots` and `guards`.
    pub(crate) me: Variable,
    /// What is read from a node.
    pub(crate) slots: Vec<Slot>,
    /// The roles: the variables that go over all nodes.
    pub(crate) roles: Vec<Role>,
    /// What must hold of the nodes in the roles, written over slots.
    pub(crate) matrix: Term,
    /// Whether the matrix looks at nodes in no role.
    pub(crate) looks_around: bool,
}

/// One value of a projection.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) term: Term,
    /// The roles in which it is read, as bits.
    pub(crate) roles: u32,
    /// Whether it is also read of nodes in no role.
    pub(crate) always: bool,
}

/// A variable that goes over all nodes.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) variable: Variable,
    /// When true of a node, the matrix holds whatever the other roles are.
    pub(crate) guard: Option<Term>,
}

/// Takes a property apart. `names` is where new variables are entered.
pub(crate) fn classify(term: &Term, names: &mut Vec<String>) -> Vec<Part> {
    let mut per_node: Option<(Variable, Vec<Term>)> = None;
    let mut parts = Vec::new();
    let mut add_node = |variable: Variable, matrix: Term| match &mut per_node {
        None => per_node = Some((variable, vec![matrix])),
        Some((first, all)) => {
            let first = Term::node(*first, matrix.span.clone());
            all.push(matrix.substitute(variable, &first));
        }
    };
    let mut pairs: Vec<Draft> = Vec::new();
    let conjuncts = conjuncts(term, names);
    names.push("n".to_owned());
    let me = Variable::try_from(names.len() - 1).expect("a property has few variables");
    for Conjunct { prefix, matrix } in conjuncts {
        match (&prefix[..], matrix.looks_around()) {
            ([variable], false) => add_node(*variable, matrix),
            ([a, b], false) => {
                let on_itself = diagonal(&matrix, *a, *b);
                if !on_itself.is_true() {
                    add_node(*a, on_itself);
                }
                let apart = off_diagonal(matrix, *a, *b);
                if apart.is_true() {
                    continue;
                }
                // Statements about the same two nodes with the same way out are judged together: every part costs a
                // look at each pair of nodes in each state.
                let draft = Draft::new(&prefix, apart, me);
                match pairs.iter_mut().find(|other| other.is_like(&draft)) {
                    Some(other) => other.join(draft),
                    None => pairs.push(draft),
                }
            }
            _ => parts.push(Part::Global(Draft::new(&prefix, matrix, me).plan(me))),
        }
    }
    let pairs = pairs.into_iter().map(|draft| Part::Pair(draft.plan(me)));
    parts.splice(0..0, pairs);
    if let Some((variable, mut all)) = per_node {
        let matrix = match all.len() {
            1 => all.remove(0),
            _ => {
                let span = all[0].span.start..all[all.len() - 1].span.end;
                Term::new(TermKind::And(all), Type::Bool, span)
            }
        };
        parts.insert(0, Part::Node { variable, matrix });
    }
    parts
}

/// What a statement about two nodes says if they are one and the same.
fn diagonal(matrix: &Term, a: Variable, b: Variable) -> Term {
    let node = Term::node(a, matrix.span.clone());
    let mut same = matrix.clone().substitute(b, &node);
    fold(&mut same);
    same
}

/// What it says if they are different.
fn off_diagonal(mut matrix: Term, a: Variable, b: Variable) -> Term {
    let is =
        |term: &Term, variable| matches!(term.kind, TermKind::Variable(this) if this == variable);
    let are =
        |left: &Term, right: &Term| (is(left, a) && is(right, b)) || (is(left, b) && is(right, a));
    matrix.rewrite(&mut |part| {
        let TermKind::Binary(operator, both) = &part.kind else {
            return None;
        };
        let [left, right] = &**both;
        let compared = match (&left.kind, &right.kind) {
            (TermKind::Id(left), TermKind::Id(right)) => are(left, right),
            _ => are(left, right),
        };
        match operator {
            Operator::Equal if compared => Some(Term::bool(false, part.span.clone())),
            Operator::NotEqual if compared => Some(Term::bool(true, part.span.clone())),
            _ => None,
        }
    });
    fold(&mut matrix);
    matrix
}

/// A part before it is known what is read of a node.
struct Draft {
    roles: Vec<Role>,
    matrix: Term,
}

impl Draft {
    fn is_like(&self, other: &Self) -> bool {
        let keys = |draft: &Self| -> Vec<(Variable, Option<String>)> {
            let roles = draft.roles.iter();
            roles
                .map(|role| (role.variable, role.guard.as_ref().map(Term::key)))
                .collect()
        };
        keys(self) == keys(other)
    }

    fn join(&mut self, other: Self) {
        let span = self.matrix.span.clone();
        let own = std::mem::replace(&mut self.matrix, Term::bool(true, span.clone()));
        self.matrix = Term::new(TermKind::And(vec![own, other.matrix]), Type::Bool, span);
    }

    fn plan(self, me: Variable) -> Plan {
        let Self { roles, mut matrix } = self;
        let mut slots = Slots {
            me,
            terms: Vec::new(),
            by_key: BTreeMap::new(),
        };
        matrix.note_sure();
        slots.take(&mut matrix);
        let terms = slots.without_redundant(&mut matrix);
        let mut slots: Vec<Slot> = terms
            .into_iter()
            .map(|term| Slot {
                term,
                roles: 0,
                always: false,
            })
            .collect();
        matrix.any(&mut |part| {
            if let TermKind::Slot(node, slot) = &part.kind {
                let role = match node.kind {
                    TermKind::Variable(variable) => {
                        roles.iter().position(|role| role.variable == variable)
                    }
                    _ => None,
                };
                match role {
                    Some(role) => slots[*slot].roles |= 1 << role,
                    None => slots[*slot].always = true,
                }
            }
            false
        });
        Plan {
            me,
            slots,
            roles,
            looks_around: matrix.looks_around(),
            matrix,
        }
    }

    /// Finds the sides of a disjunction that read one role only. One that always has an answer need not be asked again.
    fn new(prefix: &[Variable], matrix: Term, me: Variable) -> Self {
        let span = matrix.span.clone();
        if prefix.len() > ROLES_MAX {
            // Without roles the quantifiers stay in the matrix.
            let quantified = prefix
                .iter()
                .rev()
                .fold(matrix, |body, &variable| for_all_nodes(variable, body));
            return Self {
                roles: Vec::new(),
                matrix: quantified,
            };
        }
        let mut sides = match matrix.kind {
            TermKind::Or(sides) => sides,
            kind => vec![Term::new(kind, matrix.of, matrix.span)],
        };
        let mut roles = Vec::new();
        for &variable in prefix {
            let own = Term::node(variable, span.clone()).key();
            let is_own = |side: &Term| {
                let survey = Survey::of(side);
                survey.is_local() && survey.nodes.keys().all(|key| *key == own)
            };
            let mine: Vec<Term> = sides.iter().filter(|side| is_own(side)).cloned().collect();
            sides.retain(|side| !(is_own(side) && side.is_total()));
            let node = Term::node(me, span.clone());
            let guards: Vec<Term> = mine
                .into_iter()
                .map(|side| side.substitute(variable, &node))
                .collect();
            roles.push(Role {
                variable,
                guard: match guards.len() {
                    0 => None,
                    _ => Some(Term::new(TermKind::Or(guards), Type::Bool, span.clone())),
                },
            });
        }
        let matrix = match sides.len() {
            0 => Term::bool(false, span),
            1 => sides.remove(0),
            _ => Term::new(TermKind::Or(sides), Type::Bool, span),
        };
        Self { roles, matrix }
    }
}

/// What an expression depends on.
#[derive(Default)]
struct Survey {
    /// The expressions that stand for nodes, by key.
    nodes: BTreeMap<String, Term>,
    /// Whether a variable from outside is read.
    free: bool,
    /// Whether it depends on which nodes are in view.
    around: bool,
    /// Whether something of a node's state is read.
    reads: bool,
}

impl Survey {
    fn of(term: &Term) -> Self {
        let mut survey = Self::default();
        survey.visit(term, &mut Vec::new());
        survey
    }

    fn is_local(&self) -> bool {
        self.nodes.len() == 1 && !self.free && !self.around && self.reads
    }

    fn visit(&mut self, term: &Term, bound: &mut Vec<Variable>) {
        if term.of == Type::Node {
            self.nodes.insert(term.key(), term.clone());
            return;
        }
        match &term.kind {
            TermKind::Variable(variable) => self.free |= !bound.contains(variable),
            TermKind::Nodes => self.around = true,
            TermKind::Reach(_) => self.around = true,
            TermKind::Field { operand, .. }
            | TermKind::Has(operand, _)
            | TermKind::Timers(operand) => {
                self.reads |= operand.of == Type::Node;
                self.visit(operand, bound);
            }
            TermKind::Loop(of) => {
                self.visit(&of.range, bound);
                bound.push(of.variable);
                for part in of.condition.iter().chain([&of.body]) {
                    self.visit(part, bound);
                }
                bound.pop();
            }
            _ => {
                for child in term.children() {
                    self.visit(child, bound);
                }
            }
        }
    }
}

/// Tells whether an expression is unknown whenever the node of that key is.
fn is_strict(term: &Term, key: &str) -> bool {
    let strict = |part: &Term| is_strict(part, key);
    match &term.kind {
        _ if term.of == Type::Node => term.key() == key,
        TermKind::And(parts) | TermKind::Or(parts) => parts.iter().all(strict),
        TermKind::Conditional(parts) => strict(&parts[0]),
        TermKind::Loop(of) => strict(&of.range),
        _ => term.children().into_iter().any(strict),
    }
}

struct Slots {
    me: Variable,
    terms: Vec<Term>,
    by_key: BTreeMap<String, usize>,
}

impl Slots {
    /// Replaces the largest parts that read from one node alone by slots of that node.
    fn take(&mut self, term: &mut Term) {
        term.rewrite(&mut |part| {
            if part.of.has_node() {
                return None;
            }
            let survey = Survey::of(part);
            if !survey.is_local() {
                return None;
            }
            let (key, mut node) = survey.nodes.into_iter().next()?;
            // A node that may be out of view must not take an answer with it that does not depend on it.
            if !matches!(node.kind, TermKind::Variable(_)) && !is_strict(part, &key) {
                return None;
            }
            let me = Term::node(self.me, part.span.clone());
            let mut own = part.clone();
            own.rewrite(&mut |inner| {
                (inner.of == Type::Node && inner.key() == key).then(|| me.clone())
            });
            // Which node it is may itself have to be read from another.
            self.take(&mut node);
            let slot = self.slot(own);
            let kind = TermKind::Slot(Box::new(node), slot);
            Some(Term::new(kind, part.of.clone(), part.span.clone()))
        });
    }

    fn slot(&mut self, term: Term) -> usize {
        let next = self.terms.len();
        let slot = *self.by_key.entry(term.key()).or_insert(next);
        if slot == next {
            self.terms.push(term);
        }
        slot
    }

    /// Leaves out the slots that follow from others, and works them out when judging instead.
    fn without_redundant(self, matrix: &mut Term) -> Vec<Term> {
        let me = self.me;
        let keys: Vec<String> = self.terms.iter().map(Term::key).collect();
        let mut kept: Vec<bool> = vec![true; keys.len()];
        let mut derived: Vec<Option<Term>> = vec![None; keys.len()];
        for at in 0..keys.len() {
            let mut term = self.terms[at].clone();
            term.rewrite(&mut |part| {
                let key = part.key();
                let other = (0..keys.len())
                    .find(|&other| other != at && kept[other] && keys[other] == key)?;
                let node = Box::new(Term::node(me, part.span.clone()));
                let kind = TermKind::Slot(node, other);
                Some(Term::new(kind, part.of.clone(), part.span.clone()))
            });
            if !Survey::of(&term).reads {
                kept[at] = false;
                derived[at] = Some(term);
            }
        }
        let mut numbers = vec![0; keys.len()];
        let mut next = 0;
        for at in 0..keys.len() {
            numbers[at] = next;
            next += usize::from(kept[at]);
        }
        // One that follows from another may follow from a third by way of it, but never in a circle: each follows from
        // such as were still kept when it was left out.
        let is_left_out = |part: &Term| matches!(part.kind, TermKind::Slot(_, slot) if !kept[slot]);
        while matrix.any(&mut |part| is_left_out(part)) {
            matrix.rewrite_up(&mut |part| {
                if let TermKind::Slot(node, slot) = &part.kind
                    && let Some(term) = &derived[*slot]
                {
                    *part = term.clone().substitute(me, node);
                }
            });
        }
        matrix.rewrite_up(&mut |part| {
            if let TermKind::Slot(_, slot) = &mut part.kind {
                *slot = numbers[*slot];
            }
        });
        let terms = self.terms.into_iter().zip(kept);
        terms
            .filter_map(|(term, kept)| kept.then_some(term))
            .collect()
    }
}
