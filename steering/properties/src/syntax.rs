//! From the text of an expression to a tree of our own, with the place of every part.
//!
//! The grammar is CEL's, read by the `cel` crate's parser with its macros left unexpanded. Before that parser sees a
//! text, a cheap pass bounds its length, its tokens and its nesting and finds brackets and quotes that do not close;
//! the parser itself runs on a thread with room enough, where even a panic of its would be only an error.

use std::ops::Range;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators};

use crate::diagnostic::Complaint;
use crate::scan::{Brackets, scan};
use crate::value::{Double, Value};

/// How deep an expression may nest, counting every operator.
pub const EXPRESSION_DEPTH_MAX: usize = 96;
/// The room the parser gets: many times what the longest expression was seen to need.
const PARSER_STACK_BYTES: usize = 16 << 20;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Syntax {
    /// Where in the expression's text it stands, in bytes.
    pub(crate) span: Range<usize>,
    pub(crate) kind: SyntaxKind,
}

#[derive(Clone, Debug)]
pub(crate) enum SyntaxKind {
    Literal(Value),
    Name(String),
    Select {
        operand: Box<Syntax>,
        field: String,
        field_span: Range<usize>,
    },
    Index(Box<Syntax>, Box<Syntax>),
    Not(Box<Syntax>),
    Negate(Box<Syntax>),
    And(Vec<Syntax>),
    Or(Vec<Syntax>),
    Binary(Operator, Box<Syntax>, Box<Syntax>),
    Conditional(Box<[Syntax; 3]>),
    List(Vec<Syntax>),
    Map(Vec<(Syntax, Syntax)>),
    Call {
        target: Option<Box<Syntax>>,
        function: String,
        name_span: Range<usize>,
        arguments: Vec<Syntax>,
    },
}

/// An operator with two sides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Some(match name {
            operators::EQUALS => Self::Equal,
            operators::NOT_EQUALS => Self::NotEqual,
            operators::LESS => Self::Less,
            operators::LESS_EQUALS => Self::LessEqual,
            operators::GREATER => Self::Greater,
            operators::GREATER_EQUALS => Self::GreaterEqual,
            operators::IN => Self::In,
            operators::ADD => Self::Add,
            operators::SUBSTRACT => Self::Subtract,
            operators::MULTIPLY => Self::Multiply,
            operators::DIVIDE => Self::Divide,
            operators::MODULO => Self::Remainder,
            _ => return None,
        })
    }
}

/// Reads an expression.
pub(crate) fn parse(text: &str) -> Result<Syntax, Vec<Complaint>> {
    let brackets = scan(text).map_err(|complaint| vec![complaint])?;
    let trimmed = text.trim_end();
    let everything = text.len() - text.trim_start().len()..trimmed.len();
    let broken = || {
        vec![Complaint::new(
            everything.clone(),
            "this expression cannot be read",
        )]
    };
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new()
            .name("expression parser".into())
            .stack_size(PARSER_STACK_BYTES)
            .spawn_scoped(scope, || parse_here(text, &brackets));
        match parser {
            Ok(parser) => parser.join().unwrap_or_else(|_panic| Err(broken())),
            Err(_no_thread) => Err(broken()),
        }
    })
}

fn parse_here(text: &str, brackets: &Brackets) -> Result<Syntax, Vec<Complaint>> {
    match cel::Env::default().parser().parse_with_source_info(text) {
        Ok((tree, places)) => Lowering {
            text,
            brackets,
            places,
        }
        .lower(&tree, 0)
        .map_err(|complaint| vec![complaint]),
        // What follows the first error is mostly its echo.
        Err(errors) => Err(errors
            .errors
            .first()
            .map(|error| plainly(text, error.pos, &error.msg))
            .into_iter()
            .collect()),
    }
}

