//! `check` on the command line: what strategies bring as options, trace files as beginnings and as results, and attempts to
//! have it take what does not fit.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use scry::trace::{json, text};
use serde_json::Value;

const BUG: &str = "--scenario two-messages --bug stale-syn";
const GOAL: &str = "nothing is in flight";

fn check(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mace-transport"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["check", "--properties", "properties.toml"])
        .args(arguments.split_whitespace())
        .output()
        .expect("the program can be started")
}

fn report(arguments: &str) -> (Option<i32>, Value) {
    let output = check(&format!("{arguments} --json"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout);
    (
        output.status.code(),
        report.unwrap_or_else(|_| panic!("one JSON object: {said}")),
    )
}

/// Checks that a command line is refused, and that the answer names what is wrong.
#[track_caller]
fn refused(arguments: &str, said: &str) {
    let output = check(arguments);
    let answer = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(64), "{answer}");
    assert!(answer.contains(said), "{answer}");
    assert!(!answer.contains("error: error:"), "{answer}");
    assert!(output.stdout.is_empty());
}

/// A directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    directory
}

fn violation(report: &Value) -> &Value {
    let mut all = report["violations"].as_array().expect("a list").iter();
    let found = all.find(|it| it["property"] == GOAL);
    found.expect("the dead state is found")
}

#[test]
fn settings_of_strategies_are_options() {
    let help = String::from_utf8(check("--help").stdout).expect("text");
    for option in [
        "--walks",
        "--length",
        "--weight <KIND=VALUE>",
        "--prefix <FILE|STEPS>",
        "--raise-length",
        "--cycles",
    ] {
        assert!(help.contains(option), "{option}: {help}");
    }
    let walk = "--strategy walk --walks 2 --length 200 --weight call=9 --weight timer=1 --raise-length --exact=off --depth 2";
    let (_, by_options) = report(&format!("{BUG} {walk} --seed 4"));
    let set = "--strategy walk --set walks=2 --set length=200 --set weight.call=9 --set weight.timer=1 --set raise-length=on --set exact=off --depth 2";
    let (_, by_set) = report(&format!("{BUG} {set} --seed 4"));
    for of in ["states", "transitions", "goals", "violations", "suspected"] {
        assert_eq!(by_options[of], by_set[of], "{of}");
    }
    // A number of steps is the strategy's own prefix.
    let (_, prefixed) = report("--strategy walk --prefix 3 --length 200 --depth 0");
    assert_eq!(prefixed["goals"][0]["standing"], "walked");
}

#[test]
fn options_that_do_not_fit_are_named() {
    refused("--walks 3", "exhaustive has no setting `walks`");
    refused("--walks 3", "`walks` is of random-walk and walk");
    refused("--prefix 3", "exhaustive has no setting `prefix`");
    refused(
        "--strategy walk --walks 0",
        "`walks` of walk is a number, at least 1, not `0`",
    );
    refused("--strategy walk --walks many", "not `many`");
    refused("--strategy walk --length -1", "-1");
    refused(
        "--strategy walk --weight sun=1",
        "--weight sun=1: give one of call, message, timer, fault",
    );
    refused("--strategy walk --weight 5", "--weight 5: give one of");
    refused(
        "--strategy walk --weight call=much",
        "`weight.call` of walk is a number, not `much`",
    );
    refused(
        "--strategy walk --weight call=1 --weight call=2",
        "`weight.call` is set twice",
    );
    refused(
        "--strategy walk --walks 1 --set walks=2",
        "`walks` is set twice",
    );
    refused("--strategy walk --raise-length=perhaps", "`on` or `off`");
    refused("--strategy walk --walk 3", "--walks");
    // All that is wrong is said at once.
    refused("--strategy walk --walks 0 --length 0", "`walks` of walk");
    refused("--strategy walk --walks 0 --length 0", "`length` of walk");
}

