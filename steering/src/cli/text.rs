//! A report for people: verdict, counts, and each violation as a small sequence diagram.

use std::fmt::Write;
use std::path::PathBuf;

use scry_protocol::NodeId;

use crate::cli::check::{Cut, Ended};
use crate::cli::diagram;
use crate::cli::stored::Stored;
use crate::program::Program;
use scry_engine::explore::report::{Report, Violation};
use scry_engine::explore::{
    Case, Classes, Cycles, GoalReport, How, Proof, STEPS_SHOWN, Standing, Stop, Suspicion, Unfit,
    Walked,
};
use scry_engine::model::event::Step;
use scry_engine::timing::{Layout, Meanwhile};

/// How much of what happens beside a path is shown.
const MEANWHILE_MAX: usize = 8;
/// How many steps are shown of an execution that comes true: walks may take thousands.
const LIVE_MAX: usize = 40;

/// Writes a report.
pub fn report<S: Program>(ended: &Ended<S>) -> String {
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
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("writing to a string succeeds");
    let bugs = match bugs.is_empty() {
        true => "all bugs fixed".to_owned(),
        false => format!(
            "with {}",
            bugs.iter().copied().collect::<Vec<_>>().join(", ")
        ),
    };
    let prefix = match prefix_steps {
        0 => String::new(),
        1 => ", after a prefix of 1 step".to_owned(),
        steps => format!(", after a prefix of {steps} steps"),
    };
    line(format!(
        "scenario {scenario}, {bugs}; {} from a start state {start_steps} steps in{prefix}",
        report.strategy
    ));
    if report.unconfirmed > 0 {
        let findings = match report.unconfirmed {
            1 => "1 finding did not replay and is not shown".to_owned(),
            count => format!("{count} findings did not replay and are not shown"),
        };
        line(format!(
            "WARNING: {findings}: the same event does not always do the same, so the service has chance or a clock of its own"
        ));
    }
    for unjudged in &report.unjudged {
        let (property, why) = (&unjudged.property, &unjudged.why);
        line(format!("WARNING: never judged: {property} ({why})"));
    }
    for (property, count) in &report.cut_off {
        let times = if *count == 1 { "time" } else { "times" };
        line(format!(
            "WARNING: cut off {count} {times}, and unknown there: {property} (`steps` in its entry allows more, 0 any number)"
        ));
    }
    for unfit in &report.unfit {
        line(self::unfit(unfit));
    }
    let files = |all: fn(&Stored) -> &[Vec<PathBuf>], at: usize| {
        stored
            .as_ref()
            .map_or(String::new(), |stored| traces(&all(stored)[at]))
    };
    for (at, violation) in report.violations.iter().enumerate() {
        line(String::new());
        line(self::violation(violation) + &files(|stored| &stored.violations, at));
    }
    for (at, suspicion) in report.suspected.iter().enumerate() {
        line(String::new());
        line(self::suspicion(suspicion) + &files(|stored| &stored.suspected, at));
    }
    line(String::new());
    let seconds = elapsed.as_secs_f64();
    let per_second = |count: u64| grouped((count as f64 / seconds.max(1e-9)) as u64);
    let rows = [
        (
            "states",
            format!(
                "{} ({} a second)",
                grouped(report.states),
                per_second(report.states)
            ),
        ),
        (
            "transitions",
            format!(
                "{} ({} a second)",
                grouped(report.transitions),
                per_second(report.transitions)
            ),
        ),
        ("depth", report.depth.to_string()),
        ("handler runs", grouped(report.handler_runs)),
        (
            "local states",
            format!(
                "{} ({} node states)",
                grouped(report.local_states),
                grouped(report.node_states)
            ),
        ),
        ("seconds", format!("{seconds:.3}")),
        (
            "missed states",
            format!(
                "with probability below {:.1e}, by equal fingerprints",
                report.collision_bound()
            ),
        ),
    ];
    for (name, value) in rows {
        line(format!("  {name:<14}{value}"));
    }
    if !report.goals.is_empty() {
        let bytes = grouped(report.goal_bytes);
        let seconds = concluding.as_secs_f64();
        line(format!(
            "  {:<14}{seconds:.3} s and {bytes} bytes more",
            "liveness"
        ));
    }
    for goal in &report.goals {
        line(self::goal(goal, report.complete));
    }
    // Whoever reads only the end has read what counts.
    line(verdict(report, *cut));
    out
}

