//! What the question before every handler costs, beside floors measured in the same run.
//!
//! `cargo bench -p scry --bench hook` prints a table, `-- --json` one object. A start without `--bench`, as `cargo test
//! --benches` makes one, or with `--test`, only shows that it works. Machines differ and are shared, so only the ratios mean
//! something: nothing here fails because of time. It does fail when an answer is wrong.
//!
//! | row | what is asked |
//! |---|---|
//! | `admit: other kind` | a message of a kind that no filter names: almost every message |
//! | `admit: other sender` | a message of a kind that is filtered, from somebody else |
//! | `admit: hit` | a message that a filter drops, with all that is counted and reported then |
//! | `atomic load` | the least that any answer costs |
//! | `vec` | the same answer by going through a vector of (kind, sender) |
//! | `rwlock` | the same vector behind a lock that is taken for reading |

use std::hint::black_box;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use scry::NodeId;
use scry::checkpoint::Time;
use scry::checkpoint::recorder::Capture;
use scry::hook::{Disarm, Hook, Occurrence, Options, Verdict};
use scry_protocol::filter::{Action, Filter, Matcher, Mode};
use scry_protocol::link::host::{AgentToHost, Welcome};
use scry_protocol::{FilterId, ViolationId, frame};
use serde_json::json;

/// Tables of these sizes are asked.
const SIZES: [u32; 4] = [0, 1, 16, 256];
/// Kinds of messages among the filters.
const KINDS: u32 = 16;
/// An empty table should cost no more than this.
const EMPTY_GOAL_NS: f64 = 3.0;

const ME: NodeId = NodeId::new(1);

/// How long is measured.
#[derive(Clone, Copy)]
struct Effort {
    runs: usize,
    asks: u32,
}

/// One line of the result.
struct Row {
    name: &'static str,
    filters: u32,
    runs_ns: Vec<f64>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let effort = if has("--test") || !has("--bench") {
        Effort { runs: 1, asks: 100 }
    } else {
        // Runs of well below a time slice: on a busy machine most of them are not interrupted, and the median is of those.
        Effort {
            runs: 401,
            asks: 5_000,
        }
    };
    let mut rows = Vec::new();
    for filters in SIZES {
        rows.extend(measure(filters, effort)?);
    }
    if has("--json") {
        println!("{}", to_json(&rows));
    } else {
        print(&rows);
    }
    Ok(())
}

/// Measures one size of table: all contenders in turns, so that a busy moment of the machine hits all of them.
fn measure(filters: u32, effort: Effort) -> Result<Vec<Row>> {
    let mut hook = steered(filters)?;
    let list: Vec<(String, NodeId)> = (0..filters).map(target).collect();
    let lock = RwLock::new(list.clone());
    let length = AtomicUsize::new(filters as usize);
    let (kind, from) = target(filters.saturating_sub(1));
    let stranger = NodeId::new(1_000_000);

    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..effort.runs {
        let mut at = 0;
        let mut row = |name, asks: u32, mut ask: Box<dyn FnMut(u32) + '_>| {
            if rows.len() == at {
                rows.push(Row {
                    name,
                    filters,
                    runs_ns: Vec::new(),
                });
            }
            let begun = Instant::now();
            ask(asks);
            rows[at]
                .runs_ns
                .push(begun.elapsed().as_secs_f64() * 1e9 / f64::from(asks));
            at += 1;
        };
        let mut wrong = 0u32;
        row(
            "admit: other kind",
            effort.asks,
            Box::new(|asks| {
                wrong += ask(&mut hook, asks, "Unheard", from, |verdict| {
                    verdict == Verdict::Run
                });
            }),
        );
        if filters > 0 {
            row(
                "admit: other sender",
                effort.asks,
                Box::new(|asks| {
                    wrong += ask(&mut hook, asks, &kind, stranger, |verdict| {
                        verdict == Verdict::Run
                    });
                }),
            );
            row(
                "admit: hit",
                effort.asks / 10,
                Box::new(|asks| {
                    wrong += ask(&mut hook, asks, &kind, from, |verdict| {
                        verdict != Verdict::Run
                    });
                }),
            );
        }
        row(
            "atomic load",
            effort.asks,
            Box::new(|asks| {
                for _ in 0..asks {
                    black_box(black_box(&length).load(Ordering::Acquire));
                }
            }),
        );
        row(
            "vec",
            effort.asks,
            Box::new(|asks| {
                for _ in 0..asks {
                    wrong += u32::from(find(
                        black_box(&list),
                        black_box("Unheard"),
                        black_box(from),
                    ));
                }
            }),
        );
        row(
            "rwlock",
            effort.asks,
            Box::new(|asks| {
                for _ in 0..asks {
                    let list = black_box(&lock).read().expect("nobody panics");
                    wrong += u32::from(find(&list, black_box("Unheard"), black_box(from)));
                }
            }),
        );
        ensure!(
            wrong == 0,
            "{wrong} answers were wrong with {filters} filters"
        );
    }
    hook.close(Duration::ZERO);
    Ok(rows)
}

