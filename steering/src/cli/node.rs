//! `node`: runs one live node, controlled and watched by lines of JSON.

mod control;
mod printer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use scry_protocol::NodeId;
use scry_protocol::limit::PAST_ENTRIES_MAX;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::node::control::Controlled;
use crate::cli::node::printer::Printer;
use crate::cli::{EXIT_FINE, EXIT_PANIC, EXIT_SYSTEM, EXIT_USAGE, check};
use crate::hook;
use crate::program::{Bug, Program};
use crate::runtime::options::LATE_MAX;
use crate::runtime::{self, DiskOptions, Emulation, End, Kind, Options, TimeOfDay};
use crate::safety::SafetyCheck;
use scry_checkpoint::past::ENTRIES_MAX;

/// How long a reader of what was said last is waited for.
const FAREWELL: Duration = Duration::from_secs(1);

/// What `node` can be asked.
#[derive(Debug, clap::Args)]
pub struct Node {
    /// Which node this is.
    #[arg(long, value_parser = node_id, value_name = "ID")]
    id: NodeId,
    /// Where to listen, by TCP and UDP alike; port 0 for any that is free.
    #[arg(long, value_parser = address, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where another node is (repeatable).
    #[arg(long, value_parser = peer, value_name = "ID=ADDRESS")]
    peer: Vec<(NodeId, SocketAddr)>,
    /// A file that says where the others are: a line `ID=ADDRESS` for each, `#` for comments.
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Settings of the service, as JSON or as @FILE. They replace what follows from the members and bugs.
    #[arg(long, value_name = "JSON")]
    setup: Option<String>,
    /// Switch a known bug on (repeatable; `all` for all of them).
    #[arg(long, value_name = "NAME")]
    bug: Vec<String>,

    /// The agent's socket.
    #[arg(long, value_name = "SOCKET")]
    agent: Option<PathBuf>,
    /// A file whose existence forbids steering.
    #[arg(long, value_name = "FILE")]
    kill_file: Option<PathBuf>,
    /// Keep no record of messages in flight. Checkpoints and the stamps on messages are smaller, and predictions begin with
    /// an empty network.
    #[arg(long)]
    no_channel_state: bool,
    /// Of so many nodes messages and checkpoints say when they last changed, so that what is known of a neighbor is judged
    /// with only where it may stand beside this node's state. With 0 they say a number only, and less can be judged.
    #[arg(long, value_name = "COUNT", default_value_t = ENTRIES_MAX)]
    past_entries: usize,
    /// For how long at most steering may keep a message of a connection, or the news that one is lost, where everything else
    /// would break something. 0 to keep none.
    #[arg(long, value_name = "SECONDS", default_value_t = LATE_MAX.as_secs() as u32)]
    late_s: u32,
    /// A directory for what survives the process. It belongs to this node alone.
    #[arg(long, value_name = "DIRECTORY")]
    disk: Option<PathBuf>,
    /// Wait until what is kept is on the medium before anything is sent.
    #[arg(long, requires = "disk")]
    sync: bool,
    /// What dice and emulated links are drawn from (random by default).
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Delay everything sent by so much.
    #[arg(
        long,
        value_name = "MILLISECONDS",
        default_value_t = 0,
        help_heading = "Emulated links"
    )]
    delay_ms: u64,
    /// Delay everything by up to so much more.
    #[arg(
        long,
        value_name = "MILLISECONDS",
        default_value_t = 0,
        help_heading = "Emulated links"
    )]
    jitter_ms: u64,
    /// Lose this share of the datagrams.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.0, help_heading = "Emulated links")]
    loss: f64,
    /// Carry so many kilobits a second to each peer; 0 for as many as there are.
    #[arg(
        long,
        value_name = "KBPS",
        default_value_t = 0,
        help_heading = "Emulated links"
    )]
    rate_kbps: u64,

    /// A file with milliseconds that are added to the time of day, looked at whenever that is read: a clock that is wrong.
    #[arg(long, value_name = "FILE", help_heading = "Emulated clock")]
    clock_offset: Option<PathBuf>,

    /// Print a line of JSON for every event. Nobody waits for a reader: what is not read in time is left out, and a line
    /// `{"kind":"missed","count":…}` says how much.
    #[arg(long)]
    report: bool,
    /// Do what lines of JSON on standard input say, and shut down at its end.
    #[arg(long)]
    control: bool,
}

/// A node without the type of its service, so that what is done with it is compiled once.
struct Running {
    address: SocketAddr,
    node: Box<dyn Controlled>,
    /// Prints a line for every event, and returns what the last one was.
    reports: Option<Reporting>,
}

type Reporting = Pin<Box<dyn Future<Output = Option<Kind>> + Send>>;

/// Runs the command and returns the exit code.
pub fn run<S: Program>(arguments: &Node) -> u8 {
    let options = match options::<S>(arguments, Told::of(arguments, S::bugs())) {
        Ok(options) => options,
        Err(errors) => return refuse(&errors),
    };
    let mut options = Some(options);
    run_node(arguments, &mut |printer| {
        let options = options.take().expect("a node is started once");
        start(arguments, options, printer)
    })
}

