//! From a configuration to running links, and their end in good order.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::controller::paths::Limits;
use crate::controller::{Controller, disk};
use crate::log::writer;
use scry::checkpoint::CheckpointManager;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::{info, warn};

use super::journal::{self, Journal};
use super::node::{Node, Standing};
use super::{Ask, FACTS_MAX, Fact, options};
use crate::admin;
use crate::certificate;
use crate::configuration::{AdminAddress, Loaded};
use crate::link::checker::Checker;
use crate::link::host::{self, Host, ListenError};
use crate::link::peers::{BindError, Peers};
use crate::notify::Notifier;

/// How long the task that decides may be busy before it counts as stuck.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// No socket for the service.
    #[error("the service's socket: {0}")]
    Host(#[from] ListenError),
    /// No socket for other agents.
    #[error("peers: {0}")]
    Peers(#[from] BindError),
    /// No interface for operators.
    #[error("admin: {0}")]
    Admin(#[from] admin::ServeError),
    /// No signals.
    #[error("signals: {0}")]
    Signals(std::io::Error),
}

/// Runs an agent until a signal ends it.
///
/// # Errors
///
/// When it cannot start.
pub(crate) async fn run(file: &Path, loaded: Loaded) -> Result<(), StartError> {
    let configuration = &loaded.configuration;
    let notifier = Arc::new(Notifier::from_environment());
    let (facts, received) = mpsc::channel(FACTS_MAX);
    let mut hangup = signal(SignalKind::hangup()).map_err(StartError::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Signals)?;
    let mut steer_off = signal(SignalKind::user_defined1()).map_err(StartError::Signals)?;

    let socket = configuration.host.socket.clone();
    let owner = u32::try_from(configuration.host.user).ok();
    let listener = host::listen(&socket, owner)?;
    let own = nix::unistd::geteuid().as_raw();
    let users = vec![owner.unwrap_or(own), own];
    tokio::spawn(Host::new(listener, loaded.node, users, facts.clone()).run());

    let peers = match (
        &loaded.identity,
        configuration.peers.listen.parse::<SocketAddr>(),
    ) {
        (Some(identity), Ok(address)) => Some(Peers::bind(
            loaded.node,
            address,
            identity,
            &configuration.peers.known,
            options::peers(configuration),
            facts.clone(),
        )?),
        _ => None,
    };
    let watched = match (&peers, &loaded.identity) {
        (Some(peers), Some(identity)) => Some(certificate::watch(
            loaded.node,
            loaded.certificate_files(file),
            identity.own.clone(),
            peers.clone(),
            facts.clone(),
        )),
        _ => None,
    };
    let (stop, shutdown) = watch::channel(false);
    let admin = loaded.admin.clone();
    let serving = admin::serve(&admin, facts.clone(), shutdown.clone()).await?;
    let metrics = match loaded.metrics {
        Some(address) => {
            let serving = admin::scrape::serve(address, facts.clone(), shutdown.clone());
            Some(serving.await?)
        }
        None => None,
    };
    let checker = Checker::supervise(options::checker(configuration), facts.clone());
    info!(
        node = %loaded.node,
        socket = %socket.display(),
        peers = peers.as_ref().and_then(Peers::address).map(|address| address.to_string()),
        admin = ?admin,
        metrics = metrics.map(|address| address.to_string()),
        hash = loaded.hash,
        "the agent runs"
    );
    let directory = file
        .parent()
        .unwrap_or(Path::new(""))
        .join(&configuration.log.directory);
    let (paths, complaint) = disk::load(&journal::paths_file(&directory), Limits::default());
    if let Some(complaint) = complaint {
        warn!("{complaint}");
    }
    let journal = Journal::open(
        writer::Options {
            directory,
            node: loaded.node,
            file_bytes_max: configuration.log.rotate_bytes,
            files_kept: configuration.log.keep,
        },
        configuration.log.traces,
    );
    let node = Node {
        controller: Controller::new(loaded.node, options::controller(&loaded, file), paths),
        journal,
        file: file.to_owned(),
        manager: CheckpointManager::new(
            loaded.node,
            options::manager(configuration, first_request()),
        ),
        loaded,
        facts: received,
        peers,
        checker,
        notifier: Arc::clone(&notifier),
        started: Instant::now(),
        standing: Standing::default(),
    };
    if let Some(watched) = watched {
        tokio::spawn(watched);
    }
    let mut deciding = tokio::spawn(node.run(shutdown));
    tokio::spawn(look_for_switches(facts.clone()));
    notifier.tell("READY=1");
    let watchdog = tokio::spawn(watch_over(Arc::clone(&notifier), facts.clone()));

    loop {
        tokio::select! {
            _ = hangup.recv() => reload(&facts).await,
            _ = steer_off.recv() => {
                // Not waited for here: whoever then wants the agent to end is heard all the same.
                let facts = facts.clone();
                tokio::spawn(async move { facts.send(Fact::SteerOff).await });
            }
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            // Only a panic ends it before it is told to stop.
            _ = &mut deciding => break,
        }
    }
    info!("the agent ends");
    notifier.tell("STOPPING=1");
    watchdog.abort();
    let _ = stop.send(true);
    if !deciding.is_finished() {
        let _ = deciding.await;
    }
    let _ = tokio::time::timeout(ANSWER_WAIT, serving).await;
    remove(&socket);
    if let AdminAddress::Socket(path) = &admin {
        remove(path);
    }
    Ok(())
}

/// Takes away a socket that the next start would find stale.
fn remove(socket: &PathBuf) {
    if let Err(error) = std::fs::remove_file(socket) {
        warn!(%error, socket = %socket.display(), "a socket stays behind");
    }
}

async fn reload(facts: &mpsc::Sender<Fact>) {
    let (answer, _) = oneshot::channel();
    // If nobody listens any more, the agent ends.
    let _ = facts.send(Fact::Ask(Ask::Reload(answer))).await;
}

/// Has what holds everything off looked for once a second, for as long as the agent runs.
async fn look_for_switches(facts: mpsc::Sender<Fact>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        if facts.send(Fact::LookForSwitches).await.is_err() {
            return;
        }
    }
}

/// Tells the service manager that all is well for as long as the task that decides answers.
async fn watch_over(notifier: Arc<Notifier>, facts: mpsc::Sender<Fact>) {
    let Some(period) = notifier.watchdog_period() else {
        return;
    };
    let mut ticks = tokio::time::interval(period);
    loop {
        ticks.tick().await;
        let (answer, answered) = oneshot::channel();
        let asked = async {
            facts.send(Fact::Ask(Ask::Status(answer))).await.ok()?;
            answered.await.ok()
        };
        match tokio::time::timeout(ANSWER_WAIT, asked).await {
            Ok(Some(_)) => notifier.tell("WATCHDOG=1"),
            _ => warn!("the agent does not answer itself"),
        }
    }
}

/// Where request ids begin: at another number with every start, for as long as a cluster has a clock.
fn first_request() -> u16 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Multiplying by an odd number spreads starts that follow each other closely over the whole range.
    ((elapsed.as_millis() as u32).wrapping_mul(0x9e37_79b1) >> 16) as u16
}
