//! A comparison as one page of HTML that needs nothing else: tables, and pictures drawn as SVG, in light and dark.

use std::fmt::Write;

use crate::observer::MarkKind;
use crate::result::{Comparison, RunResult};
use crate::statistics::sorted;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 40.0;
const LANE: f64 = 22.0;
/// Beyond this many marks in a lane nobody sees more, and pages become slow.
const MARKS_MAX: usize = 3000;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2330;--paper:#fbfbfd;--line:#c9cedb;--soft:#5c6579;--c0:#3566c8;--c1:#b26a00;--c2:#1b8a5a;\
--fault:#8a90a0;--prediction:#c58b00;--filter:#0a8fa8;--change:#1b8a5a;--veto:#a344b8;--inconsistency:#d03030}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e8f1;--paper:#14171f;--line:#39404f;--soft:#9aa3b5;--c0:#7aa2ff;--c1:#ffb454;--c2:#59d39c;\
--fault:#7b8394;--prediction:#ffcc55;--filter:#4fd0e6;--change:#59d39c;--veto:#dd8cf0;--inconsistency:#ff6b6b}}\
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2.2rem}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}\
td+td,th+th{font-variant-numeric:tabular-nums}svg{width:100%;height:auto}svg text{fill:var(--ink);font:11px system-ui,sans-serif}\
svg .axis{stroke:var(--line)}.lead{font-size:1.15rem;color:var(--ink)}\
.key i{display:inline-block;width:.7em;height:.7em;margin:0 .4em 0 1.2em}p,li{color:var(--soft)}code{font-size:.9em}.scroll{overflow-x:auto}";

/// Writes the page.
pub(crate) fn page(comparison: &Comparison) -> String {
    let mut body = format!(
        "<p class=\"lead\">{}</p>\n",
        escaped(&comparison.headline())
    );
    body += &table(comparison);
    if !comparison.note.is_empty() {
        let _ = writeln!(body, "<p>{}</p>", escaped(&comparison.note));
    }
    body +=
        "<h2>How long joins took</h2>\n<p>Share of joins that took no longer than a time.</p>\n";
    body += &join_times(&comparison.runs);
    if let Some(likeness) = comparison.join_times {
        let _ = writeln!(
            body,
            "<p>First against last run (Kolmogorov–Smirnov): distance {:.3}, p = {:.3}.</p>",
            likeness.distance, likeness.p_value
        );
    }
    for run in &comparison.runs {
        let _ = writeln!(body, "<h2>{}: what happened when</h2>", escaped(&run.name));
        body += &timeline(run);
    }
    body += "<h2>Checkpoint traffic</h2>\n";
    body += &traffic(&comparison.runs);
    body += &places(&comparison.runs);
    document(&comparison.title, &body)
}

/// Makes a page of a body.
pub(crate) fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

fn table(comparison: &Comparison) -> String {
    let mut text = "<div class=\"scroll\"><table>\n<tr><th></th>".to_owned();
    for run in &comparison.runs {
        let _ = write!(text, "<th>{}</th>", escaped(&run.name));
    }
    text += "</tr>\n";
    for (name, values) in comparison.rows() {
        let _ = write!(text, "<tr><td>{}</td>", escaped(name));
        for value in values {
            let _ = write!(text, "<td>{}</td>", escaped(&value));
        }
        text += "</tr>\n";
    }
    text + "</table></div>\n"
}

/// Draws the distribution functions of the join times, one line for each run.
fn join_times(runs: &[RunResult]) -> String {
    let (height, top, bottom) = (260.0, 10.0, 40.0);
    let longest = runs
        .iter()
        .map(|run| run.joins.greatest)
        .fold(1.0, f64::max);
    let x = |ms: f64| LEFT + ms / longest * (WIDTH - LEFT - RIGHT);
    let y = |share: f64| top + (1.0 - share) * (height - top - bottom);
    let mut inner = String::new();
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        inner += &rule(LEFT, y(share), WIDTH - RIGHT, y(share));
        inner += &label(
            LEFT - 8.0,
            y(share) + 4.0,
            "end",
            &format!("{:.0} %", share * 100.0),
        );
    }
    for ms in ticks(longest) {
        inner += &label(
            x(ms),
            height - bottom + 18.0,
            "middle",
            &format!("{ms:.0} ms"),
        );
    }
    for (at, run) in runs.iter().enumerate() {
        let mut line = format!("M{:.1} {:.1}", x(0.0), y(0.0));
        let values = sorted(&run.join_ms);
        for (rank, ms) in values.iter().enumerate() {
            let share = (rank + 1) as f64 / values.len() as f64;
            let _ = write!(line, "H{:.1}V{:.1}", x(*ms), y(share));
        }
        let _ = write!(line, "H{:.1}", x(longest));
        let colour = at % 3;
        let _ = writeln!(
            inner,
            "<path d=\"{line}\" fill=\"none\" stroke=\"var(--c{colour})\" stroke-width=\"2\"/>"
        );
        let from = LEFT + 220.0 * at as f64;
        let _ = writeln!(
            inner,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"var(--c{colour})\"/>",
            height - 14.0
        );
        inner += &label(from + 16.0, height - 5.0, "start", &run.name);
    }
    svg(height, &inner)
}