/// Says what the parser said, in fewer words.
fn plainly(text: &str, (line, column): (isize, isize), message: &str) -> Complaint {
    let line_start: usize = text
        .split_inclusive('\n')
        .take(usize::try_from(line - 1).unwrap_or(0))
        .map(str::len)
        .sum();
    let column = usize::try_from(column - 1).unwrap_or(0);
    let rest = text.get(line_start..).unwrap_or_default();
    let start = line_start + rest.chars().take(column).map(char::len_utf8).sum::<usize>();
    let rest = text.get(start..).unwrap_or_default();
    if rest.trim().is_empty() {
        let end = text.trim_end().len();
        return Complaint::new(end.saturating_sub(1)..end, "the expression ends too early")
            .label("something is missing after this");
    }
    let word = rest
        .find(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
        .unwrap_or(rest.len());
    let word = &rest[..word.max(rest.chars().next().map_or(0, char::len_utf8))];
    let complaint = Complaint::new(
        start..start + word.len(),
        format!("`{word}` is not expected here"),
    );
    let before = text[..start].trim_end();
    match word {
        "and" | "AND" => complaint.help("write `&&`"),
        "or" | "OR" => complaint.help("write `||`"),
        "not" | "NOT" => complaint.help("write `!`"),
        "implies" => complaint.help("write `!a || b`"),
        "&" => complaint.help("write `&&`"),
        "|" => complaint.help("write `||`"),
        "=" if rest.starts_with("=>") => complaint.help("write `!a || b` for \"a implies b\""),
        "=" => complaint.help("write `==` to compare"),
        ">" if before.ends_with('=') => complaint.help("write `!a || b` for \"a implies b\""),
        _ if before.ends_with("not") => complaint.help("write `!`"),
        _ if message.contains("reserved") => complaint.label("this word is reserved"),
        _ => complaint,
    }
}

struct Lowering<'t> {
    text: &'t str,
    brackets: &'t Brackets,
    places: SourceInfo,
}

