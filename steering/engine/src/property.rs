//! Properties: what must hold in every state, declared by shape so that the engine can remember what it has judged.
//!
//! A property sees nodes, never the network (E-10). By its shape it is judged once per local state, once per pair of
//! projected values, or once per tuple of projected values, however many global states contain them.
//! A property that depends on something a partial view does not show is [`Judgement::Unknown`], never violated.
//!
//! # Views that do not show every node
//!
//! A running service is rarely seen whole: a node is silent, or only the neighbors' states are at hand. The [`Scope`] of a
//! view says whether there may be nodes beside those in view. In [`Scope::Partial`] a property is violated only if it
//! stays violated whatever other nodes there are:
//!
//! - a property [of one node](Property::node) or [of two](Property::pair) is judged of the nodes in view: what is wrong
//!   with them stays wrong;
//! - a property [of all nodes](Property::global) is unknown, unless its author says that more nodes never mend it
//!   ([`Property::monotone`]) or judges partial views himself ([`Property::global_in_view`]);
//! - in a property file the expression itself shows it: what was found counts, what was not found is unknown.

mod limit;

pub use limit::StepLimit;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHasher;
use scry_protocol::NodeId;

use crate::blame::{self, Phase, SOME_PROPERTY};
use crate::panics::{Panicked, caught, in_silence};
use crate::service::Service;

/// What a property sees of one node.
#[derive(Debug)]
pub struct View<'a, S: Service> {
    /// The node.
    pub id: NodeId,
    /// Its state.
    pub state: &'a S,
    /// Its armed timers, in order.
    pub timers: &'a [S::Timer],
}

/// Whether a view shows every node.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Scope {
    /// There are no nodes but those in view.
    #[default]
    Whole,
    /// There may be others.
    Partial,
}

impl Scope {
    /// Tells whether there are no nodes but those in view.
    pub fn is_whole(self) -> bool {
        self == Self::Whole
    }
}

/// What came out of looking at a state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Judgement {
    /// The property holds, as far as the nodes in view show.
    Holds,
    /// The property is broken.
    Violated,
    /// Something the property needs is not in view.
    Unknown,
}

/// Something that must hold in every state.
pub struct Property<S: Service> {
    name: String,
    shape: Shape<S>,
    explain: Option<Explain<S>>,
    apart: Option<TellApart<S>>,
    limit: Option<Arc<StepLimit>>,
    /// Compares what it reads of a node with what it read before, for those that can do so without making a value of it.
    unchanged: Option<Unchanged<S>>,
}

/// How a property looks at a state, which decides how its judgements are remembered.
pub enum Shape<S: Service> {
    /// At one node at a time.
    Node(Judge<S>),
    /// At two different nodes at a time, in both orders, through a projection.
    Pair(Project<S>, JudgePair),
    /// At all nodes at once, through a projection.
    Global(Project<S>, JudgeAll),
}

