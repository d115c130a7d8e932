//! A report for machines: one JSON object.

use nix::sys::resource::{UsageWho, getrusage};
use scry_protocol::NodeId;
use serde_json::{Value, json};

use crate::cli::check::{Cut, Ended};
use crate::cli::text;
use crate::program::Program;
use scry_engine::explore::Case;
use scry_engine::explore::report::{
    Cycles, GoalReport, How, Proof, STEPS_SHOWN, Standing, Suspicion, Unfit, Violation,
};
use scry_engine::model::event::{Event, Step};
use scry_engine::model::handler::Tosses;
use scry_engine::service::Service;
use scry_engine::timing::Layout;

/// Writes a report.
pub fn report<S: Program>(ended: &Ended<S>) -> Value {
    let Ended {
        scenario,
        bugs,
        start_steps,
        report,
        elapsed,
        concluding,
        cut,
        prefix_steps,
        stored,
        ..
    } = ended;
    json!({
        "scenario": scenario,
        "bugs": bugs,
        "start_steps": start_steps,
        "prefix_steps": prefix_steps,
        "strategy": report.strategy.to_string(),
        "tallies": report.tallies.iter().map(|&(name, count)| (name.to_owned(), json!(count))).collect::<serde_json::Map<_, _>>(),
        "states": report.states,
        "transitions": report.transitions,
        "depth": report.depth,
        "complete": report.complete,
        "stopped": match cut {
            Some(Cut::Interrupted) => "interrupted".to_owned(),
            _ => report.stop.to_string(),
        },
        "verdict": text::verdict(report, *cut),
        "seconds": elapsed.as_secs_f64(),
        "handler_runs": report.handler_runs,
        "local_states": report.local_states,
        "node_states": report.node_states,
        "peak_rss_bytes": peak_rss_bytes(),
        "collision_bound": report.collision_bound(),
        "unconfirmed": report.unconfirmed,
        "never_judged": report.unjudged.iter().map(|unjudged| {
            json!({ "property": unjudged.property, "why": unjudged.why })
        }).collect::<Vec<_>>(),
        "cut_off": report.cut_off.iter().map(|(property, count)| {
            json!({ "property": property, "judgements": count })
        }).collect::<Vec<_>>(),
        "impossible_in_time": report.impossible(),
        "not_decided_in_time": report.undecided(),
        "unfit": report.unfit.iter().map(unfit).collect::<Vec<_>>(),
        "goals": report.goals.iter().map(goal).collect::<Vec<_>>(),
        "liveness_seconds": concluding.as_secs_f64(),
        "liveness_bytes": report.goal_bytes,
        "suspected": report.suspected.iter().map(suspicion).collect::<Vec<_>>(),
        "violations": report.violations.iter().map(violation).collect::<Vec<_>>(),
        "traces": stored.as_ref().map(|stored| {
            json!({ "violations": stored.violations, "suspected": stored.suspected })
        }),
    })
}

fn unfit(unfit: &Unfit) -> Value {
    json!({
        "property": unfit.property,
        "nodes": unfit.nodes,
        "impossible": unfit.impossible,
        "need": unfit.need,
    })
}

fn goal(goal: &GoalReport) -> Value {
    let mut object = match &goal.standing {
        Standing::Classified(classes) => json!({
            "standing": "classified",
            "live": classes.live,
            "recoverable": classes.recoverable,
            "dead": classes.dead,
            "unknown": classes.unknown,
        }),
        Standing::Walked(walked) => json!({
            "standing": "walked",
            "depth": walked.depth,
            "walks": walked.walks,
            "live": walked.live,
            "within": STEPS_SHOWN.iter().zip(walked.within).map(|(steps, walks)| {
                json!({ "steps": steps, "walks": walks })
            }).collect::<Vec<_>>(),
            "refuted": walked.refuted,
        }),
        Standing::Reached { steps } => json!({ "standing": "reached", "steps": steps }),
        Standing::Vacuous => json!({ "standing": "vacuous" }),
        Standing::NotReached => json!({ "standing": "not reached" }),
    };
    object["property"] = json!(goal.property);
    object["kind"] = json!(goal.kind.as_str());
    object["fair_cycle"] = match goal.cycles {
        Cycles::NotAsked => json!("not looked for"),
        Cycles::None => json!("none"),
        Cycles::Found => json!("found"),
        Cycles::Undecided => json!("not decided"),
    };
    object
}

