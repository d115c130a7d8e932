//! What a judgement costs: how it grows with the nodes in view, and when it is cut off.
//!
//! Three quantifiers inside each other look at every three nodes. With few nodes that is nothing, with many it takes longer
//! than anybody waits. So the cost is shown when a file is read, and a judgement that takes more steps than it may is
//! *unknown*, counted and told. A step is one element that a macro looks at, or one comparison of two lists' elements;
//! what has none of these, most properties of one node or of two, is not counted at all.

use scry_engine::property::StepLimit;

use crate::classify::{Part, Plan};
use crate::syntax::Operator;
use crate::term::{Function, Macro, Term, TermKind};

/// How many steps a judgement may take, unless its property says otherwise.
pub const STEPS_MAX: u64 = 1_000_000;
/// For how many nodes an estimate is shown.
const ESTIMATED: [u64; 3] = [8, 32, 128];

/// Says what judging a part costs, where that grows faster than with every two nodes.
pub(crate) fn described(part: &Part, limit: &StepLimit) -> Option<String> {
    let Part::Global(Plan { roles, matrix, .. }) = part else {
        return None;
    };
    let exponent = u32::try_from(roles.len())
        .unwrap_or(u32::MAX)
        .saturating_add(growth(matrix));
    let class = match exponent {
        0 | 1 => "n".to_owned(),
        2 => "n²".to_owned(),
        3 => "n³".to_owned(),
        more => format!("n^{more}"),
    };
    let steps = |nodes: u64| nodes.saturating_pow(exponent.max(1));
    let estimates: Vec<String> = ESTIMATED
        .iter()
        .map(|&nodes| match steps(nodes) {
            steps if steps > limit.max() => format!("cut off with {nodes}"),
            steps => format!("{steps} with {nodes}"),
        })
        .collect();
    let lists = if looks_at_lists(matrix) {
        ", times what the lists in states hold"
    } else {
        ""
    };
    Some(format!(
        "  costs about {class} steps for n nodes ({}){lists}",
        estimates.join(", ")
    ))
}

/// With which power of the nodes the steps of an expression grow.
fn growth(term: &Term) -> u32 {
    let children = term.children().into_iter().map(growth).max().unwrap_or(0);
    let own = match &term.kind {
        TermKind::Loop(of) => {
            let inner = of.condition.iter().chain([&of.body]).map(growth);
            length(&of.range) + inner.max().unwrap_or(0)
        }
        // Each node that is reached is looked for among those that were.
        TermKind::Reach(of) => 2.max(1 + growth(&of.step)),
        TermKind::Call(Function::Distinct, arguments) => {
            2 * arguments.iter().map(length).sum::<u32>()
        }
        TermKind::Call(Function::Intersects | Function::Contains | Function::Equivalent, both) => {
            both.iter().map(length).sum()
        }
        _ => 0,
    };
    own.max(children)
}

/// With which power of the nodes a list grows.
fn length(term: &Term) -> u32 {
    match &term.kind {
        TermKind::Nodes | TermKind::Reach(_) => 1,
        TermKind::Loop(of) if matches!(of.name, Macro::Map | Macro::Filter) => length(&of.range),
        TermKind::Binary(Operator::Add, both) => both.iter().map(length).max().unwrap_or(0),
        _ => 0,
    }
}

/// Tells whether a macro goes over a list of a state, of which nobody knows how long it is.
fn looks_at_lists(term: &Term) -> bool {
    let own = matches!(&term.kind, TermKind::Loop(of) if length(&of.range) == 0);
    own || term.children().into_iter().any(looks_at_lists)
}