/// Draws a lane for each kind of mark.
fn timeline(run: &RunResult) -> String {
    let height = LANE * MarkKind::ALL.len() as f64 + 30.0;
    let longest = (run.seconds * 1000.0).max(1.0);
    let x = |ms: u64| LEFT + (ms as f64 / longest).min(1.0) * (WIDTH - LEFT - RIGHT);
    let mut inner = String::new();
    for (lane, kind) in MarkKind::ALL.into_iter().enumerate() {
        let middle = LANE * lane as f64 + LANE / 2.0;
        let marks = run.marks.iter().filter(|mark| mark.kind == kind);
        inner += &rule(LEFT, middle, WIDTH - RIGHT, middle);
        let name = format!("{} ({})", kind.name().to_lowercase(), marks.clone().count());
        inner += &label(LEFT - 8.0, middle + 4.0, "end", &name);
        let colour = serde_json::to_value(kind).unwrap_or_default();
        let colour = colour.as_str().unwrap_or("ink");
        for mark in marks.take(MARKS_MAX) {
            let node = mark
                .node
                .map(|node| format!("{node}: "))
                .unwrap_or_default();
            let said = format!("{:.2} s {node}{}", mark.at_ms as f64 / 1000.0, mark.text);
            let _ = writeln!(
                inner,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"2.5\" height=\"14\" fill=\"var(--{colour})\"><title>{}</title></rect>",
                x(mark.at_ms),
                middle - 7.0,
                escaped(&said)
            );
        }
    }
    for seconds in ticks(longest / 1000.0) {
        let at = x((seconds * 1000.0) as u64);
        inner += &label(at, height - 8.0, "middle", &format!("{seconds} s"));
    }
    svg(height, &inner)
}

fn traffic(runs: &[RunResult]) -> String {
    let row = |run: &RunResult| {
        let bits = run.checkpoint_bits_per_second;
        let said = format!("{:.2} kbit/s per node", bits / 1000.0);
        (run.name.clone(), bits, said)
    };
    bars(&runs.iter().map(row).collect::<Vec<_>>())
}

/// Draws a bar for each name, with what is said about it behind it.
pub(crate) fn bars(rows: &[(String, f64, String)]) -> String {
    let height = LANE * rows.len() as f64 + 10.0;
    let left = LEFT + 90.0;
    let most = rows.iter().map(|(_, value, _)| *value).fold(1.0, f64::max);
    let mut inner = String::new();
    for (lane, (name, value, said)) in rows.iter().enumerate() {
        let top = LANE * lane as f64 + 4.0;
        let width = value / most * (WIDTH - left - 200.0);
        let colour = if name == "paper" { "line" } else { "c0" };
        let _ = writeln!(
            inner,
            "<rect x=\"{left}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"14\" fill=\"var(--{colour})\"/>"
        );
        inner += &label(left - 8.0, top + 11.0, "end", name);
        inner += &label(left + width + 8.0, top + 11.0, "start", said);
    }
    svg(height, &inner)
}

/// Draws a tick for each point of a line, with its colour and what is said about it.
pub(crate) fn points(points: &[(f64, &str, String)], most: f64, unit: &str) -> String {
    let x = |at: f64| LEFT + at / most.max(1e-9) * (WIDTH - LEFT - RIGHT);
    let mut inner = rule(LEFT, 20.0, WIDTH - RIGHT, 20.0);
    for (at, colour, said) in points {
        let _ = writeln!(
            inner,
            "<rect x=\"{:.1}\" y=\"8\" width=\"3\" height=\"24\" fill=\"var(--{colour})\"><title>{}</title></rect>",
            x(*at),
            escaped(said)
        );
    }
    for at in ticks(most) {
        inner += &label(x(at), 50.0, "middle", &format!("{at}{unit}"));
    }
    svg(60.0, &inner)
}

/// Explains colours.
pub(crate) fn key(entries: &[(&str, &str)]) -> String {
    let mut text = "<p class=\"key\">".to_owned();
    for (colour, meaning) in entries {
        let _ = write!(
            text,
            "<i style=\"background:var(--{colour})\"></i>{}",
            escaped(meaning)
        );
    }
    text + "</p>\n"
}

/// Returns round numbers from 0 up to `most`, six at the most.
fn ticks(most: f64) -> Vec<f64> {
    let step = (most / 5.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= step * 0.999)
        .unwrap_or(10.0);
    let count = (most / (factor * power) + 1e-9).floor() as u32;
    (0..=count)
        // Written so that sums of tenths do not show their rounding.
        .map(|at| {
            let tick = f64::from(at) * factor * power;
            (tick * 1e6).round() / 1e6
        })
        .collect()
}

fn places(runs: &[RunResult]) -> String {
    let mut text = "<h2>Where to look</h2>\n<ul>\n".to_owned();
    for run in runs {
        let directory = escaped(&run.directory.display().to_string());
        let _ = writeln!(
            text,
            "<li>{}: <code>{directory}</code></li>",
            escaped(&run.name)
        );
    }
    text + "</ul>\n"
}

fn svg(height: f64, inner: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n{inner}</svg>\n")
}

fn rule(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    format!("<line class=\"axis\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n")
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
        escaped(text)
    )
}

/// Makes a text harmless: much of it comes from nodes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            // Not allowed in a page at all.
            letter if scry_protocol::text::is_unseen(letter) => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::check_well_formed;
