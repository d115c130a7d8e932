//! From the parts of a property to the closures that the engine remembers the answers of.

use std::sync::Arc;

use scry_protocol::NodeId;

use crate::classify::{Part, Plan};
use crate::compile::{Code, Frame, NodeFrame, compile, compile_asserted};
use crate::serialize::{Needs, timer_name, value_of};
use crate::shape::Type;
use crate::term::{Term, TermKind, Variable};
use crate::value::Value;
use scry_engine::property::StepLimit;
use scry_engine::property::{
    JudgeAll, JudgePair, Judgement, Project, Projection, Scope, Shape, View,
};
use scry_engine::service::Service;

/// Reads from nodes what some expressions need of them.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    needs: Needs,
    timers: bool,
}

impl Reader {
    pub(crate) fn of<'t>(terms: impl IntoIterator<Item = &'t Term>) -> Self {
        let mut reader = Self {
            needs: Needs::nothing(),
            timers: false,
        };
        for term in terms {
            reader.visit(term);
        }
        reader
    }

    fn visit(&mut self, term: &Term) {
        let mut path = Vec::new();
        let mut at = term;
        while let TermKind::Field { operand, name, .. } | TermKind::Has(operand, name) = &at.kind {
            path.push(&**name);
            at = operand;
        }
        if !path.is_empty() && at.of == Type::Node {
            path.reverse();
            self.needs.add(&path);
        }
        self.timers |= matches!(at.kind, TermKind::Timers(_));
        for child in at.children() {
            self.visit(child);
        }
    }

    pub(crate) fn read<S: Service>(&self, view: &View<'_, S>) -> NodeFrame<'static> {
        let timers = match self.timers {
            true => Value::list(view.timers.iter().map(timer_name).collect()),
            false => Value::Null,
        };
        NodeFrame {
            id: view.id.get(),
            state: value_of(view.state, &self.needs),
            timers,
            slots: &[],
        }
    }
}

/// What was projected of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Seen {
    /// The roles it can play in a violation, as bits.
    roles: u32,
    slots: Vec<Value>,
}

/// Makes the closures of a part. `variables` is how many variables the property has.
pub(crate) fn shape_of<S: Service>(
    part: &Part,
    variables: usize,
    limit: &Arc<StepLimit>,
) -> Shape<S> {
    match part {
        Part::Node { variable, matrix } => {
            let (reader, code) = (Reader::of([matrix]), compile(matrix));
            let variable = *variable as usize;
            let limit = Arc::clone(limit);
            Shape::Node(Arc::new(move |view| {
                let nodes = [reader.read(view)];
                let mut frame = Frame {
                    scope: Scope::Whole,
                    nodes: &nodes,
                    variables: vec![Value::Unknown; variables],
                    steps_left: limit.max(),
                    is_cut_off: false,
                };
                frame.variables[variable] = Value::Node(0);
                let judgement = code(&mut frame).judgement();
                told(judgement, &frame, &limit)
            }))
        }
        Part::Pair(plan) => Shape::Pair(
            project(plan, variables, limit),
            pair(plan, variables, limit),
        ),
        Part::Global(plan) => Shape::Global(
            project(plan, variables, limit),
            global(plan, variables, limit),
        ),
    }
}

/// Notes if a judgement was cut off. What was decided before that stays decided.
#[inline]
fn told(judgement: Judgement, frame: &Frame<'_>, limit: &StepLimit) -> Judgement {
    if frame.is_cut_off {
        limit.note_cut_off();
    }
    judgement
}

