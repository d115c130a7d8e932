//! Property files held against a service: the compiled properties, and what an author can see of them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::check::{Checked, check};
use crate::classify::{Part, Plan, classify};
use crate::compile::{Frame, compile_asserted};
use crate::cost::{self, STEPS_MAX};
use crate::diagnostic::{Complaint, Diagnostics};
use crate::explain::{all_broken, explain};
use crate::file::{Entry, Formula, Mode, PropertyFile};
use crate::judge::{Reader, shape_of};
use crate::schema::Schema;
use crate::term::{Term, Variable};
use crate::value::Value;
use scry_engine::property::{Judgement, Kind, Property, Scope, StepLimit, View};
use scry_engine::service::Service;

use scry_protocol::NodeId;

/// The properties of a file, compiled for a service.
#[derive(Clone, Debug)]
pub struct PropertySet<S: Service> {
    /// What must hold in every state, in the order of the file.
    pub always: Vec<CompiledProperty<S>>,
    /// What must hold again and again, in the order of the file.
    pub eventually: Vec<CompiledProperty<S>>,
    /// What must hold in some state, in the order of the file.
    pub sometimes: Vec<CompiledProperty<S>>,
}

/// One compiled property.
#[derive(Clone, Debug)]
pub struct CompiledProperty<S: Service> {
    /// The name: a sentence that says what holds.
    pub name: String,
    /// What may be done about it, if the file says so.
    pub mode: Option<Mode>,
    /// More words about it, if the file has any.
    pub description: Option<String>,
    /// What must hold. All parts together are the property; each is judged and remembered by its own shape, and each
    /// bears the property's name.
    pub parts: Vec<Property<S>>,
    /// The same as one predicate on a whole state.
    pub predicate: Predicate<S>,
    kind: Kind,
    listing: Vec<String>,
}

/// Judges a whole state at once, without parts and projections.
pub struct Predicate<S: Service> {
    judge: Arc<Whole<S>>,
    explain: Arc<Explanation<S>>,
    apart: Arc<TellingApart<S>>,
}