impl Lowering<'_> {
    /// Returns where the token of a node stands: a name or literal itself, of anything else its operator.
    fn token(&self, id: u64) -> Range<usize> {
        let at = |position: u32| {
            let mut at = (position as usize).min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at += 1;
            }
            at
        };
        self.places
            .offset_for(id)
            .map_or(0..0, |(start, stop)| at(start)..at(stop.saturating_add(1)))
    }

    fn lower(&self, node: &IdedExpr, depth: usize) -> Result<Syntax, Complaint> {
        let token = self.token(node.id);
        if depth > EXPRESSION_DEPTH_MAX {
            return Err(Complaint::new(
                token,
                format!("the expression nests deeper than {EXPRESSION_DEPTH_MAX} operators"),
            ));
        }
        let down = |node: &IdedExpr| self.lower(node, depth + 1);
        let all = |nodes: &[IdedExpr]| nodes.iter().map(down).collect::<Result<Vec<_>, _>>();
        match &node.expr {
            Expr::Literal(literal) => Ok(self.literal(literal, token)),
            Expr::Ident(name) => Ok(Syntax {
                span: token,
                kind: SyntaxKind::Name(name.clone()),
            }),
            Expr::Select(select) => {
                let operand = down(&select.operand)?;
                let field_span = self.word_after(token.end, &select.field);
                Ok(Syntax {
                    span: operand.span.start..field_span.end,
                    kind: SyntaxKind::Select {
                        operand: Box::new(operand),
                        field: select.field.clone(),
                        field_span,
                    },
                })
            }
            Expr::List(list) => {
                let items = all(&list.elements)?;
                Ok(Syntax {
                    span: self.bracketed(token),
                    kind: SyntaxKind::List(items),
                })
            }
            Expr::Map(map) => {
                let mut entries = Vec::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(Complaint::new(token, "this is not a map"));
                    };
                    entries.push((down(&entry.key)?, down(&entry.value)?));
                }
                Ok(Syntax {
                    span: self.bracketed(token),
                    kind: SyntaxKind::Map(entries),
                })
            }
            Expr::Call(call) => {
                let target = call.target.as_deref().map(down).transpose()?;
                let arguments = all(&call.args)?;
                self.call(&call.func_name, target, arguments, token)
            }
            Expr::Struct(_) => Err(Complaint::new(token, "there are no message types here")),
            Expr::Comprehension(_) | Expr::Unspecified => {
                Err(Complaint::new(token, "this part cannot be read"))
            }
        }
    }

    fn literal(&self, literal: &LiteralValue, token: Range<usize>) -> Syntax {
        let mut span = token;
        let value = match literal {
            LiteralValue::Null => Value::Null,
            LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
            LiteralValue::Int(value) => Value::Int(i128::from(*value.inner())),
            LiteralValue::UInt(value) => Value::Int(i128::from(*value.inner())),
            LiteralValue::Double(value) => Value::Double(Double(*value.inner())),
            LiteralValue::String(value) => Value::text(value.inner()),
            LiteralValue::Bytes(value) => Value::Bytes(value.inner().into()),
        };
        // A sign belongs to the number but not to its token.
        if matches!(&value, Value::Int(value) if *value < 0) {
            let before = self.text[..span.start].trim_end();
            if before.ends_with('-') && !self.text[span.clone()].starts_with('-') {
                span.start = before.len() - 1;
            }
        }
        Syntax {
            span,
            kind: SyntaxKind::Literal(value),
        }
    }

    fn call(
        &self,
        function: &str,
        target: Option<Syntax>,
        mut arguments: Vec<Syntax>,
        token: Range<usize>,
    ) -> Result<Syntax, Complaint> {
        let span = self.balanced(around(&token, &arguments));
        let kind = match (function, arguments.len()) {
            (operators::LOGICAL_NOT, 1) => SyntaxKind::Not(Box::new(arguments.remove(0))),
            (operators::NEGATE, 1) => SyntaxKind::Negate(Box::new(arguments.remove(0))),
            (operators::LOGICAL_AND, 2) => SyntaxKind::And(flatten(arguments, |kind| match kind {
                SyntaxKind::And(parts) => Ok(parts),
                other => Err(other),
            })),
            (operators::LOGICAL_OR, 2) => SyntaxKind::Or(flatten(arguments, |kind| match kind {
                SyntaxKind::Or(parts) => Ok(parts),
                other => Err(other),
            })),
            (operators::CONDITIONAL, 3) => {
                let parts: Result<[Syntax; 3], _> = arguments.try_into();
                match parts {
                    Ok(parts) => SyntaxKind::Conditional(Box::new(parts)),
                    Err(_) => return Err(Complaint::new(token, "this part cannot be read")),
                }
            }
            (operators::INDEX, 2) => {
                let index = arguments.remove(1);
                let operand = arguments.remove(0);
                let end = self.bracketed(token).end;
                return Ok(Syntax {
                    span: operand.span.start..end,
                    kind: SyntaxKind::Index(Box::new(operand), Box::new(index)),
                });
            }
            (name, 2) if Operator::of(name).is_some() => {
                let operator = Operator::of(name).expect("just seen");
                let right = arguments.remove(1);
                SyntaxKind::Binary(operator, Box::new(arguments.remove(0)), Box::new(right))
            }
            (name, _) if name.contains(['_', '@']) && !self.text.contains(name) => {
                return Err(Complaint::new(token, "this operator is not supported"));
            }
            _ => return Ok(self.function(function, target, arguments, token)),
        };
        Ok(Syntax { span, kind })
    }

    /// A call by name. The token is the opening bracket; the name stands before it.
    fn function(
        &self,
        function: &str,
        target: Option<Syntax>,
        arguments: Vec<Syntax>,
        token: Range<usize>,
    ) -> Syntax {
        let name_end = self.text[..token.start].trim_end().len();
        let name_span = name_end.saturating_sub(function.len())..name_end;
        let start = target
            .as_ref()
            .map_or(name_span.start, |target| target.span.start);
        let end = self.bracketed(token).end;
        Syntax {
            span: start..end,
            kind: SyntaxKind::Call {
                target: target.map(Box::new),
                function: function.to_owned(),
                name_span,
                arguments,
            },
        }
    }

    /// Widens a place until every bracket in it has its partner: brackets around an operand belong to no part.
    fn balanced(&self, mut span: Range<usize>) -> Range<usize> {
        loop {
            let before = span.clone();
            for (&open, &close) in self.brackets {
                if span.contains(&open) {
                    span.end = span.end.max(close + 1);
                }
                if span.contains(&close) {
                    span.start = span.start.min(open);
                }
            }
            if span == before {
                return span;
            }
        }
    }

    /// Returns the place from an opening bracket to its closing one.
    fn bracketed(&self, open: Range<usize>) -> Range<usize> {
        let close = self.brackets.get(&open.start).copied();
        open.start..close.map_or(open.end, |close| close + 1)
    }

    fn word_after(&self, from: usize, word: &str) -> Range<usize> {
        let rest = &self.text[from..];
        match rest.find(word) {
            Some(at) => from + at..from + at + word.len(),
            None => from..from,
        }
    }
}

