//! The checker as a real process: this program starts itself again in checker mode, with a service that tries to get out.

#[path = "../checker/snapshot.rs"]
mod snapshot;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use scry::{Context, Faults, NodeId, Property, Service, Simulation, View, trace};
use scry_protocol::RunId;
use scry_protocol::frame::{self, Decoder};
use scry_protocol::link::checker::{
    self, AgentToChecker, Budget, Cancel, CheckerToAgent, Ended, Job, Order,
};
use serde::{Deserialize, Serialize};

const N0: NodeId = NodeId::new(0);
/// More than a checker gets here.
const BEYOND_BYTES: usize = 32 << 30;
const WITHIN: (&str, &str) = ("SCRY_CHECKER_MEMORY_BYTES", "17179869184");
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that tries to reach the world past its context, and notes what came of it. Or one that counts for ever.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
struct Prisoner {
    tried: bool,
    file: String,
    made: String,
    socket: String,
    program: String,
    thread: String,
    memory: String,
    count: u64,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
enum Call {
    Escape,
    Count(u8),
}

fn outcome<T>(result: std::io::Result<T>) -> String {
    match result {
        Ok(_) => "done".to_owned(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

impl Service for Prisoner {
    type Message = ();
    type Timer = ();
    type Call = Call;
    /// Whether it counts.
    type Setup = bool;
    type Disk = ();

    fn start(_: &mut Context<'_, Self>, _: Option<()>) -> Self {
        Self::default()
    }

    fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, (): ()) {}
    fn on_timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}

    fn on_call(&mut self, _: &mut Context<'_, Self>, call: Call) {
        match call {
            Call::Count(more) => self.count = self.count * 3 + u64::from(more),
            Call::Escape => {
                self.tried = true;
                self.file = outcome(std::fs::read("/etc/passwd"));
                self.made = outcome(std::fs::write("/tmp/scry-prisoner", b"out"));
                self.socket = outcome(std::net::UdpSocket::bind("127.0.0.1:0"));
                self.program = outcome(Command::new("/bin/true").status());
                let thread = std::thread::Builder::new().spawn(|| ());
                self.thread = outcome(thread.map(|thread| thread.join().is_ok()));
                let memory = Vec::<u8>::new().try_reserve_exact(BEYOND_BYTES);
                self.memory = outcome(memory.map_err(std::io::Error::other));
            }
        }
    }

    fn disk(&self) {}

    fn calls(&self, _: NodeId, counts: &bool) -> Vec<Call> {
        match (counts, self.tried) {
            (true, _) => (0..3).map(Call::Count).collect(),
            (false, false) => vec![Call::Escape],
            (false, true) => Vec::new(),
        }
    }

    fn properties() -> Vec<Property<Self>> {
        let never = |view: &View<'_, Self>| !view.state.tried;
        vec![Property::node("nobody tries to escape", never)]
    }
}

struct Checker {
    child: Child,
    link: UnixStream,
    decoder: Decoder,
}

impl Checker {
    fn start(environment: &[(&str, &str)]) -> Self {
        let (link, theirs) = UnixStream::pair().expect("a pair of sockets");
        link.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .env("SCRY_ROLE", "checker")
            .envs(environment.iter().copied())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .expect("a child");
        let mut checker = Self {
            child,
            link,
            decoder: Decoder::default(),
        };
        let ready = checker.hear();
        assert!(matches!(ready, CheckerToAgent::Ready(_)), "{ready:?}");
        checker
    }

    fn tell(&mut self, message: &AgentToChecker) {
        let bytes = frame::encode(message).expect("a frame");
        self.link.write_all(&bytes).expect("the checker reads");
    }

    fn hear(&mut self) -> CheckerToAgent {
        let mut bytes = [0; 4096];
        loop {
            if let Some(message) = self.decoder.poll().expect("frames") {
                return message;
            }
            let length = self
                .link
                .read(&mut bytes)
                .expect("the checker speaks in time");
            assert_ne!(length, 0, "the checker went away");
            self.decoder.feed(&bytes[..length]);
        }
    }

    /// Hangs up, and waits for the process to end.
    fn hang_up(mut self) -> Option<i32> {
        drop(self.link);
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return status.code();
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "a checker without agent goes on"
            );
            std::thread::yield_now();
        }
    }
}