#[test]
fn b_51_b_54_what_is_found_is_kept_as_traces_with_what_comes_true_beside_it() {
    for (strategy, exact) in [("exhaustive", true), ("walk --seed 3 --length 300", false)] {
        let traces = directory(&format!("kept-{exact}"));
        let said = format!("{BUG} --strategy {strategy} --traces {}", traces.display());
        let (code, report) = report(&said);
        assert_eq!(code, Some(1));
        let violations = report["violations"].as_array().expect("a list");
        let dead = violations.iter().position(|it| it["property"] == GOAL);
        let dead = dead.expect("the dead state is found");
        let files = report["traces"]["violations"][dead]
            .as_array()
            .expect("files");
        let read = |at: usize| {
            let file = files[at].as_str().expect("a path");
            let bytes = std::fs::read(file).expect("it was written");
            json::parse(&bytes).expect("a trace")
        };
        let (path, live) = (read(0), read(1));
        let steps = violations[dead]["path"].as_array().expect("a path");
        assert_eq!(
            (path.property.as_str(), path.steps.len()),
            (GOAL, steps.len())
        );
        // They part at the last step, which is the critical one.
        let shared = path.steps.len() - 1;
        assert_eq!(live.steps[..shared], path.steps[..shared]);
        assert_ne!(live.steps.get(shared), path.steps.last());
        assert!(
            live.explanation.starts_with("comes true"),
            "{}",
            live.explanation
        );
        let drawn = text::render(&path);
        assert!(
            drawn.contains("found by check of scenario two-messages"),
            "{drawn}"
        );
        assert!(!drawn.contains("What would prevent it"), "{drawn}");
        let people = check(&said);
        let people = String::from_utf8(people.stdout).expect("text");
        assert!(people.contains("  comes true: "), "{people}");
        // The same path is taken again from its file, and is dead at its end.
        let (_, again) = self::report(&format!(
            "{BUG} --prefix {}",
            files[0].as_str().expect("a path")
        ));
        assert_eq!(again["prefix_steps"], steps.len());
        assert_eq!(again["complete"], false);
        assert_eq!(
            violation(&again)["path"].as_array().map(Vec::len),
            Some(steps.len())
        );
        // And what comes true beside it is not.
        let live = files[1].as_str().expect("a path");
        let (_, again) = self::report(&format!("{BUG} --prefix {live}"));
        let dead = again["violations"].as_array().expect("a list").iter();
        let mut dead = dead.filter(|it| it["property"] == GOAL);
        assert!(dead.all(|it| it["depth"] != again["prefix_steps"]));
    }
}