/// Says in a line what came of an `eventually` or a `sometimes` property.
fn goal(goal: &GoalReport, complete: bool) -> String {
    let GoalReport {
        property,
        kind,
        standing,
        cycles,
    } = goal;
    let kind = kind.as_str();
    match standing {
        Standing::Classified(classes) => {
            let Classes {
                live,
                recoverable,
                dead,
                unknown,
            } = classes;
            let states = [
                (*live, "live"),
                (*recoverable, "recoverable"),
                (*dead, "dead"),
                (*unknown, "unknown"),
            ];
            let states = states.map(|(count, class)| format!("{} {class}", grouped(count)));
            let known = match (dead, unknown) {
                (0, 0) => "from every state it can come true",
                (0, _) => "no state is known to be dead",
                _ => "it never comes true again in a dead state",
            };
            let cycles = match cycles {
                Cycles::NotAsked => "",
                Cycles::None => "; no fair cycle avoids it",
                Cycles::Found => "; a fair cycle avoids it",
                Cycles::Undecided => "; whether a fair cycle avoids it is not decided",
            };
            format!("{kind}: {property}: {}; {known}{cycles}", states.join(", "))
        }
        Standing::Walked(walked) => format!("{kind}: {property}: {}", self::walked(walked)),
        Standing::Reached { steps: 0 } => format!("{kind}: {property}: in the start state"),
        Standing::Reached { steps: 1 } => format!("{kind}: {property}: after 1 step"),
        Standing::Reached { steps } => format!("{kind}: {property}: after {steps} steps"),
        Standing::Vacuous => format!(
            "WARNING: VACUOUS: {property}: in no state there is, so nothing is checked of states like that"
        ),
        Standing::NotReached => {
            let why = match complete {
                true => "it is unknown in some",
                false => "not all were looked at",
            };
            format!("WARNING: {kind}: {property}: in no state that was looked at, and {why}")
        }
    }
}

/// Says in one line what came out, and how much of the space that is about.
pub(crate) fn verdict<S: Program>(report: &Report<S>, cut: Option<Cut>) -> String {
    let extent = match (cut, report.complete, report.stop) {
        (Some(cut), ..) => format!("so far: {cut}"),
        (_, true, _) => "in the whole state space".to_owned(),
        (_, _, Stop::Exhausted) if let Some(extent) = report.extent => extent.to_owned(),
        (_, _, Stop::Exhausted) => "(a handler has more outcomes than are explored)".to_owned(),
        (_, _, stop) => format!("so far: {stop}"),
    };
    let violations = match report.violations.len() {
        0 => format!("no violation {extent}"),
        1 => format!("1 violation {extent}"),
        count => format!("{count} violations {extent}"),
    };
    let violations = match report.suspected.len() {
        0 => violations,
        1 => format!("{violations}; 1 state is suspected to be dead"),
        count => format!("{violations}; {count} states are suspected to be dead"),
    };
    let is_vacuous = |goal: &&GoalReport| goal.standing == Standing::Vacuous;
    let violations = match report.goals.iter().filter(is_vacuous).count() {
        0 => violations,
        1 => format!("{violations}; VACUOUS: 1 `sometimes` property holds in no state"),
        count => {
            format!("{violations}; VACUOUS: {count} `sometimes` properties hold in no state")
        }
    };
    // Nobody is to believe that what was not judged holds.
    let not_judged = report.unjudged.len();
    match not_judged {
        0 => violations,
        1 => format!("{violations}; 1 property was not judged"),
        count => format!("{violations}; {count} properties were not judged"),
    }
}

