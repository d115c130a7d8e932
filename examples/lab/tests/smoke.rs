//! Real clusters, started by the lab as its users start it: they work, they are watched, and nothing of them stays behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const LAB: &str = env!("CARGO_BIN_EXE_lab");
/// Only how long a broken lab may keep the tests waiting: nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("scry-lab-{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lab(arguments: &[&str], folder: &Folder) -> Command {
    let mut command = Command::new(LAB);
    command.args(arguments).arg("--directory").arg(&folder.0);
    command
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("the lab prints JSON and nothing else")
}

/// Lists the processes that work in a folder: each has its name on its command line.
fn processes(folder: &Path) -> BTreeSet<i32> {
    let folder = folder.display().to_string();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&folder)
        })
        .collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_small_cluster_comes_together_with_and_without_agents() {
    let folder = Folder::new("small");
    let page = folder.0.with_extension("html");
    let arguments = ["demo", "--nodes", "3", "--faults", "0", "--json"];
    let output = lab(&arguments, &folder)
        .arg("--html")
        .arg(&page)
        .output()
        .expect("the lab runs");
    let result = json(&output);
    let runs = result["runs"].as_array().expect("there are runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        // Whoever founds the tree need not join it.
        assert_eq!(
            run["joins"]["count"], 2,
            "everybody joined: {}",
            run["name"]
        );
        assert_eq!(run["inconsistent_states"], 0);
        assert_eq!((&run["unreadable"], &run["untold"]), (&0.into(), &0.into()));
        assert!(run["actions"].as_u64() > Some(3));
    }
    assert!(fs::read_to_string(&page).is_ok_and(|page| page.ends_with("</html>\n")));
    let _ = fs::remove_file(&page);
    assert_eq!(processes(&folder.0), BTreeSet::new());
}

#[test]
fn one_story_of_paxos_breaks_without_agents() {
    let folder = Folder::new("paxos");
    let arguments = [
        "paxos",
        "--bug",
        "bug1",
        "--runs",
        "0",
        "--unsteered-runs",
        "1",
        "--json",
    ];
    let output = lab(&arguments, &folder).output().expect("the lab runs");
    let result = json(&output);
    assert_eq!(result["bug"], "last-promise");
    assert_eq!(
        (&result["unsteered_runs"], &result["unsteered_violations"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn a_correct_service_goes_through_the_gauntlet() {
    let folder = Folder::new("gauntlet");
    let arguments = [
        "gauntlet",
        "--services",
        "chain",
        "--seconds",
        "3",
        "--rounds",
        "1",
        "--json",
    ];
    let output = lab(&arguments, &folder).output().expect("the lab runs");
    let result = json(&output);
    let services = result["services"].as_array().expect("there are services");
    assert_eq!(services.len(), 1);
    let service = &services[0];
    assert_eq!(service["name"], "chain");
    for way in ["off", "steer"] {
        let figures = &service[way];
        for figure in ["events", "asked", "answered", "p50_ms", "p99_ms"] {
            assert!(figures[figure].as_f64() > Some(0.0), "{way} {figure}");
        }
        assert!(figures["answered"].as_f64() <= figures["asked"].as_f64());
    }
    for count in ["filters_acted", "vetoes", "held", "resets"] {
        assert!(service["steer"][count].is_u64(), "{count}");
    }
    assert_eq!(service["violations"], service["steer"]["violations"]);
    assert_eq!(service["off"]["violations"], 0);
    assert_eq!(service["off"]["unseen"], 0);
    assert!(service["verdict"]["pass"].is_boolean());
    assert_eq!(processes(&folder.0), BTreeSet::new());
}

#[test]
fn whoever_ends_the_lab_ends_its_cluster() {
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let folder = Folder::new(&format!("end-{}", signal as i32));
        let mut child: Child = lab(&["demo", "--nodes", "3", "--json"], &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the lab runs");
        // The lab itself and three nodes at least.
        until("the cluster comes up", || processes(&folder.0).len() > 3);
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process number"));
        kill(pid, signal).expect("the lab is there");
        child.wait().expect("the lab ends");
        until("nothing of the cluster is left", || {
            processes(&folder.0).is_empty()
        });
    }
}

#[test]
fn what_cannot_be_understood_is_said() {
    let output = Command::new(LAB)
        .arg("randtre")
        .output()
        .expect("the lab runs");
    assert_eq!(output.status.code(), Some(64));
    let output = Command::new(LAB)
        .args(["service", "cord"])
        .output()
        .expect("the lab runs");
    assert_eq!(output.status.code(), Some(64));
    let output = Command::new(LAB)
        .args(["gauntlet", "--services", "chain,chian"])
        .output()
        .expect("the lab runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no service \"chian\""));
    let output = Command::new(LAB)
        .args(["randtree", "--bugs", "nothing"])
        .output()
        .expect("the lab runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no bug \"nothing\""));
}

#[test]
fn f_17_f_18_indices_are_chosen_once_by_repaired_services() {
    for experiment in [&["paxos", "--indices"][..], &["one-paxos"]] {
        let folder = Folder::new(experiment[0]);
        let mut arguments = experiment.to_vec();
        arguments.extend(["--fixed", "--seconds", "3", "--sleep", "0.2", "--json"]);
        let result = json(&lab(&arguments, &folder).output().expect("the lab runs"));
        assert_eq!(result["service"], experiment[0]);
        for way in ["unsteered", "steered"] {
            let runs = result[way].as_array().expect("a list of runs");
            assert_eq!(runs.len(), 1);
            assert_eq!(runs[0]["wrong"], 0, "{way}: {result}");
        }
    }
}
