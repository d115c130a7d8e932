//! A cheap look at an expression before its parser sees it: how long, how deep, and whether everything closes.

use std::collections::BTreeMap;

use crate::diagnostic::Complaint;

/// How many bytes an expression may have.
pub const EXPRESSION_BYTES_MAX: usize = 8 << 10;
/// How many words, numbers and symbols an expression may have.
pub const EXPRESSION_TOKENS_MAX: usize = 1000;
/// How many brackets may be open at once.
pub const EXPRESSION_BRACKETS_MAX: usize = 32;

/// Each opening bracket's place with its closing one's.
pub(crate) type Brackets = BTreeMap<usize, usize>;

/// Checks the limits, and finds the brackets that belong together.
pub(crate) fn scan(text: &str) -> Result<Brackets, Complaint> {
    if text.len() > EXPRESSION_BYTES_MAX {
        // Only the beginning is pointed at: the whole would flood the screen.
        return Err(
            Complaint::new(0..0, format!("this expression has {} bytes", text.len()))
                .help(format!("at most {EXPRESSION_BYTES_MAX} bytes are allowed")),
        );
    }
    if text.trim().is_empty() {
        return Err(Complaint::new(0..text.len(), "the expression is empty"));
    }
    let mut scan = Scan {
        text,
        at: 0,
        tokens: 0,
        open: Vec::new(),
        brackets: Brackets::new(),
    };
    while let Some(letter) = scan.rest().chars().next() {
        scan.step(letter)?;
        if scan.tokens > EXPRESSION_TOKENS_MAX {
            return Err(Complaint::new(
                scan.at..scan.at,
                format!("this expression has more than {EXPRESSION_TOKENS_MAX} words and symbols"),
            ));
        }
    }
    match scan.open.pop() {
        Some((at, bracket)) => Err(Complaint::new(
            at..at + 1,
            format!("this `{bracket}` is never closed"),
        )),
        None => Ok(scan.brackets),
    }
}

struct Scan<'t> {
    text: &'t str,
    at: usize,
    tokens: usize,
    open: Vec<(usize, char)>,
    brackets: Brackets,
}

impl<'t> Scan<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn step(&mut self, letter: char) -> Result<(), Complaint> {
        let start = self.at;
        match letter {
            _ if letter.is_whitespace() => {
                self.at += letter.len_utf8();
                return Ok(());
            }
            '/' if self.rest().starts_with("//") => {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                return Ok(());
            }
            '"' | '\'' => self.quoted(false)?,
            _ if letter.is_alphanumeric() || letter == '_' => self.word()?,
            '(' | '[' | '{' => {
                self.at += 1;
                self.open.push((start, letter));
                if self.open.len() > EXPRESSION_BRACKETS_MAX {
                    return Err(Complaint::new(
                        start..start + 1,
                        format!("more than {EXPRESSION_BRACKETS_MAX} brackets are open here"),
                    ));
                }
            }
            ')' | ']' | '}' => self.close(letter)?,
            _ => self.at += letter.len_utf8(),
        }
        self.tokens += 1;
        Ok(())
    }

    /// Passes over a word or a number, and over the string it is a prefix of.
    fn word(&mut self) -> Result<(), Complaint> {
        let rest = self.rest();
        let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        // A string may carry a prefix: raw, bytes, or both.
        let is_prefix = word.len() <= 2
            && word.chars().all(|letter| "rRbB".contains(letter))
            && self.rest().starts_with(['"', '\'']);
        match is_prefix {
            true => self.quoted(word.contains(['r', 'R'])),
            false => Ok(()),
        }
    }

    /// Passes over a closing bracket, and finds its partner.
    fn close(&mut self, letter: char) -> Result<(), Complaint> {
        let start = self.at;
        self.at += 1;
        let fits = |open| matches!((open, letter), ('(', ')') | ('[', ']') | ('{', '}'));
        let wrong = match self.open.pop() {
            Some((open, bracket)) if fits(bracket) => {
                self.brackets.insert(open, start);
                return Ok(());
            }
            Some((_, bracket)) => {
                format!("this `{letter}` does not close the `{bracket}` before it")
            }
            None => format!("this `{letter}` closes nothing"),
        };
        Err(Complaint::new(start..start + 1, wrong))
    }

    /// Passes over a string, from its opening quote.
    fn quoted(&mut self, raw: bool) -> Result<(), Complaint> {
        let start = self.at;
        let one = &self.rest()[..1];
        let three = one.repeat(3);
        let quote = if self.rest().starts_with(&three) {
            three.as_str()
        } else {
            one
        };
        self.at += quote.len();
        while let Some(letter) = self.rest().chars().next() {
            if self.rest().starts_with(quote) {
                self.at += quote.len();
                return Ok(());
            }
            self.at += letter.len_utf8();
            if letter == '\\' && !raw {
                self.at += self.rest().chars().next().map_or(0, char::len_utf8);
            }
        }
        Err(Complaint::new(
            start..start + 1,
            "this string is never closed",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let message = scan(text).err().map(|complaint| complaint.message);
        assert_eq!(message.as_deref().unwrap_or("fine"), expect, "{text}");
    }

    #[test]
    fn what_does_not_close_is_found() {
        check("a.b(c[1], {'x': 2})", "fine");
        check("a.b(c[1)", "this `)` does not close the `[` before it");
        check("a.b(c", "this `(` is never closed");
        check("a)", "this `)` closes nothing");
        check("\"(\" + '\\'' + r'\\' + '''a'b''' // (", "fine");
        check("'abc", "this string is never closed");
        check(" ", "the expression is empty");
    }

    #[test]
    fn limits_are_kept() {
        check(&"(".repeat(40), "more than 32 brackets are open here");
        check(
            &"a ".repeat(1001),
            "this expression has more than 1000 words and symbols",
        );
        check(&"a".repeat(9000), "this expression has 9000 bytes");
    }
}