fn violation<S: Program>(violation: &Violation<S>) -> String {
    let at = at(&violation.nodes);
    let steps = steps_in_words(violation.path.len());
    let word = match &violation.how {
        How::Broken => "VIOLATED",
        How::Dead(_) => "DEAD",
        How::Lasso { .. } => "NEED NOT COME TRUE",
    };
    let mut out = format!("{word}{at} {steps}: {}\n", violation.property);
    for line in how(violation) {
        writeln!(out, "  {line}").expect("writing to a string succeeds");
    }
    if !violation.found_by.is_empty() {
        let by = violation.found_by.join(", then ");
        writeln!(out, "  found by {by}").expect("writing to a string succeeds");
    }
    if let Some(explanation) = &violation.explanation {
        for line in explanation.lines() {
            writeln!(out, "  {line}").expect("writing to a string succeeds");
        }
    }
    let nodes: Vec<_> = violation.state.nodes().keys().copied().collect();
    out += &diagram::sequence(&nodes, &violation.path, &violation.layout);
    for line in beside(&violation.layout) {
        writeln!(out, "  {line}").expect("writing to a string succeeds");
    }
    if let Some(live) = &violation.live {
        out += &alternative(&nodes, live, &violation.path);
    }
    out
}

/// Names the files that hold a path and what comes true beside it.
fn traces(files: &[PathBuf]) -> String {
    let mut files = files.iter();
    let mut out = String::new();
    if let Some(path) = files.next() {
        writeln!(out, "  trace: {}", path.display()).expect("writing to a string succeeds");
    }
    for live in files {
        writeln!(out, "  comes true: {}", live.display()).expect("writing to a string succeeds");
    }
    out
}

fn steps_in_words(count: usize) -> String {
    match count {
        0 => "in the start state".to_owned(),
        1 => "after 1 step".to_owned(),
        count => format!("after {count} steps"),
    }
}

/// Shows what a state is suspected of, and why.
fn suspicion<S: Program>(suspicion: &Suspicion<S>) -> String {
    let steps = steps_in_words(suspicion.path.len());
    let mut out = format!("SUSPECTED {steps}: {}\n", suspicion.property);
    let decided = match suspicion.case {
        Case::C1 => "walks that begin before the last step make it come true (case C1)",
        Case::C2 => {
            "not decided (case C2): raise `length`, or look whether it only takes very long"
        }
    };
    let bound = 100.0 * suspicion.recovery_bound();
    let mut lines = vec![
        format!(
            "{} walks of {} steps from here did not make it come true, so one does with a chance below {bound:.1} % (at 95 % confidence)",
            suspicion.walks,
            grouped(suspicion.steps)
        ),
        decided.to_owned(),
    ];
    let said = suspicion.explanation.iter();
    lines.extend(said.flat_map(|said| said.lines().map(str::to_owned)));
    for line in lines {
        writeln!(out, "  {line}").expect("writing to a string succeeds");
    }
    let nodes: Vec<_> = suspicion.state.nodes().keys().copied().collect();
    out += &diagram::sequence(&nodes, &suspicion.path, &suspicion.layout);
    for line in beside(&suspicion.layout) {
        writeln!(out, "  {line}").expect("writing to a string succeeds");
    }
    if let Some(live) = suspicion.live.first() {
        out += &alternative(&nodes, live, &suspicion.path);
    }
    out
}

/// Shows how an execution goes on that shares much with a path and comes true.
fn alternative<S: Program>(nodes: &[NodeId], live: &[Step<S>], path: &[Step<S>]) -> String {
    let shared = live.iter().zip(path).take_while(|(a, b)| a == b).count();
    let rest = &live[shared..];
    let mut out = match (shared, rest.len()) {
        (shared, 0) => format!("  it holds {}\n", steps_in_words(shared)),
        (0, _) => "  it comes true if this happens instead:\n".to_owned(),
        (1, _) => "  it comes true if after the first step this happens instead:\n".to_owned(),
        (shared, _) => {
            format!("  it comes true if after the first {shared} steps this happens instead:\n")
        }
    };
    let shown = &rest[..rest.len().min(LIVE_MAX)];
    out += &diagram::sequence(nodes, shown, &Layout::default());
    if rest.len() > shown.len() {
        out += &format!("  and {} more steps\n", rest.len() - shown.len());
    }
    out
}