#[test]
fn b_36_a_search_begins_where_a_trace_ends() {
    let traces = directory("begins");
    let (_, whole) = report(&format!("{BUG} --traces {}", traces.display()));
    let whole = violation(&whole)["path"]
        .as_array()
        .expect("a path")
        .clone();
    let file = std::fs::read_dir(&traces)
        .expect("it was made")
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    let is_it = |path: &PathBuf| {
        let trace = json::parse(&std::fs::read(path).expect("a file")).expect("a trace");
        trace.property == GOAL && trace.explanation.starts_with("dead")
    };
    let mut trace = json::parse(
        &std::fs::read(file.into_iter().find(is_it).expect("it is kept")).expect("a file"),
    )
    .expect("a trace");
    trace.steps.pop();
    let cut = traces.join("cut.json");
    std::fs::write(&cut, json::render(&trace)).expect("it can be written");
    for strategy in ["exhaustive", "walk --length 300"] {
        let (_, found) = report(&format!(
            "{BUG} --strategy {strategy} --prefix {}",
            cut.display()
        ));
        assert_eq!(found["prefix_steps"], whole.len() - 1);
        let path = violation(&found)["path"]
            .as_array()
            .expect("a path")
            .clone();
        let events = |path: &[Value]| {
            path.iter()
                .map(|step| step["event"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(events(&path), events(&whole), "{strategy}");
    }
}

#[test]
fn traces_that_do_not_fit_are_refused_with_the_reason() {
    let traces = directory("unfit");
    let (_, found) = report(&format!("{BUG} --traces {}", traces.display()));
    let at = found["violations"]
        .as_array()
        .expect("a list")
        .iter()
        .position(|it| it["property"] == GOAL);
    let file = traces.join(format!("violation-{}.json", at.expect("it is found") + 1));
    let good = std::fs::read_to_string(&file).expect("it was written");
    let put = |name: &str, text: &str| {
        let path = traces.join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    };
    // Repaired, the service does not do that.
    refused(
        &format!("--scenario two-messages --prefix {}", file.display()),
        "cannot happen here",
    );
    // Elsewhere it begins otherwise.
    refused(
        &format!(
            "--scenario overtaken --bug stale-syn --prefix {}",
            file.display()
        ),
        "it begins in another state",
    );
    refused(
        &format!(
            "{BUG} --prefix {}",
            put("half.json", &good[..good.len() / 2])
        ),
        "it is not a trace",
    );
    refused(
        &format!("{BUG} --prefix {}", put("empty.json", "")),
        "it is not a trace",
    );
    refused(
        &format!(
            "{BUG} --prefix {}",
            put(
                "later.json",
                &good.replacen("\"version\": 1", "\"version\": 9", 1)
            )
        ),
        "of version 9",
    );
    let other = good.replacen("\"start\": {", "\"start\": { \"77\": {},", 1);
    refused(
        &format!("{BUG} --prefix {}", put("nodes.json", &other)),
        "it is of the nodes",
    );
    refused(
        &format!("{BUG} --prefix {}", traces.join("none.json").display()),
        "none.json: ",
    );
    // A step that says something else happened.
    let label = found["violations"][at.expect("it is found")]["path"][0]["event"]
        .as_str()
        .expect("a text");
    let other = good.replacen(
        &format!("\"label\": \"{}\"", label.replace('"', "\\\"")),
        "\"label\": \"call Sing\"",
        1,
    );
    assert_ne!(other, good);
    refused(
        &format!("{BUG} --prefix {}", put("sing.json", &other)),
        "step 1 of ",
    );
    // Where nothing can be written.
    refused(
        &format!("{BUG} --traces {}/below", file.display()),
        "--traces ",
    );
}

#[test]
fn a_vacuous_check_says_so_in_its_verdict() {
    let directory = directory("vacuous");
    std::fs::create_dir_all(&directory).expect("it can be made");
    let file = directory.join("never.toml");
    let rule =
        "[[property]]\nname = \"many\"\nsometimes = \"nodes.exists(n, size(n.outgoing) > 5)\"\n";
    std::fs::write(&file, rule).expect("it can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_mace-transport"))
        .args(["check", "--scenario", "two-messages", "--properties"])
        .arg(&file)
        .output()
        .expect("the program can be started");
    let said = String::from_utf8(output.stdout).expect("text");
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.ends_with("VACUOUS: 1 `sometimes` property holds in no state"),
        "{said}"
    );
}

#[test]
fn a_kind_that_is_not_judged_is_in_the_verdict_of_every_strategy() {
    for strategy in scry::Strategy::all() {
        let (_, report) = report(&format!(
            "--scenario two-messages --strategy {strategy} --states 200"
        ));
        let verdict = report["verdict"].as_str().expect("text");
        let never = report["never_judged"].as_array().expect("a list");
        let goals = report["goals"].as_array().expect("a list");
        match strategy.judges_goals() {
            true => assert!(
                !goals.is_empty() || verdict.contains("not judged"),
                "{strategy}: {verdict}"
            ),
            false => {
                assert!(
                    verdict.ends_with("1 property was not judged"),
                    "{strategy}: {verdict}"
                );
                let why = format!("{strategy} judges no `eventually` properties");
                assert_eq!(
                    (never[0]["property"].as_str(), never[0]["why"].as_str()),
                    (Some(GOAL), Some(&*why))
                );
            }
        }
    }
}