fn how(how: &How) -> Value {
    match how {
        How::Broken => json!({ "kind": "broken" }),
        How::Lasso { round } => json!({ "kind": "lasso", "round": round }),
        How::Dead(dead) => json!({
            "kind": "dead",
            "critical": dead.critical,
            "proved_again_states": match dead.proof {
                Proof::Plain { states } => Some(states),
                Proof::Tables => None,
            },
        }),
    }
}

fn violation<S: Service>(violation: &Violation<S>) -> Value {
    let Violation {
        property,
        nodes,
        explanation,
        layout,
        ..
    } = violation;
    let path = with_times(path(&violation.path), layout);
    json!({
        "property": property,
        "how": how(&violation.how),
        "nodes": nodes,
        "found_by": violation.found_by,
        "explanation": explanation,
        "depth": path.len(),
        "path": path,
        "needs": layout.needs,
        "meanwhile": meanwhile(layout),
        "time_unchecked": layout.unchecked,
        "live": violation.live.as_deref().map(self::path),
    })
}

fn suspicion<S: Service>(suspicion: &Suspicion<S>) -> Value {
    let path = with_times(path(&suspicion.path), &suspicion.layout);
    json!({
        "property": suspicion.property,
        "case": match suspicion.case {
            Case::C1 => "C1",
            Case::C2 => "C2",
        },
        "walks": suspicion.walks,
        "steps": suspicion.steps,
        "recovery_bound": suspicion.recovery_bound(),
        "explanation": suspicion.explanation,
        "depth": path.len(),
        "path": path,
        "live": suspicion.live.iter().map(|live| self::path(live)).collect::<Vec<_>>(),
    })
}

fn with_times(mut path: Vec<Value>, layout: &Layout) -> Vec<Value> {
    for (number, step) in path.iter_mut().enumerate() {
        if let Some(Some(ms)) = layout.times_ms.get(number) {
            step["time_ms"] = json!(ms);
        }
        let decided = layout.decided.get(number).into_iter().flatten();
        let decided: Vec<&str> = decided.map(|(_, words)| words.as_str()).collect();
        if !decided.is_empty() {
            step["decided"] = json!(decided);
        }
    }
    path
}

fn meanwhile(layout: &Layout) -> Vec<Value> {
    let others = layout.meanwhile.iter();
    others
        .map(|other| json!({ "time_ms": other.time_ms, "node": other.node, "event": other.event }))
        .collect()
}

/// Writes a path as a list of steps.
pub fn path<S: Service>(steps: &[Step<S>]) -> Vec<Value> {
    steps.iter().map(step).collect()
}

fn step<S: Service>(step: &Step<S>) -> Value {
    let event = step.event.clone().map(
        |message| json!(message),
        |timer| json!(timer),
        |call| json!(call),
    );
    step_of(step.node, event, step.event.to_string(), &step.tosses)
}

fn step_of(
    node: NodeId,
    event: Event<Value, Value, Value>,
    text: String,
    tosses: &Tosses,
) -> Value {
    let mut object = match event {
        Event::Deliver { from, message } => {
            json!({ "kind": "deliver", "from": from, "message": message })
        }
        Event::Receive { from, message, .. } => {
            json!({ "kind": "receive", "from": from, "message": message })
        }
        Event::Refuse { from, .. } => json!({ "kind": "refuse", "from": from }),
        Event::Hangup { from, .. } => json!({ "kind": "hangup", "from": from }),
        Event::Disconnect { from, .. } => json!({ "kind": "disconnect", "from": from }),
        Event::Timer(timer) => json!({ "kind": "timer", "timer": timer }),
        Event::Call(call) => json!({ "kind": "call", "call": call }),
        Event::Reset { notice } => json!({ "kind": "reset", "silent": !notice }),
        Event::Stop => json!({ "kind": "stop" }),
        Event::Start => json!({ "kind": "start" }),
        Event::Break { peer } => json!({ "kind": "break", "peer": peer }),
        Event::Lose { from, message } => {
            json!({ "kind": "lose", "from": from, "message": message })
        }
        Event::Duplicate { from, message } => {
            json!({ "kind": "duplicate", "from": from, "message": message })
        }
    };
    object["node"] = json!(node);
    object["event"] = json!(text);
    if !tosses.picks.is_empty() {
        let picked = tosses.picks.iter().map(|(_, picked)| picked);
        object["picks"] = json!(picked.collect::<Vec<_>>());
    }
    object
}

/// Returns the most memory this process ever had resident.
pub fn peak_rss_bytes() -> Option<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    // Linux counts in kibibytes.
    u64::try_from(usage.max_rss())
        .ok()
        .map(|kibibytes| kibibytes * 1024)
}