/// Judges one node.
pub type Judge<S> = Arc<dyn Fn(&View<'_, S>) -> Judgement + Send + Sync>;
/// Reads from one node the value a property depends on; `None` if the node cannot take part in a violation.
pub type Project<S> = Arc<dyn Fn(&View<'_, S>) -> Option<Projection> + Send + Sync>;
/// Tells whether a property reads of a node what it read before.
type Unchanged<S> = Arc<dyn Fn(&View<'_, S>, Option<&Projection>) -> bool + Send + Sync>;
/// Judges the projections of two nodes.
pub type JudgePair =
    Arc<dyn Fn((NodeId, &Projection), (NodeId, &Projection)) -> Judgement + Send + Sync>;
/// Judges the projections of all nodes in view that have one, by rising id.
pub type JudgeAll = Arc<dyn Fn(Scope, &[(NodeId, &Projection)]) -> Judgement + Send + Sync>;
/// Says in words what is wrong in a state that violates the property.
pub type Explain<S> = Arc<dyn Fn(Scope, &[View<'_, S>]) -> String + Send + Sync>;
/// Names every single thing that is wrong in a state.
pub type TellApart<S> = Arc<dyn Fn(Scope, &[View<'_, S>]) -> BTreeSet<String> + Send + Sync>;

/// A projected value whose type only its property knows.
#[derive(Clone)]
pub struct Projection {
    value: Arc<dyn Any + Send + Sync>,
    hash: u64,
    same: fn(&dyn Any, &dyn Any) -> bool,
}

impl<S: Service> Property<S> {
    /// A property each node has by itself.
    pub fn node(
        name: impl Into<String>,
        holds: impl Fn(&View<'_, S>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::of_shape(name, Shape::Node(Arc::new(move |view| holds(view).into())))
    }

    /// A property of every two nodes: `relate(a, b)` must hold for all pairs, in both orders. A node whose projection
    /// is `None` has no part in it.
    pub fn pair<P: Eq + Hash + Send + Sync + 'static>(
        name: impl Into<String>,
        project: impl Fn(&View<'_, S>) -> Option<P> + Send + Sync + 'static,
        relate: impl Fn((NodeId, &P), (NodeId, &P)) -> bool + Send + Sync + 'static,
    ) -> Self {
        let judge: JudgePair = Arc::new(move |(a, left), (b, right)| {
            relate((a, left.expect_value()), (b, right.expect_value())).into()
        });
        let (project, unchanged) = both_ways(project);
        let mut property = Self::of_shape(name, Shape::Pair(project, judge));
        property.unchanged = Some(unchanged);
        property
    }

    /// A property of all nodes together. A node whose projection is `None` is not shown to `judge`.
    ///
    /// Where there may be nodes out of view it is unknown; see [`monotone`](Self::monotone) and
    /// [`global_in_view`](Self::global_in_view).
    pub fn global<P: Eq + Hash + Send + Sync + 'static>(
        name: impl Into<String>,
        project: impl Fn(&View<'_, S>) -> Option<P> + Send + Sync + 'static,
        judge: impl Fn(&[(NodeId, &P)]) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::global_in_view(name, project, move |scope, all| match scope {
            Scope::Whole => judge(all).into(),
            Scope::Partial => Judgement::Unknown,
        })
    }

    /// A property of all nodes together that judges partial views too. In [`Scope::Partial`], `judge` may answer
    /// [`Judgement::Violated`] only if no further nodes could mend it.
    pub fn global_in_view<P: Eq + Hash + Send + Sync + 'static>(
        name: impl Into<String>,
        project: impl Fn(&View<'_, S>) -> Option<P> + Send + Sync + 'static,
        judge: impl Fn(Scope, &[(NodeId, &P)]) -> Judgement + Send + Sync + 'static,
    ) -> Self {
        let judge: JudgeAll = Arc::new(move |scope, all| {
            let values: Vec<(NodeId, &P)> = all
                .iter()
                .map(|(id, projection)| (*id, projection.expect_value()))
                .collect();
            judge(scope, &values)
        });
        let (project, unchanged) = both_ways(project);
        let mut property = Self::of_shape(name, Shape::Global(project, judge));
        property.unchanged = Some(unchanged);
        property
    }

    /// A property given by its parts, for compilers of property languages.
    pub fn of_shape(name: impl Into<String>, shape: Shape<S>) -> Self {
        Self {
            name: name.into(),
            shape,
            explain: None,
            apart: None,
            limit: None,
            unchanged: None,
        }
    }

    /// Adds the bound that its judgements keep to.
    #[must_use]
    pub fn limited(mut self, limit: Arc<StepLimit>) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Returns how many of its judgements in this process took more steps than they may and are unknown. Parts of one
    /// property count together.
    pub fn cut_off(&self) -> u64 {
        self.limit.as_ref().map_or(0, |limit| limit.cut_off())
    }

    /// Declares that some nodes that violate it violate it together with any others too, as with "at most two nodes
    /// lead": a partial view is then judged as if it were whole. Properties of one node and of two are so by themselves.
    #[must_use]
    pub fn monotone(mut self) -> Self {
        if let Shape::Global(project, judge) = self.shape {
            let judge: JudgeAll = Arc::new(move |_, all| judge(Scope::Whole, all));
            self.shape = Shape::Global(project, judge);
        }
        self
    }

    /// Adds what to say about a state that violates it.
    #[must_use]
    pub fn saying(
        self,
        explain: impl Fn(&[View<'_, S>]) -> String + Send + Sync + 'static,
    ) -> Self {
        self.saying_in(move |_, views| explain(views))
    }

    /// Adds what to say about a state that violates it, depending on whether every node is in view.
    #[must_use]
    pub fn saying_in(
        mut self,
        explain: impl Fn(Scope, &[View<'_, S>]) -> String + Send + Sync + 'static,
    ) -> Self {
        self.explain = Some(Arc::new(explain));
        self
    }

    /// Adds what tells things that are wrong from each other, by names of their own: two indices with two values each are two. A
    /// node that has broken a property once is then still kept from breaking it again in another way; without it, what is
    /// broken already cannot be told from what is new.
    #[must_use]
    pub fn telling_apart(
        self,
        apart: impl Fn(&[View<'_, S>]) -> BTreeSet<String> + Send + Sync + 'static,
    ) -> Self {
        self.telling_apart_in(move |_, views| apart(views))
    }

    /// As [`telling_apart`](Self::telling_apart), depending on whether every node is in view.
    #[must_use]
    pub fn telling_apart_in(
        mut self,
        apart: impl Fn(Scope, &[View<'_, S>]) -> BTreeSet<String> + Send + Sync + 'static,
    ) -> Self {
        self.apart = Some(Arc::new(apart));
        self
    }

    /// Returns the same property for states that other nodes sent: where it panics it is unknown, and `panicked` learns what
    /// it said. While it looks at a node's state, that is [noted](crate::blame).
    #[must_use]
    pub fn contained(self, panicked: &Panics) -> Self {
        let containment = Containment {
            name: self.name.as_str().into(),
            panicked: panicked.clone(),
        };
        let shape = match self.shape {
            Shape::Node(judge) => Shape::Node(containment.node(judge)),
            Shape::Pair(project, judge) => {
                Shape::Pair(containment.project(project), containment.pair(judge))
            }
            Shape::Global(project, judge) => {
                Shape::Global(containment.project(project), containment.all(judge))
            }
        };
        let explain = self.explain.map(|explain| -> Explain<S> {
            Arc::new(move |scope, views| {
                contain(None, || explain(scope, views)).unwrap_or_else(|Panicked(said)| {
                    format!("what is wrong cannot be said: {said}")
                })
            })
        });
        let apart = self.apart.map(|apart| -> TellApart<S> {
            Arc::new(move |scope, views| contain(None, || apart(scope, views)).unwrap_or_default())
        });
        Self {
            name: self.name,
            shape,
            explain,
            apart,
            limit: self.limit,
            // It would look at the state unguarded.
            unchanged: None,
        }
    }

    /// Returns the name: a sentence that says what holds.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the shape.
    pub fn shape(&self) -> &Shape<S> {
        &self.shape
    }

    /// Returns what it reads of a node for others to be judged with; nothing if it looks at one node at a time.
    pub fn read(&self, view: &View<'_, S>) -> Option<Projection> {
        match &self.shape {
            Shape::Node(_) => None,
            Shape::Pair(project, _) | Shape::Global(project, _) => project(view),
        }
    }

    /// Tells whether it [reads](Self::read) of a node what it read before. Cheaper than to read and compare.
    #[inline]
    pub fn reads_same(&self, view: &View<'_, S>, before: Option<&Projection>) -> bool {
        match &self.unchanged {
            Some(unchanged) => unchanged(view, before),
            None => self.read(view).as_ref() == before,
        }
    }

    /// Says what is wrong in a whole state that violates it, if it can.
    pub fn explain(&self, views: &[View<'_, S>]) -> Option<String> {
        self.explain_in(Scope::Whole, views)
    }

    /// Says what is wrong with the nodes in view, if it can.
    pub fn explain_in(&self, scope: Scope, views: &[View<'_, S>]) -> Option<String> {
        self.explain.as_ref().map(|explain| explain(scope, views))
    }

    /// Names every single thing that is wrong with the nodes in view, if it can tell them apart.
    pub fn all_broken_in(&self, scope: Scope, views: &[View<'_, S>]) -> Option<BTreeSet<String>> {
        self.apart.as_ref().map(|apart| apart(scope, views))
    }

    /// Judges a whole state without any memory: the reference for what the engine remembers.
    pub fn judge(&self, views: &[View<'_, S>]) -> Judgement {
        self.judge_in(Scope::Whole, views)
    }

    /// Judges the nodes in view, given by rising id, without any memory.
    pub fn judge_in(&self, scope: Scope, views: &[View<'_, S>]) -> Judgement {
        match &self.shape {
            Shape::Node(judge) => worst(views.iter().map(|view| judge(view))),
            Shape::Pair(project, judge) => {
                let seen = projections(views, project);
                worst(seen.iter().flat_map(|(a, left)| {
                    seen.iter()
                        .filter(move |(b, _)| a != b)
                        .map(move |(b, right)| judge((*a, left), (*b, right)))
                }))
            }
            Shape::Global(project, judge) => {
                let seen = projections(views, project);
                let shown = seen.iter().map(|(id, projection)| (*id, projection));
                judge(scope, &shown.collect::<Vec<_>>())
            }
        }
    }
}

/// Lets a property look at a node's state, or at several nodes'.
fn contain<R>(node: Option<NodeId>, look: impl FnOnce() -> R) -> Result<R, Panicked> {
    in_silence(|| blame::on(Phase::Judging(SOME_PROPERTY), node, || caught(look)))
}

/// What a property is taken to read of a node where it panics.
#[derive(Eq, Hash, PartialEq)]
struct Unseen;

/// Keeps what a property does when it panics from whoever asks it.
#[derive(Clone)]
struct Containment {
    name: Arc<str>,
    panicked: Panics,
}

impl Containment {
    fn note(&self, Panicked(said): Panicked) {
        self.panicked.note(&self.name, said);
    }

    fn judged(&self, judged: Result<Judgement, Panicked>) -> Judgement {
        judged.unwrap_or_else(|panicked| {
            self.note(panicked);
            Judgement::Unknown
        })
    }

    fn project<S: Service>(&self, project: Project<S>) -> Project<S> {
        let this = self.clone();
        Arc::new(move |view| {
            contain(Some(view.id), || project(view)).unwrap_or_else(|panicked| {
                this.note(panicked);
                Some(Projection::new(Unseen))
            })
        })
    }

    fn node<S: Service>(&self, judge: Judge<S>) -> Judge<S> {
        let this = self.clone();
        Arc::new(move |view| this.judged(contain(Some(view.id), || judge(view))))
    }

    fn pair(&self, judge: JudgePair) -> JudgePair {
        let this = self.clone();
        Arc::new(move |left, right| {
            if left.1.is_unseen() || right.1.is_unseen() {
                return Judgement::Unknown;
            }
            this.judged(contain(None, || judge(left, right)))
        })
    }

    fn all(&self, judge: JudgeAll) -> JudgeAll {
        let this = self.clone();
        Arc::new(move |scope, all| {
            if all.iter().any(|(_, projection)| projection.is_unseen()) {
                return Judgement::Unknown;
            }
            this.judged(contain(None, || judge(scope, all)))
        })
    }
}

/// What properties said when they panicked, each once.
#[derive(Clone, Debug, Default)]
pub struct Panics {
    said: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Panics {
    fn note(&self, property: &str, said: String) {
        let mut all = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(property) {
            all.insert(property.to_owned(), said);
        }
    }

    /// Takes what was said, by property.
    pub fn take(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns what makes a projection of a node, and what compares a node with one.
fn both_ways<S: Service, P: Eq + Hash + Send + Sync + 'static>(
    project: impl Fn(&View<'_, S>) -> Option<P> + Send + Sync + 'static,
) -> (Project<S>, Unchanged<S>) {
    let project = Arc::new(project);
    let same = Arc::clone(&project);
    let unchanged: Unchanged<S> = Arc::new(move |view, before| {
        let before = before.map(Projection::expect_value::<P>);
        same(view).as_ref() == before
    });
    (
        Arc::new(move |view| project(view).map(Projection::new)),
        unchanged,
    )
}

fn projections<S: Service>(
    views: &[View<'_, S>],
    project: &Project<S>,
) -> Vec<(NodeId, Projection)> {
    views
        .iter()
        .filter_map(|view| Some((view.id, project(view)?)))
        .collect()
}

fn worst(all: impl Iterator<Item = Judgement>) -> Judgement {
    let mut result = Judgement::Holds;
    for judgement in all {
        match judgement {
            Judgement::Violated => return Judgement::Violated,
            Judgement::Unknown => result = Judgement::Unknown,
            Judgement::Holds => {}
        }
    }
    result
}

impl Projection {
    /// Wraps a value.
    pub fn new<P: Eq + Hash + Send + Sync + 'static>(value: P) -> Self {
        let mut hasher = FxHasher::default();
        value.hash(&mut hasher);
        let same = |a: &dyn Any, b: &dyn Any| match (a.downcast_ref::<P>(), b.downcast_ref::<P>()) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        };
        Self {
            value: Arc::new(value),
            hash: hasher.finish(),
            same,
        }
    }

    /// Returns the value if it is of this type.
    pub fn value<P: 'static>(&self) -> Option<&P> {
        self.value.downcast_ref()
    }

    fn is_unseen(&self) -> bool {
        self.value::<Unseen>().is_some()
    }

    fn expect_value<P: 'static>(&self) -> &P {
        self.value()
            .expect("a property is shown its own projections only")
    }
}

impl PartialEq for Projection {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (self.same)(&*self.value, &*other.value)
    }
}

impl Eq for Projection {}

impl Hash for Projection {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl From<bool> for Judgement {
    fn from(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Violated }
    }
}

impl<S: Service> Clone for Property<S> {
    fn clone(&self) -> Self {
        let shape = match &self.shape {
            Shape::Node(judge) => Shape::Node(judge.clone()),
            Shape::Pair(project, judge) => Shape::Pair(project.clone(), judge.clone()),
            Shape::Global(project, judge) => Shape::Global(project.clone(), judge.clone()),
        };
        Self {
            name: self.name.clone(),
            shape,
            explain: self.explain.clone(),
            apart: self.apart.clone(),
            limit: self.limit.clone(),
            unchanged: self.unchanged.clone(),
        }
    }
}

impl<S: Service> fmt::Debug for Property<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Property")
            .field("name", &self.name)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl<S: Service> fmt::Debug for Shape<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node(_) => "per node",
            Self::Pair(..) => "pairwise",
            Self::Global(..) => "global",
        })
    }
}

impl fmt::Debug for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Projection({:016x})", self.hash)
    }
}
