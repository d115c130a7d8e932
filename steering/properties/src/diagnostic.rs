//! What is wrong with a property file: where, in whose words, and what was probably meant.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// How many errors of one file are shown; the rest is counted.
pub const DIAGNOSTICS_MAX: usize = 64;

/// One thing that is wrong with a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Diagnostic {
    message: String,
    label: String,
    help: Option<String>,
    span: Range<usize>,
    line: usize,
    column: usize,
}

/// Everything that is wrong with a file. Its text shows each place with the offending part underlined.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Diagnostics {
    file: String,
    source: String,
    all: Vec<Diagnostic>,
}

/// A complaint about a part of a text, before it is known where in a file that text stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Complaint {
    pub(crate) message: String,
    pub(crate) label: String,
    pub(crate) help: Option<String>,
    pub(crate) span: Range<usize>,
}

impl Diagnostic {
    /// Returns what is wrong, in one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns what to do about it, if that can be guessed.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Returns the line, counting from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column in characters, counting from 1.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl Complaint {
    /// Says what is wrong with a part of the text.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            label: String::new(),
            help: None,
            span,
        }
    }

    /// Adds a word beside the underlined part.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds "did you mean" if one of the candidates is close enough.
    #[must_use]
    pub fn suggest<'c>(
        mut self,
        wrong: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Self {
        if let Some(close) = closest(wrong, candidates) {
            self.help = Some(format!("did you mean `{close}`?"));
        }
        self
    }
}

impl Diagnostics {
    /// Begins without complaints about a file of this name and content.
    pub fn new(file: &str, source: &str) -> Self {
        Self {
            file: file.to_owned(),
            source: source.to_owned(),
            all: Vec::new(),
        }
    }

    /// Adds a complaint, whose place is made to fit the text.
    pub fn push(&mut self, complaint: Complaint) {
        let floor = |mut at: usize| {
            at = at.min(self.source.len());
            while !self.source.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(complaint.span.start);
        let end = floor(complaint.span.end.max(start));
        let before = &self.source[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        self.all.push(Diagnostic {
            message: complaint.message,
            label: complaint.label,
            help: complaint.help,
            span: start..end,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        });
    }

    /// Puts them in the order of the file.
    pub fn sort(&mut self) {
        self.all
            .sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
    }

    /// Lists what is wrong, in the order of the file.
    pub fn all(&self) -> &[Diagnostic] {
        &self.all
    }

    /// Returns the name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Tells whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl std::error::Error for Diagnostics {}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renderer = Renderer::plain();
        for (at, diagnostic) in self.all.iter().take(DIAGNOSTICS_MAX).enumerate() {
            if at > 0 {
                f.write_str("\n\n")?;
            }
            let mut annotation = AnnotationKind::Primary.span(diagnostic.span.clone());
            if !diagnostic.label.is_empty() {
                annotation = annotation.label(&diagnostic.label);
            }
            let snippet = Snippet::source(&self.source)
                .path(&self.file)
                .annotation(annotation);
            let mut group = Level::ERROR
                .primary_title(&diagnostic.message)
                .element(snippet);
            if let Some(help) = &diagnostic.help {
                group = group.element(Level::HELP.message(help));
            }
            f.write_str(&renderer.render(&[group]))?;
        }
        if let Some(more) = self
            .all
            .len()
            .checked_sub(DIAGNOSTICS_MAX)
            .filter(|&more| more > 0)
        {
            write!(f, "\n\nand {more} more errors in {}", self.file)?;
        }
        Ok(())
    }
}

/// Returns the candidate a misspelt word was probably meant to be.
pub fn closest<'c>(wrong: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    /// Longer words are not spelt by hand, and comparing them is quadratic.
    const WORD_MAX: usize = 64;
    let count = wrong.chars().count();
    if count > WORD_MAX {
        return None;
    }
    let allowed = count.max(3) / 3;
    // Upper and lower case count as the same, and letters that changed places as one mistake.
    let wrong_low = wrong.to_lowercase();
    let distance = |candidate: &str| strsim::osa_distance(&wrong_low, &candidate.to_lowercase());
    candidates
        .into_iter()
        .filter(|candidate| *candidate != wrong && candidate.chars().count() <= WORD_MAX)
        .map(|candidate| (distance(candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_neighbour() {
        let known = ["children", "siblings", "root", "id"];
        let check = |wrong, expect| assert_eq!(closest(wrong, known), expect, "{wrong}");
        check("childern", Some("children"));
        check("Root", Some("root"));
        check("sibling", Some("siblings"));
        check("parent", None);
        check("idd", Some("id"));
    }

    #[test]
    fn a_place_is_counted_in_characters() {
        let mut diagnostics = Diagnostics::new("file", "eins\nzwölf drei\n");
        diagnostics.push(Complaint::new(12..16, "odd").label("here"));
        let first = &diagnostics.all()[0];
        assert_eq!((first.line(), first.column()), (2, 7));
        assert!(diagnostics.to_string().contains("--> file:2:7"));
    }
}