/// Returns the place of an operator together with its operands.
fn around(token: &Range<usize>, parts: &[Syntax]) -> Range<usize> {
    parts.iter().fold(token.clone(), |span, part| {
        span.start.min(part.span.start)..span.end.max(part.span.end)
    })
}

/// Makes one list of nested ones, since the parser builds a balanced tree of a long `a && b && c`.
fn flatten(
    parts: Vec<Syntax>,
    open: impl Fn(SyntaxKind) -> Result<Vec<Syntax>, SyntaxKind>,
) -> Vec<Syntax> {
    let mut flat = Vec::new();
    for Syntax { span, kind } in parts {
        match open(kind) {
            Ok(inner) => flat.extend(inner),
            Err(kind) => flat.push(Syntax { span, kind }),
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn parts(syntax: &Syntax, text: &str, out: &mut Vec<String>) {
        out.push(text[syntax.span.clone()].to_owned());
        match &syntax.kind {
            SyntaxKind::Literal(_) | SyntaxKind::Name(_) => {}
            SyntaxKind::Select { operand, .. } => parts(operand, text, out),
            SyntaxKind::Not(inner) | SyntaxKind::Negate(inner) => parts(inner, text, out),
            SyntaxKind::Index(a, b) | SyntaxKind::Binary(_, a, b) => {
                parts(a, text, out);
                parts(b, text, out);
            }
            SyntaxKind::And(all) | SyntaxKind::Or(all) | SyntaxKind::List(all) => {
                all.iter().for_each(|part| parts(part, text, out));
            }
            SyntaxKind::Conditional(all) => all.iter().for_each(|part| parts(part, text, out)),
            SyntaxKind::Map(entries) => entries.iter().for_each(|(key, value)| {
                parts(key, text, out);
                parts(value, text, out);
            }),
            SyntaxKind::Call {
                target, arguments, ..
            } => {
                target.iter().for_each(|part| parts(part, text, out));
                arguments.iter().for_each(|part| parts(part, text, out));
            }
        }
    }

    fn check(text: &str, expect: &[&str]) {
        let mut out = Vec::new();
        parts(&parse(text).unwrap(), text, &mut out);
        assert_eq!(out, expect);
    }

    #[test]
    fn every_part_knows_its_place() {
        check(
            "nodes.all(n, n.name == \"zwölf\" && !(-1 in n.x[ 2 ]))",
            &[
                "nodes.all(n, n.name == \"zwölf\" && !(-1 in n.x[ 2 ]))",
                "nodes",
                "n",
                "n.name == \"zwölf\" && !(-1 in n.x[ 2 ])",
                "n.name == \"zwölf\"",
                "n.name",
                "n",
                "\"zwölf\"",
                "!(-1 in n.x[ 2 ])",
                "-1 in n.x[ 2 ]",
                "-1",
                "n.x[ 2 ]",
                "n.x",
                "n",
                "2",
            ],
        );
        check(
            "sets . contains (reach(n, 'a'), [1u])",
            &[
                "sets . contains (reach(n, 'a'), [1u])",
                "sets",
                "reach(n, 'a')",
                "n",
                "'a'",
                "[1u]",
                "1u",
            ],
        );
    }

    #[test]
    fn a_long_conjunction_is_one_list() {
        let text = vec!["a"; 200].join(" && ");
        match parse(&text).unwrap().kind {
            SyntaxKind::And(parts) => assert_eq!(parts.len(), 200),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn common_slips_get_a_hint() {
        let check = |text: &str, expect: &str| {
            let complaint = parse(text).unwrap_err().remove(0);
            assert_eq!(complaint.help.as_deref(), Some(expect), "{text}");
        };
        check("a and b", "write `&&`");
        check("a = b", "write `==` to compare");
        check("not a", "write `!`");
        check("a | b", "write `||`");
        check("a => b", "write `!a || b` for \"a implies b\"");
    }

    #[test]
    fn a_chain_that_nests_too_deep_is_refused() {
        let text = vec!["1"; 150].join(" + ");
        assert!(parse(&text).unwrap_err()[0].message.contains("deeper"));
    }
}