fn job(counts: bool) -> Job {
    let state = Simulation::<Prisoner>::boot(BTreeMap::from([(N0, counts)]), Faults::NONE);
    Job {
        run: RunId::new(3),
        snapshot: snapshot::snapshot(&state, N0),
        // A property in a file is compiled by a thread of its own: the sandbox lets threads be.
        properties:
            "[[property]]\nname = \"nobody escapes\"\nalways = \"nodes.all(n, !n.tried)\"\n".into(),
        faults: checker::Faults::default(),
        clock: scry_protocol::link::checker::Clock::default(),
        budget: Budget {
            time_ms: 600_000,
            states_max: u64::MAX,
            depth_max: u32::MAX,
            memory_bytes_max: 8 << 30,
            violations_max: 8,
        },
        order: Order::LeastHarm,
        checks: false,
        past_paths: Vec::new(),
        whole: true,
        modes: Vec::new(),
        strategy: "consequence".to_owned(),
        liveness: scry_protocol::filter::Mode::Audit,
    }
}

fn a_handler_in_the_checker_reaches_no_file_no_socket_and_no_program() {
    let mut checker = Checker::start(&[WITHIN]);
    // Each refusal below may be Landlock's or the filter's; that the filter is there at all, the kernel says.
    let status = std::fs::read_to_string(format!("/proc/{}/status", checker.child.id()));
    let status = status.expect("our child");
    assert!(
        status.contains("Seccomp:\t2\n"),
        "no filter of system calls: {status}"
    );
    checker.tell(&AgentToChecker::Job(Box::new(job(false))));
    let CheckerToAgent::Found(found) = checker.hear() else {
        panic!("the attempt is found first");
    };
    let spelled = trace::read(&found.violation.trace).expect("a trace");
    let state = &spelled.steps[0].state;
    for attempt in ["file", "made", "socket", "program"] {
        assert_eq!(state[attempt], "PermissionDenied", "{attempt} in {state}");
    }
    assert_eq!(state["thread"], "done");
    assert_eq!(state["memory"], "Other", "memory without end");
    assert!(!std::path::Path::new("/tmp/scry-prisoner").exists());
    let CheckerToAgent::Report(report) = checker.hear() else {
        panic!("then comes the report");
    };
    assert_eq!((report.ended, report.violations), (Ended::Exhausted, 1));
    assert_eq!(checker.hang_up(), Some(0));
}

fn a_search_without_end_is_cancelled_and_another_is_started() {
    let mut checker = Checker::start(&[WITHIN]);
    checker.tell(&AgentToChecker::Job(Box::new(job(true))));
    let CheckerToAgent::Progress(progress) = checker.hear() else {
        panic!("it tells how far it is");
    };
    assert_eq!(progress.run, RunId::new(3));
    let run = RunId::new(3);
    checker.tell(&AgentToChecker::Cancel(Cancel { run }));
    loop {
        match checker.hear() {
            CheckerToAgent::Progress(_) => {}
            CheckerToAgent::Report(report) => {
                assert_eq!(report.ended, Ended::Cancelled);
                break;
            }
            other => panic!("not {other:?}"),
        }
    }
    let mut next = job(false);
    next.run = RunId::new(4);
    checker.tell(&AgentToChecker::Job(Box::new(next)));
    assert!(matches!(checker.hear(), CheckerToAgent::Found(_)));
    assert_eq!(checker.hang_up(), Some(0));
}

fn a_search_ends_with_its_agent() {
    let mut checker = Checker::start(&[]);
    checker.tell(&AgentToChecker::Job(Box::new(job(true))));
    assert_eq!(checker.hang_up(), Some(0));
}

fn nonsense_ends_the_checker() {
    let mut checker = Checker::start(&[]);
    checker
        .link
        .write_all(&[0xff; 32])
        .expect("the checker reads");
    assert_eq!(checker.hang_up(), Some(76));
}

fn an_unknown_role_is_refused() {
    let status = Command::new(std::env::current_exe().expect("this program"))
        .env("SCRY_ROLE", "poet")
        .stderr(Stdio::null())
        .status();
    assert_eq!(status.expect("a child").code(), Some(64));
}

fn main() {
    scry::enter::<Prisoner>();
    let tests: [(&str, fn()); 5] = [
        (
            "a handler in the checker reaches no file, no socket and no program",
            a_handler_in_the_checker_reaches_no_file_no_socket_and_no_program,
        ),
        (
            "a search without end is cancelled and another is started",
            a_search_without_end_is_cancelled_and_another_is_started,
        ),
        ("a search ends with its agent", a_search_ends_with_its_agent),
        ("nonsense ends the checker", nonsense_ends_the_checker),
        ("an unknown role is refused", an_unknown_role_is_refused),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}
