//! Loads certificates anew when their files change, and speaks up before they end.
//!
//! Files are looked at every few seconds rather than watched: whatever way they are replaced, by a tool that writes them in
//! place or by Kubernetes, which swaps a link two folders above, another file is found then.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use scry_protocol::NodeId;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::info::{DAY_S, Info, Standing, moment, now_s};
use super::{Files, Identity};
use crate::daemon::Fact;
use crate::link::peers::Peers;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How often the certificates of connections that are up are held against the clock.
const LOOK_AT_PEERS_S: i64 = 60;

/// What tells one file from another under the same name: device, number, size, and when content and entry changed.
type Stamp = (u64, u64, u64, i64, i64);

/// What happened to this node's certificate.
#[derive(Clone, Debug)]
pub(crate) struct News {
    /// What.
    pub(crate) event: Event,
    /// What the certificate in use says.
    pub(crate) own: Info,
    /// More, for people.
    pub(crate) detail: String,
}

/// What can happen to a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// New files are in use.
    Loaded,
    /// New files are bad; what was loaded stays in use.
    Kept,
    /// It ends soon.
    EndsSoon,
    /// It has ended, or does not count yet.
    Ended,
}

impl Event {
    /// Its name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Kept => "kept",
            Self::EndsSoon => "ends-soon",
            Self::Ended => "ended",
        }
    }
}

impl Files {
    /// What of the files changes whenever they do. A file that is missing is told from one that is there.
    fn stamp(&self) -> Vec<Option<Stamp>> {
        let paths = [&self.certificate, &self.key, &self.authority];
        let stamp = |path: &std::path::PathBuf| {
            let file = std::fs::metadata(path).ok()?;
            let changed = file.ctime().wrapping_mul(1_000_000_000) + file.ctime_nsec();
            Some((file.dev(), file.ino(), file.size(), file.mtime(), changed))
        };
        paths.into_iter().chain(&self.revoked).map(stamp).collect()
    }
}

/// Watches files for as long as the agent runs. `own` is what is in use now.
pub(crate) async fn watch(
    node: NodeId,
    files: Files,
    own: Info,
    peers: Peers,
    facts: mpsc::Sender<Fact>,
) {
    let mut watching = Watching {
        node,
        seen: files.stamp(),
        files,
        own,
        warned_s: None,
        looked_at_peers_s: now_s(),
    };
    let mut ticks = tokio::time::interval(LOOK);
    loop {
        ticks.tick().await;
        let news = watching.look_at_files(&peers);
        let clock = watching.look_at_clock(now_s(), &peers);
        for one in news.into_iter().chain(clock) {
            if facts.send(Fact::Certificate(one)).await.is_err() {
                return;
            }
        }
    }
}

struct Watching {
    node: NodeId,
    files: Files,
    seen: Vec<Option<Stamp>>,
    own: Info,
    /// When it was last warned of the end.
    warned_s: Option<i64>,
    looked_at_peers_s: i64,
}

impl Watching {
    fn look_at_files(&mut self, peers: &Peers) -> Option<News> {
        let stamp = self.files.stamp();
        if stamp == self.seen {
            return None;
        }
        // Taken before they are read: what changes meanwhile is seen the next time.
        self.seen = stamp;
        let (event, detail) = match Identity::load(self.node, &self.files) {
            Ok(identity) => match peers.set_identity(&identity) {
                Ok(closed) => {
                    self.own = identity.own;
                    self.warned_s = None;
                    let until = moment(self.own.until_s);
                    info!(until, closed, "certificates were loaded anew");
                    let detail = format!("{closed} connections closed that count no longer");
                    (Event::Loaded, detail)
                }
                Err(error) => (Event::Kept, error.to_string()),
            },
            Err(wrong) => {
                let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
                (Event::Kept, wrong.join("; "))
            }
        };
        if event == Event::Kept {
            warn!("new certificates are bad, the old ones stay in use: {detail}");
        }
        Some(self.news(event, detail))
    }

    /// Speaks of the end once a day, and closes connections of peers whose certificates have ended.
    fn look_at_clock(&mut self, now_s: i64, peers: &Peers) -> Option<News> {
        if now_s - self.looked_at_peers_s >= LOOK_AT_PEERS_S || now_s < self.looked_at_peers_s {
            self.looked_at_peers_s = now_s;
            peers.close_unaccepted();
        }
        let warning = self.own.warning(now_s)?;
        let is_told = |warned: i64| (warned..warned + DAY_S).contains(&now_s);
        if self.warned_s.is_some_and(is_told) {
            return None;
        }
        self.warned_s = Some(now_s);
        warn!("{warning}");
        let event = match self.own.standing(now_s) {
            Standing::EndsSoon(_) => Event::EndsSoon,
            _ => Event::Ended,
        };
        Some(self.news(event, warning))
    }

    fn news(&self, event: Event, detail: String) -> News {
        News {
            event,
            own: self.own.clone(),
            detail,
        }
    }
}
