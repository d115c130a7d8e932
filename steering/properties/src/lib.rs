//! Properties in a file: read, checked against a service, and compiled so that judging them costs next to nothing.
//!
//! ```toml
//! [[property]]
//! name   = "at most one value is chosen"
//! always = "nodes.all(a, nodes.all(b, a.chosen == null || b.chosen == null || a.chosen == b.chosen))"
//!
//! [[property]]
//! name        = "one ring"
//! eventually  = "nodes.all(n, sets.contains([n.id] + reach(n, 'successor'), nodes.map(m, m.id)))"
//! mode        = "audit"          # off, audit or steer; without it, the global mode
//! description = "Every node is reached from every node."
//! steps       = 5000000          # how many steps a judgement may take; 1000000 without it, 0 for no limit
//!
//! [[property]]
//! name      = "somebody leads"
//! sometimes = "nodes.exists(n, n.leads)"   # in one state at least, or else the check is about nothing
//!
//! [[property]]
//! name = "quorums intersect"     # without an expression: switches on the property of this name in Rust
//! ```
//!
//! # What an expression sees
//!
//! Expressions are CEL. They start from `nodes` (those in view), from `node(id)`, or from `self`: an expression that
//! mentions `self` is about every node. A node has an `id`, its state's fields under the names serde gives them, and
//! `timers`, the names of its armed timers (of an enum the variant's name, else the debug form). Should the state have
//! a field `id` or `timers` of its own, it is `n["id"]`. An empty `Option` is `null`; a variant of an enum is a string
//! if it carries no data and otherwise a map of one entry, so `has(n.phase.Leading)` asks for it. All integers are of
//! one type.
//!
//! Beyond CEL's operators and the macros `all`, `exists`, `exists_one`, `map`, `filter` and `has` there are `size`,
//! `contains`, `startsWith`, `endsWith`, `int`, `double`, `string`, and:
//!
//! | function | answer |
//! |---|---|
//! | `node(id)` | the node of that id; unknown if it is not in view |
//! | `reach(n, "field")` | the ids of the nodes reached from `n` over the pointer `field` in one or more steps; `[n.id] + reach(…)` is zero or more |
//! | `reach(n, n.list[0])` | the same along any expression, in which the second `n` is each node on the way |
//! | `distinct(list)` | whether no two elements are equal |
//! | `sets.contains(a, b)` | whether all elements of `b` are in `a` |
//! | `sets.intersects(a, b)` | whether some element is in both |
//! | `sets.equivalent(a, b)` | whether each contains the other |
//!
//! # What must always hold, and what must come
//!
//! | kind | what it asks | what `check` says |
//! |---|---|---|
//! | `always` | it holds in every state | the shortest path to a state in which it does not |
//! | `eventually` | it holds again and again: from every state it can still come true | how many states are live, recoverable, dead or unknown, and the step into the first dead one; fair cycles that avoid it |
//! | `sometimes` | it holds in some state | after how many steps, or that it never does, so that whatever is checked of such states is not checked at all |
//!
//! An `eventually` may be false for a while, as a ring is while a node joins; it is violated where it can never be true again
//! without the help of a fault, or where a fair execution goes round for ever without it. Several are also judged as
//! one that asks for all of them at once. The strategies `exhaustive` and `walk` judge both kinds; every other says in its
//! verdict that it does not.
//!
//! # What is unknown
//!
//! An expression that names a node out of view, follows a pointer out of view, or has no answer in CEL (no such key,
//! index out of bounds, division by zero) is unknown there. `&&`, `||`, `all` and `exists` find an answer in spite of
//! it where one side suffices. A property that is unknown is not violated (A-79).
//!
//! # When not every node is in view
//!
//! Beside a running service a node may be silent, or only the neighbors are looked at. `nodes` is then a part of the
//! nodes there are, and an answer counts only if it would be the same with any others:
//!
//! | expression | what it says of a part of the nodes |
//! |---|---|
//! | `nodes.all(n, …)` | a node for which it is false is enough; if there is none, it holds as far as can be seen |
//! | `nodes.exists(n, …)` | a node for which it is true is enough; if there is none, it is unknown |
//! | `nodes.exists_one(n, …)` | false if there are two, else unknown |
//! | `size(nodes) <= 3` | false if there are four, else it holds as far as can be seen |
//! | `size(nodes) == 3` | false if there are four, else unknown |
//! | `x in nodes.map(…)` | true if it is there, else unknown |
//! | `distinct(…)`, `sets.…` | in the same way: what more nodes cannot change counts |
//!
//! A property that has no answer in any state of a search is reported as never judged.
//!
//! # What it costs
//!
//! Quantifiers inside each other cost a power of the nodes; the command `properties` shows which, with estimates. A
//! judgement that takes more than [`STEPS_MAX`] steps, or as many as `steps` of the property says, is unknown. That is
//! counted and told.
//!
//! # Limits
//!
//! Files, names and expressions have limits in length, nesting and number, the constants below. A file that breaks one
//! is refused with its place, as is any other mistake, and all mistakes of a file are told at once.
//!
//! # What becomes of it
//!
//! | module | what it holds |
//! |---|---|
//! | `file`, `scan`, `syntax` | from bytes to syntax trees with places |
//! | `trace`, `shape`, `schema` | what is known of a service's state |
//! | `check`, `term` | from a syntax tree to a typed one |
//! | `normal`, `classify` | into parts by shape, with projections |
//! | `cost` | what a judgement costs, and when it is cut off |
//! | `serialize`, `value`, `compile`, `judge` | into closures over what is read of a state |
//! | `explain`, `diagnostic` | words |

mod check;
mod classify;
mod compile;
mod cost;
mod diagnostic;
mod explain;
mod file;
mod judge;
mod normal;
mod scan;
mod schema;
mod serialize;
mod set;
mod shape;
mod syntax;
mod term;
mod trace;
mod value;

pub use check::call::EXPRESSION_MACROS_MAX;
pub use cost::STEPS_MAX;
pub use diagnostic::{Complaint, DIAGNOSTICS_MAX, Diagnostic, Diagnostics, closest};
pub use file::{FILE_BYTES_MAX, Mode, NAME_BYTES_MAX, PROPERTIES_MAX, PropertyFile};
pub use scan::{EXPRESSION_BRACKETS_MAX, EXPRESSION_BYTES_MAX, EXPRESSION_TOKENS_MAX};
pub use schema::{FieldType, Schema};
pub use scry_engine::property::Kind;
pub use set::{CompiledProperty, Predicate, PropertySet, from_text};
pub use set::{eventually_from_text, goals_from_text};
pub use syntax::EXPRESSION_DEPTH_MAX;
