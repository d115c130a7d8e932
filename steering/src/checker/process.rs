//! The checker as a process of its own: jobs in and findings out over the socket that is its standard input.
//!
//! A thread reads, so that a cancellation arrives while a search goes on; when the agent is gone, so is the process.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use scry_protocol::frame::{self, Decoder};
use scry_protocol::limit::{NAME_BYTES_MAX, PROPERTIES_MAX};
use scry_protocol::link::checker::{AgentToChecker, CheckerToAgent, Job, Ready};

use crate::blame::{self, BLAME_VARIABLE};
use crate::checker::{Checker, Shell, cut, sandbox};
use scry_engine::service::Service;

/// The environment variable that says on how many threads to search.
pub const THREADS_VARIABLE: &str = "SCRY_CHECKER_THREADS";

/// What arrives is not what an agent says, or cannot be answered (`EX_PROTOCOL`).
const EXIT_PROTOCOL: i32 = 76;
/// The link cannot be used (`EX_IOERR`).
const EXIT_LINK: i32 = 74;
/// How many jobs may wait. An agent gives one at a time.
const JOBS_MAX: usize = 4;
const READ_BYTES: usize = 64 << 10;

/// Runs the checker until the agent hangs up.
pub fn main<S: Service>() -> ! {
    main_with(&mut Checker::<S>::default())
}

/// A checker of any service: what it works for is compiled once.
trait Works {
    /// Lists the names of the service's own properties.
    fn properties(&self) -> Vec<String>;

    /// Sets on how many threads to search.
    fn set_threads(&mut self, threads: usize);

    /// As [`Checker::run`].
    fn run(&mut self, job: &Job, shell: &mut dyn Shell);
}

impl<S: Service> Works for Checker<S> {
    fn properties(&self) -> Vec<String> {
        let properties = S::properties();
        let names = properties.iter().take(PROPERTIES_MAX);
        names.map(|property| property.name().to_owned()).collect()
    }

    fn set_threads(&mut self, threads: usize) {
        *self = std::mem::take(self).threads(threads);
    }

    fn run(&mut self, job: &Job, shell: &mut dyn Shell) {
        self.run(job, shell);
    }
}

fn main_with(checker: &mut dyn Works) -> ! {
    if let Err(error) = share_blame() {
        eprintln!("whose state this checker works on cannot be noted: {error}");
    }
    for refused in sandbox::close() {
        // Standard error goes to the agent's log: a checker has no log of its own.
        eprintln!("the checker goes on without a part of its sandbox: {refused}");
    }
    let stream = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(descriptor) => UnixStream::from(descriptor),
        Err(error) => give_up(EXIT_LINK, &error),
    };
    let reading = match stream.try_clone() {
        Ok(reading) => reading,
        Err(error) => give_up(EXIT_LINK, &error),
    };
    let cancelled = Arc::new(AtomicU64::new(u64::MAX));
    let (jobs, waiting) = sync_channel(JOBS_MAX);
    let seen = Arc::clone(&cancelled);
    let reader = std::thread::Builder::new().name("link".to_owned());
    if let Err(error) = reader.spawn(move || read(reading, &jobs, &seen)) {
        give_up(EXIT_LINK, &error);
    }
    work(checker, stream, &waiting, &cancelled)
}

/// Lets the agent see whose state is worked on, if it wants to.
fn share_blame() -> std::io::Result<()> {
    let Ok(name) = std::env::var(BLAME_VARIABLE) else {
        return Ok(());
    };
    // By its name under /proc it is opened anew: what a variable says is no proof that a descriptor is ours to take.
    let file = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{name}"))?;
    blame::share_by_file(&file)
}

fn work(
    checker: &mut dyn Works,
    stream: UnixStream,
    jobs: &Receiver<Box<Job>>,
    cancelled: &AtomicU64,
) -> ! {
    let mut link = Link {
        stream,
        cancelled,
        run: u64::MAX,
        begun: Instant::now(),
    };
    link.tell(CheckerToAgent::Ready(Ready {
        properties: checker
            .properties()
            .into_iter()
            .map(|name| cut(name, NAME_BYTES_MAX))
            .collect(),
    }));
    let threads = std::env::var(THREADS_VARIABLE).ok();
    let threads = threads.and_then(|threads| threads.parse().ok());
    checker.set_threads(threads.unwrap_or(1));
    // The reader ends the process, so that there is always another job to wait for.
    while let Ok(job) = jobs.recv() {
        link.run = job.run.get();
        link.begun = Instant::now();
        checker.run(&job, &mut link);
    }
    exit(0)
}

struct Link<'a> {
    stream: UnixStream,
    cancelled: &'a AtomicU64,
    run: u64,
    begun: Instant,
}

impl Shell for Link<'_> {
    fn elapsed_ms(&mut self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_cancelled(&mut self) -> bool {
        self.cancelled.load(Ordering::Relaxed) == self.run
    }

    fn tell(&mut self, message: CheckerToAgent) {
        let sent = frame::encode(&message).map(|bytes| self.stream.write_all(&bytes));
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => lose(&error),
            Err(error) => give_up(EXIT_PROTOCOL, &error),
        }
    }
}

/// Reads what the agent says, until it says no more.
fn read(mut stream: UnixStream, jobs: &SyncSender<Box<Job>>, cancelled: &AtomicU64) {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => exit(0),
            Ok(length) => decoder.feed(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => lose(&error),
        }
        loop {
            match decoder.poll::<AgentToChecker>() {
                Ok(Some(AgentToChecker::Job(job))) => {
                    if jobs.try_send(job).is_err() {
                        give_up(EXIT_PROTOCOL, &"more jobs than a checker takes");
                    }
                }
                Ok(Some(AgentToChecker::Cancel(cancel))) => {
                    cancelled.store(cancel.run.get(), Ordering::Relaxed);
                }
                Ok(None) => break,
                Err(error) => give_up(EXIT_PROTOCOL, &error),
            }
        }
    }
}

/// Ends the process because the link is gone: in good order if it is the agent that went away, whether or not it had
/// heard all there was to hear.
fn lose(error: &std::io::Error) -> ! {
    match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => exit(0),
        _ => give_up(EXIT_LINK, error),
    }
}

fn give_up(code: i32, reason: &dyn std::fmt::Display) -> ! {
    eprintln!("the checker ends: {reason}");
    exit(code)
}