fn refuse(errors: &[String]) -> u8 {
    for error in errors {
        eprintln!("error: {error}");
    }
    eprintln!("\nFor more information, try 'node --help'.");
    EXIT_USAGE
}

/// Starts the node, on the runtime that this is called on.
fn start<S: Program>(
    arguments: &Node,
    options: Options<S>,
    printer: &Printer,
) -> std::io::Result<Running> {
    let mut bound = runtime::bind(options)?;
    let reports = arguments.report.then(|| -> Reporting {
        let mut reports = bound.watch();
        let printer = printer.clone();
        Box::pin(async move {
            let mut last = None;
            while let Some(report) = reports.recv().await {
                last = Some(report.kind);
                printer.say(&report);
            }
            last
        })
    });
    Ok(Running {
        address: bound.address(),
        node: Box::new(bound.spawn()),
        reports,
    })
}

/// Runs a node to its end and returns the exit code.
fn run_node(arguments: &Node, start: &mut dyn FnMut(&Printer) -> std::io::Result<Running>) -> u8 {
    // One thread is what a node needs: its loop handles one event at a time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let printer = Printer::start();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(live(arguments, start, &printer)),
        Err(error) => Err(error),
    };
    // What was said last should be out before the process ends, if somebody reads it.
    printer.close(FAREWELL);
    match ended {
        Ok(End::Shutdown) => EXIT_FINE,
        Ok(End::Panicked(_)) => EXIT_PANIC,
        Ok(End::Failed(reason)) => {
            eprintln!("error: {reason}");
            EXIT_SYSTEM
        }
        Ok(End::Cancelled) => EXIT_SYSTEM,
        Err(error) => {
            eprintln!("error: {error}");
            EXIT_SYSTEM
        }
    }
}

async fn live(
    arguments: &Node,
    start: &mut dyn FnMut(&Printer) -> std::io::Result<Running>,
    printer: &Printer,
) -> std::io::Result<End> {
    let Running {
        address,
        node,
        reports,
    } = start(printer)?;
    printer.say(&json!({ "kind": "ready", "node": arguments.id, "listen": address }));
    let reporter = reports.map(tokio::spawn);
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let commands = async {
        match arguments.control {
            true => control::obey(&*node, printer).await,
            false => std::future::pending().await,
        }
    };
    let end = tokio::select! {
        end = node.ended() => end,
        () = commands => node.shutdown().await,
        _ = interrupted.recv() => node.shutdown().await,
        _ = terminated.recv() => node.shutdown().await,
    };
    let last = match reporter {
        Some(reporter) => reporter.await.ok().flatten(),
        None => None,
    };
    // A crash is always said, also by a node that reports nothing else or never got as far as to have a state.
    match &end {
        End::Panicked(said) if last != Some(Kind::Panic) => {
            printer.say(&json!({ "node": arguments.id, "kind": "panic", "event": said }));
        }
        End::Failed(reason) if last != Some(Kind::Failed) => {
            printer.say(&json!({ "node": arguments.id, "kind": "failed", "event": reason }));
        }
        _ => {}
    }
    Ok(end)
}

/// What a command line says of the members and bugs.
struct Told {
    peers: BTreeMap<NodeId, SocketAddr>,
    members: Vec<NodeId>,
    bugs: BTreeSet<&'static str>,
    errors: Vec<String>,
}

impl Told {
    fn of(arguments: &Node, bugs: &'static [Bug]) -> Self {
        let mut errors = Vec::new();
        let bugs = check::bugs(bugs, &arguments.bug, &mut errors);
        let mut peers: BTreeMap<NodeId, SocketAddr> = BTreeMap::new();
        match arguments.peers.as_deref().map(read_peers) {
            None => {}
            Some(Ok(named)) => peers.extend(named),
            Some(Err(error)) => errors.push(error),
        }
        peers.extend(arguments.peer.iter().copied());
        peers.remove(&arguments.id);
        let members: BTreeSet<NodeId> = peers.keys().copied().chain([arguments.id]).collect();
        let members = members.into_iter().collect();
        Self {
            peers,
            members,
            bugs,
            errors,
        }
    }
}

fn options<S: Program>(arguments: &Node, told: Told) -> Result<Options<S>, Vec<String>> {
    let Told {
        peers,
        members,
        bugs,
        mut errors,
    } = told;
    let setup = setup::<S>(arguments, &members, &bugs).map_err(|error| errors.push(error));
    let (Ok(setup), true) = (setup, errors.is_empty()) else {
        return Err(errors);
    };
    Ok(Options {
        listen: arguments.listen,
        peers,
        disk: disk_options(arguments),
        seed: arguments.seed,
        emulation: Emulation {
            delay_ms: arguments.delay_ms,
            jitter_ms: arguments.jitter_ms,
            loss: arguments.loss,
            rate_kbps: arguments.rate_kbps,
        },
        hook: Some(hook_options(arguments, service_name::<S>())),
        guard: Some(Box::new(SafetyCheck::new(arguments.id, None))),
        time_of_day: time_of_day(arguments.clock_offset.clone()),
        late_max: Duration::from_secs(arguments.late_s.into()),
        ..Options::new(arguments.id, setup)
    })
}

