//! What the immediate safety check costs per event in its three forms, beside the bare handler and the floors under it:
//! a pipe to another process, a fork. Each is asked one event after the other, and with a pause between them: the
//! speculator uses pauses to fork ahead.
//!
//! `cargo bench -p scry --bench safety`, with `-- --json` for machines.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use paxos::Paxos;
use scry::checkpoint::Time;
use scry::model::event::{Event, Input, InputOf};
use scry::model::handler::Local;
use scry::model::live::run;
use scry::runtime::guard::{Guard, Scene};
use scry::safety::SafetyCheck;
use scry::{Dice, Service, Stamp};
use scry_protocol::Past;
use scry_protocol::filter::Mode;
use scry_protocol::link::host::{CheckSettings, Isolate};

type Setup = <Paxos as Service>::Setup;

/// A node, its settings and the events it can handle: the middle of a Paxos round.
struct Subject {
    node: scry::NodeId,
    setup: Setup,
    local: Local<Paxos>,
    inputs: Vec<InputOf<Paxos>>,
}

fn main() {
    scry::enter::<Paxos>();
    if std::env::var_os("SCRY_ECHO").is_some() {
        return echo();
    }
    let json = std::env::args().any(|argument| argument == "--json");
    // Under `cargo test` only whether it runs is of interest.
    let rounds = if std::env::args().any(|argument| argument == "--bench") {
        2000
    } else {
        3
    };
    let subject = subject();
    let bare = median(rounds * 10, Duration::ZERO, |round| {
        let input = &subject.inputs[round % subject.inputs.len()];
        let mut local = subject.local.clone();
        let mut dice = dice(round);
        let ran = run(
            subject.node,
            &subject.setup,
            &mut local,
            input.clone(),
            &mut dice,
        );
        std::hint::black_box((local, ran)).1.expect("no panic");
    });
    let forms = [Isolate::Clone, Isolate::Speculator, Isolate::Fork].map(|form| {
        (
            form,
            PACES.map(|pace| checked(&subject, form, rounds, pace)),
        )
    });
    let round_trip = PACES.map(|pace| round_trip(rounds, pace));
    let fork = PACES.map(|pace| forked(rounds, pace));
    if json {
        let pair = |name: &str, [burst, paced]: [Duration; 2]| {
            let (burst, paced) = (micros(burst), micros(paced));
            format!("\"{name}_us\":{burst:.3},\"{name}_paced_us\":{paced:.3}")
        };
        let forms = forms.map(|(form, times)| pair(&form.to_string(), times));
        println!(
            "{{\"handler_us\":{:.3},{},{},{}}}",
            micros(bare),
            forms.join(","),
            pair("floor_round_trip", round_trip),
            pair("floor_fork", fork),
        );
        return;
    }
    println!("The immediate check of one event, µs, medians of {rounds}:\n");
    println!("  {:<44} {:>9} {:>12}", "", "in a row", "with pauses");
    println!("  {:<44} {:>9.2}", "the handler alone", micros(bare));
    let line = |name: &str, [burst, paced]: [Duration; 2]| {
        println!(
            "  {name:<44} {:>9.2} {:>12.2}",
            micros(burst),
            micros(paced)
        );
    };
    for (form, times) in forms {
        line(&format!("checked, isolate = {form}"), times);
    }
    println!("\nFloors, measured in the same run:\n");
    line("64 bytes to another process and back", round_trip);
    line("this process forked, the child reaped", fork);
}

/// How long to wait between two events.
const PACES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1)];

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn median(rounds: usize, pause: Duration, mut run: impl FnMut(usize)) -> Duration {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|round| {
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            let begun = Instant::now();
            run(round);
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn dice(round: usize) -> Dice {
    Dice::new(round as u64, Stamp::from_millis(0), 0)
}

fn checked(subject: &Subject, form: Isolate, rounds: usize, pause: Duration) -> Duration {
    let rules = || CheckSettings {
        properties: String::new(),
        modes: Vec::new(),
        isolate: form,
        deadline_ms: 60_000,
        surroundings_age_ms_max: 60_000,
        hold_ms_max: 0,
        time_share_per_mille: 1000,
    };
    let mut check = SafetyCheck::<Paxos>::new(subject.node, None);
    check.set_rules(rules());
    // Each round in a state of its own, or the memory would answer.
    let mut local = subject.local.clone();
    let past = Past::default();
    median(rounds, pause, |round| {
        local.ticks = round as u64;
        let input = &subject.inputs[round % subject.inputs.len()];
        let examined = check.examine(&Scene {
            mode: Mode::Steer,
            now: Time::from_millis(round as u64),
            at: Instant::now(),
            setup: &subject.setup,
            local: &local,
            input,
            dice: dice(round),
            past: &past,
            again: false,
        });
        std::hint::black_box(examined);
    })
}

/// The acceptor of a system in which every proposer has asked.
fn subject() -> Subject {
    let (start, _) = paxos::scenarios::plain_system(3, 3, paxos::Bugs::default())
        .start()
        .expect("no script");
    let (node, inputs) = start
        .nodes()
        .keys()
        .map(|&node| {
            let inputs: Vec<_> = start
                .enabled(node)
                .iter()
                .filter(|event| matches!(event, Event::Deliver { .. } | Event::Call(_)))
                .filter_map(Event::input)
                .filter(|input| !matches!(input, Input::Restart))
                .collect();
            (node, inputs)
        })
        .max_by_key(|(_, inputs)| inputs.len())
        .expect("a system has nodes");
    Subject {
        node,
        setup: start.setups()[&node].clone(),
        local: start.nodes()[&node].local.clone(),
        inputs,
    }
}

fn round_trip(rounds: usize, pause: Duration) -> Duration {
    let (mut ours, theirs) = UnixStream::pair().expect("a socket pair");
    let mut child = Command::new(std::env::current_exe().expect("our own path"))
        .env("SCRY_ECHO", "1")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .spawn()
        .expect("our own executable");
    let mut bytes = [7; 64];
    let time = median(rounds, pause, |_| {
        ours.write_all(&bytes).expect("the echo listens");
        ours.read_exact(&mut bytes).expect("the echo answers");
    });
    drop(ours);
    child.wait().expect("our own child");
    time
}

fn echo() {
    use std::os::fd::AsFd;
    let input = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .expect("standard input");
    let mut stream = UnixStream::from(input);
    let mut bytes = [0; 64];
    while stream.read_exact(&mut bytes).is_ok() {
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

#[expect(unsafe_code, reason = "the floor under the check is fork itself")]
fn forked(rounds: usize, pause: Duration) -> Duration {
    median(rounds, pause, |_| {
        // SAFETY: the child ends at once.
        match unsafe { nix::unistd::fork() }.expect("a child") {
            // SAFETY: as above.
            nix::unistd::ForkResult::Child => unsafe { nix::libc::_exit(0) },
            nix::unistd::ForkResult::Parent { child } => {
                nix::sys::wait::waitpid(child, None).expect("our own child");
            }
        }
    })
}
