//! Lifelines and arrows: a column a node, a row an event.

use scry_protocol::NodeId;

const COLUMN_MIN: usize = 7;

/// The nodes of a drawing, in the order of their columns.
#[derive(Debug)]
pub(crate) struct Lifelines {
    columns: Vec<NodeId>,
    width: usize,
}

/// What a row shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mark {
    /// Something happens, or arrives.
    Event,
    /// A node loses its memory.
    Reset,
    /// Something is lost on its way.
    Lost,
}

impl Lifelines {
    pub(crate) fn new(columns: Vec<NodeId>) -> Self {
        let names = columns.iter().map(|node| node.to_string().len() + 1);
        let width = names.max().unwrap_or(0).max(COLUMN_MIN);
        Self { columns, width }
    }

    /// The nodes' names above their columns.
    pub(crate) fn header(&self) -> String {
        let width = self.width;
        let names = self.columns.iter().map(|node| format!("{node:<width$}"));
        names.collect::<String>().trim_end().to_owned()
    }

    /// The lifelines with nothing on them.
    pub(crate) fn blank(&self) -> String {
        let mut row = String::new();
        for _ in &self.columns {
            row.push('│');
            row.extend(std::iter::repeat_n(' ', self.width - 1));
        }
        row
    }

    /// An event at a node, with an arrow from another where it comes from there.
    pub(crate) fn row(&self, at: NodeId, from: Option<NodeId>, mark: Mark) -> String {
        let mut cells: Vec<char> = self.blank().chars().collect();
        let column = |node: NodeId| {
            let place = self.columns.iter().position(|&other| other == node)?;
            Some(place * self.width)
        };
        let Some(to) = column(at) else {
            return cells.into_iter().collect();
        };
        match from.filter(|&from| from != at).and_then(column) {
            Some(from) => {
                let (low, high) = (from.min(to), from.max(to));
                cells[low + 1..high].fill('─');
                cells[from] = if from < to { '├' } else { '┤' };
                cells[if from < to { to - 1 } else { to + 1 }] = match (mark, from < to) {
                    (Mark::Lost, _) => '✗',
                    (_, true) => '►',
                    (_, false) => '◄',
                };
            }
            None => cells[to] = if mark == Mark::Reset { '✖' } else { '●' },
        }
        cells.into_iter().collect()
    }
}

/// Says what a handler chose: answers about time in words, the others by their number.
pub(crate) fn choices<'a>(
    picks: &[(u32, u32)],
    decided: impl Fn(usize) -> Option<&'a str>,
) -> String {
    let words: Vec<&str> = (0..picks.len()).filter_map(&decided).collect();
    let others: Vec<String> = picks
        .iter()
        .enumerate()
        .filter(|(pick, _)| decided(*pick).is_none())
        .map(|(_, (of, picked))| format!("{picked} of {of}"))
        .collect();
    let mut parts = Vec::new();
    if !words.is_empty() {
        parts.push(words.join(", "));
    }
    if !others.is_empty() {
        parts.push(format!("picks {}", others.join(", ")));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!("  ({})", parts.join("; ")),
    }
}