type Whole<S> = dyn Fn(Scope, &[View<'_, S>]) -> Judgement + Send + Sync;
type Explanation<S> = dyn Fn(Scope, &[View<'_, S>]) -> Option<String> + Send + Sync;
type TellingApart<S> = dyn Fn(Scope, &[View<'_, S>]) -> BTreeSet<String> + Send + Sync;

impl PropertyFile {
    /// Reads a file and compiles it for a service, reporting all that is wrong with it at once.
    ///
    /// `registered` are the properties the service has in Rust: an entry with a name and neither `always`,
    /// `eventually` nor `sometimes` switches on the one of that name.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn load<S: Service>(
        name: &str,
        bytes: &[u8],
        schema: &Schema,
        registered: Vec<Property<S>>,
    ) -> Result<PropertySet<S>, Diagnostics> {
        let (file, diagnostics) = Self::read(name, bytes);
        file.compile_with(schema, &registered, diagnostics)
    }

    /// Compiles the file for a service.
    ///
    /// # Errors
    ///
    /// Everything that does not fit the service.
    pub fn compile<S: Service>(
        &self,
        schema: &Schema,
        registered: Vec<Property<S>>,
    ) -> Result<PropertySet<S>, Diagnostics> {
        self.compile_with(schema, &registered, self.diagnostics())
    }

    fn compile_with<S: Service>(
        &self,
        schema: &Schema,
        registered: &[Property<S>],
        mut diagnostics: Diagnostics,
    ) -> Result<PropertySet<S>, Diagnostics> {
        let mut set = PropertySet {
            always: Vec::new(),
            eventually: Vec::new(),
            sometimes: Vec::new(),
        };
        for entry in self.entries() {
            let rule = match &entry.formula {
                Some((kind, formula)) => CompiledProperty::compile(entry, *kind, formula, schema),
                None => CompiledProperty::registered(entry, registered)
                    .map_err(|complaint| vec![complaint]),
            };
            match rule {
                Ok(rule) => match rule.kind {
                    Kind::Always => set.always.push(rule),
                    Kind::Eventually => set.eventually.push(rule),
                    Kind::Sometimes => set.sometimes.push(rule),
                },
                Err(complaints) => complaints
                    .into_iter()
                    .for_each(|complaint| diagnostics.push(complaint)),
            }
        }
        diagnostics.sort();
        match diagnostics.is_empty() {
            true => Ok(set),
            false => Err(diagnostics),
        }
    }
}

/// Compiles the text of a property file for a service, and lists what must hold in every state, and nothing else: this is
/// for whoever judges one state at a time. An empty text stands for the properties the service brings along.
///
/// # Errors
///
/// Everything that is wrong with the text, for people.
pub fn from_text<S: Service>(text: &str) -> Result<Vec<Property<S>>, String> {
    if text.is_empty() {
        let mut own = S::properties();
        own.retain(Property::is_always);
        return Ok(own);
    }
    let schema = Schema::of::<S>();
    PropertyFile::load("properties.toml", text.as_bytes(), &schema, S::properties())
        .map(|set| set.properties())
        .map_err(|errors| errors.to_string())
}

/// All that a property can see of a node: its state and its timers.
type StateAndTimers<S> = (S, Vec<<S as Service>::Timer>);

/// Compiles the text of a property file for a service, and returns for each `eventually` property that is not off one
/// that is violated in just the states where it is true: a search that looks for violations finds whether it can come true.
///
/// # Errors
///
/// Everything that is wrong with the text, for people.
pub fn goals_from_text<S: Service>(text: &str) -> Result<Vec<Property<S>>, String> {
    if text.is_empty() {
        let own = S::properties().into_iter();
        let own = own.filter(|property| property.kind() == Kind::Eventually);
        return Ok(own
            .map(|property| goal_of(property.name().to_owned(), vec![property]))
            .collect());
    }
    let schema = Schema::of::<S>();
    let set = PropertyFile::load("properties.toml", text.as_bytes(), &schema, S::properties())
        .map_err(|errors| errors.to_string())?;
    let rules = set
        .eventually
        .into_iter()
        .filter(|rule| rule.mode != Some(Mode::Off));
    Ok(rules.map(CompiledProperty::into_goal).collect())
}

/// Compiles the text of a property file for a service, and lists what must hold again and again, as it stands: the parts of all
/// `eventually` properties that are not off.
///
/// # Errors
///
/// Everything that is wrong with the text, for people.
pub fn eventually_from_text<S: Service>(text: &str) -> Result<Vec<Property<S>>, String> {
    if text.is_empty() {
        let mut own = S::properties();
        own.retain(|property| property.kind() == Kind::Eventually);
        return Ok(own);
    }
    let schema = Schema::of::<S>();
    PropertyFile::load("properties.toml", text.as_bytes(), &schema, S::properties())
        .map(|set| parts_of(set.eventually.iter()))
        .map_err(|errors| errors.to_string())
}

impl<S: Service> PropertySet<S> {
    /// Lists what must hold in every state: the parts of all `always` properties that are not off.
    pub fn properties(&self) -> Vec<Property<S>> {
        parts_of(self.always.iter())
    }

    /// Lists the parts of all properties that are not off, of whatever kind, for a search that judges them all or says
    /// which it does not.
    pub fn properties_of_all_kinds(&self) -> Vec<Property<S>> {
        parts_of(self.rules())
    }

    /// Goes through all properties, kind by kind.
    pub fn rules(&self) -> impl Iterator<Item = &CompiledProperty<S>> {
        let rules = self.always.iter().chain(&self.eventually);
        rules.chain(&self.sometimes)
    }

    /// Shows each property with its kind, mode, shape and what is read of a node to judge it.
    pub fn listing(&self) -> String {
        let mut lines = Vec::new();
        for rule in self.rules() {
            lines.push(rule.name.clone());
            if let Some(description) = &rule.description {
                lines.extend(description.trim().lines().map(|line| format!("  # {line}")));
            }
            let mode = rule.mode.map_or("", Mode::as_str);
            let separator = if mode.is_empty() { "" } else { ", " };
            lines.push(format!("  {}{separator}{mode}", rule.kind.as_str()));
            lines.extend(rule.listing.iter().map(|line| format!("  {line}")));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

fn parts_of<'a, S: Service>(
    rules: impl Iterator<Item = &'a CompiledProperty<S>>,
) -> Vec<Property<S>> {
    rules
        .filter(|rule| rule.mode != Some(Mode::Off))
        .flat_map(|rule| rule.parts.iter().cloned())
        .collect()
}

/// Makes a property that is violated in just the states where all parts hold.
fn goal_of<S: Service>(name: String, parts: Vec<Property<S>>) -> Property<S> {
    Property::global(
        name,
        |view: &View<'_, S>| Some((view.state.clone(), view.timers.to_vec())),
        move |nodes: &[(NodeId, &StateAndTimers<S>)]| {
            let views = nodes
                .iter()
                .map(|&(id, (state, timers))| View { id, state, timers });
            let views: Vec<View<'_, S>> = views.collect();
            let holds = |part: &Property<S>| part.judge(&views) == Judgement::Holds;
            !parts.iter().all(holds)
        },
    )
}

impl<S: Service> CompiledProperty<S> {
    /// Tells in which states it must hold.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Turns it into a property that is violated where this one is true.
    fn into_goal(self) -> Property<S> {
        goal_of(self.name, self.parts)
    }

    fn compile(
        entry: &Entry,
        kind: Kind,
        formula: &Formula,
        schema: &Schema,
    ) -> Result<Self, Vec<Complaint>> {
        let placed = |complaints: Vec<Complaint>| {
            let placed = complaints.into_iter();
            placed
                .map(|complaint| formula.place(complaint))
                .collect::<Vec<_>>()
        };
        let Checked { term, mut names } =
            check(schema, &formula.text, &formula.syntax).map_err(placed)?;
        let limit = Arc::new(StepLimit::new(entry.steps.unwrap_or(STEPS_MAX)));
        let predicate = Predicate::of(&term, names.clone(), formula.text.clone(), &limit);
        let parts = classify(&term, &mut names);
        let listing = match parts.is_empty() {
            true => vec!["true in every state, so there is nothing to judge".to_owned()],
            false => parts
                .iter()
                .flat_map(|part| {
                    let mut lines = describe(part, &names);
                    lines.extend(cost::described(part, &limit));
                    lines
                })
                .collect(),
        };
        let saying = predicate.clone();
        let parts = parts.iter().map(|part| {
            let (saying, apart) = (saying.clone(), saying.clone());
            Property::of_shape(entry.name.clone(), shape_of(part, names.len(), &limit))
                .of_kind(kind)
                .limited(Arc::clone(&limit))
                .saying_in(move |scope, views| saying.explain_in(scope, views).unwrap_or_default())
                .telling_apart_in(move |scope, views| apart.all_broken_in(scope, views))
        });
        Ok(Self {
            name: entry.name.clone(),
            mode: entry.mode,
            description: entry.description.clone(),
            parts: parts.collect(),
            predicate,
            kind,
            listing,
        })
    }

    fn registered(entry: &Entry, registered: &[Property<S>]) -> Result<Self, Complaint> {
        let Some(property) = registered
            .iter()
            .find(|property| property.name() == entry.name)
        else {
            let names = || registered.iter().map(Property::name);
            let complaint = Complaint::new(
                entry.name_span.clone(),
                format!(
                    "{:?} has neither `always` nor `eventually` nor `sometimes`, and the service registers no property of this name",
                    entry.name
                ),
            );
            let known: Vec<String> = names().map(|name| format!("`{name}`")).collect();
            let complaint = match known.is_empty() {
                true => complaint.help("add an `always`, an `eventually` or a `sometimes`"),
                false => complaint.help(format!("it registers {}", known.join(", "))),
            };
            return Err(complaint.suggest(&entry.name, names()));
        };
        let [judge, explain, apart] = std::array::from_fn(|_| property.clone());
        Ok(Self {
            name: entry.name.clone(),
            mode: entry.mode,
            description: entry.description.clone(),
            listing: vec![format!("registered in Rust, {:?}", property.shape())],
            predicate: Predicate {
                judge: Arc::new(move |scope, views| judge.judge_in(scope, views)),
                explain: Arc::new(move |scope, views| explain.explain_in(scope, views)),
                apart: Arc::new(move |scope, views| {
                    apart.all_broken_in(scope, views).unwrap_or_default()
                }),
            },
            parts: vec![property.clone()],
            kind: property.kind(),
        })
    }
}

impl<S: Service> Predicate<S> {
    fn of(term: &Term, names: Vec<String>, text: String, limit: &StepLimit) -> Self {
        let steps_max = limit.max();
        let reader = Reader::of([term]);
        let code = compile_asserted(term);
        let (count, term) = (names.len(), term.clone());
        let (other, another) = (reader.clone(), reader.clone());
        let (same_term, same_names) = (term.clone(), names.clone());
        Self {
            judge: Arc::new(move |scope, views| {
                let nodes: Vec<_> = views.iter().map(|view| reader.read(view)).collect();
                let mut frame = Frame {
                    scope,
                    nodes: &nodes,
                    variables: vec![Value::Unknown; count],
                    steps_left: steps_max,
                    is_cut_off: false,
                };
                code(&mut frame).judgement()
            }),
            explain: Arc::new(move |scope, views| {
                let nodes: Vec<_> = views.iter().map(|view| other.read(view)).collect();
                Some(explain(&term, &text, &names, scope, &nodes, steps_max))
            }),
            apart: Arc::new(move |scope, views| {
                let nodes: Vec<_> = views.iter().map(|view| another.read(view)).collect();
                all_broken(&same_term, &same_names, scope, &nodes, steps_max)
            }),
        }
    }

    /// Judges a whole state, its nodes given by rising id.
    pub fn judge(&self, views: &[View<'_, S>]) -> Judgement {
        self.judge_in(Scope::Whole, views)
    }

    /// Judges the nodes in view, given by rising id.
    pub fn judge_in(&self, scope: Scope, views: &[View<'_, S>]) -> Judgement {
        (self.judge)(scope, views)
    }

    /// Names every single thing that is wrong with the nodes in view.
    pub fn all_broken_in(&self, scope: Scope, views: &[View<'_, S>]) -> BTreeSet<String> {
        (self.apart)(scope, views)
    }

    /// Says why it does not hold in a whole state, if it can.
    pub fn explain(&self, views: &[View<'_, S>]) -> Option<String> {
        self.explain_in(Scope::Whole, views)
    }

    /// Says why it does not hold of the nodes in view, if it can.
    pub fn explain_in(&self, scope: Scope, views: &[View<'_, S>]) -> Option<String> {
        match self.judge_in(scope, views) {
            Judgement::Holds => None,
            _ => (self.explain)(scope, views),
        }
    }
}

/// Says how a part is judged.
fn describe(part: &Part, names: &[String]) -> Vec<String> {
    let name = |variable: Variable| names[variable as usize].clone();
    match part {
        Part::Node { variable, matrix } => {
            let matrix = matrix.written(&name);
            vec![format!("per node {}: {matrix}", name(*variable))]
        }
        Part::Pair(plan) => described_plan("pairwise", plan, &name),
        Part::Global(plan) => described_plan("global", plan, &name),
    }
}

fn described_plan(shape: &str, plan: &Plan, name: &dyn Fn(Variable) -> String) -> Vec<String> {
    let slots: Vec<String> = plan
        .slots
        .iter()
        .map(|slot| slot.term.written(name))
        .collect();
    let reads = match slots.is_empty() {
        true => "nothing but the nodes' ids".to_owned(),
        false => slots.join(", "),
    };
    let mut lines = vec![format!("{shape}, by {reads}")];
    let mut guards: Vec<String> = plan
        .roles
        .iter()
        .filter_map(|role| {
            let guard = role.guard.as_ref()?;
            Some(guard.written(name))
        })
        .collect();
    let everywhere = guards.len() == plan.roles.len();
    guards.dedup();
    if !guards.is_empty() {
        let leaves = match everywhere && !plan.looks_around {
            true => "leaves out a node with",
            false => "reads less of a node with",
        };
        lines.push(format!(
            "  {leaves} {}",
            guards.join(" or, in another role, ")
        ));
    }
    lines
}

impl<S: Service> Clone for Predicate<S> {
    fn clone(&self) -> Self {
        Self {
            judge: self.judge.clone(),
            explain: self.explain.clone(),
            apart: self.apart.clone(),
        }
    }
}

impl<S: Service> fmt::Debug for Predicate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").finish_non_exhaustive()
    }
}
