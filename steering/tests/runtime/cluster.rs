//! Nodes that know each other, and waiting for what becomes of them.

use std::collections::BTreeMap;
use std::time::Duration;

use scry::NodeId;
use scry::runtime::{Handle, Options, Report, spawn};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::probe::{Call, Probe, Way, Word};

/// More than any of this takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const ONE: NodeId = NodeId::new(1);
pub(crate) const TWO: NodeId = NodeId::new(2);

/// Starts a node.
pub(crate) fn start(options: Options<Probe>) -> Handle<Probe> {
    spawn(options).expect("any port is free")
}

/// Starts two nodes, with options that may be changed, and tells them of each other.
pub(crate) async fn pair_with(
    change: impl Fn(&mut Options<Probe>),
) -> (Handle<Probe>, Handle<Probe>) {
    let nodes = [ONE, TWO].map(|id| {
        let mut options = Options::new(id, ());
        options.seed = Some(id.get().into());
        change(&mut options);
        start(options)
    });
    let [one, two] = nodes;
    introduce(&[&one, &two]).await;
    (one, two)
}

/// Starts two nodes and tells them of each other.
pub(crate) async fn pair() -> (Handle<Probe>, Handle<Probe>) {
    pair_with(|_| {}).await
}

/// Tells nodes of each other.
pub(crate) async fn introduce(nodes: &[&Handle<Probe>]) {
    let peers: BTreeMap<_, _> = nodes
        .iter()
        .map(|node| (node.me(), node.address()))
        .collect();
    for node in nodes {
        node.add_peers(peers.clone()).await.expect("it lives");
    }
}

/// Waits until a node's state is as described.
pub(crate) async fn until(
    node: &Handle<Probe>,
    what: &str,
    fits: impl Fn(&Probe) -> bool,
) -> Probe {
    let mut reports = node.watch().await.expect("it lives");
    let now = node.state().await.expect("it lives").state;
    if fits(&now) {
        return now;
    }
    report(&mut reports, what, |report| fits(&report.state))
        .await
        .state
}

/// Waits for a report.
pub(crate) async fn report(
    reports: &mut Receiver<Report<Probe>>,
    what: &str,
    fits: impl Fn(&Report<Probe>) -> bool,
) -> Report<Probe> {
    let found = async {
        loop {
            match reports.recv().await {
                Some(report) if fits(&report) => return report,
                Some(_) => {}
                None => panic!("the node ended without {what}"),
            }
        }
    };
    timeout(LIMIT, found)
        .await
        .unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"))
}

/// Two nodes that have spoken on a connection.
pub(crate) async fn connected() -> (Handle<Probe>, Handle<Probe>) {
    let (one, two) = pair().await;
    let (to, by) = (TWO, Way::Stream);
    call(&one, Call::Ask { to, by }).await;
    until(&one, "an answer", heard(1)).await;
    (one, two)
}

/// Calls a node, which must do it.
pub(crate) async fn call(node: &Handle<Probe>, call: Call) {
    node.call(call).await.expect("nothing refuses it");
}

/// Has a node say something to another.
pub(crate) async fn tell(node: &Handle<Probe>, to: NodeId, by: Way) {
    call(node, Call::Tell { to, by, count: 1 }).await;
}

/// Tells how many words a node has heard.
pub(crate) fn heard(count: usize) -> impl Fn(&Probe) -> bool {
    move |probe| probe.heard.len() == count
}

/// The numbers of what a node was told.
pub(crate) fn numbers(probe: &Probe) -> Vec<u32> {
    let number = |(_, word): &(NodeId, Word)| match word {
        Word::Ask { number, .. } | Word::Tell { number, .. } => *number,
    };
    probe.heard.iter().map(number).collect()
}
