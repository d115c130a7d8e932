//! Real agents gather snapshots for small hosts.

use crate::support::{Agent, Scratch, TinyHost, certificates, configuration, free_port, until};

const QUIET: &str = "[checkpoint]\nperiod_ms = 0\n[checker]\ncommand = [\"/bin/false\"]\n";

#[test]
fn two_agents_gather_a_snapshot_and_log_it() {
    let scratch = Scratch::new();
    certificates(&scratch.0);
    let ports = [(1, free_port()), (2, free_port())];
    let agents = [1, 2].map(|node| {
        let file = configuration(&scratch.0, node, &ports, QUIET);
        Agent::start(&scratch.0, node, &file)
    });
    let _hosts = [
        TinyHost::attach(&agents[0], &[2]),
        TinyHost::attach(&agents[1], &[1]),
    ];
    // Who the neighbors are is asked after the welcome; the first gather may be before the answer.
    let summary = until("a snapshot of both nodes", || {
        let (code, text) = agents[0].ask("POST", "/snapshot", "");
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        (code == 200
            && summary["members"]
                .as_array()
                .is_some_and(|all| all.len() == 2))
        .then_some(summary)
    });
    assert_eq!(summary["members"], serde_json::json!(["n1", "n2"]));
    assert_eq!(summary["missing"], serde_json::json!({}));
    assert!(summary["bytes"].as_u64().unwrap() > 200);
    let log = until("the steering log tells of it", || {
        let log = std::fs::read_to_string(scratch.0.join("log1/steering.jsonl")).ok()?;
        log.contains("\"snapshot\"").then_some(log)
    });
    assert!(log.contains("\"peer-up\""), "{log}");
    let (_, metrics) = agents[0].ask("GET", "/metrics", "");
    assert!(
        metrics.contains("scry_peer_connected{peer=\"n2\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("scry_snapshots_total"), "{metrics}");

    // An agent that ends in good order is missing from the next snapshot, and the reason is told.
    let [first, second] = agents;
    second.signal("TERM");
    let mut second = second;
    assert!(second.child.wait().unwrap().success());
    assert!(!second.socket().exists());
    let (_, text) = first.ask("POST", "/snapshot", "");
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["members"], serde_json::json!(["n1"]));
    assert!(summary["missing"]["n2"].is_string(), "{summary}");
}