/// Says what came of walks.
fn walked(walked: &Walked) -> String {
    let Walked {
        depth,
        walks,
        live,
        within,
        refuted,
    } = walked;
    if *walks == 0 {
        return "no walk was made; with `prefix`, none was found that ends where all hold"
            .to_owned();
    }
    let mut shares = Vec::new();
    let mut before = 0;
    for (steps, count) in STEPS_SHOWN.iter().zip(within) {
        if *count > before {
            let share = 100.0 * *count as f64 / *walks as f64;
            shares.push(format!("{share:.0} % within {steps}"));
            before = *count;
        }
    }
    let shares = match shares.is_empty() {
        true => String::new(),
        false => format!(" ({} steps)", shares.join(", ")),
    };
    let refuted = match refuted {
        0 => String::new(),
        1 => "; 1 suspicion was refuted".to_owned(),
        count => format!("; {count} suspicions were refuted"),
    };
    let (live, walks) = (grouped(*live), grouped(*walks));
    format!(
        "{live} of {walks} walks from depth {depth} are live{shares}{refuted}; walks prove nothing"
    )
}

/// Says how it is known that a property is violated, if one state does not show it.
fn how<S: Program>(violation: &Violation<S>) -> Vec<String> {
    let dead = match &violation.how {
        How::Broken => return Vec::new(),
        How::Lasso { round } => {
            let from = violation.path.len() - round + 1;
            let steps = match round {
                1 => format!("step {from} can be repeated"),
                _ => format!("steps {from} to {} can be repeated", violation.path.len()),
            };
            return vec![
                format!("{steps} for ever, and it never holds meanwhile"),
                "it could come true, but no step stays possible all the way round that is not taken".to_owned(),
            ];
        }
        How::Dead(dead) => dead,
    };
    let critical = match (dead.critical, violation.path.is_empty()) {
        (_, true) => "it can never come true from the start",
        (true, false) => "the last step is the critical one: before it, it could still come true",
        (false, false) => "before the last step it may have been lost already: limits hide it",
    };
    let proof = match dead.proof {
        Proof::Plain { states: 1 } => {
            "proved once more with the handlers run anew: nothing can follow".to_owned()
        }
        Proof::Plain { states } => format!(
            "proved once more with the handlers run anew: in none of the {} states that can follow",
            grouped(states)
        ),
        Proof::Tables => {
            "proved by the search; too many states can follow to enumerate them once more"
                .to_owned()
        }
    };
    vec![critical.to_owned(), proof]
}

/// Says what a path takes, and what happens beside it.
fn beside(layout: &Layout) -> Vec<String> {
    let mut lines: Vec<String> = layout
        .needs
        .iter()
        .map(|need| format!("needs: {need}"))
        .collect();
    let all = &layout.meanwhile;
    for Meanwhile {
        time_ms,
        node,
        event,
    } in all.iter().take(MEANWHILE_MAX)
    {
        lines.push(format!("meanwhile, after {time_ms} ms, {node}: {event}"));
    }
    if let Some(more @ 1..) = all.len().checked_sub(MEANWHILE_MAX) {
        lines.push(format!("meanwhile, {more} more"));
    }
    lines.extend(layout.unchecked.clone());
    lines
}

fn unfit(unfit: &Unfit) -> String {
    let Unfit {
        property,
        nodes,
        impossible,
        need,
    } = unfit;
    let at = at(nodes);
    let verdict = match impossible {
        true => "impossible in time",
        false => "not decided in time (look at more states by --tries)",
    };
    let need = need
        .as_deref()
        .map_or(String::new(), |need| format!("; {need}"));
    format!("{verdict}{at}: {property}{need}")
}

fn at(nodes: &[NodeId]) -> String {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    match nodes.is_empty() {
        true => String::new(),
        false => format!(" at {}", nodes.join(" and ")),
    }
}

/// Writes a number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(5_451_776), "5 451 776");
    }
}