fn project<S: Service>(plan: &Plan, variables: usize, limit: &Arc<StepLimit>) -> Project<S> {
    let limit = Arc::clone(limit);
    let terms = plan.slots.iter().map(|slot| &slot.term);
    let guards = plan.roles.iter().filter_map(|role| role.guard.as_ref());
    let reader = Reader::of(terms.chain(guards));
    let guards: Vec<Option<Code>> = plan
        .roles
        .iter()
        .map(|role| role.guard.as_ref().map(compile))
        .collect();
    let slots: Vec<(u32, bool, Code)> = plan
        .slots
        .iter()
        .map(|slot| (slot.roles, slot.always, compile(&slot.term)))
        .collect();
    let me = plan.me as usize;
    // A node that plays no role can be left out only if nobody looks for it otherwise.
    let is_optional =
        !plan.roles.is_empty() && !plan.looks_around && plan.slots.iter().all(|slot| !slot.always);
    Arc::new(move |view| {
        let nodes = [reader.read(view)];
        let mut frame = Frame {
            // Neither slots nor guards look at other nodes.
            scope: Scope::Whole,
            nodes: &nodes,
            variables: vec![Value::Unknown; variables],
            steps_left: limit.max(),
            is_cut_off: false,
        };
        frame.variables[me] = Value::Node(0);
        let mut roles = 0;
        for (role, guard) in guards.iter().enumerate() {
            let is_out = guard
                .as_ref()
                .is_some_and(|guard| guard(&mut frame) == Value::Bool(true));
            roles |= u32::from(!is_out) << role;
        }
        if roles == 0 && is_optional {
            return None;
        }
        let slots = slots.iter().map(|(read_in, always, code)| {
            // What nobody will read is not told apart.
            match *always || read_in & roles != 0 {
                true => code(&mut frame),
                false => Value::Null,
            }
        });
        let slots = slots.collect();
        if frame.is_cut_off {
            limit.note_cut_off();
        }
        Some(Projection::new(Seen { roles, slots }))
    })
}

fn seen(projection: &Projection) -> &Seen {
    projection
        .value()
        .expect("a property is shown its own projections only")
}

fn node_frame(id: NodeId, seen: &Seen) -> NodeFrame<'_> {
    NodeFrame {
        id: id.get(),
        state: Value::Null,
        timers: Value::Null,
        slots: &seen.slots,
    }
}

fn pair(plan: &Plan, variables: usize, limit: &Arc<StepLimit>) -> JudgePair {
    let limit = Arc::clone(limit);
    let code = compile(&plan.matrix);
    let [first, second] = [0, 1].map(|role| plan.roles[role].variable as usize);
    Arc::new(move |(a, left), (b, right)| {
        let (left, right) = (seen(left), seen(right));
        if left.roles & 1 == 0 || right.roles & 2 == 0 {
            return Judgement::Holds;
        }
        let nodes = [node_frame(a, left), node_frame(b, right)];
        let mut frame = Frame {
            scope: Scope::Whole,
            nodes: &nodes,
            variables: vec![Value::Unknown; variables],
            steps_left: limit.max(),
            is_cut_off: false,
        };
        frame.variables[first] = Value::Node(0);
        frame.variables[second] = Value::Node(1);
        let judgement = code(&mut frame).judgement();
        told(judgement, &frame, &limit)
    })
}

fn global(plan: &Plan, variables: usize, limit: &Arc<StepLimit>) -> JudgeAll {
    let limit = Arc::clone(limit);
    let code = compile_asserted(&plan.matrix);
    let roles: Vec<Variable> = plan.roles.iter().map(|role| role.variable).collect();
    Arc::new(move |scope, all| {
        let seen: Vec<&Seen> = all.iter().map(|(_, projection)| seen(projection)).collect();
        let nodes: Vec<NodeFrame<'_>> = all
            .iter()
            .zip(&seen)
            .map(|((id, _), seen)| node_frame(*id, seen))
            .collect();
        let mut frame = Frame {
            scope,
            nodes: &nodes,
            variables: vec![Value::Unknown; variables],
            steps_left: limit.max(),
            is_cut_off: false,
        };
        let judgement = assign(&roles, 0, &seen, &mut frame, &code);
        told(judgement, &frame, &limit)
    })
}

/// Judges every way to fill the roles from one on.
fn assign(
    roles: &[Variable],
    role: usize,
    seen: &[&Seen],
    frame: &mut Frame<'_>,
    code: &Code,
) -> Judgement {
    let Some(&variable) = roles.get(role) else {
        return match frame.take_steps(1) {
            true => code(frame).judgement(),
            false => Judgement::Unknown,
        };
    };
    let mut worst = Judgement::Holds;
    for (position, node) in (0..).zip(seen) {
        if node.roles & (1 << role) == 0 {
            continue;
        }
        if frame.is_cut_off {
            // Whoever is left is not looked at.
            return Judgement::Unknown;
        }
        frame.variables[variable as usize] = Value::Node(position);
        match assign(roles, role + 1, seen, frame, code) {
            Judgement::Violated => return Judgement::Violated,
            Judgement::Unknown => worst = Judgement::Unknown,
            Judgement::Holds => {}
        }
    }
    worst
}