/// Asks about one message many times, and returns how many answers were not as expected.
#[inline(never)]
fn ask(
    hook: &mut Hook,
    asks: u32,
    kind: &str,
    from: NodeId,
    expected: impl Fn(Verdict) -> bool,
) -> u32 {
    let mut wrong = 0;
    for _ in 0..asks {
        let verdict = hook.admit(black_box(&Occurrence::Message {
            kind,
            from,
            content: &|| b"content".to_vec(),
        }));
        wrong += u32::from(!expected(verdict));
    }
    wrong
}

fn find(list: &[(String, NodeId)], kind: &str, from: NodeId) -> bool {
    // The cheaper comparison first.
    list.iter()
        .any(|(name, source)| *source == from && name == kind)
}

/// What the filter of a number is for.
fn target(filter: u32) -> (String, NodeId) {
    (
        format!("Message{}", filter % KINDS),
        NodeId::new(2 + filter / KINDS),
    )
}

/// Makes a host with an agent that allows it to steer, and installs filters.
fn steered(filters: u32) -> Result<Hook> {
    let directory = Scratch::new(filters)?;
    let socket = directory.0.join("agent");
    let listener = UnixListener::bind(&socket)?;
    let mut options = Options::new(ME, "bench", "1");
    options.socket = Some(socket);
    options.disarm = Disarm {
        acts_per_minute_max: u64::MAX,
        ..Disarm::default()
    };
    let mut hook = Hook::connect(options, Time::default(), Capture::default);
    let (mut agent, _) = listener.accept()?;
    agent.write_all(&frame::encode(&AgentToHost::Welcome(Welcome {
        version: "bench".to_owned(),
        mode: Mode::Steer,
    }))?)?;
    let begun = Instant::now();
    while hook.mode() != Mode::Steer {
        ensure!(
            begun.elapsed() < Duration::from_secs(10),
            "the hook does not attach"
        );
        std::thread::yield_now();
    }
    hook.install((0..filters).map(filter).collect());
    // The agent stays for as long as the process: without it the filters would fall.
    std::mem::forget(agent);
    Ok(hook)
}

fn filter(number: u32) -> Filter {
    let (kind, source) = target(number);
    Filter {
        id: FilterId::new(number.into()),
        matcher: Matcher::Message {
            kind,
            source,
            destination: ME,
            content: None,
        },
        action: Action::Drop,
        ttl_ms: u64::MAX,
        hits_max: u64::MAX,
        mode: Mode::Steer,
        violation: ViolationId::new(1),
        property: "none".to_owned(),
        reason: "a bench".to_owned(),
    }
}

/// A directory for a socket.
struct Scratch(PathBuf);

impl Scratch {
    fn new(filters: u32) -> Result<Self> {
        let name = format!("scry-bench-hook-{}-{filters}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).context("a directory for a socket")?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Row {
    fn median_ns(&self) -> f64 {
        let mut runs = self.runs_ns.clone();
        runs.sort_by(f64::total_cmp);
        runs[runs.len() / 2]
    }
}

/// Returns the median of a row.
fn median_ns(rows: &[Row], name: &str, filters: u32) -> f64 {
    rows.iter()
        .find(|row| row.name == name && row.filters == filters)
        .map_or(f64::NAN, Row::median_ns)
}

fn to_json(rows: &[Row]) -> serde_json::Value {
    let list: Vec<_> = rows
        .iter()
        .map(|row| {
            let ns = row.median_ns();
            json!({
                "name": row.name,
                "filters": row.filters,
                "ns": ns,
                "ratio_atomic": ns / median_ns(rows, "atomic load", row.filters),
                "ratio_vec": ns / median_ns(rows, "vec", row.filters),
                "ratio_rwlock": ns / median_ns(rows, "rwlock", row.filters),
            })
        })
        .collect();
    json!({
        "rows": list,
        "empty_ns": median_ns(rows, "admit: other kind", 0),
        "empty_goal_ns": EMPTY_GOAL_NS,
    })
}

fn print(rows: &[Row]) {
    println!(
        "{:>7} {:20} {:>9} {:>9} {:>7} {:>9}",
        "filters", "", "ns", "× atomic", "× vec", "× rwlock"
    );
    for row in rows {
        let ns = row.median_ns();
        let ratio = |floor| ns / median_ns(rows, floor, row.filters);
        println!(
            "{:>7} {:20} {:>9.2} {:>8.1}× {:>6.2}× {:>8.2}×",
            row.filters,
            row.name,
            ns,
            ratio("atomic load"),
            ratio("vec"),
            ratio("rwlock"),
        );
    }
    let empty = median_ns(rows, "admit: other kind", 0);
    let verdict = if empty <= EMPTY_GOAL_NS {
        "met"
    } else {
        "missed"
    };
    println!("goals: empty table {empty:.1} ns (≤ {EMPTY_GOAL_NS} {verdict})");
}