fn disk_options(arguments: &Node) -> Option<DiskOptions> {
    arguments.disk.clone().map(|directory| DiskOptions {
        directory,
        sync: arguments.sync,
    })
}

fn hook_options(arguments: &Node, service: &str) -> hook::Options {
    let version = option_env!("CARGO_PKG_VERSION").unwrap_or("0");
    let mut hook = hook::Options::new(arguments.id, service, version);
    hook.socket = arguments.agent.clone();
    hook.kill_file = arguments.kill_file.clone();
    if arguments.no_channel_state {
        hook.channels = None;
    }
    hook.past_entries_max = arguments.past_entries.min(PAST_ENTRIES_MAX);
    hook.numbers = arguments.disk.as_ref().map(|disk| disk.join("numbers"));
    hook
}

/// Reads the machine's clock, wrong by as much as the file says. Without one, or if it says nothing, it is right.
fn time_of_day(offset: Option<PathBuf>) -> TimeOfDay {
    let machine = TimeOfDay::of_machine();
    let Some(file) = offset else {
        return machine;
    };
    TimeOfDay::new(move || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let offset_ms: i64 = text.trim().parse().unwrap_or(0);
        machine.now_ms().saturating_add_signed(offset_ms)
    })
}

/// Returns the service's name: that of its type, without where it is defined.
fn service_name<S>() -> &'static str {
    let name = std::any::type_name::<S>();
    name.rsplit("::").next().unwrap_or(name)
}

/// Takes the service's own settings for these members, and lets the command line replace parts of them.
fn setup<S: Program>(
    arguments: &Node,
    members: &[NodeId],
    bugs: &BTreeSet<&'static str>,
) -> Result<S::Setup, String> {
    let base = S::setup(arguments.id, members, bugs);
    let Some(text) = &arguments.setup else {
        return base.ok_or_else(|| "--setup is missing: this service has no default".to_owned());
    };
    let given = settings(text)?;
    let wrong = |error: serde_json::Error| format!("--setup: {error}");
    let mut whole = match &base {
        None => Value::Null,
        Some(base) => serde_json::to_value(base).map_err(wrong)?,
    };
    overlay(&mut whole, given);
    serde_json::from_value(whole).map_err(wrong)
}

/// Reads settings from the command line, or from the file that it names.
fn settings(text: &str) -> Result<Value, String> {
    let text = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
        None => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| format!("--setup: {error}"))
}

/// Replaces in `whole` what `part` names; objects are gone through, everything else is replaced as one.
fn overlay(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, value) in part {
                overlay(whole.entry(name).or_insert(Value::Null), value);
            }
        }
        (whole, part) => *whole = part,
    }
}

fn node_id(text: &str) -> Result<NodeId, String> {
    text.parse()
        .map_err(|error: scry_protocol::id::ParseNodeIdError| error.to_string())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let mut all = text.to_socket_addrs().map_err(|error| error.to_string())?;
    all.next().ok_or_else(|| "there is no such host".to_owned())
}

fn peer(text: &str) -> Result<(NodeId, SocketAddr), String> {
    let (id, place) = text
        .split_once('=')
        .ok_or("a peer is written as ID=ADDRESS: `2=127.0.0.1:7002`")?;
    Ok((node_id(id.trim())?, address(place.trim())?))
}

fn read_peers(path: &std::path::Path) -> Result<Vec<(NodeId, SocketAddr)>, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut peers = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let named =
                peer(line).map_err(|error| format!("{}:{}: {error}", path.display(), index + 1))?;
            peers.push(named);
        }
    }
    Ok(peers)
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_replace_what_they_name_and_nothing_else() {
        let mut whole = json!({ "degree_max": 3, "bugs": { "timer": true, "promote": false } });
        overlay(
            &mut whole,
            json!({ "bugs": { "promote": true }, "bootstrap": [1] }),
        );
        assert_eq!(
            whole,
            json!({ "degree_max": 3, "bugs": { "timer": true, "promote": true }, "bootstrap": [1] })
        );
    }

    #[test]
    fn peers_are_read_or_said_to_be_wrong() {
        let place: SocketAddr = "127.0.0.1:7002".parse().expect("an address");
        assert_eq!(peer("2=127.0.0.1:7002"), Ok((NodeId::new(2), place)));
        assert_eq!(peer(" n2 = 127.0.0.1:7002 "), Ok((NodeId::new(2), place)));
        for wrong in ["2", "x=127.0.0.1:1", "2=127.0.0.1", "2=:"] {
            assert!(peer(wrong).is_err(), "{wrong}");
        }
        assert!(share("1.5").is_err() && share("-0.1").is_err() && share("NaN").is_err());
    }
}
